package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/lane"
	"waybill/app/reseal"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlServer  = queries.SQL("DoctorServer")
	sqlDays    = queries.SQL("DoctorDays")
	sqlSecrets = queries.SQL("DoctorSecrets")
	sqlBackend = queries.SQL("DoctorBackend")
)

// The versions of Postgres: the oldest whose features the statements use, and the one everything is tested with.
const (
	oldestVersion = 15
	testedVersion = 15
)

// How far this machine's clock may be from the database's: signatures carry this one's time, and receivers tolerate five minutes.
const (
	clockWarn = 2 * time.Second
	clockFail = 60 * time.Second
)

type runner func(check string, look func(ctx context.Context, f *findings))

// examineDatabase looks at everything that needs the database, as far as it is there.
func (o *Options) examineDatabase(ctx context.Context, run runner) {
	var pool *pgxpool.Pool
	run("database", func(ctx context.Context, f *findings) {
		if o.DatabaseURL == "" {
			f.fail("Set WAYBILL_DATABASE_URL.", "there is no database to look at")
			return
		}
		var err error
		if pool, err = db.Open(ctx, o.DatabaseURL, db.Options{AppName: "waybill doctor", MaxConns: 4, StatementTimeout: 5 * time.Second}); err != nil {
			o.unreachable(f, err)
			return
		}
		if o.Embedded {
			f.warn("Fine for a try. Set WAYBILL_DATABASE_URL to a Postgres that is backed up for anything else.", "WAYBILL_DATABASE_URL is not set: this is the embedded Postgres in WAYBILL_DATA")
		}
	})
	if pool == nil {
		return
	}
	defer pool.Close()
	pooled := false
	run("pooler", func(ctx context.Context, f *findings) { pooled = o.pooler(ctx, pool, f) })
	if pooled {
		return // every further answer may come from another session
	}
	run("database", func(ctx context.Context, f *findings) { o.server(ctx, pool, f) })
	run("clock", func(ctx context.Context, f *findings) { o.clock(ctx, pool, f) })
	migrated := false
	run("migrations", func(ctx context.Context, f *findings) { migrated = o.migrations(ctx, pool, f) })
	if migrated {
		run("tenants", func(ctx context.Context, f *findings) { o.wall(ctx, pool, f) })
		run("keys", func(ctx context.Context, f *findings) { o.keys(ctx, pool, f) })
	}
}

// unreachable says why there is no connection, without the address's password.
func (o *Options) unreachable(f *findings, err error) {
	host := "the database"
	if u, bad := url.Parse(o.DatabaseURL); bad == nil && u.Host != "" {
		host = u.Host
	}
	for _, pooler := range []error{db.ErrSharedSessions, db.ErrDroppedSettings} {
		if errors.Is(err, pooler) {
			f.fail(poolerAdvice, "%s: %s", host, pooler)
			return
		}
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case strings.Contains(pg.Message, "startup parameter"):
			f.fail(poolerAdvice, "a pooler in front of Postgres at %s refuses session settings: %s", host, pg.Message)
		case strings.HasPrefix(pg.Code, "28"):
			f.fail("Correct user and password in WAYBILL_DATABASE_URL, or pg_hba.conf.", "%s refuses us: %s", host, pg.Message)
		case pg.Code == "3D000":
			f.fail("Create it, or name another one in WAYBILL_DATABASE_URL.", "%s has no such database: %s", host, pg.Message)
		case pg.Code == "53300":
			f.fail("Raise max_connections, or end what holds connections.", "%s has no connection left", host)
		default:
			f.fail("See the server's log.", "%s answers: %s (%s)", host, pg.Message, pg.Code)
		}
		return
	}
	f.fail("Check that Postgres runs, and that address, port and firewall let this machine reach it.", "%s cannot be reached: %s", host, reason(err))
}

// reason is the innermost error: what a library puts around it repeats the address.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "no answer in time"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

const poolerAdvice = "Connect to Postgres itself, or set the pooler to session mode (pgbouncer: pool_mode = session): settings, advisory locks and LISTEN " +
	"must stay with their connection."

// backend is one connection that can say which server process serves it.
type backend interface {
	// Announced is the process that the greeting named, Serving the one that answers now.
	Announced() uint32
	Serving(ctx context.Context) (uint32, error)
	// Hold opens a transaction, which binds a server process to this connection until Release.
	Hold(ctx context.Context) error
	Release(ctx context.Context) error
}

type pgBackend struct{ conn *pgx.Conn }

func (b pgBackend) Announced() uint32 { return b.conn.PgConn().PID() }

