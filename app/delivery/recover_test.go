package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/dbtest"
)

// recoverySpy remembers the jobs that were inserted.
type recoverySpy struct {
	mu      sync.Mutex
	tickets []RecoveryTicket
	fail    error
}

func (s *recoverySpy) InsertRecovery(_ context.Context, _ pgx.Tx, t RecoveryTicket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets = append(s.tickets, t)
	return s.fail
}

// parkedHouse is a house with an endpoint of which things are parked.
type parkedHouse struct {
	*house
	endpoint dbtest.Endpoint
	jobs     *recoverySpy
	now      time.Time
}

func newParkedHouse(t testing.TB) *parkedHouse {
	t.Helper()
	h := &parkedHouse{house: newHouse(t), jobs: &recoverySpy{}, now: time.Now()}
	h.Recoveries = h.jobs
	h.endpoint = dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID})
	return h
}

// park puts a delivery on the list, made some time ago.
func (h *parkedHouse) park(status, kind, resource string, sequence int64, ago time.Duration) dbtest.Delivery {
	h.t.Helper()
	at := h.now.Add(-ago)
	failures := 0
	if status == "undelivered" {
		failures = 10
	}
	return dbtest.AddDelivery(h.t, h.pool, dbtest.Delivery{Endpoint: h.endpoint, CreatedAt: at, Status: status, Reason: "endpoint_paused", Attempts: failures, Failures: failures,
		Event: dbtest.Event{TenantID: h.tenant.ID, Type: kind, ResourceID: resource, Sequence: sequence, CreatedAt: at}})
}

// many parks n held deliveries of one event, made now.
func (h *parkedHouse) many(n int) dbtest.Event {
	h.t.Helper()
	e := dbtest.AddEvent(h.t, h.pool, dbtest.Event{TenantID: h.tenant.ID, CreatedAt: h.now})
	prefix := "dlv_" + id.TimePrefix(h.now.Add(-time.Second))
	h.exec(`insert into deliveries (id, day, tenant_id, endpoint_id, position, event_id, type, resource_type, resource_id, form, test, created_at, status, reason, finished_at)
		select $1 || lpad(i::text, 16, '0'), $2, $3, $4, $5, $6, case when i % 2 = 0 then 'order.even' else 'order.odd' end, 'order', 'O-' || (i % 1000), 'full', false, $7, 'held', 'endpoint_paused', $7
		from generate_series(1, $8) i`, prefix, e.Day, h.tenant.ID, h.endpoint.ID, e.Position, e.ID, h.now, n)
	h.exec(`insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since)
		select id, day, tenant_id, endpoint_id, 'held', 'endpoint_paused', finished_at from deliveries where endpoint_id = $1 and event_id = $2`, h.endpoint.ID, e.ID)
	return e
}

// run works on a catch-up for so long.
func (h *parkedHouse) run(t RecoveryTicket, slice time.Duration) bool {
	h.t.Helper()
	over, err := h.RecoverRun(h.t.Context(), t, slice)
	if err != nil {
		h.t.Fatal(err)
	}
	return over
}

// answer makes what is due and not yet attempted end as a lane would, with that status, and says how many there were.
func (h *parkedHouse) answer(status string, limit int) int {
	h.t.Helper()
	if status == "pending" { // a failure: its schedule goes on
		return one[int](h.house, `with x as (update due set trigger = 'retry', next_at = now() + interval '1 hour' where delivery_id in
			(select delivery_id from due where trigger = 'recover' limit $1) returning 1) select count(*) from x`, limit)
	}
	return one[int](h.house, `with x as (delete from due where delivery_id in (select delivery_id from due where trigger = 'recover' limit $1) returning delivery_id, day),
		y as (update deliveries d set status = $2, attempts = attempts + 1 from x where d.id = x.delivery_id and d.day = x.day) select count(*) from x`, limit, status)
}

