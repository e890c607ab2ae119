package lane

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waybill/app/policy"
	"waybill/db/dbtest"
)

// However much waits at a closed door, a look for what has outlived its schedule passes a bounded number of rows along the index, and some looks pass all of them.
func TestOutliveIsBounded(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	pool := dbtest.Open(t, url, PoolOptions("lanes", 2))
	const waiting = 3*outliveWalk + 100
	last := dbtest.AddDelivery(t, pool, dbtest.Delivery{})
	ep := last.Endpoint
	run := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	// Many that have waited for some hours and have most of their schedule left; behind them one that was at its end already; and one that is as old as can be.
	run(`insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger)
		select 'dlv_' || lpad(n::text, 26, '0'), current_date, $2, $1, n, 'evt', 'full', 1, now() - interval '5 hours' + n * interval '1 millisecond', 'first' from generate_series(1, $3::integer) n`,
		ep.ID, ep.TenantID, waiting)
	run(`update due set failures = 9, trigger = 'retry', next_at = now() - interval '1 hour' where delivery_id = $1`, last.ID)
	first := dbtest.AddDelivery(t, pool, dbtest.Delivery{Endpoint: ep})
	run(`update due set next_at = now() - interval '95 hours' where delivery_id = $1`, first.ID)
	run(`vacuum analyze due`)

	p := policy.Builtin().Standard()
	e := New(Config{Pool: pool, FlushPool: pool, Policies: policy.Builtin(), Logger: slog.New(slog.DiscardHandler)})
	target := &target{url: ep.URL, policy: &p}
	ended := func(d dbtest.Delivery) bool {
		var status string
		if err := pool.QueryRow(t.Context(), `select status from deliveries where id = $1`, d.ID).Scan(&status); err != nil {
			t.Fatal(err)
		}
		return status == "undelivered"
	}
	looks := 0
	for ; !ended(last); looks++ {
		if looks > waiting/outliveWalk+1 {
			t.Fatalf("after %d looks the last one waits still", looks)
		}
		if err := e.outlive(t.Context(), ep.ID, ep.TenantID, target); err != nil {
			t.Fatal(err)
		}
		if looks == 0 && !ended(first) {
			t.Error("the oldest one waits still after a look")
		}
	}
	if looks < waiting/outliveWalk {
		t.Errorf("%d looks passed %d rows: they are not bounded", looks, waiting)
	}
	if m := e.outliveMark(ep.ID); m != (dueMark{}) {
		t.Errorf("the walk has been through, and goes on at %+v", m)
	}
	left := make([]time.Duration, 10)
	for name, c := range map[string]struct {
		sql  string
		args []any
	}{
		"oldest": {sqlDueOldest, []any{ep.ID, 95 * time.Hour, outliveBatch}},
		"walk":   {sqlDueWalk, []any{ep.ID, left, outliveGrace, outliveWalk, int16(1), time.Now().Add(-6 * time.Hour), "dlv"}},
	} {
		rows, err := pool.Query(t.Context(), "explain (analyze, buffers, costs off, timing off, summary off) "+c.sql, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&plan, line)
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		t.Logf("%s:\n%s", name, plan.String())
		if text := plan.String(); !strings.Contains(text, "due_by_lane") || strings.Contains(text, "Sort") || strings.Contains(text, "Seq Scan") {
			t.Errorf("%s is not read along the index:\n%s", name, text)
		}
	}
}
