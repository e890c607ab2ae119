package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/lane"
	"waybill/app/outbox"
	"waybill/db"
	"waybill/db/dbtest"
)

type noTickets struct{}

func (noTickets) InsertTickets(context.Context, pgx.Tx, []lane.Ticket) error { return nil }

// Publishers with transactions that are held open and rolled back at random, the real dispatcher, and readers that follow from the start: each
// of them sees every committed event exactly once, in the same order.
func TestReadersBesidePublishers(t *testing.T) {
	t.Parallel()
	const publishers, each = 6, 50
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	other := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	dispatcher := outbox.NewDispatcher(outbox.Dispatcher{
		Pool:  dbtest.Open(t, dbtest.URL(pool), lane.PoolOptions("dispatcher", 4)),
		Waker: &lane.Waker{Tickets: noTickets{}}, URL: "https://waybill.test", Logger: slog.New(slog.DiscardHandler),
	})
	running, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { dispatcher.Run(running) })
	defer background.Wait()
	defer stop()

	var publishing sync.WaitGroup
	var mu sync.Mutex
	committed := map[string]bool{}
	for p := range publishers {
		publishing.Go(func() {
			random := rand.New(rand.NewPCG(11, uint64(p)))
			for n := range each {
				var ids []string
				err := db.Tx(t.Context(), pool, func(tx pgx.Tx) error {
					ids = nil
					for range 1 + random.IntN(3) {
						uid := []string{tenant.UID, tenant.UID, other.UID}[random.IntN(3)]
						made, err := outbox.Publish(t.Context(), tx, outbox.Event{Tenant: uid, Type: []string{"order.paid", "order.created"}[random.IntN(2)],
							ResourceType: "order", ResourceID: fmt.Sprint(p), Data: []byte(`{}`)})
						if err != nil {
							return err
						}
						if uid == tenant.UID {
							ids = append(ids, made[0].ID)
						}
					}
					// Some transactions stay open while others that began later commit.
					if _, err := tx.Exec(t.Context(), `select pg_sleep($1)`, random.Float64()*0.01); err != nil {
						return err
					}
					if n%5 == 0 {
						return errRollback
					}
					return nil
				})
				if errors.Is(err, errRollback) {
					continue
				}
				if err != nil {
					t.Errorf("publish: %v", err)
					return
				}
				dispatcher.Ring()
				mu.Lock()
				for _, id := range ids {
					committed[id] = true
				}
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { publishing.Wait(); close(done) }()

	alive := func(_ context.Context, ids []string) ([]string, error) { return ids, nil }
	events := &catalog.Events{DB: pool, Feed: catalog.NewFeed(pool, slog.New(slog.DiscardHandler), alive)}
	defer events.Feed.Close()
	caller := account.Caller{Kind: account.TenantKey, TenantID: tenant.ID, Scopes: []account.Scope{account.CatalogRead}}
	var seen [5][]string
	var reading sync.WaitGroup
	for r := 3; r < len(seen); r++ {
		// One stream stays; the other is opened anew behind its cursor all the time.
		stream, err := events.Follow(t.Context(), caller, catalog.EventFilter{Since: time.Now().Add(-time.Hour)}, catalog.Start{})
		if err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			deadline := time.Now().Add(time.Minute)
			for time.Now().Before(deadline) {
				waiting, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				batch, err := stream.Next(waiting)
				cancel()
				if err != nil {
					t.Errorf("stream: %v", err)
					return
				}
				for _, e := range batch {
					seen[r] = append(seen[r], e.ID)
				}
				if r == 4 && stream.Cursor() != "" { // before the first page there is none, and without one a stream begins now
					cursor := stream.Cursor()
					stream.Close()
					if stream, err = events.Follow(t.Context(), caller, catalog.EventFilter{}, catalog.Start{After: cursor}); err != nil {
						t.Errorf("follow: %v", err)
						return
					}
				}
				select {
				case <-done:
					mu.Lock()
					all := len(seen[r]) >= len(committed)
					mu.Unlock()
					if all && len(batch) == 0 {
						stream.Close()
						return
					}
				default:
				}
			}
			t.Error("the stream does not reach the end")
		})
	}
	for r := range 3 {
		reading.Go(func() {
			after := ""
			deadline := time.Now().Add(time.Minute)
			for time.Now().Before(deadline) {
				page, err := events.List(t.Context(), caller, catalog.EventFilter{}, after, []int{1, 7, 200}[r])
				if err != nil {
					t.Errorf("list: %v", err)
					return
				}
				for _, e := range page.Events {
					seen[r] = append(seen[r], e.ID)
				}
				after = page.Next
				select {
				case <-done:
					mu.Lock()
					all := len(seen[r]) >= len(committed)
					mu.Unlock()
					if all && !page.More {
						return
					}
				default:
				}
			}
			t.Error("the reader does not reach the end")
		})
	}
	reading.Wait()
	if len(committed) == 0 {
		t.Fatal("nothing was published")
	}
	for r, ids := range seen {
		if len(ids) != len(committed) {
			t.Errorf("reader %d saw %d events, %d were committed", r, len(ids), len(committed))
		}
		once := map[string]bool{}
		for _, id := range ids {
			if once[id] || !committed[id] {
				t.Errorf("reader %d: %s came twice or was never committed", r, id)
			}
			once[id] = true
		}
		if !slices.Equal(ids, seen[0]) {
			t.Errorf("readers 0 and %d see different orders", r)
		}
	}
}

var errRollback = errors.New("the publisher changes its mind")
