package delivery

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/dbtest"
)

// dueRow is a row of table due.
type dueRow struct {
	trigger     string
	priority    int
	waits       bool // next_at is in the future
	failures    int
	resume      *time.Time
	requestedBy string
	form        string
	position    int64
}

func (h *house) due(deliveryID string) (row dueRow, ok bool) {
	h.t.Helper()
	if one[int](h, `select count(*) from due where delivery_id = $1`, deliveryID) == 0 {
		return row, false
	}
	err := h.pool.QueryRow(h.t.Context(), `select trigger, priority, next_at > now(), failures, resume_at, coalesce(requested_by, ''), form, position
		from due where delivery_id = $1`, deliveryID).
		Scan(&row.trigger, &row.priority, &row.waits, &row.failures, &row.resume, &row.requestedBy, &row.form, &row.position)
	if err != nil {
		h.t.Fatal(err)
	}
	return row, true
}

// a delivery of the house's tenant.
func (h *house) add(row dbtest.Delivery) dbtest.Delivery {
	h.t.Helper()
	row.Event.TenantID = h.tenant.ID
	return dbtest.AddDelivery(h.t, h.pool, row)
}

// CASES B47: a retry that is due later comes now, and its schedule goes on at the old time.
func TestResendOfARetry(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	next := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Microsecond)
	d := h.add(dbtest.Delivery{Attempts: 3, Failures: 3, NextAt: next})
	got, err := h.Resend(t.Context(), h.caller, d.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != d.ID || got.Status != Pending || got.NextTrigger != "manual" || got.RequestedBy != "API key main" {
		t.Errorf("%+v", got)
	}
	due, _ := h.due(d.ID)
	if due.trigger != "manual" || due.priority != 1 || due.waits || due.failures != 3 || due.resume == nil || !due.resume.Equal(next) || due.requestedBy != "API key main" {
		t.Errorf("%+v", due)
	}
	if len(h.lanes.woken) != 1 || !slices.Equal(h.lanes.woken[0], []string{d.Endpoint.ID}) {
		t.Errorf("woken: %v", h.lanes.woken)
	}
	logged := one[string](h, `select action || ' ' || actor || ' ' || (detail->>'event_id') from audit where tenant_id = $1 and object = $2`, h.tenant.ID, d.ID)
	if logged != "delivery.resent API key main "+d.Event.ID {
		t.Errorf("logged %q", logged)
	}
	// A double click: the second finds it waiting, and changes nothing.
	_, err = h.Resend(t.Context(), h.caller, d.ID)
	wantKind(t, err, fault.Conflict)
	if again, _ := h.due(d.ID); again.resume == nil || !again.resume.Equal(next) {
		t.Errorf("the second resend changed the schedule: %+v", again)
	}
	if n := one[int](h, `select count(*) from audit`); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// Every delivery that is not pending can be resent; its status stays what it is.
func TestResendOfWhatIsFinished(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"delivered", "undelivered", "held", "cancelled"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			d := h.add(dbtest.Delivery{Status: status, Attempts: 4, Failures: 4, Form: "thin", CreatedAt: time.Now().Add(-29 * 24 * time.Hour)})
			got, err := h.Resend(t.Context(), h.caller, d.ID)
			if err != nil || string(got.Status) != status || got.NextTrigger != "manual" {
				t.Fatalf("%+v, %v", got, err)
			}
			due, ok := h.due(d.ID)
			if !ok || due.trigger != "manual" || due.priority != 1 || due.waits || due.failures != 4 || due.resume != nil || due.form != "thin" || due.position != d.Event.Position {
				t.Errorf("%+v", due)
			}
		})
	}
}