func (h *parkedHouse) read(recoveryID string) Recovery {
	h.t.Helper()
	r, err := h.Recovery(h.t.Context(), h.caller, recoveryID)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *parkedHouse) start(in RecoverInput) (Recovery, RecoveryTicket) {
	h.t.Helper()
	if in.Since.IsZero() {
		in.Since = h.now.Add(-20 * 24 * time.Hour)
	}
	r, err := h.Recover(h.t.Context(), h.caller, h.endpoint.ID, in)
	if err != nil {
		h.t.Fatal(err)
	}
	return r, h.jobs.tickets[len(h.jobs.tickets)-1]
}

// The preview is exact by type, day and size, under every choice.
func TestRecoverPreview(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	h.park("held", "order.paid", "A", 1, time.Hour)
	newestA := h.park("held", "order.sent", "A", 3, 30*time.Hour) // dispatched before, and newer all the same
	h.park("undelivered", "order.paid", "A", 2, 2*time.Hour)
	h.park("undelivered", "order.paid", "B", 1, 50*time.Hour)
	h.park("held", "order.paid", "C", 1, 40*24*time.Hour) // beyond the resend window
	h.park("delivered", "order.paid", "D", 1, time.Hour)
	other := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Status: "held", Reason: "endpoint_paused", Event: dbtest.Event{TenantID: h.tenant.ID}})
	size := int64(len(newestA.Event.Body))
	for name, c := range map[string]struct {
		in                  RecoverInput
		total, older, bytes int64
		types               string
	}{
		"all":         {RecoverInput{}, 4, 0, 4 * size, "order.paid 3, order.sent 1"},
		"held":        {RecoverInput{Statuses: []Status{Held}}, 2, 0, 2 * size, "order.paid 1, order.sent 1"},
		"undelivered": {RecoverInput{Statuses: []Status{Undelivered}}, 2, 0, 2 * size, "order.paid 2"},
		"newest":      {RecoverInput{NewestPerResource: true}, 2, 2, 2 * size, "order.paid 1, order.sent 1"},
		"since":       {RecoverInput{Since: h.now.Add(-3 * time.Hour)}, 2, 0, 2 * size, "order.paid 2"},
		"until":       {RecoverInput{Until: h.now.Add(-3 * time.Hour)}, 2, 0, 2 * size, "order.paid 1, order.sent 1"},
		"nothing":     {RecoverInput{Since: h.now.Add(-3 * time.Minute)}, 0, 0, 0, ""},
	} {
		if c.in.Since.IsZero() {
			c.in.Since = h.now.Add(-60 * 24 * time.Hour)
		}
		got, err := h.Preview(t.Context(), h.caller, h.endpoint.ID, c.in)
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		var days int64
		for _, kind := range got.Types {
			types = append(types, fmt.Sprint(kind.Type, " ", kind.N))
		}
		for _, day := range got.Days {
			days += day.N
		}
		if got.Total != c.total || got.Older != c.older || strings.Join(types, ", ") != c.types || days != c.total {
			t.Errorf("%s: %d and %d older, %v, %d by day; want %d, %d, %s", name, got.Total, got.Older, types, days, c.total, c.older, c.types)
		}
		if d := got.Bytes - c.bytes; d < -8 || d > 8 { // a longer type or name
			t.Errorf("%s: %d bytes, want some %d", name, got.Bytes, c.bytes)
		}
	}
	if n := one[int](h.house, `select count(*) from due`) + one[int](h.house, `select count(*) from recoveries`); n != 0 {
		t.Error("a preview changes something")
	}
	_, err := h.Preview(t.Context(), h.stranger, h.endpoint.ID, RecoverInput{Since: h.now.Add(-time.Hour)})
	wantKind(t, err, fault.NotFound)
	_, err = h.Preview(t.Context(), keyOf(h.tenant, account.CatalogRead), h.endpoint.ID, RecoverInput{Since: h.now.Add(-time.Hour)})
	wantKind(t, err, fault.Forbidden)
	h.exec(`update endpoints set state = 'paused' where id = $1`, h.endpoint.ID)
	if got, err := h.Preview(t.Context(), h.caller, h.endpoint.ID, RecoverInput{Since: h.now.Add(-72 * time.Hour)}); err != nil || got.Total != 4 {
		t.Errorf("of a paused endpoint: %d, %v", got.Total, err)
	}
	_ = other
}

