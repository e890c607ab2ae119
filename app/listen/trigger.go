package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Trigger says which test event is sent.
type Trigger struct {
	Server
	Type     string
	Endpoint string          // ep_…; empty: the only one there is
	Data     json.RawMessage // nil: the type's example in the catalog
	Within   time.Duration   // how long the answer is waited for
	Out      io.Writer
}

// askEvery is how often a test's answer is asked for.
const askEvery = 200 * time.Millisecond

// Send sends a test event and prints what the endpoint answered. It is an error when the endpoint did not take it.
func (t Trigger) Send(ctx context.Context) error {
	if err := t.Server.check(); err != nil {
		return err
	}
	endpoint, err := t.endpoint(ctx)
	if err != nil {
		return err
	}
	body := map[string]any{"type": t.Type}
	if t.Data != nil {
		body["data"] = t.Data
	}
	var sent struct {
		EventID    string `json:"event_id"`
		DeliveryID string `json:"delivery_id"`
	}
	if err := t.call(ctx, http.MethodPost, "/v1/endpoints/"+url.PathEscape(endpoint)+"/test", body, &sent); err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "%s is on its way to %s\n", plain(sent.EventID), plain(endpoint))
	return t.await(ctx, sent.DeliveryID)
}

// endpoint is the one that was named, or the only one.
func (t Trigger) endpoint(ctx context.Context) (string, error) {
	if t.Endpoint != "" {
		return t.Endpoint, nil
	}
	var list struct {
		Data []struct{ ID, URL string }
	}
	if err := t.call(ctx, http.MethodGet, "/v1/endpoints?limit=20", nil, &list); err != nil {
		return "", err
	}
	switch len(list.Data) {
	case 0:
		return "", errors.New("there is no endpoint to send to; add one first")
	case 1:
		return list.Data[0].ID, nil
	}
	text := "there are several endpoints; name one by --endpoint:"
	for _, e := range list.Data {
		text += "\n  " + plain(e.ID) + "  " + plain(e.URL)
	}
	return "", errors.New(text)
}

func (t Trigger) await(ctx context.Context, deliveryID string) error {
	ctx, cancel := context.WithTimeout(ctx, t.Within)
	defer cancel()
	for {
		var d struct {
			Status string
			Last   *last `json:"last_attempt"`
		}
		err := t.call(ctx, http.MethodGet, "/v1/deliveries/"+url.PathEscape(deliveryID), nil, &d)
		var final *finalError
		switch {
		case ctx.Err() != nil:
			return errors.New("no answer yet; see " + plain(deliveryID) + " in the delivery history")
		case errors.As(err, &final): // it is not dispatched yet
		case err != nil:
			return err
		case d.Status == "delivered":
			fmt.Fprintf(t.Out, "delivered: %s\n", d.Last.words())
			return nil
		case d.Status != "pending":
			return fmt.Errorf("%s: %s", plain(d.Status), d.Last.words())
		}
		select {
		case <-ctx.Done():
		case <-time.After(askEvery):
		}
	}
}

// last is the attempt of a delivery that was made last.
type last struct {
	Class      string
	Code       *int
	DurationMS int `json:"duration_ms"`
}

func (l *last) words() string {
	switch {
	case l == nil:
		return "no attempt"
	case l.Code != nil:
		return fmt.Sprintf("%d in %d ms", *l.Code, l.DurationMS)
	}
	return fmt.Sprintf("%s after %d ms", plain(l.Class), l.DurationMS)
}
