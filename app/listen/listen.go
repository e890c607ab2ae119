// Package listen is the developer's side: it follows a tenant's events from the API and posts each to a program on the developer's own
// machine, signed as an endpoint's would be; it sends test events; and it brings event types into the catalog.
//
// It promises that what is forwarded is what an endpoint is sent, byte for byte but for line ends between tokens; that a connection that breaks,
// or goes silent without saying so, is made anew behind the last event that was forwarded, so that none is missed and none comes twice; and that
// nothing of what a server says can move the terminal's cursor.
//
// It has an HTTP client of its own, on purpose. Package sender is the only one that leaves the house, which is the service: it sends for tenants, to
// addresses that they chose, through the egress proxy, because what is behind us is not theirs to reach. This one runs on the developer's machine, with the
// developer's rights, to an address that the developer typed; the proxy would refuse exactly what it is for. No package of the service imports it.
package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waybill/app/signing"
)

// Server is the Waybill to talk to.
type Server struct {
	URL string // http(s)://host, without a path
	Key string // an API key of a tenant
}

// Config says what is followed, and where it goes.
type Config struct {
	Server
	ForwardTo string
	Secret    string   // whsec_…; empty: a new one, which is printed
	Types     []string // event types and prefixes; nil: all
	Replay    int      // how many of the last events come first
	Out       io.Writer
	Now       func() time.Time // time.Now when nil

	// Times. Zero: the usual ones.
	Quiet   time.Duration // without a byte for so long, the connection is taken for dead
	Backoff time.Duration // the first wait after a failure; it doubles up to thirty times that
}

const (
	usualQuiet    = 45 * time.Second // three heartbeats
	usualBackoff  = time.Second
	backoffMost   = 30 // times the first
	answerWithin  = 15 * time.Second
	connectWithin = 10 * time.Second
	maxAnswer     = 64 << 10 // bytes of the program's answer that are read
)

// Run follows until ctx ends. The error is one that trying again does not mend: a key that is refused, an address that is none.
func Run(ctx context.Context, c Config) error {
	l, err := newListener(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(l.Out, "Forwarding to %s, signed with %s\n", l.ForwardTo, l.key.Reveal())
	wait := l.Backoff
	for {
		forwarded := l.forwarded
		err := l.follow(ctx)
		var final *finalError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &final):
			return final.err
		}
		if l.forwarded > forwarded || err == nil {
			wait = l.Backoff
		}
		pause := wait/2 + rand.N(wait)
		var asked *laterError
		if errors.As(err, &asked) {
			pause = max(pause, asked.after)
		}
		if err == nil {
			pause = max(l.retry, l.Backoff/10)
		} else {
			fmt.Fprintf(l.Out, "%s  %s; trying again in %s\n", l.clock(), plain(err.Error()), pause.Round(100*time.Millisecond))
		}
		wait = min(2*wait, backoffMost*l.Backoff)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// listener is a Run.
type listener struct {
	Config
	key       signing.Key
	api, post *http.Client
	last      string        // the id behind which to go on
	retry     time.Duration // what the server asked for
	forwarded int
}

func newListener(c Config) (*listener, error) {
	l := &listener{Config: c}
	if err := c.Server.check(); err != nil {
		return nil, err
	}
	target, err := url.Parse(c.ForwardTo)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, errors.New("--forward-to must be an address such as http://localhost:3000/hooks")
	}
	if c.Replay < 0 || c.Replay > 1000 {
		return nil, errors.New("--replay must be 0 to 1000")
	}
	if l.key = signing.NewSecret(); c.Secret != "" {
		if l.key, err = signing.ParseKey(c.Secret); err != nil || l.key.Kind() != signing.Symmetric {
			return nil, errors.New("--secret must be whsec_ and the base64 of 24 to 64 bytes")
		}
	}
	if l.Now == nil {
		l.Now = time.Now
	}
	if l.Quiet == 0 {
		l.Quiet = usualQuiet
	}
	if l.Backoff == 0 {
		l.Backoff = usualBackoff
	}
	l.api = c.Server.client()
	// As an endpoint is called: a redirect is an answer, and not followed.
	l.post = &http.Client{Timeout: answerWithin, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return l, nil
}

func (l *listener) clock() string { return l.Now().Format("15:04:05") }

// follow reads one connection until it ends. No error: the server ended it in order.
func (l *listener) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := url.Values{"type": l.Types}
	if l.last == "" && l.Replay > 0 {
		query.Set("last", strconv.Itoa(l.Replay))
	}
	r, err := l.Server.request(ctx, http.MethodGet, "/v1/events/stream?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if l.last != "" {
		r.Header.Set("Last-Event-ID", l.last)
	}
	// Whatever hangs, the connection or the first byte, ends with the silence.
	silence := time.AfterFunc(l.Quiet, cancel)
	defer silence.Stop()
	answer, err := l.api.Do(r)
	if err != nil {
		return fmt.Errorf("no connection to %s: %w", l.URL, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusGone && l.last != "" {
		fmt.Fprintf(l.Out, "%s  the place where this had stopped is older than what is kept; going on with what happens now\n", l.clock())
		l.last, l.Replay = "", 0
		return nil
	}
	if answer.StatusCode != http.StatusOK {
		return refused(answer)
	}
	stream := newStream(answer.Body)
	for {
		m, err := stream.next(func() { silence.Reset(l.Quiet) })
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return errors.New("the connection has gone silent")
		case err != nil:
			return fmt.Errorf("the connection broke: %w", err)
		}
		if m.retry > 0 {
			l.retry = m.retry
		}
		if m.data != nil {
			silence.Stop() // the developer may be standing at a breakpoint
			l.forward(ctx, m.data)
			silence.Reset(l.Quiet)
			l.forwarded++
		}
		if m.id != "" {
			l.last = m.id
		}
	}
}

// forward posts one event and says what came of it.
func (l *listener) forward(ctx context.Context, body []byte) {
	var event struct{ ID, Type string }
	if err := json.Unmarshal(body, &event); err != nil {
		fmt.Fprintf(l.Out, "%s  an event that cannot be read: %s\n", l.clock(), plain(err.Error()))
		return
	}
	began := time.Now()
	result := l.send(ctx, event.ID, body)
	if ctx.Err() != nil {
		return // told to stop in the middle
	}
	took := time.Since(began).Round(time.Millisecond)
	fmt.Fprintf(l.Out, "%s  %-12s %7s  %s  %s\n", l.clock(), result, took, plain(event.Type), plain(event.ID))
}

func (l *listener) send(ctx context.Context, id string, body []byte) string {
	headers, err := signing.Headers(signing.V1, []signing.Key{l.key}, id, l.Now().Unix(), body)
	if err != nil {
		return "unsigned"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.ForwardTo, bytes.NewReader(body))
	if err != nil {
		return "no address"
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "waybill-listen/1")
	for _, h := range headers {
		r.Header.Set(h.Name, h.Value)
	}
	answer, err := l.post.Do(r)
	if err != nil {
		return whyNoAnswer(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // so that the connection can be used again
	return strconv.Itoa(answer.StatusCode)
}