func TestResendIsRefused(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	for want, prepare := range map[string]func(h *house) string{
		"waiting: resent already": func(h *house) string {
			return h.add(dbtest.Delivery{Trigger: "manual", ResumeAt: later}).ID
		},
		"waiting: resent already ": func(h *house) string {
			return h.add(dbtest.Delivery{Status: "delivered", NextAt: later}).ID
		},
		"waiting: catch-up": func(h *house) string {
			return h.add(dbtest.Delivery{Status: "held", Trigger: "recover", NextAt: later}).ID
		},
		"waiting: its turn":  func(h *house) string { return h.add(dbtest.Delivery{}).ID },
		"waiting: its turn ": func(h *house) string { return h.add(dbtest.Delivery{Attempts: 1, Failures: 1}).ID },
		"waiting: The test event": func(h *house) string {
			return h.add(dbtest.Delivery{Event: dbtest.Event{Test: true}, NextAt: later}).ID
		},
		"waiting: answers again": func(h *house) string {
			d := h.add(dbtest.Delivery{})
			h.exec(`update lanes set not_before = now() + interval '1 minute' where endpoint_id = $1`, d.Endpoint.ID)
			return d.ID
		},
		"on_wire: at this moment": func(h *house) string {
			d := h.add(dbtest.Delivery{Attempts: 1, Failures: 1})
			h.exec(`update lanes set state = 'running', owner = 'wrk_1', slots = 1, handed = array[$2], handed_at = now() where endpoint_id = $1`, d.Endpoint.ID, d.ID)
			return d.ID
		},
		"just_resent: a moment ago": func(h *house) string {
			d := h.add(dbtest.Delivery{Status: "delivered", Attempts: 2})
			dbtest.AddAttempt(h.t, h.pool, dbtest.Attempt{Delivery: d, Number: 2, Trigger: "manual", StartedAt: time.Now(), TotalUS: 60_000_000})
			return d.ID
		},
		"expired: 30 days": func(h *house) string {
			return h.add(dbtest.Delivery{Status: "undelivered", CreatedAt: time.Now().Add(-30*24*time.Hour - time.Minute)}).ID
		},
		"paused: Switch the endpoint on": func(h *house) string {
			return h.add(dbtest.Delivery{Status: "held", Endpoint: dbtest.Endpoint{State: "paused"}}).ID
		},
		"disabled: enable the endpoint": func(h *house) string {
			return h.add(dbtest.Delivery{Status: "held", Endpoint: dbtest.Endpoint{State: "disabled", Reason: "gone"}}).ID
		},
		"deleted: new endpoint": func(h *house) string {
			return h.add(dbtest.Delivery{Status: "cancelled", Endpoint: dbtest.Endpoint{State: "disabled", DeletedAt: time.Now()}}).ID
		},
		"suspended: Ask the platform": func(h *house) string {
			d := h.add(dbtest.Delivery{Status: "undelivered"})
			h.exec(`update tenants set suspended_at = now() where id = $1`, h.tenant.ID)
			return d.ID
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			deliveryID := prepare(h)
			before := one[string](h, `select coalesce(json_agg(due)::text, '') from due`)
			_, err := h.Resend(t.Context(), h.caller, deliveryID)
			wantKind(t, err, fault.Conflict)
			reason, words, _ := strings.Cut(strings.TrimSpace(want), ": ")
			if shown := fault.From(err); !strings.Contains(shown.Detail, words) {
				t.Errorf("%q does not say %q", shown.Detail, words)
			}
			refusal, err := h.Refusal(t.Context(), h.caller, deliveryID)
			if err != nil || refusal == nil || string(refusal.Reason) != reason {
				t.Errorf("refusal %+v, %v, want %s", refusal, err, reason)
			}
			many, err := h.ResendMany(t.Context(), h.caller, []string{deliveryID})
			if err != nil || many[0].Refusal == nil || *many[0].Refusal != *refusal {
				t.Errorf("%+v, %v", many, err)
			}
			after := one[string](h, `select coalesce(json_agg(due)::text, '') from due`)
			if after != before || len(h.lanes.woken) != 0 || one[int](h, `select count(*) from audit`) != 0 {
				t.Errorf("something was changed: woken %v, due %s", h.lanes.woken, after)
			}
		})
	}
}

