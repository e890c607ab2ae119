package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/db"
	"waybill/db/dbtest"
)

// However much of one tenant's waits, the next batch takes another's event along.
func TestFairness(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	flood, small := dbtest.AddTenant(t, pool, dbtest.Tenant{}), dbtest.AddTenant(t, pool, dbtest.Tenant{})
	dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: small.ID})
	dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: flood.ID})
	const many = 20_000
	if _, err := pool.Exec(t.Context(), `insert into outbox (tenant_id, id, type, version, resource_type, resource_id, occurred_at, data)
		select $1, 'flood_' || n, 'a.b', 1, 'r', 'r' || n, now(), '{}' from generate_series(1, $2::integer) n`, flood.ID, many); err != nil {
		t.Fatal(err)
	}
	d := dispatcher(t, pool, &tickets{})
	for round, id := range numbered("small_%d", 5) {
		publish(t, pool, named(small.UID, id))
		moved, _, err := d.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, pool, `select count(*) from due where tenant_id = $1`, small.ID); n != round+1 {
			t.Fatalf("after batch %d of %d events %d of the small tenant's %d are due", round+1, moved, n, round+1)
		}
		if moved > 1_001 {
			t.Errorf("a batch of %d events", moved)
		}
	}
	if n := count(t, pool, `select count(*) from outbox`); n < many-5*1_001 || n >= many {
		t.Errorf("%d events wait after five batches", n)
	}
	if n := count(t, pool, `select count(*) from (select id, position, lag(position) over (order by seq) as before from (
		select e.id, e.position, substr(e.id, 7)::integer as seq from events e where e.tenant_id = $1) x) y where position < before`, flood.ID); n != 0 {
		t.Errorf("%d events of the flood were overtaken by later ones", n)
	}
}

// More tenants than fit into one batch take turns.
func TestFairnessOfManyTenants(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	const tenants, each = 230, 12
	if _, err := pool.Exec(t.Context(), `insert into tenants (id, uid, name) select 'tnt_' || lpad(n::text, 4, '0'), 'u' || n, 'T' from generate_series(1, $1::integer) n`, tenants); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `insert into outbox (tenant_id, id, type, version, resource_type, resource_id, occurred_at, data)
		select t.id, t.id || '_' || n, 'a.b', 1, 'r', 'r', now(), '{}' from tenants t, generate_series(1, $1::integer) n order by t.id`, each); err != nil {
		t.Fatal(err)
	}
	d := dispatcher(t, pool, &tickets{})
	for range tenants*each/250 + 1 { // about 250 events at once
		if _, _, err := d.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, pool, `select count(distinct tenant_id) from events`); n != tenants {
		t.Errorf("after one round %d of %d tenants were served", n, tenants)
	}
	drain(t, d)
	stored(t, pool, 0, 0, tenants*each)
}