// What was parked is due again, once, at the lowest priority; its record is exact; what was chosen not to be sent stays.
func TestRecover(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	held := h.park("held", "order.paid", "A", 1, time.Hour)
	failed := h.park("undelivered", "order.paid", "B", 1, 26*time.Hour)
	early := h.park("held", "order.paid", "C", 1, 8*24*time.Hour)
	r, ticket := h.start(RecoverInput{Since: h.now.Add(-3 * 24 * time.Hour)})
	if r.State != RecoveryRunning || r.Total != 2 || r.Moved != 0 || r.RequestedBy != "API key main" || ticket.TenantID != h.tenant.ID {
		t.Errorf("%+v", r)
	}
	later := h.park("held", "order.paid", "D", 1, 2*time.Hour) // parked after the preview, though made before
	h.exec(`update parked set since = now() + interval '1 second' where delivery_id = $1`, later.ID)
	if h.run(ticket, 0) {
		t.Error("it is over before anything was attempted")
	}
	for _, d := range []dbtest.Delivery{held, failed} {
		due, ok := h.due(d.ID)
		if !ok || due.trigger != "recover" || due.priority != 2 || due.waits || due.failures > 1 || due.requestedBy != "API key main" || due.position != d.Event.Position {
			t.Errorf("%s: %+v, %v", d.Status, due, ok)
		}
		if status := one[string](h.house, `select status || coalesce(reason, '') from deliveries where id = $1`, d.ID); status != "pending" {
			t.Errorf("%s has become %s", d.Status, status)
		}
	}
	for _, d := range []dbtest.Delivery{early, later} {
		if _, ok := h.due(d.ID); ok || one[int](h.house, `select count(*) from parked where delivery_id = $1`, d.ID) != 1 {
			t.Errorf("%s is not left alone", d.ID)
		}
	}
	if len(h.lanes.woken) != 1 || !slices.Equal(h.lanes.woken[0], []string{h.endpoint.ID}) {
		t.Errorf("woken: %v", h.lanes.woken)
	}
	h.exec(`update deliveries set status = 'delivered' where id = $1`, held.ID)
	h.exec(`delete from due where delivery_id = $1`, held.ID)
	h.answer("pending", 1)
	if !h.run(ticket, time.Second) {
		t.Error("it is not over when all was attempted")
	}
	if r = h.read(r.ID); r.State != RecoveryDone || r.Moved != 2 || r.Delivered != 1 || r.Failed != 1 || r.Skipped() != 0 || r.FinishedAt == nil {
		t.Errorf("%+v", r)
	}
	if !h.run(ticket, time.Second) {
		t.Error("a second run of a finished catch-up is not over at once")
	}
	log := one[string](h.house, `select string_agg(action, ', ' order by id) from audit where object = $1`, r.ID)
	if log != "recovery.started, recovery.ended" {
		t.Errorf("logged %s", log)
	}
	if n := one[int](h.house, `select count(*) from recovery_deliveries`); n != 0 {
		t.Errorf("%d rows are left behind", n)
	}
}

// Only the newest of each resource is sent, and resuming sends no older one in its place.
func TestRecoverNewest(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	old := h.park("held", "order.paid", "A", 1, time.Hour)
	newest := h.park("held", "order.paid", "A", 2, 2*time.Hour)
	r, ticket := h.start(RecoverInput{NewestPerResource: true})
	h.run(ticket, 0)
	ticket.Gen++
	h.exec(`update recoveries set gen = gen + 1`)
	h.run(ticket, 0)
	if _, ok := h.due(newest.ID); !ok {
		t.Error("the newest is not sent")
	}
	if _, ok := h.due(old.ID); ok {
		t.Error("the old one is sent")
	}
	h.answer("delivered", 5)
	if !h.run(ticket, time.Second) || h.read(r.ID).Older != 1 || one[int](h.house, `select count(*) from recovery_picks`) != 0 {
		t.Errorf("%+v", h.read(r.ID))
	}
}

