package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/policy"
	"waybill/app/sender"
	words "waybill/app/verdict"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlHealthLook     = queries.SQL("HealthLook")
	sqlHealthWrite    = queries.SQL("HealthWrite")
	sqlHealthPull     = queries.SQL("HealthPull")
	sqlEndpointFailed = queries.SQL("EndpointFailed")
)

// The reasons for which Waybill itself disables an endpoint.
const (
	DisabledGone    = "gone"
	DisabledFailing = "failing"
)

// NewsKind is something that an endpoint's people and the platform are to know.
type NewsKind string

// The kinds.
const (
	EndpointFailing   NewsKind = "endpoint.failing"
	EndpointWarned    NewsKind = "endpoint.warned" // it is disabled at DisableAt unless it answers
	EndpointDisabled  NewsKind = "endpoint.disabled"
	EndpointRecovered NewsKind = "endpoint.recovered"
	DeliveryExhausted NewsKind = "delivery.exhausted"
)

// newsBody is how much of an answer's body news carry.
const newsBody = 2000

// News is one such thing, with the attempt that made it so.
type News struct {
	Kind                      NewsKind
	TenantID, EndpointID, URL string
	Rev                       int64      // of an endpoint that was disabled: its revision from then on
	Reason                    string     // why it was disabled, or why the delivery is undelivered
	Since                     *time.Time // failing since
	DisableAt                 *time.Time
	Failures                  int  // different deliveries that failed in a row
	Mail                      bool // of an exhausted delivery: its policy wants its people to be told

	// The attempt. Class and what is said of it are those that its tenant may see.
	At                    time.Time
	DeliveryID, AttemptID string
	Class                 string
	Cause                 string
	Code                  int
	Body                  []byte // the beginning of the answer's
}

// Teller tells. It writes in tx, so that what happened and what is said of it are committed together.
type Teller interface {
	Tell(ctx context.Context, tx pgx.Tx, news []News) error
}

// restraint is how an endpoint is sent to from now on, as its lane must know at once.
type restraint struct {
	limit  int
	shut   time.Duration // until its door opens; zero or less: it is open
	ailing bool
	off    bool // it was disabled
}

// patients are the results of a batch that say something about their endpoints' health, by endpoint.
type patients struct {
	results map[string][]*result
	ids     []string
	looks   map[string]*patient
}

// patient is an endpoint whose health is looked at, with its lanes row locked.
type patient struct {
	tenantID, url string
	active        bool
	now           time.Time
	health        health
}

// watched picks the results that matter: failures, and successes of endpoints that are known to fail.
func watched(batch []*result) *patients {
	p := &patients{results: map[string][]*result{}, looks: map[string]*patient{}}
	for _, r := range batch {
		if r.lane == nil || r.item.Trigger == triggerTest {
			continue
		}
		switch r.out.Class {
		case sender.Proxy, sender.Canceled:
			continue
		case sender.Delivered:
			if !r.ailing && r.target.policy.Success(r.out.Status) {
				continue
			}
		}
		id := r.lane.endpointID
		if p.results[id] == nil {
			p.ids = append(p.ids, id)
		}
		p.results[id] = append(p.results[id], r)
	}
	slices.Sort(p.ids)
	return p
}

// queueLook locks the lanes of the patients, before anything of a delivery is locked, and looks at them under the locks.
func (p *patients) queueLook(b *pgx.Batch) {
	if len(p.ids) == 0 {
		return
	}
	b.Queue(sqlLock, p.ids)
	b.Queue(sqlHealthLook, p.ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id string
			var limit int
			var door *time.Time
			var kept []byte
			look := &patient{}
			if err := rows.Scan(&id, &look.tenantID, &look.url, &look.active, &look.now, &limit, &door, &kept); err != nil {
				return err
			}
			look.health = healthy()
			if kept != nil {
				if err := json.Unmarshal(kept, &look.health); err != nil {
					return fmt.Errorf("read the health of an endpoint: %w", err)
				}
			}
			look.health.Limit, look.health.Door = limit, door
			p.looks[id] = look
		}
		return rows.Err()
	})
}

// outcomeOf is a result as the endpoint's health sees it, by the database's clock.
func outcomeOf(r *result, dbNow, now time.Time) outcome {
	p, status := r.target.policy, r.out.Status
	manual := r.item.Trigger == triggerManual
	o := outcome{
		Delivery: hashed(r.item.DeliveryID), Started: dbNow.Add(r.started.Sub(now)), At: dbNow, OK: p.Success(status),
		Class: string(r.out.Class.Public()), Code: status, ID: r.item.DeliveryID,
	}
	o.Counts = !manual
	if o.OK {
		return o
	}
	facts := words.Facts{Class: words.Class(r.out.Class), Code: status}
	o.Counts = !manual && (words.Explain(facts).Counts || r.out.Class == sender.Delivered) // a 2xx that the policy does not take for a success
	o.Setting = !manual && !r.target.lost && (policy.ConfigurationError(status) || r.out.Class == sender.BadConfig || r.out.Class == sender.BlockedAddress)
	if o.Throttle = p.Throttles(status); o.Throttle {
		o.Pause, _ = p.RetryAfter(r.out.RetryAfter, now)
	}
	return o
}

