package receive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what the inbox needs of Postgres: a pgxpool.Pool, or a connection that one goroutine uses.
type DB interface {
	Execer
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Postgres is an inbox in a table "inbox" of a schema that Migrate made, and a Bookmark beside it. It is the only inbox of the kit, because the handler's
// own tables and the inbox must share a transaction: another database is a small type of one's own, as the examples in
// Python (SQLite) and Node (files) show. It is an Inbox and a Queue, and safe for
// concurrent use when its DB is.
type Postgres struct {
	db                               DB
	insert, take, done, fail, forget string
	bookmark, setBookmark            string
}

// NewPostgres is the inbox of this schema.
func NewPostgres(db DB, schema string) *Postgres {
	table, bookmark := pgx.Identifier{schema, "inbox"}.Sanitize(), pgx.Identifier{schema, "bookmark"}.Sanitize()
	return &Postgres{
		db:       db,
		bookmark: `select cursor from ` + bookmark,
		setBookmark: `insert into ` + bookmark + ` (one, cursor)
values (true, $1)
on conflict (one) do update
set cursor = excluded.cursor`,
		insert: `insert into ` + table + ` (event_id, body, received_at, next_at)
values ($1, $2, $3, $3)
on conflict (event_id) do nothing`,
		// By inbox_waiting: the row that has waited longest and that nobody else holds.
		take: `select event_id, body, received_at, failures
from ` + table + `
where done_at is null
  and next_at <= $1
order by next_at
limit 1
for update skip locked`,
		done: `update ` + table + `
set done_at = $2, last_error = null
where event_id = $1`,
		fail: `update ` + table + `
set failures = failures + 1, next_at = $2, last_error = $3
where event_id = $1
  and done_at is null`,
		// By inbox_done.
		forget: `delete from ` + table + `
where event_id in (
  select event_id
  from ` + table + `
  where done_at < $1
  order by done_at
  limit $2
  for update skip locked
)`,
	}
}

// Migrate makes schema and inbox unless they are there. Several may do so at once.
func Migrate(ctx context.Context, db DB, schema string) error {
	name, table := pgx.Identifier{schema}.Sanitize(), pgx.Identifier{schema, "inbox"}.Sanitize()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// Without the lock two "create … if not exists" can meet in the catalog and one fails.
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('receive inbox ' || $1, 0))`, schema); err != nil {
			return err
		}
		for _, statement := range []string{
			`create schema if not exists ` + name,
			`create table if not exists ` + table + ` (
  event_id text collate "C" primary key,
  body bytea not null,
  received_at timestamptz not null,
  done_at timestamptz,
  failures integer not null default 0,
  next_at timestamptz not null,
  last_error text
)`,
			`create table if not exists ` + pgx.Identifier{schema, "bookmark"}.Sanitize() + ` (
  one boolean primary key check (one),
  cursor text not null
)`,
			`create index if not exists inbox_waiting on ` + table + ` (next_at) where done_at is null`,
			`create index if not exists inbox_done on ` + table + ` (done_at) where done_at is not null`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("receive: migrate %s: %w", name, err)
	}
	return nil
}

// Bookmark is how far the catalog has been reconciled; empty: not yet.
func (p *Postgres) Bookmark(ctx context.Context) (string, error) {
	var cursor string
	err := p.db.QueryRow(ctx, p.bookmark).Scan(&cursor)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return cursor, err
}

// SetBookmark keeps how far the catalog has been reconciled.
func (p *Postgres) SetBookmark(ctx context.Context, cursor string) error {
	_, err := p.db.Exec(ctx, p.setBookmark, cursor)
	return err
}

// Insert is Inbox's: one row an event id, and a repeat inserts nothing.
func (p *Postgres) Insert(ctx context.Context, m Message) (bool, error) {
	body := m.Body
	if body == nil {
		body = []byte{}
	}
	tag, err := p.db.Exec(ctx, p.insert, m.ID, body, m.ReceivedAt)
	if err != nil {
		return false, fmt.Errorf("receive: insert into the inbox: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Work is Queue's. The handler's transaction is a savepoint of the one that holds the message, so that its failure is
// recorded and its effects are not.
func (p *Postgres) Work(ctx context.Context, now time.Time, handle func(context.Context, pgx.Tx, Message) error) (Work, error) {
	var w Work
	err := pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) error {
		m := &w.Message
		err := tx.QueryRow(ctx, p.take, now).Scan(&m.ID, &m.Body, &m.ReceivedAt, &m.Failures)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		w.Found = true
		// A savepoint beside pgx's own: that one is gone when a handler has swallowed the error of a statement and the
		// release fails.
		if _, err := tx.Exec(ctx, `savepoint before_handler`); err != nil {
			return err
		}
		w.Failure = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { return guarded(ctx, inner, *m, handle) })
		if w.Failure == nil {
			_, err = tx.Exec(ctx, p.done, m.ID, now)
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err() // stopped and not failed: the message is given back as it was
		}
		if _, err := tx.Exec(ctx, `rollback to savepoint before_handler`); err != nil {
			return err
		}
		return p.failed(ctx, tx, w, now)
	})
	// What the handler left to the commit (a deferred constraint) can fail there: that too is its failure.
	if w.Found && w.Failure == nil && ctx.Err() == nil && isRefusal(err) {
		w.Failure = err
		err = p.failed(ctx, p.db, w, now)
	}
	if err != nil {
		return Work{}, fmt.Errorf("receive: work on the inbox: %w", err)
	}
	return w, nil
}

// isRefusal reports whether the server is well and did not accept what it was given (SQLSTATE classes 08, 53 and 57
// are of a server in trouble).
func isRefusal(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !strings.HasPrefix(e.Code, "08") && !strings.HasPrefix(e.Code, "53") && !strings.HasPrefix(e.Code, "57")
}

func (p *Postgres) failed(ctx context.Context, db Execer, w Work, now time.Time) error {
	_, err := db.Exec(ctx, p.fail, w.Message.ID, now.Add(retryIn(w.Message.Failures+1)), storable(w.Failure.Error()))
	return err
}

// guarded turns a panic of the handler into its failure: one message must not stop the others.
func guarded(ctx context.Context, tx pgx.Tx, m Message, handle func(context.Context, pgx.Tx, Message) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the handler panicked: %v", v)
		}
	}()
	return handle(ctx, tx, m)
}

// storable is what a text column takes: no NUL, no broken UTF-8, and not without end.
func storable(s string) string {
	const most = 1000
	if len(s) > most {
		s = s[:most]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// Forget deletes up to limit handled messages that were done before this time, and says how many. A repeat of a
// forgotten one would be handled again: keep them for as long as the sender can retry and resend, which for Waybill is
// 30 days and the length of a schedule (first seed, "How long to keep the event ids").
func (p *Postgres) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	tag, err := p.db.Exec(ctx, p.forget, before, limit)
	if err != nil {
		return 0, fmt.Errorf("receive: forget old messages: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