// A reader that follows the cursor sees every event once and none late, while publishers commit in any order, hold their transactions open or
// roll back, and two dispatchers run.
func TestPositionsAreNeverBehindAReader(t *testing.T) {
	t.Parallel()
	pool := dbtest.Open(t, dbtest.NewURL(t), db.Options{MaxConns: 25})
	var tenants []dbtest.Tenant
	for range 3 {
		tenants = append(tenants, dbtest.AddTenant(t, pool, dbtest.Tenant{}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var dispatchers sync.WaitGroup
	for range 2 {
		d := dispatcher(t, pool, &tickets{})
		dispatchers.Go(func() { d.Run(ctx) })
	}
	defer dispatchers.Wait()
	defer cancel()

	var mu sync.Mutex
	committed := map[string]bool{}
	var publishers sync.WaitGroup
	for p := range 20 {
		publishers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(p), 7))
			for i := range 15 {
				var ids []string
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					for n := range 1 + random.IntN(4) {
						ids = append(ids, fmt.Sprintf("p%d-%d-%d", p, i, n))
						publish(t, tx, named(tenants[random.IntN(3)].UID, ids[n]))
						if _, err := tx.Exec(t.Context(), `select pg_sleep($1)`, float64(random.IntN(12))/1000); err != nil {
							return err
						}
					}
					if random.IntN(8) == 0 {
						return errBroken
					}
					return nil
				})
				if err == nil {
					mu.Lock()
					for _, id := range ids {
						committed[id] = true
					}
					mu.Unlock()
				} else if !errors.Is(err, errBroken) {
					t.Error(err)
				}
			}
		})
	}
	all := make(chan struct{})
	go func() { publishers.Wait(); close(all) }()

	seen, cursor := map[string]bool{}, int64(0)
	deadline := time.Now().Add(30 * time.Second)
	for finished := false; ; {
		rows, err := pool.Query(t.Context(), `select position, id from events where position > $1 order by position limit 40`, cursor)
		if err != nil {
			t.Fatal(err)
		}
		var id string
		var position int64
		n := 0
		if _, err := pgx.ForEachRow(rows, []any{&position, &id}, func() error {
			if position <= cursor {
				t.Errorf("position %d behind the cursor %d", position, cursor)
			}
			if seen[id] {
				t.Errorf("%s is seen twice", id)
			}
			seen[id], cursor, n = true, position, n+1
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if finished && n == 0 && (len(seen) == len(committed) || time.Now().After(deadline)) {
			break
		}
		select {
		case <-all:
			finished = true
		default:
		}
	}
	for id := range committed {
		if !seen[id] {
			t.Errorf("%s was committed and never seen", id)
		}
	}
	if len(seen) != len(committed) {
		t.Errorf("%d events seen, %d committed", len(seen), len(committed))
	}
	if n := count(t, pool, `select count(*) from positions p where p.last <> (select count(*) from events) or p.last <> (select max(position) from events)`); n != 0 {
		t.Error("positions have gaps although no batch failed")
	}
}

// A publisher that sits in its transaction delays nobody, and its own events come when it commits.
func TestIdlePublisherDelaysNobody(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	idle, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, idle, named(tenant.UID, "idle"))
	d := dispatcher(t, pool, &tickets{})
	publish(t, pool, named(tenant.UID, "quick"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if moved, mine, err := d.Step(ctx); moved != 1 || !mine || err != nil {
		t.Fatalf("beside an open publisher %d events moved, %v, %v", moved, mine, err)
	}
	if err := idle.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, d)
	if n := count(t, pool, `select (select position from events where id = 'idle') - (select position from events where id = 'quick')`); n != 1 {
		t.Errorf("the late one stands %d behind the quick one, want 1", n)
	}
	stored(t, pool, 0, 2, 2, 2, 2)
}

// A dispatch that ends in the middle leaves nothing done, and the next one does it all.
func TestDispatchInTheMiddle(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	for _, id := range numbered("e%d", 20) {
		publish(t, pool, named(tenant.UID, id))
	}
	nothing := func(name string, moved int, err error) {
		t.Helper()
		if err == nil || moved != 0 {
			t.Errorf("%s: %d moved, error %v", name, moved, err)
		}
		stored(t, pool, 20, 20, 0, 0, 0)
		if n := count(t, pool, `select count(*) from lanes where state <> 'idle' or gen <> 0`); n != 0 {
			t.Errorf("%s: the lane was woken", name)
		}
		if n := count(t, pool, `select last from positions`); n != 0 {
			t.Errorf("%s: positions stand at %d", name, n)
		}
	}
	k := &tickets{fail: errBroken}
	d := dispatcher(t, pool, k)
	moved, _, err := d.Step(t.Context())
	nothing("tickets fail", moved, err)

	// Somebody holds the lane's row, and the dispatch is cancelled while it waits for it.
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), `select from lanes where endpoint_id = $1 for update`, ep.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, _, err := d.Step(ctx); ended <- err }()
	waiting(t, pool, 1)
	cancel()
	err = <-ended
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothing("cancelled", 0, err)

	// Its connection is killed in the middle.
	if held, err = pool.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), `select from lanes where endpoint_id = $1 for update`, ep.ID); err != nil {
		t.Fatal(err)
	}
	go func() { _, _, err := d.Step(t.Context()); ended <- err }()
	waiting(t, pool, 1)
	count(t, pool, `select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') x`)
	err = <-ended
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothing("killed", 0, err)

	k.fail = nil
	drain(t, d)
	stored(t, pool, 0, 20, 20, 20, 20)
	if len(k.given) != 1 || k.given[0].EndpointID != ep.ID || k.given[0].Gen != 1 {
		t.Errorf("tickets %+v", k.given)
	}
	if n := count(t, pool, `select count(*) from lanes where state = 'queued' and gen = 1`); n != 1 {
		t.Error("the lane is not queued under its ticket's generation")
	}
}

