package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// inside is a transaction that Check reads from.
type inside struct{ pgx.Tx }

func (i inside) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) { return i.Begin(ctx) }

// copied is the ledger with books of its own, for a test that falsifies them.
func (l *Ledger) copied() *Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := NewLedger()
	c.places, c.caps, c.committed, c.rolledBack = maps.Clone(l.places), maps.Clone(l.caps), maps.Clone(l.committed), maps.Clone(l.rolledBack)
	c.bodies = l.bodies
	for _, r := range l.requests {
		it := *r
		c.requests = append(c.requests, &it)
	}
	return c
}

// TestCheckFinds falsifies a run that balances, one entry at a time, in the books or in the database.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	program := r.start(Launch{})
	r.tenant("check", 3)
	flaky := r.place("check", "check-flaky", func(h Hit) Answer { return Answer{Kind: Reply, Status: []int{500, 200}[min(h.N-1, 1)]} }, func(p *Place) { p.Limit = 2 })
	thin := r.place("check", "check-thin", nil, func(p *Place) { p.Form, p.Scheme = "thin", "v1+v1a" })
	hex := r.place("check", "check-hex", nil, func(p *Place) { p.Scheme = "hex" })
	for _, p := range []*Place{flaky, thin, hex} {
		r.publish(p, "c", 3)
	}
	dead := r.place("check", "check-dead", Always(Answer{Kind: Reply, Status: 410}))
	r.publish(dead, "c", 2)
	if v := r.balances(30 * time.Second); v.Delivered != 9 || v.Undelivered != 1 || v.Held != 1 {
		t.Fatalf("delivered %d, undelivered %d, held %d", v.Delivered, v.Undelivered, v.Held)
	}
	if code, err := r.Stop(program, 10*time.Second); code != 0 || err != nil {
		t.Fatal(code, err)
	}

	const one = `(select d.id from deliveries d where d.endpoint_id = $1 and d.status = 'delivered' order by d.id limit 1)`
	for name, c := range map[string]struct {
		books func(*Ledger)
		sql   []string // $1 is the flaky endpoint
		finds string
	}{
		"a lost event":              {books: func(l *Ledger) { l.committed["lost"] = Event{ID: "lost", Tenant: "check", Type: "e2e.check_hex"} }, finds: "committed event lost is lost"},
		"a rollback that was heard": {books: func(l *Ledger) { l.rolledBack["c-check-hex-0"] = true }, finds: "heard of an event that was rolled back"},
		"an event nobody published": {books: func(l *Ledger) { delete(l.committed, "c-check-hex-0") }, finds: "nobody committed it"},
		"other bytes":               {books: func(l *Ledger) { e := l.committed["c-check-flaky-0"]; e.Data += " "; l.committed[e.ID] = e }, finds: "with the bytes that were published"},
		"a forged signature":        {books: func(l *Ledger) { l.requests[0].Bad = "forged" }, finds: "does not verify"},
		"a second body": {books: func(l *Ledger) {
			l.requests[slices.IndexFunc(l.requests, func(q *Request) bool { return q.Place == flaky })].Hash[0]++
		}, finds: "with two bodies"},
		"a request that is not in the history": {books: func(l *Ledger) { l.requests = append(l.requests, l.requests[0]) }, finds: "its receiver saw"},
		"an attempt that nobody saw":           {books: func(l *Ledger) { l.requests = l.requests[1:] }, finds: "its receiver saw"},
		"another answer":                       {books: func(l *Ledger) { l.requests[0].Answer.Status = 418 }, finds: "and its receiver gave"},
		"somebody else's event": {books: func(l *Ledger) {
			e := l.committed["c-check-hex-0"]
			e.Type = "e2e.other"
			l.committed[e.ID] = e
		}, finds: "which has not asked for it"},
		"an endpoint's limit": {books: func(l *Ledger) {
			for _, q := range l.requests {
				if q.Place == flaky {
					q.Ended = time.Now().Add(time.Hour)
				}
			}
		}, finds: "has a limit of 2"},
		"a tenant's cap":     {books: func(l *Ledger) { l.caps["check"] = 1; hold(l) }, finds: "has a cap of 1"},
		"a pause":            {books: func(l *Ledger) { l.Silent(hex, time.Now().Add(-time.Hour), time.Now()) }, finds: "was paused"},
		"a complaint":        {books: func(l *Ledger) { l.Complain("no %s", "way") }, finds: "no way"},
		"a lost attempt":     {sql: []string{`delete from attempts where number = 1 and delivery_id in ` + one}, finds: "are numbered 2"},
		"a lost last one":    {sql: []string{`delete from attempts where number = 2 and delivery_id in ` + one}, finds: "counts 2 attempts and 1 are"},
		"nothing to show":    {sql: []string{`update deliveries set status = 'undelivered' where id in ` + one}, finds: "not on the undelivered list"},
		"held and not there": {sql: []string{`delete from parked where status = 'held' and $1 <> ''`}, finds: "not on the list of what is held"},
		"pending for ever":   {sql: []string{`update deliveries set status = 'pending' where id in ` + one}, finds: "nothing says that it is to be attempted"},
		"delivered by word":  {sql: []string{`update deliveries set status = 'delivered' where status = 'held' and $1 <> ''`}, finds: "no attempt of it succeeded"},
		"a lane that sleeps for ever": {sql: []string{`insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger)
			select d.id, d.day, d.tenant_id, d.endpoint_id, d.position, d.event_id, d.form, 1, now(), 'manual' from deliveries d where d.id in ` + one}, finds: "its lane will not run: it is idle"},
		"two deliveries": {sql: []string{`insert into deliveries (id, day, tenant_id, endpoint_id, position, event_id, type, resource_type, resource_id, form, test, created_at, status)
			select 'dlv_second', day, tenant_id, endpoint_id, position, event_id, type, resource_type, resource_id, form, test, created_at, 'cancelled' from deliveries where id in ` + one}, finds: "has 2 deliveries"},
		"a gap in the positions": {sql: []string{`update positions set last = last + 1 where $1 <> ''`}, finds: "there are gaps"},
	} {
		t.Run(name, func(t *testing.T) {
			books := r.ledger.copied()
			if c.books != nil {
				c.books(books)
			}
			tx, err := r.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			for _, sql := range c.sql {
				if tag, err := tx.Exec(t.Context(), sql, flaky.EndpointID); err != nil || tag.RowsAffected() == 0 {
					t.Fatalf("%s: %v, %v", sql, tag, err)
				}
			}
			v, err := books.Check(t.Context(), inside{tx})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(v.Problems, func(p string) bool { return strings.Contains(p, c.finds) }) {
				t.Errorf("does not find %q: %q", c.finds, v.Problems)
			}
		})
	}
}

