package receive_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/receive"
	"waybill/app/signing"
	"waybill/db/dbtest"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

// shop is a receiver's database: the inbox and its copy of the consignments.
func shop(t testing.TB) (*pgxpool.Pool, *receive.Postgres) {
	t.Helper()
	pool := dbtest.New(t)
	if err := receive.Migrate(t.Context(), pool, "shop"); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `create table shop.consignment (id text primary key, status text not null, version bigint not null)`)
	exec(t, pool, `create table shop.note (id text primary key, text text not null)`)
	return pool, receive.NewPostgres(pool, "shop")
}

func exec(t testing.TB, db receive.Execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func one[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func insert(t testing.TB, inbox *receive.Postgres, id, body string, at time.Time) bool {
	t.Helper()
	isNew, err := inbox.Insert(t.Context(), receive.Message{ID: id, Body: []byte(body), ReceivedAt: at})
	if err != nil {
		t.Fatal(err)
	}
	return isNew
}

func work(t testing.TB, inbox *receive.Postgres, now time.Time, handle func(context.Context, pgx.Tx, receive.Message) error) receive.Work {
	t.Helper()
	w, err := inbox.Work(t.Context(), now, handle)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func fine(context.Context, pgx.Tx, receive.Message) error { return nil }

func TestMigrateManyTimesAtOnce(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := receive.Migrate(t.Context(), pool, fmt.Sprintf(`odd "name" %d`, i%2)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	inbox := receive.NewPostgres(pool, `odd "name" 0`)
	if !insert(t, inbox, "evt_1", "{}", noon) {
		t.Error("the inbox is not empty")
	}
	if err := receive.Migrate(t.Context(), pool, `odd "name" 0`); err != nil {
		t.Fatal(err)
	}
	if insert(t, inbox, "evt_1", "{}", noon) {
		t.Error("migrating again emptied the inbox")
	}
}

func TestInboxKeepsOneRowAnEvent(t *testing.T) {
	t.Parallel()
	pool, inbox := shop(t)
	const body = "{ \"b\":1, \"u\":\"\\u0000\", \"raw\":\"\x00\xff\" }"
	if !insert(t, inbox, "evt_9f2c", body, noon) {
		t.Error("the first is not new")
	}
	if insert(t, inbox, "evt_9f2c", "another", noon.Add(time.Hour)) {
		t.Error("a repeat is new")
	}
	if !insert(t, inbox, "EVT_9F2C", "", noon) {
		t.Error("an id in capitals is taken for the same")
	}
	got := work(t, inbox, noon, fine)
	if !got.Found || got.Message.ID == "" {
		t.Fatalf("%+v", got)
	}
	if stored := one[[]byte](t, pool, `select body from shop.inbox where event_id = 'evt_9f2c'`); string(stored) != body {
		t.Errorf("stored %q", stored)
	}

	var wg sync.WaitGroup
	var mu sync.Mutex
	news := 0
	for range 20 {
		wg.Go(func() {
			isNew, err := inbox.Insert(t.Context(), receive.Message{ID: "evt_race", Body: []byte("{}"), ReceivedAt: noon})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if isNew {
				news++
			}
		})
	}
	wg.Wait()
	if news != 1 {
		t.Errorf("%d of 20 at once were new", news)
	}
}

func TestWorkAppliesOnce(t *testing.T) {
	t.Parallel()
	pool, inbox := shop(t)
	insert(t, inbox, "evt_2", "second", noon.Add(time.Second))
	insert(t, inbox, "evt_1", "first", noon)
	note := func(ctx context.Context, tx pgx.Tx, m receive.Message) error {
		_, err := tx.Exec(ctx, `insert into shop.note (id, text) values ($1, $2)`, m.ID, string(m.Body))
		return err
	}
	if w := work(t, inbox, noon.Add(-time.Second), note); w.Found {
		t.Errorf("found what is not due: %+v", w)
	}
	for _, want := range []string{"first", "second"} {
		w := work(t, inbox, noon.Add(time.Minute), note)
		if !w.Found || w.Failure != nil || string(w.Message.Body) != want || w.Message.Failures != 0 {
			t.Errorf("%+v, want %q", w, want)
		}
	}
	if w := work(t, inbox, noon.Add(time.Hour), note); w.Found {
		t.Errorf("found a third: %+v", w)
	}
	if insert(t, inbox, "evt_1", "first", noon.Add(time.Hour)) {
		t.Error("a repeat of a handled one is new")
	}
	if w := work(t, inbox, noon.Add(2*time.Hour), note); w.Found {
		t.Errorf("a repeat is handled: %+v", w)
	}
	if n := one[int](t, pool, `select count(*) from shop.note`); n != 2 {
		t.Errorf("%d notes", n)
	}
}

func TestAFailureLeavesNothingBehindAndWaits(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context, pgx.Tx) error{
		"an error": func(context.Context, pgx.Tx) error {
			return errors.New("no stock\x00\xff" + strings.Repeat("é", 1000))
		},
		"a panic": func(context.Context, pgx.Tx) error { panic("nil map") },
		"a bad statement": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into shop.note (id, text) values ('x', null)`)
			return err
		},
		"a statement whose error is not returned": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `select 1/0`)
			return nil
		},
		"a constraint checked at the commit": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into shop.line (note_id) values ('nowhere')`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, inbox := shop(t)
			exec(t, pool, `create table shop.line (note_id text references shop.note (id) deferrable initially deferred)`)
			insert(t, inbox, "evt_bad", "{}", noon)
			insert(t, inbox, "evt_good", "{}", noon.Add(time.Millisecond))
			handle := func(ctx context.Context, tx pgx.Tx, m receive.Message) error {
				if _, err := tx.Exec(ctx, `insert into shop.note (id, text) values ($1, '')`, m.ID); err != nil {
					return err
				}
				if m.ID == "evt_bad" {
					return fail(ctx, tx)
				}
				return nil
			}
			now := noon.Add(time.Second)
			if w := work(t, inbox, now, handle); !w.Found || w.Failure == nil || w.Message.ID != "evt_bad" {
				t.Fatalf("%+v", w)
			}
			if w := work(t, inbox, now, handle); !w.Found || w.Failure != nil || w.Message.ID != "evt_good" {
				t.Fatalf("the other is held up: %+v", w)
			}
			if w := work(t, inbox, now, handle); w.Found {
				t.Errorf("it does not wait: %+v", w)
			}
			if got := one[string](t, pool, `select string_agg(id, ',') from shop.note`); got != "evt_good" {
				t.Errorf("notes: %s", got)
			}
			if got := one[int](t, pool, `select length(last_error) from shop.inbox where event_id = 'evt_bad' and failures = 1 and done_at is null`); got == 0 || got > 1000 {
				t.Errorf("last_error has %d characters", got)
			}
			// After a second it comes again, and can succeed.
			fixed := func(_ context.Context, _ pgx.Tx, m receive.Message) error {
				if m.Failures != 1 {
					t.Errorf("%d failures, want 1", m.Failures)
				}
				return nil
			}
			if w := work(t, inbox, now.Add(999*time.Millisecond), fixed); w.Found {
				t.Errorf("it comes too early: %+v", w)
			}
			if w := work(t, inbox, now.Add(time.Second), fixed); !w.Found || w.Failure != nil {
				t.Errorf("%+v", w)
			}
			if n := one[int](t, pool, `select count(*) from shop.inbox where done_at is null or last_error is not null`); n != 0 {
				t.Errorf("%d rows are not done, or still show an error", n)
			}
		})
	}
}

func TestAStopGivesTheMessageBack(t *testing.T) {
	t.Parallel()
	pool, inbox := shop(t)
	insert(t, inbox, "evt_1", "{}", noon)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := inbox.Work(ctx, noon, func(ctx context.Context, tx pgx.Tx, _ receive.Message) error {
		if _, err := tx.Exec(ctx, `insert into shop.note (id, text) values ('x', '')`); err != nil {
			return err
		}
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Work: %v", err)
	}
	if n := one[int](t, pool, `select count(*) from shop.note`); n != 0 {
		t.Error("a stopped handler left something behind")
	}
	// The connection of a cancelled transaction is closed; the server lets the row go when it notices.
	var w receive.Work
	for end := time.Now().Add(5 * time.Second); !w.Found && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		w = work(t, inbox, noon, fine)
	}
	if !w.Found || w.Message.Failures != 0 {
		t.Errorf("after the stop: %+v", w)
	}
}

func TestSeveralWorkersTakeDifferentMessages(t *testing.T) {
	t.Parallel()
	pool, inbox := shop(t)
	const messages, workers = 60, 4
	for i := range messages {
		insert(t, inbox, fmt.Sprint("evt_", i), "{}", noon)
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				w, err := inbox.Work(t.Context(), noon, func(ctx context.Context, tx pgx.Tx, m receive.Message) error {
					_, err := tx.Exec(ctx, `insert into shop.note (id, text) values ($1, '')`, m.ID) // twice would fail
					return err
				})
				if err != nil || w.Failure != nil {
					t.Errorf("%+v, %v", w, err)
					return
				}
				if !w.Found {
					return
				}
			}
		})
	}
	wg.Wait()
	if n := one[int](t, pool, `select count(*) from shop.note`); n != messages {
		t.Errorf("%d of %d handled", n, messages)
	}
}

