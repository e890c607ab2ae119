package demo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db/dbtest"
)

// quickWeek is the bad week in some ten seconds.
var quickWeek = Script{Pace: 40 * time.Millisecond, Between: 100 * time.Millisecond, Outage: 2 * time.Second, Updates: 60,
	TroubleEvery: time.Second, TroubleFor: 200 * time.Millisecond, SumUpEvery: 500 * time.Millisecond}

// told is a console's output, written and read at the same time.
type told struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *told) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.text.Write(p) }
func (b *told) String() string              { b.mu.Lock(); defer b.mu.Unlock(); return b.text.String() }

// house is what stays from one start to the next: the database and the data folder.
type house struct {
	url, data string
	out       *told
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return &house{url: dbtest.NewURL(t), data: t.TempDir(), out: &told{}}
}

func (h *house) config(t *testing.T) Config {
	env := map[string]string{"WAYBILL_DATABASE_URL": h.url, "WAYBILL_ADDR": "127.0.0.1:0", "WAYBILL_DATA": h.data}
	return Config{Getenv: func(name string) string { return env[name] }, Out: h.out, Script: quickWeek, Started: time.Now(),
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
}

func (h *house) start(t *testing.T) *Demo {
	t.Helper()
	d, err := Start(t.Context(), h.config(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Stop(context.Background()) })
	return d
}

// column reads one column of text.
func column(t *testing.T, d *Demo, sql string, args ...any) []string {
	t.Helper()
	rows, err := d.Server.Pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// eventually polls until done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := until(ctx, func() (bool, error) { return done(), nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// settle makes the platform move nothing more and waits until everything has arrived and was worked on.
func settle(t *testing.T, d *Demo) {
	t.Helper()
	for _, s := range []*Seller{d.Sarees, d.Hardware} {
		d.Platform.Pause(s.UID)
	}
	eventually(t, "everything arrives", func() bool {
		left, err := d.missing(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	eventually(t, "the sellers work on everything", func() bool {
		return len(column(t, d, `select event_id from seller.inbox where done_at is null union all select event_id from hardware.inbox where done_at is null`)) == 0
	})
	eventually(t, "Waybill has recorded everything", func() bool {
		return len(column(t, d, `select delivery_id from due`)) == 0
	})
}

func TestTheBadWeekBalances(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.start(t)
	if err := d.week(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, d)

	// The ledger: what was committed is what the sellers have, event for event, and what Waybill says it delivered.
	for _, s := range []*Seller{d.Sarees, d.Hardware} {
		committed := column(t, d, `select event_id from freight.movement where seller = $1`, s.UID)
		inbox := column(t, d, `select event_id from `+s.table("inbox"))
		delivered := column(t, d, `select event_id from deliveries where endpoint_id = $1 and status = 'delivered'`, s.account.endpointID)
		if !slices.Equal(committed, inbox) {
			t.Errorf("%s: %d movements committed, %d events in the inbox, or not the same", s.UID, len(committed), len(inbox))
		}
		if !slices.Equal(committed, delivered) {
			t.Errorf("%s: %d movements committed, %d delivered by Waybill's own record, or not the same", s.UID, len(committed), len(delivered))
		}
		// A request in hand when the door was shut may have been stored without an answer.
		tally := d.ledger.tally(s.UID)
		if tally.Committed != len(committed) || tally.Stored > len(inbox) || tally.Stored+tally.Failed < len(inbox) {
			t.Errorf("%s: the tally says %d committed, %d stored and %d failed; the tables %d and %d", s.UID, tally.Committed, tally.Stored, tally.Failed, len(committed), len(inbox))
		}
		platform := column(t, d, `select id || ' ' || status || ' ' || version from freight.consignment where seller = $1`, s.UID)
		seller := column(t, d, `select id || ' ' || status || ' ' || version from `+s.table("consignment"))
		if !slices.Equal(platform, seller) {
			t.Errorf("%s: the platform has %v\nand the seller %v", s.UID, platform, seller)
		}
	}

	// Rolled back: there were some, and nobody has heard of them.
	undone := d.ledger.undone
	if len(undone) == 0 || len(undone) != d.ledger.sum().RolledBack {
		t.Errorf("%d moves rolled back, by the tally %d; want some", len(undone), d.ledger.sum().RolledBack)
	}
	for _, eventID := range column(t, d, `select event_id from seller.inbox union select event_id from hardware.inbox union select id from events`) {
		if _, is := undone[eventID]; is {
			t.Errorf("event %s was rolled back and is known", eventID)
		}
	}

	sarees, hardware := d.ledger.tally(sareesUID), d.ledger.tally(hardwareUID)
	if sarees.Unsigned != 1 || sarees.Refused != 1 {
		t.Errorf("%d calls refused, %d for their signature; want the forged one", sarees.Refused, sarees.Unsigned)
	}
	if sarees.Stale == 0 || sarees.Repeats == 0 || sarees.Ghosts != 0 {
		t.Errorf("stale %d, repeats %d, ghosts %d; want some, some, none", sarees.Stale, sarees.Repeats, sarees.Ghosts)
	}
	if hardware.Refused+hardware.Repeats+hardware.Failed+hardware.Ghosts != 0 {
		t.Errorf("the second seller noticed something: %+v", hardware)
	}
	if late := column(t, d, `select id from deliveries where endpoint_id = $1 and attempts <> 1`, d.Hardware.account.endpointID); len(late) > 0 {
		t.Errorf("%d deliveries of the second seller took more than one attempt", len(late))
	}
	if first := d.FirstDelivery(); first <= 0 {
		t.Errorf("time to the first delivery is %s", first)
	}

	text := h.out.String()
	for _, want := range []string{
		"C-4471 is booked for Meenakshi Sarees. First delivery verified ",
		"Dashboard of Meenakshi Sarees  http://127.0.0.1:", "/sign-in/link/",
		`posts "C-4471 is delivered" to the seller's URL: 401, no valid signature. For the seller it is still loaded (version 2).`,
		"goes down for an upgrade", "60 updates wait for it.", "All 60 have arrived", "Kaveri Hardware noticed nothing",
		`The late "in transit" (version 3) is sent again, arrives, and is ignored as stale: C-4471 stays delivered (version 4).`,
		"stored it and answered 500, so it came again, with the same id, and was skipped.",
		"none of them sent. 1 forged call refused,",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the story does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestOrdinaryTimesBalanceToo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, s := range []*Seller{d.Sarees, d.Hardware} {
		d.loops.Go(func() { d.Platform.Run(d.life, s.UID, d.script.Pace) })
	}
	ended := make(chan error, 1)
	go func() { ended <- d.ordinary(ctx) }()
	eventually(t, "faults, and lines that sum up", func() bool {
		return d.Sarees.door.failures() > 5 && strings.Count(h.out.String(), "So far ") > 2
	})
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	settle(t, d)
	if tally := d.ledger.tally(hardwareUID); tally.Repeats+tally.Failed+tally.Ghosts+d.Hardware.door.failures() != 0 {
		t.Errorf("the second seller noticed something: %+v", tally)
	}
}

func TestASecondStartGoesOn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.start(t)
	if _, err := d.opening(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	endpoints := [2]string{d.Sarees.account.endpointID, d.Hardware.account.endpointID}
	addresses := [2]string{d.Sarees.URL(), d.Hardware.URL()}

	// What a user may do in between: rotate a secret without overlap, pause an endpoint.
	sarees := d.Sarees.account
	if err := d.api.do(t.Context(), http.MethodPost, sarees.path("/endpoints/"+sarees.endpointID+"/rotate"), map[string]any{"overlap_seconds": 0}, nil); err != nil {
		t.Fatal(err)
	}
	hardware := d.Hardware.account
	if err := d.api.do(t.Context(), http.MethodPost, hardware.path("/endpoints/"+hardware.endpointID+"/pause"), nil, nil); err != nil {
		t.Fatal(err)
	}
	d.Stop(t.Context())
	d.Stop(t.Context())
	if n := strings.Count(h.out.String(), "Stopped in "); n != 1 {
		t.Errorf("two stops said %d times that they stopped", n)
	}

	d = h.start(t)
	if again := [2]string{d.Sarees.account.endpointID, d.Hardware.account.endpointID}; again != endpoints {
		t.Errorf("the second start has the endpoints %v, the first had %v", again, endpoints)
	}
	if again := [2]string{d.Sarees.URL(), d.Hardware.URL()}; again != addresses {
		t.Errorf("the second start listens at %v, the first did at %v", again, addresses)
	}
	if !strings.Contains(h.out.String(), "The endpoint of Kaveri Hardware was paused; it is switched on again") {
		t.Error("the second start does not say that it has switched an endpoint on")
	}
	hero, err := d.opening(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if hero.ID != "C-4472" {
		t.Errorf("the second start's first consignment is %s, want C-4472", hero.ID)
	}
	if d.FirstDelivery() <= 0 {
		t.Error("nothing was verified with the new secret")
	}
	// The first one was still under way, and is taken up.
	if fleet := d.Platform.fleets[sareesUID].underWay; len(fleet) != 1 || fleet[0].ID != "C-4471" {
		t.Errorf("under way are %v, want C-4471", fleet)
	}
	if _, err := d.Platform.Book(t.Context(), hardwareUID); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
}

// A rotation while the demo runs: the seller fetches the new secret when the old one no longer fits.
func TestASellerFollowsARotation(t *testing.T) {
	t.Parallel()
	d := newHouse(t).start(t)
	a := d.Sarees.account
	if err := d.api.do(t.Context(), http.MethodPost, a.path("/endpoints/"+a.endpointID+"/rotate"), map[string]any{"overlap_seconds": 0}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Platform.Book(t.Context(), sareesUID); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	if tally := d.ledger.tally(sareesUID); tally.Unsigned != 1 || tally.Stored != 1 {
		t.Errorf("%d refused and %d stored; want one call refused, and its retry stored", tally.Unsigned, tally.Stored)
	}
}

func TestAnotherAddressIsPatched(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.start(t)
	endpointID, before := d.Sarees.account.endpointID, d.Sarees.URL()
	d.Stop(t.Context())
	u, err := url.Parse(before)
	if err != nil {
		t.Fatal(err)
	}
	taken := listener(t, u.Host)
	defer taken.Close()

	d = h.start(t)
	if d.Sarees.account.endpointID != endpointID || d.Sarees.URL() == before {
		t.Errorf("the endpoint is %s at %s; want %s at another address than %s", d.Sarees.account.endpointID, d.Sarees.URL(), endpointID, before)
	}
	if _, err := d.Platform.Book(t.Context(), sareesUID); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	if !strings.Contains(h.out.String(), "had another address ("+before+"); it is changed to "+d.Sarees.URL()) {
		t.Error("the change of the address is not said")
	}
}

func TestThePlatformCanPublishAndNothingElse(t *testing.T) {
	t.Parallel()
	d := newHouse(t).start(t)
	m, err := d.Platform.Book(t.Context(), hardwareUID)
	if err != nil {
		t.Fatal(err)
	}
	if m.Consignment.Version != 1 || m.Consignment.Status != "booked" || m.Consignment.ID == "" {
		t.Errorf("booked: %+v", m.Consignment)
	}
	for _, sql := range []string{
		`select count(*) from waybill.events`, `select count(*) from waybill.outbox`, `select count(*) from waybill.tenants`,
		`delete from freight.movement`, `select count(*) from seller.inbox`, `select waybill.outbox_add('x','x','x','x','{}',1,1,now(),'x')`,
	} {
		if _, err := d.Platform.pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("as the platform's role, %s: %v", sql, err)
		}
	}
	// A consignment that somebody else has moved is not moved again.
	stale := m.Consignment
	if _, err := d.Platform.Advance(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Platform.Advance(t.Context(), stale); err == nil {
		t.Error("a consignment was moved twice from the same version")
	}
	if _, err := d.Platform.advance(t.Context(), stale, true); err == nil || errors.Is(err, errTurnedBack) {
		t.Errorf("turning back a stale move: %v", err)
	}
	moved := m.Consignment
	moved.Version = 2
	if _, err := d.Platform.advance(t.Context(), moved, true); !errors.Is(err, errTurnedBack) {
		t.Errorf("turning back: %v", err)
	}
	if status := column(t, d, `select status from freight.consignment where id = $1`, m.Consignment.ID); !slices.Equal(status, []string{"loaded"}) {
		t.Errorf("after a rollback the consignment is %v, want loaded", status)
	}
}

func TestTestEventsChangeNothing(t *testing.T) {
	t.Parallel()
	d := newHouse(t).start(t)
	if err := registerTypes(t.Context(), d.api); err != nil {
		t.Fatal(err)
	}
	a := d.Sarees.account
	var sent struct {
		EventID string `json:"event_id"`
	}
	err := d.api.do(t.Context(), http.MethodPost, a.path("/endpoints/"+a.endpointID+"/test"), map[string]any{"type": "consignment.delivered"}, &sent)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the test event arrives and is worked on", func() bool {
		return slices.Equal(column(t, d, `select event_id from seller.inbox where done_at is not null`), []string{sent.EventID})
	})
	if rows := column(t, d, `select id from seller.consignment`); len(rows) > 0 {
		t.Errorf("a test event made the consignments %v", rows)
	}
}

func TestRunStopsInOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	config := h.config(t)
	config.Quiet = true
	go func() { ended <- Run(ctx, config) }()
	eventually(t, "the first delivery", func() bool { return strings.Contains(h.out.String(), "First delivery verified") })
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("a run that was stopped ended with %v", err)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("it has not stopped in 15 s")
	}
	text := h.out.String()
	if !strings.Contains(text, "Stopped in ") || strings.Contains(text, "the bad week") {
		t.Errorf("a quiet run said:\n%s", text)
	}
}

func TestABadConfigurationStartsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, env := range map[string]map[string]string{
		"WAYBILL_ADDR":         {"WAYBILL_ADDR": "nonsense"},
		"WAYBILL_DATABASE_URL": {"WAYBILL_ADDR": "127.0.0.1:0", "WAYBILL_DATABASE_URL": "mysql://x"},
		"start database":       {"WAYBILL_ADDR": "127.0.0.1:0", "WAYBILL_DATABASE_URL": "postgres://nobody@127.0.0.1:1/x", "WAYBILL_DATA": t.TempDir()},
	} {
		config := h.config(t)
		config.Getenv = func(name string) string { return env[name] }
		if _, err := Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAForgedCallIsAnsweredWith401(t *testing.T) {
	t.Parallel()
	d := newHouse(t).start(t)
	status, err := forge(t.Context(), d.Sarees.URL(), "C-1")
	if err != nil || status != http.StatusUnauthorized {
		t.Errorf("answered with %d, %v", status, err)
	}
	if rows := column(t, d, `select event_id from seller.inbox`); len(rows) > 0 {
		t.Errorf("in the inbox: %v", rows)
	}
}
