package db_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/db"
	"waybill/db/dbtest"
)

func TestOpenSession(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	plain := dbtest.Open(t, url, db.Options{AppName: "waybill web"})
	engine := dbtest.Open(t, url, db.Options{
		StatementTimeout: 90 * time.Second, LockTimeout: db.None, IdleInTxTimeout: 1500 * time.Millisecond,
		Params: map[string]string{"enable_bitmapscan": "off"},
	})
	for _, want := range []struct {
		pool           *pgxpool.Pool
		setting, value string
	}{
		{plain, "search_path", "waybill"}, {plain, "application_name", "waybill web"}, {plain, "timezone", "UTC"}, {plain, "jit", "off"},
		{plain, "statement_timeout", "30s"}, {plain, "lock_timeout", "10s"},
		{plain, "idle_in_transaction_session_timeout", "1min"}, {plain, "enable_bitmapscan", "on"},
		{engine, "statement_timeout", "90s"}, {engine, "lock_timeout", "0"},
		{engine, "idle_in_transaction_session_timeout", "1500ms"}, {engine, "enable_bitmapscan", "off"},
	} {
		if got := one[string](t, want.pool, "select current_setting($1)", want.setting); got != want.value {
			t.Errorf("%s is %q, want %q", want.setting, got, want.value)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	_, err := db.Open(t.Context(), "postgres://u:geheim@127.0.0.1:notaport/x", db.Options{})
	if err == nil || db.IsUnavailable(err) || strings.Contains(err.Error(), "geheim") {
		t.Errorf("a bad url: error %v, want one that does not pass by itself and does not show the password", err)
	}
	closed := closedPort(t)
	if _, err := db.Open(t.Context(), "postgres://u:p@"+closed+"/x", db.Options{}); !db.IsUnavailable(err) {
		t.Errorf("nobody listens: error %v, want unavailable", err)
	}
	stranger, err := url.Parse(dbtest.NewEmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	stranger.User = url.UserPassword("nobody_at_all", "x")
	if _, err := db.Open(t.Context(), stranger.String(), db.Options{}); err == nil || db.IsUnavailable(err) {
		t.Errorf("an unknown role: error %v, want one that does not pass by itself", err)
	}
}

func TestTx(t *testing.T) {
	t.Parallel()
	pool := dbtest.Open(t, dbtest.NewEmptyURL(t), db.Options{Params: map[string]string{"search_path": "public"}})
	exec(t, pool, "create table parcels (id int constraint parcels_id_unique unique)")

	insert := func(id int) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "insert into parcels values ($1)", id)
			return err
		}
	}
	if err := db.Tx(t.Context(), pool, insert(1)); err != nil {
		t.Fatal(err)
	}
	if err := db.Tx(t.Context(), pool, insert(1)); db.Constraint(err) != "parcels_id_unique" {
		t.Errorf("error %v, want the constraint parcels_id_unique", err)
	}
	own := errors.New("no")
	err := db.Tx(t.Context(), pool, func(tx pgx.Tx) error { return errors.Join(insert(2)(tx), own) })
	if !errors.Is(err, own) {
		t.Errorf("error %v, want the function's own", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Tx(t.Context(), pool, func(tx pgx.Tx) error { panic(insert(3)(tx)) })
	}()
	if got := one[int](t, pool, "select sum(id)::int from parcels"); got != 1 {
		t.Errorf("the ids sum up to %d, want only the committed 1", got)
	}
}

// Two transactions that take two rows in opposite order meet in a deadlock; both succeed.
func TestTxDeadlock(t *testing.T) {
	t.Parallel()
	pool := dbtest.Open(t, dbtest.NewEmptyURL(t), db.Options{Params: map[string]string{"search_path": "public"}})
	exec(t, pool, "create table parcels (id int primary key, n int)")
	exec(t, pool, "insert into parcels values (1, 0), (2, 0)")
	meet := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	tries := make(chan int, 10)
	done := make(chan error, 2)
	for me, order := range [2][2]int{{1, 2}, {2, 1}} {
		go func() {
			first := true
			done <- db.Tx(t.Context(), pool, func(tx pgx.Tx) error {
				tries <- me
				if _, err := tx.Exec(t.Context(), "update parcels set n = n + 1 where id = $1", order[0]); err != nil {
					return err
				}
				if first {
					first = false
					close(meet[me])
					<-meet[1-me]
				}
				_, err := tx.Exec(t.Context(), "update parcels set n = n + 1 where id = $1", order[1])
				return err
			})
		}()
	}
	for range 2 {
		if err := receive(t, done); err != nil {
			t.Errorf("error %v", err)
		}
	}
	if len(tries) != 3 {
		t.Errorf("%d tries, want 3: one was the victim", len(tries))
	}
	if n := one[int](t, pool, "select sum(n)::int from parcels"); n != 4 {
		t.Errorf("%d updates, want 4", n)
	}
}

// CASES B61: whatever keeps the database from answering is told apart from every answer it gives.
func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	pool := dbtest.Open(t, url, db.Options{MaxConns: 1, StatementTimeout: 50 * time.Millisecond})
	_, slow := pool.Exec(t.Context(), "select pg_sleep(10)")
	_, wrong := pool.Exec(t.Context(), "select nonsense")
	_, killed := pool.Exec(t.Context(), "select pg_terminate_backend(pg_backend_pid())")
	_, full := pool.Exec(t.Context(), "do $$ begin raise sqlstate '53100'; end $$")
	_, locked := pool.Exec(t.Context(), "do $$ begin raise sqlstate '55P03'; end $$")
	_, missing := db.Open(t.Context(), strings.Replace(url, "/waybill_test_", "/no_such_", 1), db.Options{})

	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	exhausted := db.Tx(soon, pool, func(pgx.Tx) error { return nil })
	held.Release()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, gone := pool.Exec(cancelled, "select 1")

	for name, check := range map[string]struct {
		err  error
		want bool
	}{
		"statement time-out":        {slow, true},
		"terminated":                {killed, true},
		"disk full":                 {full, true},
		"lock time-out":             {locked, true},
		"pool exhausted":            {exhausted, true},
		"connection reset":          {fmt.Errorf("x: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), true},
		"no error":                  {nil, false},
		"no rows":                   {pgx.ErrNoRows, false},
		"wrong SQL":                 {wrong, false},
		"no such database":          {missing, false},
		"cancelled by the caller":   {gone, false},
		"anything else of our own ": {errors.New("x"), false},
	} {
		if check.want && check.err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := db.IsUnavailable(check.err); got != check.want {
			t.Errorf("%s: IsUnavailable(%v) = %v", name, check.err, got)
		}
	}
}

// CASES B50: a connection on which the network went silent does not hold its user for longer than a ping may take.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	network := newNetwork(t, url)
	pool := dbtest.Open(t, network.url, db.Options{MaxConns: 2})
	exec(t, pool, "select 1")
	network.silence()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pool.Exec(ctx, "select 1"); !db.IsUnavailable(err) {
		t.Errorf("error %v, want unavailable", err)
	}
	network.heal()
	start := time.Now()
	exec(t, pool, "select 1")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the first answer after the network healed took %s", took)
	}
	network.sever()
}

func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
