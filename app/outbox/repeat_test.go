package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/fault"
	"waybill/app/outbox"
	"waybill/db"
	"waybill/db/dbtest"
)

func named(uid, id string, change ...func(*outbox.Event)) outbox.Event {
	ev := event(uid, change...)
	ev.ID = id
	return ev
}

func status(value string) func(*outbox.Event) {
	return func(e *outbox.Event) { e.Data = []byte(`{"status":"` + value + `"}`) }
}

// The same id again with the same content publishes nothing; with any other content it is a conflict (CASES B22).
func TestPublishAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant, other := dbtest.AddTenant(t, pool, dbtest.Tenant{}), dbtest.AddTenant(t, pool, dbtest.Tenant{})
	when := time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)
	first := named(tenant.UID, "k1", func(e *outbox.Event) { e.Sequence, e.Version, e.OccurredAt = sequence(3), 2, &when })
	if p := publish(t, pool, first); p[0].Repeated || p[0].ID != "k1" {
		t.Fatalf("published as %+v", p[0])
	}
	for range 2 {
		if p := publish(t, pool, first); !p[0].Repeated || p[0].ID != "k1" {
			t.Errorf("the same again: %+v", p[0])
		}
	}
	for name, change := range map[string]func(*outbox.Event){
		"type": func(e *outbox.Event) { e.Type = "consignment.lost" }, "resource type": func(e *outbox.Event) { e.ResourceType = "parcel" },
		"resource id": func(e *outbox.Event) { e.ResourceID = "C-4472" }, "sequence": func(e *outbox.Event) { e.Sequence = sequence(4) },
		"no sequence": func(e *outbox.Event) { e.Sequence = nil }, "version": func(e *outbox.Event) { e.Version = 1 },
		"time": func(e *outbox.Event) { e.OccurredAt = at(2025) }, "no time": func(e *outbox.Event) { e.OccurredAt = nil },
		"data": status("lost"), "a space in data": func(e *outbox.Event) { e.Data = []byte(`{"status": "loaded"}`) },
	} {
		changed := first
		change(&changed)
		_, err := outbox.Publish(t.Context(), pool, changed)
		refusedAs(t, "another "+name, err, fault.Conflict, "id")
	}
	drain(t, dispatcher(t, pool, &tickets{}))
	if p := publish(t, pool, first); !p[0].Repeated {
		t.Error("published twice: once more after its dispatch")
	}
	if p := publish(t, pool, named(other.UID, "k1", status("other"))); p[0].Repeated {
		t.Error("another tenant's id counts as repeated")
	}
	stored(t, pool, 1, 2, 1)
}

// An event without a time is the same event when it is sent again a moment later.
func TestPublishAgainWithoutTime(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	const call = `select waybill.publish($1, 'consignment.loaded', 'consignment', 'C-4471', '{"status":"loaded"}', id => 'k1')`
	for range 2 {
		if _, err := pool.Exec(t.Context(), call, tenant.UID); err != nil {
			t.Fatal(err)
		}
	}
	if p := publish(t, pool, named(tenant.UID, "k1")); !p[0].Repeated {
		t.Error("what SQL has published is not known to Go")
	}
	stored(t, pool, 1, 1)
}

func TestPublishAgainInOneBatch(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	publish(t, pool, named(tenant.UID, "old"))
	p := publish(t, pool, named(tenant.UID, "a"), named(tenant.UID, "b"), named(tenant.UID, "a"), named(tenant.UID, "old"))
	if got := []bool{p[0].Repeated, p[1].Repeated, p[2].Repeated, p[3].Repeated}; !slices.Equal(got, []bool{false, false, true, true}) {
		t.Errorf("repeated: %v", got)
	}
	stored(t, pool, 3, 3)
	_, err := outbox.Publish(t.Context(), pool, named(tenant.UID, "c"), named(tenant.UID, "d"), named(tenant.UID, "d", status("lost")), named(tenant.UID, "e"))
	refusedAs(t, "twice in a batch with other content", err, fault.Conflict, "events[2].id")
	_, err = outbox.Publish(t.Context(), pool, named(tenant.UID, "c"), named(tenant.UID, "old", status("lost")), named(tenant.UID, "old", status("lost")))
	refusedAs(t, "other content than what is stored", err, fault.Conflict, "events[1].id")
	stored(t, pool, 3, 3) // all or nothing
}