// treat holds a batch's results against what is known of their endpoints, writes the new state, and acts on it. It returns the news. The lanes
// rows were locked before the batch's deliveries.
func (e *Engine) treat(ctx context.Context, tx pgx.Tx, p *patients) ([]News, error) {
	var news []News
	var writes []written
	var pulled []string
	now := e.Now()
	for _, id := range p.ids {
		look := p.looks[id]
		if look == nil || !look.active {
			continue // what is answered after the end changes nothing
		}
		var all signals
		var last, gone *result
		before := look.health
		before.Failed = slices.Clone(before.Failed)
		for _, r := range p.results[id] {
			if r.target.url != look.url {
				continue // another address has a past of its own
			}
			if r.verdict.gone {
				gone = r
			}
			signals := look.health.take(r.target.policy, r.target.concurrency, outcomeOf(r, look.now, now))
			if signals.Recovered {
				all.Failing, all.Warn = false, false
			}
			all.add(signals)
			last = r
			if signals.Disable {
				break
			}
		}
		if last == nil {
			continue
		}
		said, off, err := e.consequences(ctx, tx, id, look, before, all, last, gone)
		if err != nil {
			return nil, err
		}
		news = append(news, said...)
		h := &look.health
		if off {
			h.off()
		}
		if all.Pull && !off {
			pulled = append(pulled, id)
		}
		writes = append(writes, written{EndpointID: id, TenantID: look.tenantID, health: *h, Ailing: h.Ailing()})
		mark := &restraint{limit: h.Limit, ailing: h.Ailing(), off: off}
		if h.Door != nil {
			mark.shut = h.Door.Sub(look.now)
		}
		for _, r := range p.results[id] {
			r.restraint = mark
		}
	}
	if len(writes) == 0 {
		return news, nil
	}
	states, err := json.Marshal(writes)
	if err != nil {
		return nil, fmt.Errorf("write the health of endpoints: %w", err)
	}
	if _, err := tx.Exec(ctx, sqlHealthWrite, string(states)); err != nil {
		return nil, fmt.Errorf("write the health of endpoints: %w", err)
	}
	return news, e.pull(ctx, tx, p, pulled)
}

// written is an element of what statement HealthWrite takes.
type written struct {
	EndpointID string `json:"endpoint_id"`
	TenantID   string `json:"tenant_id"`
	Ailing     bool   `json:"ailing"`
	health
}

// consequences makes news of what an endpoint's results call for, and disables it if they do; off says that it was.
func (e *Engine) consequences(ctx context.Context, tx pgx.Tx, endpointID string, look *patient, before health, s signals, last, gone *result) (news []News, off bool, err error) {
	reason := ""
	switch {
	case gone != nil:
		reason, last = DisabledGone, gone
	case s.Disable:
		reason = DisabledFailing
	}
	if reason != "" {
		n := newsOf(EndpointDisabled, look, last, look.health)
		n.Reason = reason
		err := tx.QueryRow(ctx, sqlEndpointFailed, endpointID, look.url, reason).Scan(&n.Rev)
		if err == nil {
			return []News{n}, true, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, false, fmt.Errorf("disable an endpoint: %w", err)
		}
	}
	if s.Recovered {
		news = append(news, newsOf(EndpointRecovered, look, last, before))
	}
	if s.Failing {
		news = append(news, newsOf(EndpointFailing, look, last, look.health))
	}
	if s.Warn {
		news = append(news, newsOf(EndpointWarned, look, last, look.health))
	}
	return news, false, nil
}

func newsOf(kind NewsKind, look *patient, r *result, h health) News {
	n := evidence(kind, r)
	n.TenantID, n.EndpointID, n.URL, n.At = look.tenantID, r.lane.endpointID, look.url, look.now
	n.Since, n.DisableAt, n.Failures = h.FailingSince, h.DisableAt, len(h.Failed)
	return n
}

// evidence is what a result's attempt tells.
func evidence(kind NewsKind, r *result) News {
	n := News{Kind: kind, DeliveryID: r.item.DeliveryID, AttemptID: r.attemptID, Class: string(sender.Class(r.class()).Public()), Cause: r.out.Cause(), Code: r.out.Status}
	n.Body = r.out.Body[:min(len(r.out.Body), newsBody)]
	return n
}

// pullMost deliveries are made due when an endpoint answers again.
const pullMost = 2000

// pull makes what waits for a retry at endpoints that answer again due now.
func (e *Engine) pull(ctx context.Context, tx pgx.Tx, p *patients, endpointIDs []string) error {
	if len(endpointIDs) == 0 {
		return nil
	}
	for _, id := range endpointIDs {
		steps := len(p.results[id][0].target.policy.Waits) / 2
		if _, err := tx.Exec(ctx, sqlHealthPull, id, steps, pullMost); err != nil {
			return fmt.Errorf("pull retries: %w", err)
		}
	}
	return e.waker.Wake(ctx, tx, endpointIDs, nil)
}

// tell hands news on. What cannot be told does not keep attempts from being recorded: it is logged, and the rest is committed, unless the connection is
// gone as well: then the next statement fails, and all of it is tried again.
func (e *Engine) tell(ctx context.Context, tx pgx.Tx, news []News) error {
	if len(news) == 0 || e.Teller == nil {
		return nil
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return e.Teller.Tell(ctx, tx, news) })
	if err == nil || db.IsRetryable(err) || ctx.Err() != nil {
		return err
	}
	e.Logger.Error("news of endpoints could not be written", "news", len(news), "first", news[0].Kind, "endpoint_id", news[0].EndpointID, "error", err)
	return nil
}

// exhausted is the news of deliveries that have ended undelivered in this batch.
func exhausted(parked []*result) []News {
	var news []News
	for _, r := range parked {
		if r.verdict.reason == ReasonGone {
			continue // the endpoint was disabled: that says it
		}
		n := evidence(DeliveryExhausted, r)
		n.TenantID, n.EndpointID, n.Reason, n.At = r.to.tenantID, r.to.endpointID, r.verdict.reason, r.started
		if n.URL = r.target.url; r.target.policy != nil {
			n.Mail = r.target.policy.Does(policy.EmailSeller)
		}
		news = append(news, n)
	}
	return news
}
