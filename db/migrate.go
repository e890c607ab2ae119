package db

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"waybill/db/queries"
)

//go:embed migrations
var migrationFiles embed.FS

var (
	schemaExists    = queries.SQL("SchemaExists")
	migrationList   = queries.SQL("MigrationList")
	migrationInsert = queries.SQL("MigrationInsert")
	indexState      = queries.SQL("IndexState")
)

// migrationLock is the key of the advisory lock that one migrator holds at a time ("waybill" in ASCII).
const migrationLock int64 = 0x77617962696c6c

const (
	migrationLockTimeout = 5 * time.Second // a file waits no longer for a table, so that nobody queues up behind it
	migrationTries       = 10              // of a file that met a lock it could not get
)

// ErrNewer means that the database was migrated by a newer version of the program, whose schema this one does not know.
var ErrNewer = errors.New("the database's schema is newer than this program")

// Migrate brings the database at url to the schema of this program and River's to that of the library, and returns the
// names of what it applied. It needs a role that may create the schema, or own it. Any number of migrators may run at
// once: one works, the others wait for it and then find nothing to do. A migrator that is killed leaves each file either
// applied and recorded or not applied; the next one goes on from there. On a newer schema it changes nothing and returns
// ErrNewer.
func Migrate(ctx context.Context, url string, logger *slog.Logger) ([]string, error) {
	migrations, err := readMigrations(ownMigrations())
	if err != nil {
		return nil, err
	}
	return migrate(ctx, url, logger, migrations)
}

func ownMigrations() fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the name is valid
	}
	return sub
}

func migrate(ctx context.Context, url string, logger *slog.Logger, migrations []migration) ([]string, error) {
	pool, err := Open(ctx, url, Options{
		AppName: "waybill migrate", MaxConns: 2,
		StatementTimeout: None, LockTimeout: migrationLockTimeout, IdleInTxTimeout: None,
	})
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer pool.Close()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer conn.Release()

	m := migrator{conn: conn.Conn(), logger: logger}
	if err := m.lock(ctx); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer m.unlock()
	if err := m.prepareSchema(ctx); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	state, pending, err := compare(ctx, m.conn, migrations)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if state == Newer {
		return nil, fmt.Errorf("migrate: %w", ErrNewer)
	}
	var applied []string
	for _, next := range pending {
		if err := m.apply(ctx, next); err != nil {
			return applied, fmt.Errorf("migration %s: %w", next.name, err)
		}
		applied = append(applied, next.name)
	}
	river, err := migrateRiver(ctx, pool, logger)
	applied = append(applied, river...)
	if err != nil || len(applied) == 0 {
		return applied, err
	}
	// The files that made a new table, and River, know nothing of the wall.
	if _, err := m.conn.Exec(ctx, wallRaise); err != nil && !isMissing(err) {
		return applied, fmt.Errorf("migrate: raise the wall between tenants: %w", err)
	}
	return applied, nil
}

// isMissing says that a function is not there: the files of a test need not bring it.
func isMissing(err error) bool { return Code(err) == "42883" }

type migrator struct {
	conn   *pgx.Conn
	logger *slog.Logger
}

// lock asks again and again instead of waiting inside one statement: a waiting statement holds a snapshot, and a
// concurrent index build of the migrator that has the lock would wait for that snapshot for ever. The lock belongs to the
// connection that also runs the files; should this program die, the server keeps it until the running statement is over.
func (m *migrator) lock(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; {
		var got bool
		if err := m.conn.QueryRow(ctx, "select pg_try_advisory_lock($1)", migrationLock).Scan(&got); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if got {
			return nil
		}
		if !said {
			m.logger.InfoContext(ctx, "another migrator is at work; waiting for it")
			said = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for another migrator: %w", ctx.Err())
		}
	}
}

func (m *migrator) unlock() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// An error means that the connection is broken, and the lock gone with it.
	_, _ = m.conn.Exec(ctx, "select pg_advisory_unlock($1)", migrationLock)
}

// prepareSchema asks before it creates: `if not exists` wants the right to create even when there is nothing to do.
func (m *migrator) prepareSchema(ctx context.Context) error {
	var exists bool
	if err := m.conn.QueryRow(ctx, schemaExists, Schema).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := m.conn.Exec(ctx, "create schema "+Schema); err != nil {
			return err
		}
	}
	exists, err := tableExists(ctx, m.conn, "migrations")
	if err != nil || exists {
		return err
	}
	_, err = m.conn.Exec(ctx, `
		create table migrations (
			name       text primary key,
			checksum   text not null,
			applied_at timestamptz not null default now()
		)`)
	return err
}

