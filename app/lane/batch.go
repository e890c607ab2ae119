package lane

import (
	"context"
	"time"
)

// batcher runs one function over everything that was asked while its last run was under way: group commit, without a timer unless linger
// says so. A request's answer is whatever the function left in it.
type batcher[Q any] struct {
	requests chan *pending[Q]
	size     int           // at most so many at once
	linger   time.Duration // wait for more, once there is one
	run      func(ctx context.Context, batch []Q) error
}

type pending[Q any] struct {
	q    Q
	done chan error
}

func newBatcher[Q any](size int, linger time.Duration, run func(context.Context, []Q) error) *batcher[Q] {
	return &batcher[Q]{requests: make(chan *pending[Q], size), size: size, linger: linger, run: run}
}

// do hands q to the next run and waits for its end. The error is that of the whole run.
func (b *batcher[Q]) do(ctx context.Context, q Q) error {
	p := &pending[Q]{q: q, done: make(chan error, 1)}
	select {
	case b.requests <- p:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loop runs batches until ctx ends. Several loops of one batcher may run at once.
func (b *batcher[Q]) loop(ctx context.Context) {
	for {
		var batch []*pending[Q]
		select {
		case <-ctx.Done():
			return
		case p := <-b.requests:
			batch = append(batch, p)
		}
		if b.linger > 0 {
			timer := time.NewTimer(b.linger)
		lingering:
			for len(batch) < b.size {
				select {
				case p := <-b.requests:
					batch = append(batch, p)
				case <-timer.C:
					break lingering
				case <-ctx.Done():
					break lingering
				}
			}
			timer.Stop()
		}
	taking:
		for len(batch) < b.size {
			select {
			case p := <-b.requests:
				batch = append(batch, p)
			default:
				break taking
			}
		}
		queries := make([]Q, len(batch))
		for i, p := range batch {
			queries[i] = p.q
		}
		err := b.run(ctx, queries)
		for _, p := range batch {
			p.done <- err
		}
	}
}
