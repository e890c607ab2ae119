package lane_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/id"
	"waybill/app/lane"
	"waybill/db/dbtest"
)

// shut closes an endpoint's door for a while, as a breaker or a rate limit does.
func (r *rig) shut(ep dbtest.Endpoint, during time.Duration) {
	r.t.Helper()
	r.run(`update lanes set not_before = statement_timestamp() + $2::interval where endpoint_id = $1`, ep.ID, during)
}

// A closed door holds what is due without an attempt, is not knocked at by each new event, and opens by itself. A test event goes through.
func TestClosedDoor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(always(200))
	ep := r.endpoint(dbtest.Endpoint{})
	r.shut(ep, time.Hour)
	d := r.delivery(dbtest.Delivery{Endpoint: ep})
	sleeping := `select count(*) from lanes where endpoint_id = $1 and state = 'sleeping' and abs(extract(epoch from wake_at - not_before)) < 1`
	r.until(5*time.Second, 1, sleeping, ep.ID)
	gen := `select gen from lanes where endpoint_id = $1`
	before := r.count(gen, ep.ID)
	for range 5 {
		r.delivery(dbtest.Delivery{Endpoint: ep})
	}
	if n := r.count(gen, ep.ID); n != before {
		t.Errorf("five events queued a lane behind a closed door %d times", n-before)
	}

	ev := dbtest.AddEvent(t, r.Pool, dbtest.Event{TenantID: ep.TenantID, Test: true})
	test := dbtest.Delivery{Endpoint: ep, Event: ev, ID: id.New(id.Delivery, time.Now())}
	err := pgx.BeginFunc(t.Context(), r.Pool, func(tx pgx.Tx) error {
		test = dbtest.AddDelivery(t, tx, test)
		return r.waker.Wake(t.Context(), tx, []string{ep.ID}, []string{ep.ID})
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.attempted(test, 1); s.status != "delivered" {
		t.Errorf("the test event: %+v", s)
	}
	r.until(5*time.Second, 1, sleeping, ep.ID)
	if s := r.state(d); s.attempts != 0 || s.status != "pending" || !s.due {
		t.Errorf("behind the door: %+v", s)
	}

	// It opens: the lane is woken at that time.
	err = pgx.BeginFunc(t.Context(), r.Pool, func(tx pgx.Tx) error {
		if err := lane.Lock(t.Context(), tx, ep.ID); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `update lanes set not_before = statement_timestamp() + interval '300 milliseconds', wake_at = statement_timestamp() + interval '300 milliseconds' where endpoint_id = $1`, ep.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.until(5*time.Second, 7, `select count(*) from deliveries where status = 'delivered'`)
}

// Stopping an endpoint whose door is closed does not wait for the door.
func TestStoppingBehindAClosedDoor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(always(200))
	for name, way := range stoppings {
		if name == "change, then pause" {
			continue // a new address opens the door, and what goes out before the pause is rightly sent
		}
		ep := r.endpoint(dbtest.Endpoint{URL: "https://receiver.example.com/"})
		r.shut(ep, time.Hour)
		now, later := r.delivery(dbtest.Delivery{Endpoint: ep}), dbtest.AddDelivery(t, r.Pool, dbtest.Delivery{Endpoint: ep, Attempts: 1, Failures: 1, NextAt: time.Now().Add(time.Minute)})
		r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'sleeping'`, ep.ID)
		if err := way.stop(r, ep); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.until(5*time.Second, 2, `select count(*) from deliveries where id in ($1, $2) and status = $3 and reason = $4`, now.ID, later.ID, way.status, way.reason)
		r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'idle'`, ep.ID)
	}
	if n := r.count(`select count(*) from attempts`) + r.count(`select count(*) from due`); n != 0 {
		t.Errorf("%d attempts and rows due", n)
	}
}

// A lane that sleeps until a retry is woken by what is due earlier, and sleeps on until then.
func TestSleepingLaneIsWoken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(always(200))
	ep := r.endpoint(dbtest.Endpoint{})
	later := r.delivery(dbtest.Delivery{Endpoint: ep, Attempts: 1, Failures: 1, NextAt: time.Now().Add(3 * time.Second)})
	asleep := `select count(*) from lanes l join due d on d.endpoint_id = l.endpoint_id where l.endpoint_id = $1 and l.state = 'sleeping' and abs(extract(epoch from l.wake_at - d.next_at)) < 0.1`
	r.until(5*time.Second, 1, asleep, ep.ID)
	if s := r.attempted(r.delivery(dbtest.Delivery{Endpoint: ep}), 1); s.status != "delivered" {
		t.Errorf("what is due at once: %+v", s)
	}
	r.until(5*time.Second, 1, asleep, ep.ID)
	r.attempted(later, 2)
	var late float64
	if err := r.QueryRow(t.Context(), `select extract(epoch from started_at - $2)::float8 from attempts where delivery_id = $1`, later.ID, later.NextAt).Scan(&late); err != nil {
		t.Fatal(err)
	}
	if late < 0 || late > 1 {
		t.Errorf("the retry came %.3f s after its time, want within a second", late)
	}
}
