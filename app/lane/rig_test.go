package lane_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/egress"
	"waybill/app/endpoint"
	"waybill/app/id"
	"waybill/app/lane"
	"waybill/app/outbox"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/app/sender"
	"waybill/app/signing"
	"waybill/db"
	"waybill/db/dbtest"
	"waybill/jobs"
)

// rig is a database with the engine's surroundings; processes of it run real lanes and real River jobs over a sender of the test's own.
type rig struct {
	*pgxpool.Pool
	t      testing.TB
	url    string
	ring   *seal.Ring
	log    *slog.Logger
	insert *jobs.Inserter
	waker  *lane.Waker
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, url: dbtest.NewURL(t), log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
	r.Pool = dbtest.Open(t, r.url, db.Options{})
	ring, err := seal.ParseRing(seal.NewKey().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if r.insert, err = jobs.NewInserter(r.Pool, r.log); err != nil {
		t.Fatal(err)
	}
	r.ring, r.waker = ring, &lane.Waker{Tickets: r.insert}
	return r
}

// sendFunc is a sender: what becomes of one attempt.
type sendFunc func(ctx context.Context, r sender.Request) sender.Outcome

func (f sendFunc) Send(ctx context.Context, r sender.Request) sender.Outcome { return f(ctx, r) }

// answer is an outcome with this status; 0 is no answer at all.
func answer(code int) sender.Outcome {
	out := sender.Outcome{Class: sender.Status, Status: code, Sent: true, Started: time.Now(), Total: time.Millisecond, Proto: "HTTP/1.1"}
	switch {
	case code == 0:
		out.Class, out.Err, out.Proto = sender.Refused, "no HTTP answer", ""
	case code >= 200 && code <= 299:
		out.Class = sender.Delivered
	case code == 410:
		out.Class = sender.Gone
	}
	return out
}

// hang waits until the attempt is cancelled or times out.
func hang(ctx context.Context, r sender.Request) sender.Outcome {
	timer := time.NewTimer(r.Timeout)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return sender.Outcome{Class: sender.Canceled, Sent: true, Err: "the attempt was stopped by us"}
	case <-timer.C:
		return sender.Outcome{Class: sender.Timeout, Phase: sender.PhaseWait, Sent: true, Err: "no answer in time"}
	}
}

