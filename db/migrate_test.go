package db_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/db"
	"waybill/db/dbtest"
)

var quiet = slog.New(slog.DiscardHandler)

func files(pairs ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]+".sql"] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fsys
}

const table = "create table parcels (id bigint primary key, weight int);\ninsert into parcels values (1, 5);"

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	wantState(t, pool, db.Behind)

	applied, err := db.Migrate(t.Context(), url, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if len(applied) == 0 || !strings.HasPrefix(applied[0], "0001_") || !strings.HasPrefix(applied[len(applied)-1], "river ") {
		t.Errorf("applied %q, want ours from 0001 on, then River's", applied)
	}
	wantState(t, pool, db.Current)

	if applied, err = db.Migrate(t.Context(), url, quiet); err != nil || len(applied) > 0 {
		t.Errorf("the second time applied %q, error %v", applied, err)
	}
	for _, name := range []string{"waybill.river_job", "waybill.outbox", "waybill.migrations"} {
		if one[*string](t, pool, "select to_regclass($1)::text", name) == nil {
			t.Errorf("there is no %s", name)
		}
	}
	invalid := one[int](t, pool, "select count(*) from pg_index where not indisvalid")
	if invalid != 0 {
		t.Errorf("%d indexes are invalid", invalid)
	}
}

func TestMigrateNewer(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	exec(t, pool, "insert into migrations (name, checksum) values ('9999_from_the_future', '')")
	wantState(t, pool, db.Newer)
	if _, err := db.Migrate(t.Context(), url, quiet); !errors.Is(err, db.ErrNewer) {
		t.Errorf("error %v, want ErrNewer", err)
	}
	exec(t, pool, "delete from migrations where name like '9999%'")
	exec(t, pool, "insert into river_migration (line, version) values ('main', 9999)")
	wantState(t, pool, db.Newer)
	if _, err := db.Migrate(t.Context(), url, quiet); !errors.Is(err, db.ErrNewer) {
		t.Errorf("error %v, want ErrNewer", err)
	}
}

func TestMigrateChangedFile(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	exec(t, pool, "update migrations set checksum = 'other' where name like '0001%'")
	if _, err := db.Migrate(t.Context(), url, quiet); err == nil || !strings.Contains(err.Error(), "was changed after") {
		t.Errorf("error %v, want one about the changed file", err)
	}
}

// Many migrators at once apply each file once, and all of them succeed.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	fsys := files("0001_table", table, "0002_index", "-- no transaction\ncreate index concurrently parcels_weight on parcels (weight);")
	var mu sync.Mutex
	count := map[string]int{}
	var migrators sync.WaitGroup
	for range 5 {
		migrators.Go(func() {
			applied, err := db.MigrateFS(t.Context(), url, quiet, fsys)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, name := range applied {
				count[name]++
			}
		})
	}
	migrators.Wait()
	for name, n := range count {
		if n != 1 {
			t.Errorf("%s was applied %d times", name, n)
		}
	}
	if count["0001_table"] != 1 || count["0002_index"] != 1 {
		t.Errorf("applied %v", count)
	}
}

// A file that fails leaves nothing of itself, keeps what came before, and is applied when it has been mended.
func TestMigrateFailure(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	broken := files("0001_table", table, "0002_more", "create table more (id int);\nselect 1/0;")
	applied, err := db.MigrateFS(t.Context(), url, quiet, broken)
	if db.Code(err) != "22012" || !strings.Contains(err.Error(), "0002_more") {
		t.Errorf("error %v, want division by zero in 0002_more", err)
	}
	if len(applied) != 1 || applied[0] != "0001_table" {
		t.Errorf("applied %q, want the first", applied)
	}
	if one[*string](t, pool, "select to_regclass('waybill.more')::text") != nil {
		t.Error("the failed file left its table")
	}
	mended := files("0001_table", table, "0002_more", "create table more (id int);")
	if applied, err = db.MigrateFS(t.Context(), url, quiet, mended); err != nil || applied[0] != "0002_more" {
		t.Errorf("applied %q, error %v", applied, err)
	}
	if state, err := db.CompareFS(t.Context(), pool, mended); state != db.Current {
		t.Errorf("state %s, error %v, want current", state, err)
	}
}

// A table in use delays a migration; it neither fails it nor lets it block others behind it for longer than the time-out.
func TestMigrateLockedTable(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	if _, err := db.MigrateFS(t.Context(), url, quiet, files("0001_table", table)); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "update parcels set weight = 6"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	warned := make(chan struct{}, 10)
	logger := slog.New(watching{slog.DiscardHandler, "trying again", warned})
	go func() {
		_, err := db.MigrateFS(t.Context(), url, logger, files("0001_table", table,
			"0002_column", "set local lock_timeout = '50ms'; alter table parcels add column height int;"))
		done <- err
	}()
	receive(t, warned)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, done); err != nil {
		t.Errorf("error %v, want success after the lock was free", err)
	}
}

