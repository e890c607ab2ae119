package db

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// AcquireTimeout is how long Tx waits for a free connection; then the database counts as unavailable.
const AcquireTimeout = 5 * time.Second

// txTries is how often Tx runs its function at most.
const txTries = 5

// Acquirer is what Tx needs of a Pool.
type Acquirer interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

// Tx runs fn in a transaction and commits it when fn returns nil; an error or a panic of fn rolls it back. When Postgres
// ended the transaction as the victim of a deadlock or of a serialisation conflict (IsRetryable), fn is run again in a
// new one, up to five times in all, so fn must have no effect outside of tx. An error of the commit is returned as it
// is: if the connection broke in that moment, nobody knows whether it happened.
func Tx(ctx context.Context, pool Acquirer, fn func(tx pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := txOnce(ctx, pool, fn)
		if err == nil || !IsRetryable(err) || try == txTries {
			return err
		}
		// The rivals were let through by the abort; the random part keeps two victims from meeting again.
		select {
		case <-time.After(time.Duration(try) * time.Duration(1+rand.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

type lastKey struct{}

// WithLast gives the transactions that Tx opens under the context one more thing to do, after what they were opened for and before the commit: it
// happens with the rest, or not at all. It is for what must be true of any operation, whichever it is.
func WithLast(ctx context.Context, last func(ctx context.Context, tx pgx.Tx) error) context.Context {
	return context.WithValue(ctx, lastKey{}, last)
}

func txOnce(ctx context.Context, pool Acquirer, fn func(tx pgx.Tx) error) error {
	waiting, cancel := context.WithTimeout(ctx, AcquireTimeout)
	conn, err := pool.Acquire(waiting)
	cancel()
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	last, _ := ctx.Value(lastKey{}).(func(context.Context, pgx.Tx) error)
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil || last == nil {
			return err
		}
		return last(ctx, tx)
	})
}