func (m *migrator) apply(ctx context.Context, next migration) error {
	start := time.Now()
	var err error
	if next.outside {
		err = m.applyOutside(ctx, next)
	} else {
		err = m.applyInTx(ctx, next)
	}
	if err != nil {
		return err
	}
	m.logger.InfoContext(ctx, "migrated", "migration", next.name, "took_ms", time.Since(start).Milliseconds())
	return nil
}

// applyInTx tries again when a lock could not be had, because a long transaction of the running program is no reason to
// fail, and waiting in the lock queue would stop everybody behind us.
func (m *migrator) applyInTx(ctx context.Context, next migration) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
			// The simple protocol, because a file holds many statements.
			if _, err := tx.Conn().PgConn().Exec(ctx, next.sql).ReadAll(); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, migrationInsert, next.name, next.checksum)
			return err
		})
		if Code(err) != "55P03" && !IsRetryable(err) || try == migrationTries {
			return err
		}
		m.logger.WarnContext(ctx, "a table is locked; trying again", "migration", next.name, "try", try)
		select {
		case <-time.After(time.Duration(try) * 100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// applyOutside runs the concurrent index statements of a file one by one. It may wait for old transactions as long as
// they last: the lock such a statement asks for keeps no reader or writer away.
func (m *migrator) applyOutside(ctx context.Context, next migration) error {
	if _, err := m.conn.Exec(ctx, "set lock_timeout = 0"); err != nil {
		return err
	}
	defer func() {
		_, _ = m.conn.Exec(context.WithoutCancel(ctx),
			fmt.Sprintf("set lock_timeout = %d", migrationLockTimeout.Milliseconds()))
	}()
	for _, statement := range next.statements {
		if err := m.applyIndex(ctx, next, statement); err != nil {
			return err
		}
	}
	_, err := m.conn.Exec(ctx, migrationInsert, next.name, next.checksum)
	return err
}

// applyIndex repairs what a killed run left (CASES B65): an invalid index is dropped and built anew; a valid one stays.
func (m *migrator) applyIndex(ctx context.Context, next migration, statement indexStatement) error {
	valid, exists, err := m.index(ctx, statement.index)
	if err != nil {
		return err
	}
	if statement.create && exists {
		if valid {
			return nil
		}
		m.logger.WarnContext(ctx, "dropping an index whose build was interrupted",
			"migration", next.name, "index", statement.index)
		drop := "drop index concurrently " + pgx.Identifier{statement.index}.Sanitize()
		if _, err := m.conn.Exec(ctx, drop); err != nil {
			return err
		}
	}
	if !statement.create && !exists {
		return nil
	}
	if _, err := m.conn.PgConn().Exec(ctx, statement.sql).ReadAll(); err != nil {
		return err
	}
	valid, exists, err = m.index(ctx, statement.index)
	switch {
	case err != nil:
		return err
	case statement.create && !valid:
		return fmt.Errorf("the index %s is not valid after it was built", statement.index)
	case !statement.create && exists:
		return fmt.Errorf("the index %s is still there after it was dropped", statement.index)
	}
	return nil
}

func (m *migrator) index(ctx context.Context, name string) (valid, exists bool, err error) {
	err = m.conn.QueryRow(ctx, indexState, Schema, name).Scan(&valid)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	return valid, err == nil, err
}

func riverMigrator(pool *pgxpool.Pool, logger *slog.Logger) (*rivermigrate.Migrator[pgx.Tx], error) {
	return rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: Schema,
		Logger: slog.New(quiet{logger.Handler()}),
	})
}

func migrateRiver(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) ([]string, error) {
	river, err := riverMigrator(pool, logger)
	if err != nil {
		return nil, fmt.Errorf("migrate river: %w", err)
	}
	result, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return nil, fmt.Errorf("migrate river: %w", err)
	}
	var applied []string
	for _, version := range result.Versions {
		applied = append(applied, fmt.Sprintf("river %03d %s", version.Version, version.Name))
	}
	if len(applied) > 0 {
		logger.InfoContext(ctx, "migrated", "migration", "river", "steps", len(applied))
	}
	return applied, nil
}

// quiet lets only warnings through: River tells of each of its steps.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}