func (b pgBackend) Serving(ctx context.Context) (pid uint32, err error) {
	// Without a prepared statement, which would be another process's after the first question.
	err = b.conn.QueryRow(ctx, sqlBackend, pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}
func (b pgBackend) Hold(ctx context.Context) error {
	_, err := b.conn.Exec(ctx, "begin")
	return err
}
func (b pgBackend) Release(ctx context.Context) error {
	_, err := b.conn.Exec(ctx, "rollback")
	return err
}

// migrates says whether the server process behind a while other connections take theirs: what a pooler in transaction mode does. Each of the
// others holds a transaction, so that together they take every server process that a is not bound to.
func migrates(ctx context.Context, a backend, others []backend) (bool, error) {
	first, err := a.Serving(ctx)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if err := other.Hold(ctx); err != nil {
			return false, err
		}
		defer func() { _ = other.Release(ctx) }()
		taken, err := other.Serving(ctx)
		if err != nil {
			return false, err
		}
		if taken == first {
			return true, nil
		}
		now, err := a.Serving(ctx)
		if err != nil {
			return false, err
		}
		if now != first {
			return true, nil
		}
	}
	return false, nil
}

// pooler looks whether something between us and Postgres shares connections, and says whether it loses what belongs to a session.
func (o *Options) pooler(ctx context.Context, pool *pgxpool.Pool, f *findings) bool {
	var backends []backend
	for range 4 {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			f.fail("Raise max_connections, or the pooler's limits.", "four connections at once cannot be had: %s", reason(err))
			return false
		}
		defer conn.Release()
		backends = append(backends, pgBackend{conn.Conn()})
	}
	moved, err := migrates(ctx, backends[0], backends[1:])
	if err != nil {
		f.fail(poolerAdvice, "the connection cannot be examined: %s", reason(err))
		return false
	}
	serving, err := backends[0].Serving(ctx)
	var path string
	if err == nil {
		err = backends[0].(pgBackend).conn.QueryRow(ctx, "show search_path", pgx.QueryExecModeSimpleProtocol).Scan(&path)
	}
	switch {
	case err != nil:
		f.fail(poolerAdvice, "the connection cannot be examined: %s", reason(err))
	case path != db.Schema:
		f.fail("Connect to Postgres itself: with pgbouncer, ignore_startup_parameters drops search_path and the time-outs.",
			"a pooler in front of Postgres drops the settings that every connection needs")
	case moved:
		f.fail(poolerAdvice, "a pooler in transaction mode is in front of Postgres: one connection was served by several server processes")
	case serving != backends[0].Announced():
		f.warn("Keep it in session mode, with room for every connection of every process.", "a pooler is in front of Postgres; it keeps sessions together")
	default:
		f.pass("connections reach Postgres itself")
	}
	return moved
}

// server looks at version and settings.
func (o *Options) server(ctx context.Context, pool *pgxpool.Pool, f *findings) {
	var version, most, reserved, used int
	var fsync, syncCommit, fullPages, autovacuum, readOnly, superuser string
	err := pool.QueryRow(ctx, sqlServer).Scan(&version, &most, &reserved, &used, &fsync, &syncCommit, &fullPages, &autovacuum, &readOnly, &superuser)
	if err != nil {
		f.fail("See the server's log.", "the server's settings cannot be read: %s", reason(err))
		return
	}
	switch major := version / 10000; {
	case major < oldestVersion:
		f.fail(fmt.Sprintf("Upgrade it to %d or later.", oldestVersion), "Postgres %d is older than %d, whose features the statements use", major, oldestVersion)
	case major != testedVersion:
		f.warn("Nothing is known against it; run the tests against it before you rely on it.", "Postgres %d answers; Waybill is tested with %d", major, testedVersion)
	default:
		f.pass("Postgres %d.%d answers", major, version%10000)
	}
	if readOnly == "on" {
		f.fail("Name the primary in WAYBILL_DATABASE_URL.", "the server is a read-only standby")
	}
	if fsync == "off" {
		f.fail("Set fsync = on.", "fsync is off: a crash of the machine loses committed events and may damage the database")
	}
	if fullPages == "off" {
		f.warn("Set full_page_writes = on, unless the file system never writes half a page.", "full_page_writes is off: a crash of the machine may damage the database")
	}
	if syncCommit == "off" {
		f.warn("Set synchronous_commit = on: it is not faster here, results are written in batches.", "synchronous_commit is off: a crash of the server loses what was committed in the last moments, events too")
	}
	if autovacuum == "off" {
		f.fail("Set autovacuum = on.", "autovacuum is off: the queue slows down within minutes")
	}
	o.connections(f, most-reserved, used)
	if superuser == "on" {
		f.warn("Use a role that owns the database and is no superuser.", "we connect as a superuser")
	}
}