// What was delivered, cancelled or resent between the preview and its turn is skipped, and counted so.
func TestRecoverSkips(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	delivered, resent, cancelled, sent := h.park("held", "a.b", "1", 1, time.Hour), h.park("undelivered", "a.b", "2", 1, time.Hour), h.park("held", "a.b", "3", 1, time.Hour),
		h.park("held", "a.b", "4", 1, time.Hour)
	r, ticket := h.start(RecoverInput{})
	h.exec(`update deliveries set status = 'delivered' where id = $1`, delivered.ID) // its row in parked is still there, as between two statements
	h.exec(`update deliveries set status = 'cancelled' where id = $1`, cancelled.ID)
	h.exec(`delete from parked where delivery_id = $1`, cancelled.ID)
	if _, err := h.Resend(t.Context(), h.caller, resent.ID); err != nil {
		t.Fatal(err)
	}
	h.run(ticket, 0)
	if n := h.answer("delivered", 10); n != 1 {
		t.Errorf("%d were made due, want 1", n)
	}
	if due, ok := h.due(resent.ID); !ok || due.trigger != "manual" {
		t.Errorf("the resend has become %+v", due)
	}
	if one[string](h.house, `select status from deliveries where id = $1`, delivered.ID) != "delivered" {
		t.Error("what was delivered is pending again")
	}
	if !h.run(ticket, time.Second) {
		t.Fatal("not over")
	}
	if r = h.read(r.ID); r.Total != 4 || r.Moved != 1 || r.Delivered != 1 || r.Skipped() != 3 || r.Left() != 0 {
		t.Errorf("%+v", r)
	}
	if one[string](h.house, `select status from deliveries where id = $1`, sent.ID) != "delivered" {
		t.Error("the one that waited was not sent")
	}
}

