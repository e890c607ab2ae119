package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/e2e"
)

// wait sleeps, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// publishers publish until ctx ends: three in SQL, two by the API.
func (c *chaos) publishers(ctx context.Context) {
	var wg sync.WaitGroup
	for n := range 5 {
		publish := c.publishSQL
		if n >= 3 {
			publish = c.publishAPI
		}
		random := c.random(fmt.Sprint("publisher ", n))
		wg.Go(func() {
			for batch := 0; ctx.Err() == nil; batch++ {
				tenant := sortedKeys(c.types)[random.IntN(tenants)]
				var events []e2e.Event
				for range 1 + random.IntN(3) {
					prefix := fmt.Sprintf("p%d-%d-%d", n, batch, len(events))
					events = append(events, e2e.Events(tenant, pick(random, c.types[tenant]...), prefix, 1+random.IntN(4))...)
				}
				publish(ctx, random, events)
				wait(ctx, between(random, 100*time.Millisecond, 400*time.Millisecond))
			}
		})
	}
	wg.Wait()
}

// patience bounds the time for which a publisher tries again: beyond it the system has failed.
const patience = 90 * time.Second

// pauseAfter keeps publishers from asking a database that is away a hundred times a second.
func pauseAfter(err error) {
	if err != nil {
		wait(context.Background(), 100*time.Millisecond)
	}
}

// publishSQL publishes in a transaction as the platform would: some are rolled back, some stay open for a while. Whether a commit whose answer was lost
// has happened is found out by publishing the same events again.
func (c *chaos) publishSQL(ctx context.Context, random *rand.Rand, events []e2e.Event) {
	rollBack, open := random.Float64() < 0.2, time.Duration(0)
	if random.Float64() < 0.15 {
		open = between(random, 0, 1500*time.Millisecond)
	}
	regret := errors.New("rolled back")
	err := e2e.Until(context.WithoutCancel(ctx), patience, "a publisher commits", func() (bool, error) {
		trying, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err := pgx.BeginFunc(trying, c.system.Pool, func(tx pgx.Tx) error {
			if err := e2e.PublishIn(trying, tx, events...); err != nil {
				return err
			}
			wait(ctx, open)
			if rollBack {
				return regret
			}
			return nil
		})
		pauseAfter(err)
		return err == nil || rollBack, err // a transaction that failed before its rollback is rolled back as well
	})
	switch {
	case err != nil:
		c.ledger.Complain("publishing in SQL: %v", err)
	case rollBack:
		c.ledger.RollBack(events...)
	default:
		c.ledger.Commit(events...)
	}
}

// publishAPI sends a batch until it hears yes.
func (c *chaos) publishAPI(ctx context.Context, _ *rand.Rand, events []e2e.Event) {
	err := e2e.Until(context.WithoutCancel(ctx), patience, "the API takes a batch", func() (bool, error) {
		trying, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := c.system.PublishAPI(trying, c.ledger, events...)
		var refusal *e2e.Refusal
		if errors.As(err, &refusal) && refusal.Status < 500 && refusal.Status != 429 {
			c.ledger.Complain("the API refused events: %v", err)
			return true, nil
		}
		pauseAfter(err)
		return err == nil, err
	})
	if err != nil {
		c.ledger.Complain("publishing by the API: %v", err)
	}
}

// readCatalog follows the events by position until ctx ends: none may appear behind what was read, and none be left out.
func (c *chaos) readCatalog(ctx context.Context) {
	var last int64
	for ; ctx.Err() == nil; wait(ctx, 50*time.Millisecond) {
		rows, err := c.system.Pool.Query(ctx, `select position from events where position > $1 order by position`, last)
		if err != nil {
			continue
		}
		positions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			continue
		}
		for _, position := range positions {
			if position != last+1 {
				c.ledger.Complain("a reader of the catalog found position %d after %d", position, last)
			}
			last = position
		}
	}
}