// header is a request's header of this name, in any case.
func header(r sender.Request, name string) string {
	for _, h := range r.Header {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// process is one process of the program that works: engine, River, dispatcher, listener.
type process struct {
	*lane.Engine
	stop func()
}

// process starts one. Its lease is two seconds, so that what depends on it is seen soon.
func (r *rig) process(send sendFunc, change ...func(*lane.Config)) *process {
	r.t.Helper()
	c := lane.Config{
		Pool: dbtest.Open(r.t, r.url, lane.PoolOptions("lanes", 6)), FlushPool: dbtest.Open(r.t, r.url, lane.PoolOptions("results", 3)),
		Tickets: r.insert, Sender: send, Policies: policy.Builtin(), Ring: r.ring, Logger: r.log, UserAgent: "test", Places: 50,
		Lease: 2 * time.Second, Random: func() float64 { return 0.5 },
	}
	for _, f := range change {
		f(&c)
	}
	e := lane.New(c)
	if err := e.Join(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	river := dbtest.Open(r.t, r.url, db.Options{})
	client, err := jobs.NewClient(river, e, &jobs.Chores{Pool: river}, jobs.Workers{Lanes: c.Places, Suspects: 20, Chores: 1}, r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	d := outbox.NewDispatcher(outbox.Dispatcher{Pool: c.Pool, Waker: &lane.Waker{Tickets: r.insert, Worker: e.WorkerID}, Poke: e.Poke, Logger: r.log})
	ctx, cancel := context.WithCancel(context.Background())
	if err := client.Start(ctx); err != nil {
		r.t.Fatal(err)
	}
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){e.Run, d.Run, func(ctx context.Context) {
		db.Listen(ctx, c.Pool, r.log, []string{lane.ChannelOutbox, lane.ChannelLane}, d.Ring, func(channel, payload string) {
			if channel == lane.ChannelOutbox {
				d.Ring()
			} else {
				e.Poke(payload)
			}
		})
	}} {
		loops.Go(func() { loop(ctx) })
	}
	var once sync.Once
	p := &process{Engine: e}
	// stop is a kill for everything but the connections: nothing is given back in order.
	p.stop = func() {
		once.Do(func() {
			cancel()
			loops.Wait()
			stopping, end := context.WithTimeout(context.Background(), 5*time.Second)
			defer end()
			if err := client.StopAndCancel(stopping); err != nil {
				r.t.Errorf("River did not stop: %v", err)
			}
		})
	}
	r.t.Cleanup(p.stop)
	return p
}

// endpoint puts an endpoint in that can sign.
func (r *rig) endpoint(row dbtest.Endpoint) dbtest.Endpoint {
	r.t.Helper()
	row = dbtest.AddEndpoint(r.t, r.Pool, row)
	r.secret(row)
	return row
}

// secret gives an endpoint a secret beside those it has.
func (r *rig) secret(ep dbtest.Endpoint) signing.Key {
	r.t.Helper()
	key, secretID := signing.NewSecret(), id.New(id.Secret, time.Now())
	r.run(`insert into signing_secrets (id, tenant_id, endpoint_id, kind, sealed, fingerprint) values ($1, $2, $3, 'hmac', $4, $5)`,
		secretID, ep.TenantID, ep.ID, r.ring.Seal([]byte(key.Reveal()), lane.SecretAAD(secretID)), key.Fingerprint())
	return key
}

func (r *rig) run(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatalf("%v\n%s", err, sql)
	}
}

func (r *rig) count(sql string, args ...any) int {
	r.t.Helper()
	var n int
	if err := r.QueryRow(r.t.Context(), sql, args...).Scan(&n); err != nil {
		r.t.Fatalf("%v\n%s", err, sql)
	}
	return n
}

// until polls a query that counts until it says want.
func (r *rig) until(within time.Duration, want int, sql string, args ...any) {
	r.t.Helper()
	deadline := time.Now().Add(3 * within) // within is what it takes on a machine that does nothing else
	for {
		n := r.count(sql, args...)
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("after %s: %d, want %d: %s %v\n%s", within, n, want, sql, args, r.dump())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// dump is what the lanes look like, for a test that fails.
func (r *rig) dump() string {
	rows, err := r.Query(r.t.Context(), `select format('%s %s gen %s slots %s owner %s handed %s wake %s due %s', l.endpoint_id, l.state, l.gen, l.slots, l.owner,
		cardinality(l.handed), l.wake_at, (select count(*) from due d where d.endpoint_id = l.endpoint_id)) from lanes l order by 1 limit 20`)
	if err != nil {
		return err.Error()
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return fmt.Sprint(lines, err)
}

// delivery makes one of a new event, due now, and wakes its lane.
func (r *rig) delivery(row dbtest.Delivery) dbtest.Delivery {
	r.t.Helper()
	err := pgx.BeginFunc(r.t.Context(), r.Pool, func(tx pgx.Tx) error {
		row = dbtest.AddDelivery(r.t, tx, row)
		return r.waker.Wake(r.t.Context(), tx, []string{row.Endpoint.ID}, nil)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return row
}

// hurry makes a delivery's next attempt due now.
func (r *rig) hurry(d dbtest.Delivery) {
	r.t.Helper()
	err := pgx.BeginFunc(r.t.Context(), r.Pool, func(tx pgx.Tx) error {
		if err := lane.Lock(r.t.Context(), tx, d.Endpoint.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(r.t.Context(), `update due set next_at = statement_timestamp() where delivery_id = $1`, d.ID); err != nil {
			return err
		}
		return r.waker.Wake(r.t.Context(), tx, []string{d.Endpoint.ID}, nil)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// publish puts n events of a tenant into the outbox.
func (r *rig) publish(uid string, n int) []string {
	r.t.Helper()
	events := make([]outbox.Event, n)
	for i := range events {
		events[i] = outbox.Event{Tenant: uid, Type: "consignment.loaded", ResourceType: "consignment", ResourceID: fmt.Sprint("C-", i), Data: []byte(`{"status":"loaded"}`)}
	}
	published, err := outbox.Publish(r.t.Context(), r.Pool, events...)
	if err != nil {
		r.t.Fatal(err)
	}
	ids := make([]string, n)
	for i, p := range published {
		ids[i] = p.ID
	}
	return ids
}

// lanes is package lane as the operations see it.
type lanes struct{ *rig }

func (l lanes) Lock(ctx context.Context, tx pgx.Tx, ids ...string) error {
	return lane.Lock(ctx, tx, ids...)
}

func (l lanes) Wake(ctx context.Context, tx pgx.Tx, ids, tests []string) error {
	return l.waker.Wake(ctx, tx, ids, tests)
}

func (l lanes) Settle(ctx context.Context, endpointID string, rev int64) error {
	return lane.Settle(ctx, l.Pool, endpointID, rev)
}

// tests is package outbox as the operations see it.
type tests struct{}

func (tests) AddTest(ctx context.Context, tx pgx.Tx, t endpoint.Test) (string, string, error) {
	return outbox.AddTest(ctx, tx, time.Now(), outbox.Test{TenantID: t.TenantID, EndpointID: t.EndpointID, Type: t.Type, Data: t.Data, RequestedBy: t.RequestedBy})
}

// endpoints are the operations on endpoints.
func (r *rig) endpoints() *endpoint.Service {
	return &endpoint.Service{DB: r.Pool, Audit: &account.Service{DB: r.Pool, Now: time.Now}, Ring: r.ring, Lanes: lanes{r}, Tests: tests{},
		URLs: egress.URLOptions{}, KnowsPreset: func(string) bool { return true }, Now: time.Now, Log: r.log}
}

// resend is the operation of that name.
func (r *rig) resend(d dbtest.Delivery) error {
	accounts := &account.Service{DB: r.Pool, Now: time.Now}
	s := &delivery.Service{DB: r.Pool, Ring: r.ring, Policies: policy.Builtin(), Lanes: lanes{r}, Audit: accounts}
	_, err := s.Resend(r.t.Context(), account.Waybill("test", d.Endpoint.TenantID), d.ID)
	return err
}