// A catch-up that is killed goes on where it was under a new job; the old one, should it still live, does nothing more.
func TestRecoverAfterAKill(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	h.many(3000)
	r, ticket := h.start(RecoverInput{})
	killed, kill := context.WithCancel(t.Context())
	go func() {
		for one[int](h.house, `select count(*) from due`) == 0 {
			time.Sleep(time.Millisecond)
		}
		kill()
	}()
	if _, err := h.RecoverRun(killed, ticket, time.Minute); err == nil {
		t.Fatal("it was not cut off")
	}
	before := one[int](h.house, `select count(*) from due`)
	if n, err := h.RecoverSweep(t.Context()); err != nil || n != 0 {
		t.Errorf("a job that has just shown itself is replaced: %d, %v", n, err)
	}
	h.exec(`update recoveries set beat_at = now() - interval '1 minute'`)
	if n, err := h.RecoverSweep(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	next := h.jobs.tickets[len(h.jobs.tickets)-1]
	if next.ID != r.ID || next.TenantID != h.tenant.ID || next.Gen != ticket.Gen+1 {
		t.Errorf("%+v", next)
	}
	if !h.run(ticket, 0) {
		t.Error("the old job goes on")
	}
	if n := one[int](h.house, `select count(*) from due`); n != before {
		t.Error("the old job has moved something")
	}
	for over := false; !over; {
		over = h.run(next, 0)
		h.answer("delivered", 1000)
	}
	if r = h.read(r.ID); r.State != RecoveryDone || r.Moved != 3000 || r.Delivered != 3000 || r.Skipped() != 0 {
		t.Errorf("%+v", r)
	}
	if n := one[int](h.house, `select count(*) from deliveries where status = 'delivered' and attempts = 1`); n != 3000 {
		t.Errorf("%d were sent once, want 3000", n)
	}
}

// Cancelling puts back what no sender has, as it was, within a second, and moves nothing more.
func TestRecoverCancel(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	failed := h.park("undelivered", "order.paid", "A", 1, 2*time.Hour)
	h.many(5000)
	r, ticket := h.start(RecoverInput{})
	running := make(chan bool)
	go func() {
		over, err := h.RecoverRun(t.Context(), ticket, time.Minute)
		if err != nil {
			t.Error(err)
		}
		running <- over
	}()
	for one[int](h.house, `select count(*) from due`) < recoverWindow {
		time.Sleep(time.Millisecond)
	}
	if n := one[int](h.house, `select count(*) from due`); n > recoverWindow {
		t.Errorf("%d are due at once", n)
	}
	// One is with a sender: it cannot be put back.
	given := one[string](h.house, `select max(delivery_id) from due`)
	h.exec(`insert into workers (id, lease_until, host, pid) values ('wrk_1', now() + interval '1 minute', 'x', 1)`)
	h.exec(`update lanes set state = 'running', owner = 'wrk_1', handed = array[$1], handed_at = now() where endpoint_id = $2`, given, h.endpoint.ID)

	_, err := h.RecoveryCancel(t.Context(), h.stranger, r.ID)
	wantKind(t, err, fault.NotFound)
	_, err = h.RecoveryCancel(t.Context(), keyOf(h.tenant, account.DeliveriesRead), r.ID)
	wantKind(t, err, fault.Forbidden)
	began := time.Now()
	if _, err := h.RecoveryCancel(t.Context(), h.caller, r.ID); err != nil {
		t.Fatal(err)
	}
	for one[int](h.house, `select count(*) from due`) > 1 {
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s to put back what was due", took)
	}
	_, err = h.RecoveryCancel(t.Context(), h.caller, r.ID)
	wantKind(t, err, fault.Conflict)
	h.answer("delivered", 1)
	if over := <-running; !over {
		t.Error("the job goes on")
	}
	if r = h.read(r.ID); r.State != RecoveryCancelled || r.Ending != "cancelled" || r.Moved != 1 || r.Delivered != 1 || r.Left() != 5000 {
		t.Errorf("%+v", r)
	}
	if n := one[int](h.house, `select count(*) from parked p join deliveries d on d.id = p.delivery_id and d.status = p.status and d.reason = p.reason`); n != 5000 {
		t.Errorf("%d are parked as they were, want 5000", n)
	}
	var status string
	var failures int
	if err := h.pool.QueryRow(t.Context(), `select status, failures from deliveries where id = $1`, failed.ID).Scan(&status, &failures); err != nil || status != "undelivered" || failures != 10 {
		t.Errorf("%s with %d failures, %v", status, failures, err)
	}
	// The endpoint can be caught up anew.
	if again, _ := h.start(RecoverInput{}); again.Total != 5000 {
		t.Errorf("%+v", again)
	}
}

// An endpoint that stops sending ends its catch-up, which says why.
func TestRecoverStops(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]string{
		"endpoint_paused":   `update endpoints set state = 'paused'`,
		"endpoint_disabled": `update endpoints set state = 'disabled'`,
		"tenant_suspended":  `update tenants set suspended_at = now()`,
		"endpoint_deleted":  `update endpoints set deleted_at = now()`,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			h := newParkedHouse(t)
			h.many(600)
			r, ticket := h.start(RecoverInput{PerSecond: 100})
			h.run(ticket, 0)
			h.exec(change)
			if !h.run(ticket, 2*time.Second) {
				t.Error("it goes on")
			}
			if r = h.read(r.ID); r.State != RecoveryStopped || r.Ending != want || r.Moved != 0 || r.Left() != 600 {
				t.Errorf("%+v", r)
			}
			if n := one[int](h.house, `select count(*) from due`); n != 0 {
				t.Errorf("%d are still due", n)
			}
		})
	}
}