// What a lane was given and has committed since is not on the wire any more, however long its list still names it.
func TestResendAfterTheWire(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	retry := h.add(dbtest.Delivery{Attempts: 1, Failures: 1, NextAt: time.Now().Add(time.Hour)})
	done := h.add(dbtest.Delivery{Status: "delivered", Endpoint: retry.Endpoint})
	h.exec(`update lanes set state = 'running', owner = 'wrk_1', slots = 1, handed = array[$2, $3], handed_at = now() where endpoint_id = $1`,
		retry.Endpoint.ID, retry.ID, done.ID)
	for _, deliveryID := range []string{retry.ID, done.ID} {
		if refusal, err := h.Refusal(t.Context(), h.caller, deliveryID); refusal != nil || err != nil {
			t.Errorf("%+v, %v", refusal, err)
		}
		if _, err := h.Resend(t.Context(), h.caller, deliveryID); err != nil {
			t.Error(err)
		}
	}
	// An attempt by hand that ended longer ago does not stand in the way, nor does one by the schedule.
	old := h.add(dbtest.Delivery{Status: "delivered", Attempts: 2})
	dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: old, Number: 2, Trigger: "manual", StartedAt: time.Now().Add(-2 * time.Second), TotalUS: 1000})
	fresh := h.add(dbtest.Delivery{Status: "delivered"})
	dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: fresh, StartedAt: time.Now()})
	for _, deliveryID := range []string{old.ID, fresh.ID} {
		if _, err := h.Resend(t.Context(), h.caller, deliveryID); err != nil {
			t.Error(err)
		}
	}
}

// CASES B20, B47: many at once; what is foreign, unknown or refused is skipped, and said.
func TestResendMany(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	foreign := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Status: "undelivered"})
	old := h.add(dbtest.Delivery{Status: "undelivered", CreatedAt: time.Now().AddDate(0, 0, -10), Failures: 10})
	retry := h.add(dbtest.Delivery{Attempts: 1, Failures: 1, NextAt: time.Now().Add(time.Hour), Endpoint: old.Endpoint})
	done := h.add(dbtest.Delivery{Status: "delivered"})
	paused := h.add(dbtest.Delivery{Status: "held", Endpoint: dbtest.Endpoint{State: "paused"}})
	unknown := id.New(id.Delivery, time.Now())
	ids := []string{done.ID, foreign.ID, retry.ID, "nonsense", done.ID, paused.ID, unknown, old.ID}
	got, err := h.ResendMany(t.Context(), h.caller, ids)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Reason{done.ID: "", foreign.ID: NotFound, retry.ID: "", "nonsense": NotFound, paused.ID: Paused, unknown: NotFound, old.ID: ""}
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for _, r := range got {
		reason := Reason("")
		if r.Refusal != nil {
			reason = r.Refusal.Reason
		}
		if reason != want[r.DeliveryID] {
			t.Errorf("%s: %q, want %q", r.DeliveryID, reason, want[r.DeliveryID])
		}
	}
	if n := one[int](h, `select count(*) from due where trigger = 'manual' and tenant_id = $1`, h.tenant.ID); n != 3 {
		t.Errorf("%d are due by hand, want 3", n)
	}
	if _, ok := h.due(foreign.ID); ok {
		t.Error("another tenant's delivery was resent")
	}
	endpoints := []string{done.Endpoint.ID, old.Endpoint.ID}
	slices.Sort(endpoints)
	if len(h.lanes.woken) != 1 || !slices.Equal(h.lanes.woken[0], endpoints) {
		t.Errorf("woken %v, want %v", h.lanes.woken, endpoints)
	}
	if got := one[string](h, `select (detail->>'count') || ' ' || json_array_length(detail->'deliveries') from audit where action = 'delivery.resent'`); got != "3 3" {
		t.Errorf("logged %s", got)
	}
	// The second call finds all of them waiting.
	again, err := h.ResendMany(t.Context(), h.caller, ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range again {
		if r.Refusal == nil {
			t.Errorf("%s is resent again", r.DeliveryID)
		}
	}
}

