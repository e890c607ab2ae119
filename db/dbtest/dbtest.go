// Package dbtest gives each test a Postgres database of its own, already migrated.
//
// A database is a clone of a template that is migrated once and named by the hash of the migrations; a clone takes some
// ten milliseconds, so tests need share nothing and run in parallel. The server is the one of WAYBILL_TEST_DATABASE_URL (a
// role that may create databases) or, if that is not set, a private one that all test programs of this user share while
// any of them runs, and that stops by itself afterwards (see keeper.go). It works as root.
//
// On a machine without PostgreSQL tests are skipped, unless CI=true: then they fail.
package dbtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/db"
)

// EnvURL names the variable that points to a server for the tests.
const EnvURL = "WAYBILL_TEST_DATABASE_URL"

// New is a pool, opened as the program opens it, on a new migrated database. Both go when the test ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Open(t, NewURL(t), db.Options{})
}

// Open is a pool on the database at url, as the program would open it with these options; it is closed when the test ends.
// A test that still uses one of its connections then has failed.
func Open(t testing.TB, url string, opts db.Options) *pgxpool.Pool {
	t.Helper()
	if opts.AppName == "" {
		opts.AppName = shortened(t.Name())
	}
	if opts.MaxConns == 0 {
		opts.MaxConns = 8
	}
	pool, err := db.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	closeAtEnd(t, pool)
	return pool
}

// closeAtEnd closes a pool when the test ends. A test that still uses one of its connections then has failed.
func closeAtEnd(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(20 * time.Second): // pgx takes up to 15 to give up a connection whose query was cancelled
			t.Errorf("dbtest: %d connections are still in use at the end of the test", pool.Stat().AcquiredConns())
		}
	})
}

// NewURL is the connection string of a new migrated database, for a test that starts the program as a process or wants
// pools of its own. The database goes when the test ends, whoever is still connected.
func NewURL(t testing.TB) string {
	t.Helper()
	server := connect(t)
	template, err := server.template(t.Context())
	if err != nil {
		t.Fatalf("dbtest: make the template: %v", err)
	}
	return server.create(t, template)
}

// NewEmptyURL is the connection string of a new database without anything in it, for tests of migrations.
func NewEmptyURL(t testing.TB) string {
	t.Helper()
	return connect(t).create(t, "template0")
}

// URL is the connection string of the database that pool was opened on.
func URL(pool *pgxpool.Pool) string { return pool.Config().ConnString() }

// AdminURL is the connection string of the server that the tests run on, at a database that holds nothing.
func AdminURL(t testing.TB) string {
	t.Helper()
	return connect(t).admin
}

// server is what databases are made on; one for each test program.
type server struct {
	admin string
	using *os.File // says that this program uses the shared server, until it ends

	mu       sync.Mutex
	migrated string // the template's name, once it is known to be there
	busy     chan struct{}
}

var shared = sync.OnceValues(func() (*server, error) {
	// Two at a time: cloning is the server's work, and more at once only wait for each other there.
	s := &server{admin: os.Getenv(EnvURL), busy: make(chan struct{}, 2)}
	if s.admin != "" {
		return s, nil
	}
	var err error
	s.admin, s.using, err = joinServer()
	return s, err
})

func connect(t testing.TB) *server {
	t.Helper()
	server, err := shared()
	switch {
	case err == nil:
		return server
	case missing(err) && os.Getenv("CI") != "true":
		t.Skipf("dbtest: %v; or set %s", err, EnvURL)
	default:
		t.Fatalf("dbtest: %v", err)
	}
	return nil
}

// create clones the template and drops the clone when the test ends.
func (s *server) create(t testing.TB, template string) string {
	t.Helper()
	name := "waybill_test_" + randomName()
	err := s.do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		return clone(ctx, conn, name, template)
	})
	if err != nil {
		t.Fatalf("dbtest: create the database %s from %s: %v", name, template, err)
	}
	t.Cleanup(func() {
		err := s.do(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("drop database if exists %s with (force)", name))
			return err
		})
		if err != nil {
			t.Errorf("dbtest: drop the database %s: %v", name, err)
		}
	})
	return withDatabase(s.admin, name)
}

// clone copies the template's files. The server's own choice since version 15, to copy page by page through its buffers and
// its log, took 67 ms for one of our databases with two at a time, files 24 ms.
func clone(ctx context.Context, conn *pgx.Conn, name, template string) error {
	statement := fmt.Sprintf("create database %s template %s", name, template)
	var version int
	if err := conn.QueryRow(ctx, "select current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version >= 150000 {
		statement += " strategy file_copy"
	}
	_, err := conn.Exec(ctx, statement)
	return err
}

// do runs fn on the maintenance database, with a connection of its own: one that is kept would have to be closed by
// somebody at the end of the program.
func (s *server) do(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return fn(ctx, conn)
}

// withDatabase is rawURL with another database.
func withDatabase(rawURL, database string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic("dbtest: " + EnvURL + " must be a postgres:// URL")
	}
	u.Path = "/" + database
	return u.String()
}

func randomName() string {
	random := make([]byte, 8)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// shortened fits into an application_name, which holds 63 bytes.
func shortened(name string) string {
	if len(name) > 63 {
		return name[len(name)-63:]
	}
	return name
}

// Wall is the database of pool as what serves tenants sees it. tracer, unless nil, is told of each statement that is asked for one of them.
func Wall(t testing.TB, pool *pgxpool.Pool, tracer pgx.QueryTracer) *db.Wall {
	t.Helper()
	tenants, err := db.OpenTenants(t.Context(), URL(pool), db.Options{AppName: shortened(t.Name()), MaxConns: 8, Tracer: tracer})
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	closeAtEnd(t, tenants)
	return &db.Wall{All: pool, Tenants: tenants}
}