// Two dispatchers at once: one works, the other is told so, and nothing is moved twice.
func TestTwoDispatchers(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	one, two := dispatcher(t, pool, &tickets{}), dispatcher(t, pool, &tickets{})
	publish(t, pool, event(tenant.UID))
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), `select from lanes where endpoint_id = $1 for update`, ep.ID); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, _, err := one.Step(t.Context()); ended <- err }()
	waiting(t, pool, 1)
	if moved, mine, err := two.Step(t.Context()); moved != 0 || mine || err != nil {
		t.Errorf("beside another dispatcher %d moved, mine %v, %v", moved, mine, err)
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if moved, mine, err := two.Step(t.Context()); moved != 0 || !mine || err != nil {
		t.Errorf("afterwards %d moved, mine %v, %v", moved, mine, err)
	}
	stored(t, pool, 0, 1, 1, 1, 1)
}

// A partition that maintenance has failed to make is made.
func TestMissingPartition(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{"events", "deliveries"} {
		t.Run(parent, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
			dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
			for _, day := range []time.Time{now(), now().AddDate(0, 0, 1)} { // also tomorrow's: midnight may pass
				if _, err := pool.Exec(t.Context(), fmt.Sprintf("drop table %s_%s", parent, day.UTC().Format("20060102"))); err != nil {
					t.Fatal(err)
				}
			}
			publish(t, pool, event(tenant.UID))
			if moved := drain(t, dispatcher(t, pool, &tickets{})); moved != 1 {
				t.Errorf("%d events moved, want 1", moved)
			}
			stored(t, pool, 0, 1, 1, 1, 1)
		})
	}
}

// A clock so wrong that no partition can be made for its day is an error, not a loop.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	publish(t, pool, event(tenant.UID))
	d := dispatcher(t, pool, &tickets{})
	d.Now = func() time.Time { return time.Now().AddDate(0, 2, 0) }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	moved, _, err := d.Step(ctx)
	if err == nil || moved != 0 || ctx.Err() != nil {
		t.Errorf("%d moved, error %v, after the deadline: %v", moved, err, ctx.Err())
	}
	stored(t, pool, 1, 1, 0, 0, 0)
}

// Publishers ring only for a dispatcher that has said it sleeps.
func TestRing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	asleep := func(yes bool) {
		if _, err := pool.Exec(t.Context(), `update dispatcher set asleep = $1`, yes); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Release()
	if _, err := listener.Exec(t.Context(), `listen waybill_outbox`); err != nil {
		t.Fatal(err)
	}
	asleep(false)
	publish(t, pool, event(tenant.UID))
	asleep(true)
	publish(t, pool, event(tenant.UID))
	ring(t, pool) // ends the wait: what rang before it has been heard
	var heard []string
	for len(heard) == 0 || heard[len(heard)-1] != "end" {
		note, err := listener.Conn().WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, note.Payload)
	}
	if !slices.Equal(heard, []string{"", "end"}) {
		t.Errorf("heard %q, want one ring", heard)
	}
}

func ring(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `select pg_notify('waybill_outbox', 'end')`); err != nil {
		t.Fatal(err)
	}
}

// While events come in publishers do not ring, although another process, which gets none of them, has said that it sleeps.
func TestBusyDispatcherIsAwake(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ctx, cancel := context.WithCancel(t.Context())
	d := dispatcher(t, pool, &tickets{})
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	defer running.Wait()
	defer cancel()
	until := func(what, sql string) {
		t.Helper()
		deadline := time.Now().Add(10 * time.Second)
		for last := time.Now(); count(t, pool, sql) == 0; {
			if time.Since(last) > 20*time.Millisecond {
				last = time.Now()
				publish(t, pool, event(tenant.UID))
			}
			if time.Now().After(deadline) {
				t.Fatalf("not in 10 s: %s", what)
			}
		}
	}
	until("it has work", `select count(*) from positions where last >= 3`)
	if _, err := pool.Exec(t.Context(), `update dispatcher set asleep = true`); err != nil {
		t.Fatal(err)
	}
	until("it says that it is awake", `select count(*) from dispatcher where not asleep`)
}