func TestResendManyTakesTwoHundred(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var ids []string
	for _, s := range h.population(230, rand.New(rand.NewPCG(9, 10))) {
		ids = append(ids, s.ID)
	}
	results, err := h.ResendMany(t.Context(), h.caller, ids[:MaxResend])
	if err != nil || len(results) != MaxResend {
		t.Fatalf("%d, %v", len(results), err)
	}
	sent := 0
	for _, r := range results {
		if r.Refusal == nil {
			sent++
		}
	}
	if n := one[int](h, `select count(*) from due where trigger = 'manual' and requested_by = 'API key main'`); n != sent || sent == 0 {
		t.Errorf("%d are due by hand, %d were said to be", n, sent)
	}
	for _, ids := range [][]string{nil, {}, ids[:MaxResend+1]} {
		_, err := h.ResendMany(t.Context(), h.caller, ids)
		wantKind(t, err, fault.Invalid)
	}
}

// Nobody else resends, and nothing is left behind when the end of the operation fails.
func TestResendIsForItsTenant(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.add(dbtest.Delivery{Status: "undelivered"})
	_, theirs := h.Resend(t.Context(), h.stranger, d.ID)
	_, unknown := h.Resend(t.Context(), h.caller, id.New(id.Delivery, time.Now()))
	wantKind(t, theirs, fault.NotFound)
	if theirs.Error() != unknown.Error() {
		t.Errorf("%v and %v differ", theirs, unknown)
	}
	_, err := h.Refusal(t.Context(), h.stranger, d.ID)
	wantKind(t, err, fault.NotFound)
	reader := keyOf(h.tenant, account.DeliveriesRead)
	_, err = h.Resend(t.Context(), reader, d.ID)
	wantKind(t, err, fault.Forbidden)
	_, err = h.ResendMany(t.Context(), reader, []string{d.ID})
	wantKind(t, err, fault.Forbidden)
	_, err = h.Refusal(t.Context(), keyOf(h.tenant, account.CatalogRead), d.ID)
	wantKind(t, err, fault.Forbidden)
	suspended := h.caller
	suspended.Suspended = true
	_, err = h.Resend(t.Context(), suspended, d.ID)
	wantKind(t, err, fault.Forbidden)

	h.lanes.fail = errors.New("no ticket")
	if _, err := h.Resend(t.Context(), h.caller, d.ID); !errors.Is(err, h.lanes.fail) {
		t.Errorf("%v", err)
	}
	if _, ok := h.due(d.ID); ok || one[int](h, `select count(*) from audit`) != 0 {
		t.Error("something is left behind")
	}
}

// CASES B47: ten clicks at once are one send.
func TestResendsAtOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []dbtest.Delivery{{Status: "delivered"}, {Attempts: 1, Failures: 1, NextAt: time.Now().Add(time.Hour)}} {
		t.Run(fmt.Sprintf("%q", row.Status), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.Service.Lanes = quietLanes{h.lanes}
			d := h.add(row)
			var wg sync.WaitGroup
			errs := make([]error, 10)
			for i := range errs {
				wg.Go(func() { _, errs[i] = h.Resend(t.Context(), h.caller, d.ID) })
			}
			wg.Wait()
			accepted := 0
			for _, err := range errs {
				if err == nil {
					accepted++
					continue
				}
				wantKind(t, err, fault.Conflict)
			}
			if accepted != 1 {
				t.Errorf("%d of ten were accepted: %v", accepted, errs)
			}
			if n := one[int](h, `select count(*) from audit where object = $1`, d.ID); n != 1 {
				t.Errorf("%d lines in the log", n)
			}
		})
	}
}
