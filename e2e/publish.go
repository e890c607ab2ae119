package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
)

// Endpoint makes an endpoint for a place by the API, and the place known to the ledger. The place's tenant must exist.
func (s *System) Endpoint(ctx context.Context, l *Ledger, r *Receiver, p *Place) error {
	if p.Scheme == "" {
		p.Scheme = "v1"
	}
	if p.Form == "" {
		p.Form = "full"
	}
	in := map[string]any{"url": r.URL(p.Key), "types": p.Types, "scheme": p.Scheme, "payload": p.Form}
	if p.Limit > 0 {
		in["limits"] = map[string]any{"concurrency": p.Limit}
	}
	var made struct{ ID, Secret string }
	if err := s.Call(ctx, http.MethodPost, "/v1/tenants/"+p.Tenant+"/endpoints", in, &made); err != nil {
		return err
	}
	p.EndpointID, p.Secret = made.ID, made.Secret
	if p.Scheme == "v1" || p.Scheme == "hex" {
		l.AddPlace(p)
		return nil
	}
	var public struct {
		Keys []struct {
			Key string `json:"public_key"`
		}
	}
	if err := s.Call(ctx, http.MethodGet, "/v1/public-keys/"+p.EndpointID, nil, &public); err != nil {
		return err
	}
	if len(public.Keys) != 1 {
		return fmt.Errorf("%s has %d public keys", p.EndpointID, len(public.Keys))
	}
	p.PublicKey = public.Keys[0].Key
	l.AddPlace(p)
	return nil
}

// PublishIn publishes events in the caller's transaction, in SQL, as the platform would.
func PublishIn(ctx context.Context, tx pgx.Tx, events ...Event) error {
	n := len(events)
	tenants, types, ids, data := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, e := range events {
		tenants[i], types[i], ids[i], data[i] = e.Tenant, e.Type, e.ID, e.Data
	}
	_, err := tx.Exec(ctx, `
		select waybill.publish(tenant => t, type => y, resource_type => 'consignment', resource_id => 'C-' || i, data => d::json, id => i)
		from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as u(t, y, i, d)`, tenants, types, ids, data)
	return err
}

// PublishSQL publishes events in a transaction of their own and writes them into the ledger.
func (s *System) PublishSQL(ctx context.Context, l *Ledger, events ...Event) error {
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error { return PublishIn(ctx, tx, events...) })
	if err == nil {
		l.Commit(events...)
	}
	return err
}

// PublishAPI publishes events by the API, and writes them into the ledger once it has said yes.
func (s *System) PublishAPI(ctx context.Context, l *Ledger, events ...Event) error {
	err := s.Call(ctx, http.MethodPost, "/v1/events", apiBody(events), nil)
	if err == nil {
		l.Commit(events...)
	}
	return err
}

// apiBody is put together by hand: json.Marshal would compact the data, which is to go out byte for byte.
func apiBody(events []Event) []byte {
	var body bytes.Buffer
	for i, e := range events {
		body.WriteString([]string{`{"events":[`, ","}[min(i, 1)])
		fmt.Fprintf(&body, `{"id":%q,"tenant":%q,"type":%q,"resource":{"type":"consignment","id":"C-%s"},"data":%s}`, e.ID, e.Tenant, e.Type, e.ID, e.Data)
	}
	body.WriteString("]}")
	return body.Bytes()
}

// Events makes n events of one type, with ids that begin with prefix and data that does not survive a careless program: numbers beyond float64,
// names given twice, escapes and white space.
func Events(tenant, eventType, prefix string, n int) []Event {
	events := make([]Event, n)
	for i := range events {
		id := fmt.Sprintf("%s-%d", prefix, i)
		events[i] = Event{ID: id, Tenant: tenant, Type: eventType,
			Data: fmt.Sprintf(`{ "no":%d, "b":9007199254740993,"a":"<&>é\u0000\/", "a":1e400,  "of":"%s"}`, i, id)}
	}
	return events
}