// CASES B65: the migrator dies while it builds an index concurrently; the next one drops the invalid index and builds it.
func TestMigrateInterruptedIndex(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	if _, err := db.MigrateFS(t.Context(), url, quiet, files("0001_table", table)); err != nil {
		t.Fatal(err)
	}
	fsys := files("0001_table", table, "0002_index", "-- no transaction\n-- For the list.\n"+
		"create index concurrently if not exists parcels_weight on parcels (weight);\n"+
		"drop index concurrently if exists parcels_old;\ncreate unique index concurrently parcels_both on parcels (id, weight);")

	// The build waits for this transaction, which has written to the table.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "update parcels set weight = 6"); err != nil {
		t.Fatal(err)
	}
	killed := make(chan error, 1)
	go func() {
		_, err := db.MigrateFS(t.Context(), url, quiet, fsys)
		killed <- err
	}()
	const building = "select pid from pg_stat_activity where datname = current_database() and query ilike 'create index concurrently%' and wait_event_type = 'Lock'"
	pid := eventually[int](t, pool, building)

	// A second one comes meanwhile: it waits for its turn and must not be waited for by the index build.
	second := make(chan error, 1)
	go func() {
		_, err := db.MigrateFS(t.Context(), url, quiet, fsys)
		second <- err
	}()
	const waiting = "select count(*)::int from pg_stat_activity where datname = current_database() and application_name = 'waybill migrate' having count(*) >= 2"
	eventually[int](t, pool, waiting)
	if valid := one[bool](t, pool, "select indisvalid from pg_index where indexrelid = 'waybill.parcels_weight'::regclass"); valid {
		t.Fatal("the index is valid although its build is not over")
	}
	exec(t, pool, "select pg_terminate_backend($1)", pid)
	if err := receive(t, killed); !db.IsUnavailable(err) {
		t.Errorf("the killed migrator says %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, second); err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{"parcels_weight", "parcels_both"} {
		if !one[bool](t, pool, "select indisvalid from pg_index where indexrelid = ('waybill.' || $1)::regclass", index) {
			t.Errorf("%s is not valid", index)
		}
	}
	if state, err := db.CompareFS(t.Context(), pool, fsys); state != db.Current {
		t.Errorf("state %s, error %v, want current", state, err)
	}
}

// A unique index over duplicates fails loudly, each time, and is never recorded as done.
func TestMigrateImpossibleIndex(t *testing.T) {
	t.Parallel()
	url := dbtest.NewEmptyURL(t)
	fsys := files("0001_table", table+"insert into parcels values (2, 5);",
		"0002_index", "-- no transaction\ncreate unique index concurrently if not exists parcels_weight on parcels (weight);")
	for range 2 {
		if _, err := db.MigrateFS(t.Context(), url, quiet, fsys); db.Code(err) != "23505" {
			t.Errorf("error %v, want a unique violation", err)
		}
	}
}

func TestMigrationFilesRefused(t *testing.T) {
	t.Parallel()
	for want, fsys := range map[string]fstest.MapFS{
		"its name is not like": files("1_table", table),
		"have the same number": files("0001_a", table, "0001_b", table),
		"not \"alter table":    files("0001_a", "-- no transaction\nalter table parcels add column x int;"),
		"not \"create index p": files("0001_a", "-- no transaction\ncreate index parcels_x on parcels (weight);"),
	} {
		if _, err := db.MigrateFS(t.Context(), "postgres://nowhere.invalid/", quiet, fsys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestSchemaHash(t *testing.T) {
	t.Parallel()
	if hash := db.SchemaHash(); len(hash) != 16 || hash != db.SchemaHash() {
		t.Errorf("hash %q is not stable", hash)
	}
}

// watching tells a channel of records with a text in their message.
type watching struct {
	slog.Handler
	text string
	seen chan struct{}
}

func (w watching) Enabled(context.Context, slog.Level) bool { return true }

func (w watching) Handle(_ context.Context, record slog.Record) error {
	if strings.Contains(record.Message, w.text) {
		w.seen <- struct{}{}
	}
	return nil
}

func wantState(t *testing.T, pool *pgxpool.Pool, want db.State) {
	t.Helper()
	if state, err := db.SchemaState(t.Context(), pool); err != nil || state != want {
		t.Errorf("state %q, error %v, want %s", state, err, want)
	}
}

func one[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// eventually repeats a query until it has a row.
func eventually[T any](t *testing.T, pool *pgxpool.Pool, sql string) T {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		rows, err := pool.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		value, err := pgx.CollectOneRow(rows, pgx.RowTo[T])
		if err == nil {
			return value
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", sql)
		}
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", sql, err))
	}
}

func receive[T any](t *testing.T, channel <-chan T) T {
	t.Helper()
	select {
	case value := <-channel:
		return value
	case <-time.After(60 * time.Second):
		t.Fatal("nothing came within a minute")
		panic("not reached")
	}
}
