package lane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/sender"
	"waybill/db"
	"waybill/db/dbtest"
)

// unit is that of the buckets.
const unit = time.Millisecond

func rollUp(t testing.TB, conn interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, attempts []Rolled) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	b := &pgx.Batch{}
	Rollup(b, attempts)
	if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each class has its column, each time its bucket, and what comes twice adds up.
func TestRollup(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	at := time.Date(2026, 11, 17, 9, 44, 59, 999_000_000, time.UTC)
	attempt := func(class sender.Class, code int, took time.Duration) Rolled {
		return Rolled{TenantID: "tnt_1", EndpointID: "ep_1", Started: at, Class: class, Code: code, Total: took}
	}
	attempts := []Rolled{
		attempt(sender.Delivered, 200, 5*unit), attempt(sender.Delivered, 204, 5*unit+1), attempt(sender.Redirect, 301, 60_000*unit), attempt(sender.Gone, 410, 61_000*unit),
		attempt(sender.Status, 404, 100*unit), attempt(sender.Status, 503, 100*unit), attempt(sender.Status, 999, 100*unit), attempt(sender.Status, 304, 100*unit),
		attempt(sender.Timeout, 0, 15_000*unit), attempt(sender.ConnectTimeout, 0, 5000*unit), attempt(sender.Refused, 0, unit), attempt(sender.DNS, 0, unit), attempt(sender.Reset, 0, unit),
		attempt(sender.NotHTTP, 0, unit), attempt(sender.TLS, 0, unit), attempt(sender.BlockedAddress, 0, unit), attempt(sender.BadConfig, 0, 0), attempt(sender.Proxy, 0, unit), attempt(classUnknown, 0, 0),
	}
	next := attempt(sender.Delivered, 200, unit)
	next.Started = at.Add(unit) // the next quarter
	other := attempt(sender.Delivered, 200, unit)
	other.EndpointID = "ep_0"
	test := attempt(sender.Delivered, 200, unit)
	test.Test = true
	rollUp(t, pool, append([]Rolled{next, other, test}, attempts...))
	rollUp(t, pool, attempts)
	rollUp(t, pool, []Rolled{test})
	rollUp(t, pool, nil)
	rows, err := pool.Query(t.Context(), `select endpoint_id || ' ' || tenant_id || ' ' || to_char(slot, 'HH24:MI') || ' ' || concat_ws(' ', delivered, redirected, refused, broken, odd, timed_out,
		unreachable, tls, blocked, ours) || ' / ' || concat_ws(' ', t00, t01, t07, t22, t23) || ' of ' || t00+t01+t02+t03+t04+t05+t06+t07+t08+t09+t10+t11+t12+t13+t14+t15+t16+t17+t18+t19+t20+t21+t22+t23
		from rollups order by endpoint_id, slot`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ep_0 tnt_1 09:30 1 0 0 0 0 0 0 0 0 0 / 1 0 0 0 0 of 1",
		"ep_1 tnt_1 09:30 4 4 4 2 2 4 8 2 4 4 / 2 2 8 2 2 of 16",
		"ep_1 tnt_1 09:45 1 0 0 0 0 0 0 0 0 0 / 1 0 0 0 0 of 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Batches that share endpoints, in whatever order their results come, neither lose a count nor wait for each other in a circle.
func TestRollupsAtOnce(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	const writers, batches, size = 4, 15, 200
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range batches {
				attempts := make([]Rolled, size)
				for i := range attempts {
					attempts[i] = Rolled{TenantID: "tnt_1", EndpointID: fmt.Sprint("ep_", random.IntN(50)), Class: sender.Delivered, Code: 200,
						Started: time.Unix(int64(random.IntN(3600)), 0), Total: time.Duration(random.IntN(1000)) * unit}
				}
				rollUp(t, pool, attempts)
			}
		})
	}
	all.Wait()
	var delivered, rows int
	if err := pool.QueryRow(t.Context(), `select sum(delivered), count(*) from rollups`).Scan(&delivered, &rows); err != nil || delivered != writers*batches*size || rows != 200 {
		t.Errorf("%d delivered in %d rows, %v", delivered, rows, err)
	}
}

// What a batch of 200 costs: grouping, and one statement.
func BenchmarkRollup(b *testing.B) {
	pool := dbtest.Open(b, dbtest.NewURL(b), db.Options{Params: map[string]string{"plan_cache_mode": "force_generic_plan", "jit": "off"}})
	batch := func(endpoints int) []Rolled {
		attempts := make([]Rolled, 200)
		for i := range attempts {
			attempts[i] = Rolled{TenantID: "tnt_1", EndpointID: fmt.Sprint("ep_", i%endpoints), Class: sender.Delivered, Code: 200, Started: time.Unix(0, 0), Total: time.Duration(i) * unit}
		}
		return attempts
	}
	b.Run("grouping", func(b *testing.B) {
		attempts := batch(100)
		for b.Loop() {
			rollupArgs(attempts)
		}
	})
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			rollUp(b, pool, nil)
		}
	})
	for _, endpoints := range []int{1, 20, 100, 200} {
		attempts := batch(endpoints)
		b.Run(fmt.Sprint("statement-of-", endpoints), func(b *testing.B) {
			for b.Loop() {
				rollUp(b, pool, attempts)
			}
		})
	}
}
