// Package alert tells people, and the platform's own programs, what became of endpoints and deliveries.
//
// It promises that a change of state is told in the transaction that makes it, once: a line in the tenant's activity log where Waybill itself has
// changed something, a mail to each member who wants to know, and, where the platform has named a tenant for it, an event there. What ends
// undelivered is mailed once a tenant and hour. A mail server that is away changes none of this: mails wait in their table.
package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/lane"
	"waybill/app/notice"
	"waybill/app/outbox"
	"waybill/app/verdict"
	"waybill/db/queries"
)

// Service tells. Accounts and Mails are required.
type Service struct {
	Accounts *account.Service
	Mails    *notice.Outbox
	// Operations is the uid of the tenant to whose endpoints operational events go; empty: to nobody.
	Operations string
	// Window is how long what is undelivered can be sent again.
	Window time.Duration
}

var (
	alertTenants   = queries.SQL("AlertTenants")
	alertEndpoints = queries.SQL("AlertEndpoints")
)

// tenant is whom news are about.
type tenant struct{ id, uid, name string }

// Tell writes what news call for into tx. It is lane.Teller.
func (s *Service) Tell(ctx context.Context, tx pgx.Tx, news []lane.News) error {
	tenants, err := s.tenants(ctx, tx, news)
	if err != nil {
		return err
	}
	for i := range news {
		n := &news[i]
		if n.Kind == lane.DeliveryExhausted {
			continue
		}
		if n.Kind == lane.EndpointDisabled {
			if err := s.record(ctx, tx, n); err != nil {
				return err
			}
		}
		if err := s.mail(ctx, tx, tenants[n.TenantID], n); err != nil {
			return err
		}
	}
	if err := addDigests(ctx, tx, news); err != nil {
		return err
	}
	return s.publish(ctx, tx, tenants, news)
}

func (s *Service) tenants(ctx context.Context, tx pgx.Tx, news []lane.News) (map[string]tenant, error) {
	var ids []string
	for i := range news {
		ids = append(ids, news[i].TenantID)
	}
	slices.Sort(ids)
	rows, err := tx.Query(ctx, alertTenants, slices.Compact(ids))
	if err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	tenants := map[string]tenant{}
	var t tenant
	if _, err := pgx.ForEachRow(rows, []any{&t.id, &t.uid, &t.name}, func() error { tenants[t.id] = t; return nil }); err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	return tenants, nil
}

// record writes into the activity log that Waybill has disabled an endpoint.
func (s *Service) record(ctx context.Context, tx pgx.Tx, n *lane.News) error {
	detail := map[string]any{"state": [2]any{"active", "disabled"}, "reason": n.Reason, "delivery": n.DeliveryID, "attempt": n.AttemptID}
	if n.Since != nil {
		detail["failing_since"] = n.Since.UTC()
	}
	if n.Code != 0 {
		detail["code"] = n.Code
	}
	return s.Accounts.Record(ctx, tx, account.Waybill("health", n.TenantID), "endpoint.disabled", n.EndpointID, detail)
}

// letter is what is mailed of a kind of news, and to whom.
type letter struct {
	kind  string
	topic account.Topic
	write func(notice.Trouble) notice.Notice
	life  time.Duration
}

var letters = map[lane.NewsKind]letter{
	lane.EndpointFailing:   {notice.KindFailing, account.TopicFailing, notice.Failing, 2 * 24 * time.Hour},
	lane.EndpointWarned:    {notice.KindWarning, account.TopicFailing, notice.Warning, 24 * time.Hour},
	lane.EndpointDisabled:  {notice.KindDisabled, account.TopicDisabled, notice.Disabled, 0},
	lane.EndpointRecovered: {notice.KindRecovered, account.TopicRecovered, notice.Recovered, 2 * 24 * time.Hour},
}

