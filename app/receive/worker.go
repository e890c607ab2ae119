package receive

import (
	"context"
	"sync"
	"time"
)

// Queue hands out what is in an inbox and not yet handled. Tx is the transaction that a handler works in.
type Queue[Tx any] interface {
	// Work takes the message that has waited longest, gives it to handle, and marks it done in the transaction that
	// handle worked in. When handle fails, its effects are undone and the message comes again after a growing wait.
	// Several calls at once take different messages. The error is of the queue itself and never handle's.
	Work(ctx context.Context, now time.Time, handle func(context.Context, Tx, Message) error) (Work, error)
}

// Work is what one call of Queue.Work did.
type Work struct {
	// Found is false when nothing waits; then the rest is empty.
	Found   bool
	Message Message
	// Failure is what the handler returned; nil when the message is done.
	Failure error
}

// Worker handles what arrives, one message after the other. A failing message comes again later and holds up no other.
type Worker[Tx any] struct {
	// Queue is where the messages are.
	Queue Queue[Tx]
	// Handle applies one message within tx. It must neither commit nor roll back, and its effects outside of tx may
	// happen more than once.
	Handle func(ctx context.Context, tx Tx, m Message) error
	// Report, unless nil, is told of every message and of every failure of the queue (then w is empty).
	Report func(ctx context.Context, w Work, err error)
	// Poll is how often the queue is asked when nobody wakes the worker; 0 is one second.
	Poll time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	once sync.Once
	wake chan struct{}
}

// Wake makes a waiting Run look again at once. It never blocks; calls while it is busy count as one.
func (w *Worker[Tx]) Wake() {
	select {
	case w.waker() <- struct{}{}:
	default:
	}
}

func (w *Worker[Tx]) waker() chan struct{} {
	w.once.Do(func() { w.wake = make(chan struct{}, 1) })
	return w.wake
}

// Run handles messages until ctx ends; it may run several times at once. A message in hand is given back.
func (w *Worker[Tx]) Run(ctx context.Context) {
	poll := w.Poll
	if poll <= 0 {
		poll = time.Second
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.waker():
		}
		for ctx.Err() == nil && w.one(ctx) {
			// Until nothing waits, or the queue fails: then the next poll is soon enough.
		}
		timer.Reset(poll)
	}
}

// one reports whether there may be more.
func (w *Worker[Tx]) one(ctx context.Context) bool {
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	work, err := w.Queue.Work(ctx, now(), w.Handle)
	if w.Report != nil && ctx.Err() == nil && (work.Found || err != nil) {
		w.Report(ctx, work, err)
	}
	return work.Found && err == nil
}

// retryIn is the wait after a handler has failed this often: 1 s, doubled each time, at most 5 minutes.
func retryIn(failures int) time.Duration {
	const longest = 5 * time.Minute
	if failures > 9 {
		return longest
	}
	return min(time.Second<<max(failures-1, 0), longest)
}