// The three statements of the first seed: a new row, version 4 over 2, and stale version 3, which changes nothing.
func TestApplyIfNewer(t *testing.T) {
	t.Parallel()
	pool, _ := shop(t)
	apply := func(id, status string, version int64) bool {
		t.Helper()
		newer, err := receive.ApplyIfNewer(t.Context(), pool, receive.State{
			Table: pgx.Identifier{"shop", "consignment"}, Key: "id", ID: id, Version: version, Set: map[string]any{"status": status},
		})
		if err != nil {
			t.Fatal(err)
		}
		return newer
	}
	for i, c := range []struct {
		status  string
		version int64
		newer   bool
		want    string
	}{
		{"loaded", 2, true, "loaded 2"},
		{"delivered", 4, true, "delivered 4"},
		{"in transit", 3, false, "delivered 4"},
		{"delivered again", 4, false, "delivered 4"},
		{"returned", 5, true, "returned 5"},
	} {
		if got := apply("C-4471", c.status, c.version); got != c.newer {
			t.Errorf("step %d: newer is %v", i, got)
		}
		if got := one[string](t, pool, `select status || ' ' || version from shop.consignment where id = 'C-4471'`); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
	if !apply("C-4472", "booked", 1) {
		t.Error("another consignment is held up by the first")
	}
	if _, err := receive.ApplyIfNewer(t.Context(), pool, receive.State{Table: pgx.Identifier{"shop", "nothing"}, Key: "id", ID: 1}); err == nil {
		t.Error("a table that is not there is no error")
	}
}

func TestApplyIfNewerUnderConcurrency(t *testing.T) {
	t.Parallel()
	pool, _ := shop(t)
	var wg sync.WaitGroup
	for version := range int64(20) {
		wg.Go(func() {
			if _, err := receive.ApplyIfNewer(t.Context(), pool, receive.State{
				Table: pgx.Identifier{"shop", "consignment"}, Key: "id", ID: "C-4471", Version: version,
				Set: map[string]any{"status": fmt.Sprint("v", version)},
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := one[string](t, pool, `select status || ' ' || version from shop.consignment`); got != "v19 19" {
		t.Errorf("ended as %s", got)
	}
}

func TestApplyIfNewerWithOddNames(t *testing.T) {
	t.Parallel()
	pool, _ := shop(t)
	exec(t, pool, `create table shop."odd ""table" ("the key" int primary key, "at version" bigint, "b" text, "a" text)`)
	state := receive.State{Table: pgx.Identifier{"shop", `odd "table`}, Key: "the key", ID: 1, VersionColumn: "at version", Version: 1,
		Set: map[string]any{"b": "B", "a": "A"}}
	for i, want := range []bool{true, false} {
		if got, err := receive.ApplyIfNewer(t.Context(), pool, state); got != want || err != nil {
			t.Errorf("call %d: %v, %v", i, got, err)
		}
	}
	if got := one[string](t, pool, `select a || b || "at version" from shop."odd ""table"`); got != "AB1" {
		t.Errorf("stored %s", got)
	}
	state.Set, state.Version = nil, 2
	if got, err := receive.ApplyIfNewer(t.Context(), pool, state); !got || err != nil {
		t.Errorf("only the version: %v, %v", got, err)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	pool, inbox := shop(t)
	for i := range 5 {
		insert(t, inbox, fmt.Sprint("evt_", i), "{}", noon)
	}
	for i := range 4 {
		work(t, inbox, noon.Add(time.Duration(i)*time.Hour), fine)
	}
	for _, c := range []struct {
		before time.Time
		limit  int
		want   int
	}{{noon, 10, 0}, {noon.Add(90 * time.Minute), 1, 1}, {noon.Add(90 * time.Minute), 10, 1}, {noon.Add(1000 * time.Hour), 10, 2}, {noon.Add(1000 * time.Hour), 10, 0}} {
		if n, err := inbox.Forget(t.Context(), c.before, c.limit); n != c.want || err != nil {
			t.Errorf("Forget(%v, %d) = %d, %v; want %d", c.before, c.limit, n, err, c.want)
		}
	}
	if n := one[int](t, pool, `select count(*) from shop.inbox where done_at is null`); n != 1 {
		t.Errorf("%d messages still wait, want 1", n)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	inbox := receive.NewPostgres(pool, "nowhere")
	_, insertErr := inbox.Insert(t.Context(), receive.Message{ID: "evt_1", ReceivedAt: noon})
	_, workErr := inbox.Work(t.Context(), noon, fine)
	_, forgetErr := inbox.Forget(t.Context(), noon, 1)
	for _, err := range []error{insertErr, workErr, forgetErr} {
		if err == nil || !strings.HasPrefix(err.Error(), "receive: ") {
			t.Errorf("%v", err)
		}
	}
}

// The whole flow of the first seed, with a signature, out of order, each sent twice.
func TestTheWholeFlow(t *testing.T) {
	t.Parallel()
	pool, inbox := shop(t)
	key := signing.NewSecret()
	reports := make(chan string, 100)
	worker := &receive.Worker[pgx.Tx]{
		Queue: inbox,
		Poll:  time.Hour, // the wake must do
		Handle: func(ctx context.Context, tx pgx.Tx, m receive.Message) error {
			e, err := m.Event()
			if err != nil || e.Test {
				return err
			}
			newer, err := receive.ApplyIfNewer(ctx, tx, receive.State{
				Table: pgx.Identifier{"shop", "consignment"}, Key: "id", ID: e.Resource.ID, Version: e.Sequence,
				Set: map[string]any{"status": strings.TrimPrefix(e.Type, "consignment.")},
			})
			if err == nil {
				reports <- fmt.Sprint(e.ID, " newer ", newer)
			}
			return err
		},
	}
	receiver := &receive.Receiver{Keys: func() []signing.Key { return []signing.Key{key} }, Inbox: inbox, Stored: worker.Wake}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		worker.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})

	send := func(id, kind string, sequence int) {
		t.Helper()
		body := fmt.Sprintf(`{"id":%q,"type":"consignment.%s","resource":{"type":"consignment","id":"C-4471"},"sequence":%d,"data":{}}`, id, kind, sequence)
		list, err := signing.Headers(signing.V1, []signing.Key{key}, id, time.Now().Unix(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			req := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
			for _, h := range list {
				req.Header.Set(h.Name, h.Value)
			}
			w := httptest.NewRecorder()
			receiver.ServeHTTP(w, req)
			if w.Code != http.StatusOK {
				t.Fatalf("%s is answered %d %s", id, w.Code, w.Body)
			}
		}
	}
	next := func() string {
		t.Helper()
		select {
		case r := <-reports:
			return r
		case <-time.After(30 * time.Second):
			t.Fatal("the worker did nothing for 30 s")
			return ""
		}
	}
	var got []string
	for _, e := range []struct {
		id, kind string
		sequence int
	}{{"evt_2", "loaded", 2}, {"evt_4", "delivered", 4}, {"evt_3", "in_transit", 3}} {
		send(e.id, e.kind, e.sequence)
		got = append(got, next())
	}
	if !slices.Equal(got, []string{"evt_2 newer true", "evt_4 newer true", "evt_3 newer false"}) {
		t.Errorf("%q", got)
	}
	if status := one[string](t, pool, `select status || ' ' || version from shop.consignment`); status != "delivered 4" {
		t.Errorf("ended as %s", status)
	}
	if len(reports) != 0 {
		t.Errorf("a repeat was handled: %s", <-reports)
	}
}
