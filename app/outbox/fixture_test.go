package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/lane"
	"waybill/app/outbox"
	"waybill/db/dbtest"
)

// tickets counts what lanes would get, or fails.
type tickets struct {
	mu    sync.Mutex
	given []lane.Ticket
	fail  error
}

func (k *tickets) InsertTickets(_ context.Context, _ pgx.Tx, given []lane.Ticket) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		return k.fail
	}
	k.given = append(k.given, given...)
	return nil
}

// dispatcher makes one with pools of its own on the database of pool, as the program opens them.
func dispatcher(t testing.TB, pool *pgxpool.Pool, k *tickets) *outbox.Dispatcher {
	t.Helper()
	own := dbtest.Open(t, dbtest.URL(pool), lane.PoolOptions("dispatcher", 4))
	return outbox.NewDispatcher(outbox.Dispatcher{Pool: own, Waker: &lane.Waker{Tickets: k}, URL: "https://hooks.test",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
}

// drain dispatches until the outbox is empty, and says how many events were moved.
func drain(t testing.TB, d *outbox.Dispatcher) int {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for total := 0; ; {
		moved, mine, err := d.Step(t.Context())
		switch {
		case err != nil || time.Now().After(deadline):
			t.Fatalf("dispatch: %d moved, mine %v, error %v", total, mine, err)
		case mine && moved == 0:
			return total
		}
		total += moved
	}
}

// event is a plain one of a tenant.
func event(uid string, change ...func(*outbox.Event)) outbox.Event {
	ev := outbox.Event{Tenant: uid, Type: "consignment.loaded", ResourceType: "consignment", ResourceID: "C-4471", Data: []byte(`{"status":"loaded"}`)}
	for _, f := range change {
		f(&ev)
	}
	return ev
}

func publish(t testing.TB, conn outbox.Conn, events ...outbox.Event) []outbox.Published {
	t.Helper()
	published, err := outbox.Publish(t.Context(), conn, events...)
	if err != nil {
		t.Fatal(err)
	}
	return published
}

func count(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// stored fails unless the counts of the tables' rows are these, in order: outbox, event_ids, events, deliveries, due.
func stored(t testing.TB, pool *pgxpool.Pool, want ...int) {
	t.Helper()
	for i, table := range []string{"outbox", "event_ids", "events", "deliveries", "due"} {
		if i < len(want) {
			if n := count(t, pool, "select count(*) from "+table); n != want[i] {
				t.Errorf("%s has %d rows, want %d", table, n, want[i])
			}
		}
	}
}

var errBroken = errors.New("broken on purpose")

func numbered(format string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return list
}

func now() time.Time { return time.Now() }