// Fifty callers at once with one id: one event, and everybody gets its id.
func TestPublishAtOnce(t *testing.T) {
	t.Parallel()
	pool := dbtest.Open(t, dbtest.NewURL(t), db.Options{MaxConns: 25})
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	var fresh, repeated, conflicts atomic.Int64
	atOnce(50, func(i int) {
		content := status("loaded")
		if i%5 == 4 {
			content = status("lost")
		}
		p, err := outbox.Publish(t.Context(), pool, named(tenant.UID, "same", content))
		var f *fault.Error
		switch {
		case errors.As(err, &f) && f.Kind == fault.Conflict:
			conflicts.Add(1)
		case err != nil:
			t.Error(err)
		case p[0].ID != "same":
			t.Errorf("got the id %q", p[0].ID)
		case p[0].Repeated:
			repeated.Add(1)
		default:
			fresh.Add(1)
		}
	})
	// Whichever content came first has won.
	if fresh.Load() != 1 || conflicts.Load() != 10 && conflicts.Load() != 40 || repeated.Load()+conflicts.Load() != 49 {
		t.Errorf("%d new, %d repeated, %d conflicts", fresh.Load(), repeated.Load(), conflicts.Load())
	}
	stored(t, pool, 1, 1)
}

func atOnce(n int, run func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() { <-begin; run(i) })
	}
	close(begin)
	all.Wait()
}

// While the first publisher's transaction is open, a second one with the same id waits for what becomes of it.
func TestPublishWhileTheFirstIsOpen(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	for _, commits := range []bool{true, false} {
		id := map[bool]string{true: "kept", false: "dropped"}[commits]
		first, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		publish(t, first, named(tenant.UID, id))
		type answer struct {
			p   []outbox.Published
			err error
		}
		second := make(chan answer, 1)
		go func() {
			p, err := outbox.Publish(t.Context(), pool, named(tenant.UID, id))
			second <- answer{p, err}
		}()
		waiting(t, pool, 1)
		// Others are not delayed, neither by the open one nor by the one who waits.
		publish(t, pool, named(tenant.UID, "beside-"+id))
		if commits {
			err = first.Commit(t.Context())
		} else {
			err = first.Rollback(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		got := <-second
		if got.err != nil || got.p[0].ID != id || got.p[0].Repeated != commits {
			t.Errorf("after the first's end (commit %v): %+v, %v", commits, got.p, got.err)
		}
	}
	stored(t, pool, 4, 4)
}

// waiting returns when n connections wait for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		var blocked int
		err := pool.QueryRow(ctx, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&blocked)
		if err != nil {
			t.Fatalf("wait until %d connections are blocked: %v", n, err)
		}
		if blocked >= n {
			return
		}
	}
}

// Two batches with the same ids in opposite order would lock each other out: one of them is tried again, and nobody sees an error.
func TestPublishBatchesInOppositeOrder(t *testing.T) {
	t.Parallel()
	pool := dbtest.Open(t, dbtest.NewURL(t), db.Options{Params: map[string]string{"deadlock_timeout": "20ms"}})
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	for round, prefix := range numbered("r%d-", 2) {
		ids := numbered(prefix+"%d", 200)
		var fresh atomic.Int64
		atOnce(2, func(i int) {
			events := make([]outbox.Event, len(ids))
			for n, id := range ids {
				events[n] = named(tenant.UID, id)
			}
			if i == 1 {
				slices.Reverse(events)
			}
			p, err := outbox.Publish(t.Context(), pool, events...)
			if err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			for _, one := range p {
				if !one.Repeated {
					fresh.Add(1)
				}
			}
		})
		if fresh.Load() != int64(len(ids)) {
			t.Errorf("round %d: %d ids were new to their publishers, want %d", round, fresh.Load(), len(ids))
		}
	}
	stored(t, pool, 400, 400)
}

// In a transaction of the caller's a refusal ends that transaction, and nothing of it remains.
func TestPublishRefusedInATransaction(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	publish(t, pool, named(tenant.UID, "k1"))
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		publish(t, tx, named(tenant.UID, "k2"))
		_, err := outbox.Publish(t.Context(), tx, named(tenant.UID, "k1", status("lost")))
		return err
	})
	refusedAs(t, "a conflict", err, fault.Conflict, "id")
	stored(t, pool, 1, 1)
}

// A database without a free connection is unavailable, not something about the event (CASES B61).
func TestPublishToABusyDatabase(t *testing.T) {
	t.Parallel()
	pool := dbtest.Open(t, dbtest.NewURL(t), db.Options{MaxConns: 1})
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	only, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = outbox.Publish(ctx, pool, named(tenant.UID, "k1"))
	only.Release()
	var f *fault.Error
	if !db.IsUnavailable(err) || errors.As(err, &f) {
		t.Errorf("%v, want an error that says that the database is unavailable", err)
	}
	if p := publish(t, pool, named(tenant.UID, "k1")); p[0].Repeated {
		t.Error("what was refused had been published")
	}
}