// connections compares what the server has with what processes take.
func (o *Options) connections(f *findings, most, used int) {
	switch {
	case most < o.Conns:
		f.fail(fmt.Sprintf("Set max_connections to at least %d for each process, with what others use beside.", o.Conns),
			"max_connections leaves %d connections, and one process takes up to %d", most, o.Conns)
	case most < 2*o.Conns:
		f.warn("Raise max_connections before a second process, or a rolling restart, which runs two for a while.",
			"max_connections leaves %d connections: enough for one process with its %d, not for two", most, o.Conns)
	default:
		f.pass("max_connections leaves %d connections, %d of them used: enough for %d processes with %d each", most, used, most/o.Conns, o.Conns)
	}
}

// clock compares this machine's clock with the database's.
func (o *Options) clock(ctx context.Context, pool *pgxpool.Pool, f *findings) {
	best, difference := time.Hour, time.Duration(0)
	for range 3 {
		before := o.Now()
		var there time.Time
		if err := pool.QueryRow(ctx, "select clock_timestamp()").Scan(&there); err != nil {
			f.fail("See the server's log.", "the database does not say its time: %s", reason(err))
			return
		}
		after := o.Now()
		if trip := after.Sub(before); trip < best {
			best, difference = trip, there.Sub(before.Add(trip/2))
		}
	}
	apart := difference.Abs().Round(time.Millisecond)
	switch {
	case apart > clockFail:
		f.fail("Run a time service (chrony, systemd-timesyncd) on both machines.", "this machine's clock and the database's differ by %s: receivers refuse signatures, retries come at wrong times", apart)
	case apart > clockWarn:
		f.warn("Run a time service (chrony, systemd-timesyncd) on both machines.", "this machine's clock and the database's differ by %s", apart)
	default:
		f.pass("this machine's clock and the database's differ by %s", apart)
	}
}

// migrations looks whether the schema is this program's, and says whether there is one to look at.
func (o *Options) migrations(ctx context.Context, pool *pgxpool.Pool, f *findings) bool {
	state, err := db.SchemaState(ctx, pool)
	switch {
	case err != nil:
		f.fail("See the server's log.", "the schema cannot be read: %s", reason(err))
		return false
	case state == db.Newer:
		f.fail("Run the version that migrated it, or a later one.", "the schema is newer than this program")
		return true
	case state != db.Current:
		f.fail("Run `waybill migrate`.", "the schema is older than this program, or missing")
		return false
	}
	f.pass("the schema is this program's")
	var missing []string
	if err := pool.QueryRow(ctx, sqlDays).Scan(&missing); err != nil {
		f.fail("See the server's log.", "the partitions cannot be read: %s", reason(err))
	} else if len(missing) > 0 {
		f.fail("Start a process with the worker part, which makes them; if one runs, see its log.", "partitions are missing: %s", strings.Join(missing, ", "))
	}
	return true
}

// wall looks whether the second wall between tenants can stand.
func (o *Options) wall(ctx context.Context, pool *pgxpool.Pool, f *findings) {
	if err := db.WallReady(ctx, pool); err != nil {
		f.fail("Have an administrator run what it says, or run `waybill migrate` as a role that may create roles.", "tenants cannot be served behind the wall between them: %s", err)
		return
	}
	f.pass("what is done for a tenant runs as %s, which sees no other's rows", db.TenantRole)
}

// keys opens the oldest and the newest secret of each key that sealed any.
func (o *Options) keys(ctx context.Context, pool *pgxpool.Pool, f *findings) {
	if o.Ring == nil {
		return // configuration has said why
	}
	rows, err := pool.Query(ctx, sqlSecrets)
	if err != nil {
		f.fail("See the server's log.", "the secrets cannot be read: %s", reason(err))
		return
	}
	type sealed struct {
		Key, ID string
		Sealed  []byte
		N       int64
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sealed])
	if err != nil {
		f.fail("See the server's log.", "the secrets cannot be read: %s", reason(err))
		return
	}
	opened := 0
	for _, one := range all {
		_, err := o.Ring.Open(one.Sealed, lane.SecretAAD(one.ID))
		switch {
		case errors.Is(err, seal.ErrUnknownKey): // counted below, with all else that is sealed
		case err != nil:
			f.fail("Restore it from a backup, or rotate the endpoint's secret.", "secret %s cannot be opened: its bytes are damaged", one.ID)
		default:
			opened++
		}
	}
	standing, err := reseal.Look(ctx, pool, o.Ring)
	if err != nil {
		f.fail("See the server's log.", "what is sealed with which key cannot be counted: %s", reason(err))
		return
	}
	ids := strings.Join(o.Ring.KeyIDs(), ", ")
	switch {
	case standing.Lost() != "":
		f.fail("Find the key: in the old configuration, in a backup of it, on a machine that still runs.", "%s", standing.Lost())
	case opened < len(all): // said above
	case standing.Newest < standing.Total:
		f.warn("A process with the worker part does that in the background.", "the ring has %s; %s", ids, standing.Progress())
	default:
		f.pass("the ring has %s; %s", ids, standing.Progress())
	}
}