// While an endpoint is off, deleted or being caught up, a catch-up is refused with the reason, and nothing is stored.
func TestRecoverIsRefused(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		change string
		kind   fault.Kind
	}{
		"is paused: enable it first":     {`update endpoints set state = 'paused'`, fault.Conflict},
		"is disabled: enable it first":   {`update endpoints set state = 'disabled', reason = 'manual'`, fault.Conflict},
		"answered 410 Gone":              {`update endpoints set state = 'disabled', reason = 'gone'`, fault.Conflict},
		"failed for too long":            {`update endpoints set state = 'disabled', reason = 'failing'`, fault.Conflict},
		"account is suspended":           {`update tenants set suspended_at = now()`, fault.Conflict},
		"There is no such endpoint":      {`update endpoints set deleted_at = now()`, fault.NotFound},
		"A catch-up of this endpoint is": {"", fault.Conflict},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			h := newParkedHouse(t)
			h.park("held", "a.b", "1", 1, time.Hour)
			if c.change == "" {
				h.start(RecoverInput{})
			} else {
				h.exec(c.change)
			}
			before := one[int](h.house, `select count(*) from recoveries`)
			_, err := h.Recover(t.Context(), h.caller, h.endpoint.ID, RecoverInput{Since: h.now.Add(-2 * time.Hour)})
			if wantKind(t, err, c.kind); !strings.Contains(fault.From(err).Detail, want) {
				t.Errorf("%v", err)
			}
			if one[int](h.house, `select count(*) from recoveries`) != before {
				t.Error("it is stored all the same")
			}
		})
	}
	h := newParkedHouse(t)
	for field, in := range map[string]RecoverInput{
		"since":      {},
		"since ":     {Since: h.now.Add(time.Hour)},
		"until":      {Since: h.now.Add(-time.Hour), Until: h.now.Add(-2 * time.Hour)},
		"statuses":   {Since: h.now.Add(-time.Hour), Statuses: []Status{Held, Delivered}},
		"per_second": {Since: h.now.Add(-time.Hour), PerSecond: MaxRecoverPace + 1},
	} {
		_, err := h.Recover(t.Context(), h.caller, h.endpoint.ID, in)
		if shown := fault.From(err); shown.Kind != fault.Invalid || len(shown.Fields) != 1 || shown.Fields[0].Name != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err := h.Recover(t.Context(), h.stranger, h.endpoint.ID, RecoverInput{Since: h.now.Add(-time.Hour)})
	wantKind(t, err, fault.NotFound)
	_, err = h.Recover(t.Context(), keyOf(h.tenant, account.DeliveriesRead), h.endpoint.ID, RecoverInput{Since: h.now.Add(-time.Hour)})
	wantKind(t, err, fault.Forbidden)
	h.jobs.fail = errors.New("broken on purpose")
	if _, err = h.Recover(t.Context(), h.caller, h.endpoint.ID, RecoverInput{Since: h.now.Add(-time.Hour)}); !errors.Is(err, h.jobs.fail) {
		t.Error(err)
	}
	if n := one[int](h.house, `select count(*) from recoveries`) + one[int](h.house, `select count(*) from audit`); n != 0 {
		t.Error("a failure at the end leaves something behind")
	}
}

// The pace is kept, also when the endpoint is slow: what it did not take in time is not made up for in one go.
func TestRecoverPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		look    recoveryLook
		elapsed time.Duration
		moved   int
		want    int
	}{
		{recoveryLook{}, 0, 0, recoverWindow},
		{recoveryLook{underWay: recoverWindow}, time.Hour, 0, 0},
		{recoveryLook{perSecond: 5}, 0, 0, 1},
		{recoveryLook{perSecond: 5}, time.Second, 1, 5},
		{recoveryLook{perSecond: 5}, time.Second, 6, 0},
		{recoveryLook{perSecond: 5, underWay: 8}, time.Minute, 0, 2},
		{recoveryLook{perSecond: 1, underWay: 2}, time.Minute, 0, 0},
		{recoveryLook{perSecond: 10_000}, time.Hour, 0, recoverWindow},
	} {
		if got := room(c.look, c.elapsed, c.moved); got != c.want {
			t.Errorf("%+v after %s with %d: %d, want %d", c.look, c.elapsed, c.moved, got, c.want)
		}
	}
	h := newParkedHouse(t)
	h.many(50)
	_, ticket := h.start(RecoverInput{PerSecond: 10})
	began := time.Now()
	h.run(ticket, time.Second)
	if n, most := one[int](h.house, `select count(*) from due`), 2+int(time.Since(began).Seconds()*10); n < 8 || n > most {
		t.Errorf("%d in %s at 10 a second", n, time.Since(began))
	}
}

