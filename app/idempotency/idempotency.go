// Package idempotency makes calls that can be sent twice: an API call that carries a key is carried out once, and whoever sends it again is
// given the first answer.
//
// It promises that of any number of equal calls with one key at most one is carried out, also when they arrive at once, in several processes,
// or after a process died in the middle: that a call was carried out is committed with what it did, or not at all. A key belongs to
// the API key that sent it and to one content; it is kept for Kept. Answers are sealed, because some hold a secret.
package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/fault"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// Kept is how long an answer is kept, and a key is taken.
const Kept = 24 * time.Hour

// busyFor is how long a call counts as under way: longer than any that is still answered. After that its process is gone.
const busyFor = 2 * time.Minute

// Store keeps keys and answers. DB and Ring are required; Prune needs no Ring.
type Store struct {
	DB   *pgxpool.Pool
	Ring *seal.Ring
}

// Reply is an answer that was given.
type Reply struct {
	Status      int
	ContentType string // empty: no body
	Body        []byte
}

// Call is one that has been claimed, and is the caller's to carry out.
type Call struct {
	store         *Store
	callerID, key string
	gen           int64
}

var (
	sqlClaim   = queries.SQL("IdempotencyClaim")
	sqlRead    = queries.SQL("IdempotencyRead")
	sqlDone    = queries.SQL("IdempotencyDone")
	sqlReply   = queries.SQL("IdempotencyReply")
	sqlRelease = queries.SQL("IdempotencyRelease")
	sqlPrune   = queries.SQL("IdempotencyPrune")
)

// Valid says whether text can be a key: 1 to 255 printable ASCII characters without spaces.
func Valid(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= 255
}

// Claim begins a call, or finds the answer that was given to it. Exactly one of both is not nil without an error. The fingerprint is the SHA-256 of
// everything the call asks for. Another content under the same key is KeyReused. InProgress: the same call is being answered, or was
// carried out by a process that died before it could say what came of it.
func (s *Store) Claim(ctx context.Context, callerID, key string, fingerprint []byte) (*Call, *Reply, error) {
	for range 3 {
		call := &Call{store: s, callerID: callerID, key: key}
		err := s.DB.QueryRow(ctx, sqlClaim, callerID, key, fingerprint, busyFor, Kept).Scan(&call.gen)
		if err == nil {
			return call, nil, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, nil, fmt.Errorf("claim an idempotency key: %w", err)
		}
		reply, err := s.earlier(ctx, callerID, key, fingerprint)
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, reply, err
		}
		// It was released in between: the earlier call did nothing.
	}
	return nil, nil, errBusy()
}

func errBusy() error {
	return fault.New(fault.InProgress, "The same call is being answered just now. Send it again in a moment for its answer.")
}

func (s *Store) earlier(ctx context.Context, callerID, key string, fingerprint []byte) (*Reply, error) {
	var same, busy, done bool
	var reply Reply
	var sealed []byte
	err := s.DB.QueryRow(ctx, sqlRead, callerID, key, fingerprint).Scan(&same, &busy, &done, &reply.Status, &reply.ContentType, &sealed)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read an idempotency key: %w", err)
	case !same:
		return nil, fault.New(fault.KeyReused, "This Idempotency-Key was used within a day for a call with another address or content. Use a new one for each call.")
	case reply.Status == 0 && (busy || !done):
		return nil, errBusy()
	case reply.Status == 0:
		return nil, fault.New(fault.InProgress, "The call was carried out, and its answer was lost with the process that gave it. Read what is there now.")
	}
	if reply.Body, err = s.Ring.Open(sealed, place(callerID, key)); err != nil {
		return nil, fault.Wrap(fault.InProgress, "The call was carried out, and its answer can no longer be shown. Read what is there now.", err)
	}
	return &reply, nil
}

// place binds a sealed answer to its row.
func place(callerID, key string) []byte { return []byte("idempotency_keys/" + callerID + "/" + key) }

// Bind makes a context under which what db.Tx commits also notes that the call was carried out.
func (c *Call) Bind(ctx context.Context) context.Context {
	return db.WithLast(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlDone, c.callerID, c.key, c.gen)
		if err != nil {
			return fmt.Errorf("note that a call was carried out: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return errBusy() // it took so long that another was let through
		}
		return nil
	})
}

// Answer keeps the answer.
func (c *Call) Answer(ctx context.Context, reply Reply) error {
	sealed := c.store.Ring.Seal(reply.Body, place(c.callerID, c.key))
	if _, err := c.store.DB.Exec(ctx, sqlReply, c.callerID, c.key, c.gen, reply.Status, reply.ContentType, sealed); err != nil {
		return fmt.Errorf("keep an answer: %w", err)
	}
	return nil
}

// Release gives the key back when the call was refused: what did nothing can be sent again, changed or not. What was carried out stays.
func (c *Call) Release(ctx context.Context) error {
	if _, err := c.store.DB.Exec(ctx, sqlRelease, c.callerID, c.key, c.gen); err != nil {
		return fmt.Errorf("release an idempotency key: %w", err)
	}
	return nil
}

// Prune removes keys whose time is over and says how many. A job calls it; nothing depends on it.
func (s *Store) Prune(ctx context.Context) (int, error) {
	removed := 0
	for {
		tag, err := s.DB.Exec(ctx, sqlPrune)
		if err != nil {
			return removed, fmt.Errorf("prune idempotency keys: %w", err)
		}
		removed += int(tag.RowsAffected())
		if tag.RowsAffected() == 0 {
			return removed, nil
		}
	}
}