// hold makes every request of a ledger one that has not ended.
func hold(l *Ledger) {
	for _, q := range l.requests {
		q.Ended = time.Time{}
	}
}

func TestPeak(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		requests []Request
		want     int
	}{
		"none":           {nil, 0},
		"one by one":     {[]Request{{Arrived: at(0), Ended: at(10)}, {Arrived: at(10), Ended: at(20)}}, 1},
		"two at once":    {[]Request{{Arrived: at(0), Ended: at(11)}, {Arrived: at(10), Ended: at(20)}}, 2},
		"never ended":    {[]Request{{Arrived: at(0)}, {Arrived: at(10), Ended: at(20)}, {Arrived: at(30), Ended: at(40)}}, 2},
		"left just then": {[]Request{{Arrived: at(0), Ended: at(2400), Left: true}, {Arrived: at(2000), Ended: at(3000)}}, 1},
		"left later":     {[]Request{{Arrived: at(0), Ended: at(2600), Left: true}, {Arrived: at(2000), Ended: at(3000)}}, 2},
		"left at once":   {[]Request{{Arrived: at(0), Ended: at(100), Left: true}, {Arrived: at(50), Ended: at(60)}}, 1},
	} {
		if most, which := peak(c.requests); most != c.want || len(which) != c.want {
			t.Errorf("%s: %d at once, %v, want %d", name, most, which, c.want)
		}
	}
}