// Lists and reports are a tenant's own, and turn pages without losing any.
func TestRecoveryList(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	var ids []string
	for range 3 {
		r, ticket := h.start(RecoverInput{})
		ids = append(ids, r.ID)
		if !h.run(ticket, time.Second) { // nothing is parked
			t.Fatal("it is not over")
		}
		h.now = h.now.Add(time.Millisecond)
	}
	var got []string
	for after := ""; ; {
		page, next, err := h.RecoveryList(t.Context(), h.caller, h.endpoint.ID, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		if after = next; after == "" {
			break
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("%v, want %v", got, ids)
	}
	if page, _, err := h.RecoveryList(t.Context(), h.stranger, "", "", 10); err != nil || len(page) != 0 {
		t.Errorf("a stranger sees %d, %v", len(page), err)
	}
	_, err := h.Recovery(t.Context(), h.stranger, ids[0])
	wantKind(t, err, fault.NotFound)
	_, err = h.RecoveryCancel(t.Context(), h.caller, ids[0])
	wantKind(t, err, fault.Conflict)
	h.exec(`update recoveries set finished_at = now() - interval '1 year' where id = $1`, ids[2])
	if n, err := h.PruneRecoveries(t.Context()); err != nil || n != 1 {
		t.Errorf("%d pruned, %v", n, err)
	}
}

// The endpoints of which something is parked are the tenant's own.
func TestRecoverTargets(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	h.park("held", "a.b", "1", 1, time.Hour)
	dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: dbtest.Event{TenantID: h.tenant.ID}})
	find := func(caller account.Caller, endpointID string, statuses ...Status) string {
		t.Helper()
		ids, err := h.RecoverTargets(t.Context(), caller, endpointID, statuses, 10)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(ids, " ")
	}
	if got := find(h.caller, ""); got != h.endpoint.ID {
		t.Errorf("%s, want %s", got, h.endpoint.ID)
	}
	if got := find(h.caller, h.endpoint.ID, Held); got != h.endpoint.ID {
		t.Errorf("%s, want %s", got, h.endpoint.ID)
	}
	if got := find(h.caller, "", Undelivered) + find(h.stranger, "") + find(h.stranger, h.endpoint.ID); got != "" {
		t.Errorf("%s, want none", got)
	}
}

// 100,000 parked deliveries are previewed within a second, of both kinds, and moved without a long transaction (issue 5).
func TestRecoverLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("it parks 100,000 deliveries")
	}
	t.Parallel()
	h := newParkedHouse(t)
	h.many(100_000)
	h.exec(`analyze parked`)
	for _, newest := range []bool{false, true} {
		began := time.Now()
		got, err := h.Preview(t.Context(), h.caller, h.endpoint.ID, RecoverInput{Since: h.now.Add(-29 * 24 * time.Hour), NewestPerResource: newest})
		if err != nil || got.Total+got.Older != 100_000 || len(got.Types) != 2 {
			t.Fatalf("%d and %d, %v", got.Total, got.Older, err)
		}
		t.Logf("newest %v: %d previewed in %s", newest, got.Total, time.Since(began))
		if took := time.Since(began); took > 30*time.Second { // a second on a machine that does nothing else
			t.Errorf("newest %v: the preview took %s", newest, took)
		}
	}
	_, ticket := h.start(RecoverInput{})
	began, longest := time.Now(), time.Duration(0)
	for over := false; !over; {
		step := time.Now()
		_, _, done, err := h.recoverTick(t.Context(), ticket, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		longest, over = max(longest, time.Since(step)), done
		if one[int](h.house, `select count(*) from due`) > recoverWindow-recoverBatch {
			h.answer("delivered", recoverWindow)
		} else if one[bool](h.house, `select exhausted from recoveries`) {
			h.answer("delivered", recoverWindow)
		}
	}
	t.Logf("moved in %s, the longest step %s", time.Since(began), longest)
	if r := h.read(ticket.ID); r.Delivered != 100_000 || r.State != RecoveryDone {
		t.Errorf("%+v", r)
	}
	if longest > 2*time.Second {
		t.Errorf("a step took %s", longest)
	}
}