func (s *Service) mail(ctx context.Context, tx pgx.Tx, t tenant, n *lane.News) error {
	l, known := letters[n.Kind]
	if !known {
		return nil
	}
	readers, err := s.Accounts.NoticeReaders(ctx, tx, n.TenantID, l.topic)
	if err != nil || len(readers) == 0 {
		return err
	}
	name, err := endpointName(ctx, tx, n.TenantID, n.EndpointID)
	if err != nil {
		return err
	}
	trouble := troubleOf(t.name, name, n)
	for _, reader := range readers {
		err := s.Mails.Put(ctx, tx, notice.Letter{
			// The time of the change is in the key: another process that sees the same change waits for the lane's row, and finds it done.
			Kind: l.kind, Key: fmt.Sprintf("%s:%s:%d:%s", n.Kind, n.EndpointID, n.At.UnixMicro(), reader.ID), TenantID: n.TenantID, To: reader.Email,
			Life: l.life, Notice: l.write(trouble),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// endpointName is what its people call an endpoint.
func endpointName(ctx context.Context, tx pgx.Tx, tenantID, endpointID string) (string, error) {
	names, err := endpointsOf(ctx, tx, tenantID, endpointID)
	return names[endpointID].name, err
}

type known struct{ name, url string }

func endpointsOf(ctx context.Context, tx pgx.Tx, tenantID string, endpointIDs ...string) (map[string]known, error) {
	rows, err := tx.Query(ctx, alertEndpoints, tenantID, endpointIDs)
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	all := map[string]known{}
	var id string
	var e known
	if _, err := pgx.ForEachRow(rows, []any{&id, &e.name, &e.url}, func() error { all[id] = e; return nil }); err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	return all, nil
}

// troubleOf is news as mails tell them.
func troubleOf(tenantName, endpointName string, n *lane.News) notice.Trouble {
	v := explain(n.Class, n.Cause, n.Code, n.URL)
	t := notice.Trouble{
		Tenant: tenantName, EndpointID: n.EndpointID, Name: endpointName, URL: shown(n.URL), Until: n.At, Different: n.Failures,
		Gone: n.Reason == lane.DisabledGone, Refused: n.Since == nil || v.Retry == verdict.ByPreset || v.Retry == verdict.Stops,
		Title: v.Title, Happened: v.Happened, Excerpt: notice.Excerpt(n.Body), DeliveryID: n.DeliveryID, AttemptID: n.AttemptID,
	}
	if len(v.Fixes) > 0 {
		t.Fix = v.Fixes[0]
	}
	if n.Since != nil {
		t.Since = *n.Since
	}
	if n.Kind == lane.EndpointWarned && n.DisableAt != nil {
		t.Until = *n.DisableAt
	}
	return t
}

func explain(class, cause string, code int, address string) verdict.Verdict {
	facts := verdict.Facts{Class: verdict.Class(class), Code: code, Reason: cause, Phase: cause}
	if parsed, err := url.Parse(address); err == nil {
		facts.Host = parsed.Hostname()
	}
	return verdict.Explain(facts)
}

// shown is a URL without what may be secret in it: user, password and query.
func shown(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Scheme + "://" + parsed.Host + parsed.EscapedPath()
}

// operation is the data of an operational event.
type operation struct {
	Tenant       string     `json:"tenant"`
	Endpoint     place      `json:"endpoint"`
	Delivery     string     `json:"delivery,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
	DisableAt    *time.Time `json:"disable_at,omitempty"`
	Attempt      *attempt   `json:"last_attempt,omitempty"`
}

type place struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

type attempt struct {
	ID    string `json:"id"`
	Class string `json:"class"`
	Code  int    `json:"code,omitempty"`
	Words string `json:"words"`
}

// publish sends news to the platform's own endpoints, through the outbox like any event. News of the tenant that they go to make none: one of its endpoints that
// fails would feed itself.
func (s *Service) publish(ctx context.Context, tx pgx.Tx, tenants map[string]tenant, news []lane.News) error {
	if s.Operations == "" {
		return nil
	}
	var events []outbox.Event
	for i := range news {
		n := &news[i]
		t := tenants[n.TenantID]
		if t.uid == "" || t.uid == s.Operations {
			continue
		}
		data := operation{
			Tenant: t.uid, Endpoint: place{n.EndpointID, shown(n.URL)}, Delivery: n.DeliveryID, Reason: n.Reason, FailingSince: n.Since, DisableAt: n.DisableAt,
		}
		if n.AttemptID != "" {
			data.Attempt = &attempt{n.AttemptID, n.Class, n.Code, explain(n.Class, n.Cause, n.Code, n.URL).Title}
		}
		text, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("write an operational event: %w", err)
		}
		ev := outbox.Event{Tenant: s.Operations, Type: string(n.Kind), ResourceType: "endpoint", ResourceID: n.EndpointID, Data: text}
		if n.Kind == lane.DeliveryExhausted {
			ev.ResourceType, ev.ResourceID = "delivery", n.DeliveryID
		}
		events = append(events, ev)
	}
	if len(events) == 0 {
		return nil
	}
	_, err := outbox.Publish(ctx, tx, events...)
	return err
}

// EnsureOperations creates the tenant of operational events if it is named and missing: a start needs no second step.
func (s *Service) EnsureOperations(ctx context.Context) error {
	if s.Operations == "" {
		return nil
	}
	caller := account.Waybill("start", "")
	if _, err := s.Accounts.TenantRead(ctx, caller, s.Operations); err == nil {
		return nil
	}
	_, err := s.Accounts.TenantPut(ctx, caller, s.Operations, account.TenantInput{Name: "Operations of the platform"})
	return err
}
