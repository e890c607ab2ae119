package receive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// run starts the worker and gives back a function that stops it and waits for its end.
func run(t *testing.T, w *Worker[int]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func put(t *testing.T, inbox *fakeInbox, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := inbox.Insert(t.Context(), Message{ID: id, Body: []byte("{}"), ReceivedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWorkerHandlesWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox := newFakeInbox()
		var handled []string
		w := &Worker[int]{Queue: inbox, Handle: func(_ context.Context, _ int, m Message) error {
			handled = append(handled, m.ID)
			return nil
		}}
		put(t, inbox, "a", "b")
		stop := run(t, w)
		defer stop()
		synctest.Wait()
		if !slices.Equal(handled, []string{"a", "b"}) {
			t.Errorf("from the start: %v", handled)
		}

		start := time.Now()
		put(t, inbox, "c")
		w.Wake()
		w.Wake()
		synctest.Wait()
		if !slices.Equal(handled, []string{"a", "b", "c"}) || time.Since(start) != 0 {
			t.Errorf("after a wake: %v, %v later", handled, time.Since(start))
		}

		put(t, inbox, "d") // nobody wakes
		time.Sleep(time.Second)
		synctest.Wait()
		if len(handled) != 4 {
			t.Errorf("after the poll: %v", handled)
		}
	})
}

func TestWorkerWakesBeforeRun(t *testing.T) {
	t.Parallel()
	w := &Worker[int]{}
	w.Wake()
	w.Wake() // must not block
	if len(w.waker()) != 1 {
		t.Errorf("%d wakes are kept, want 1", len(w.waker()))
	}
}

func TestWorkerRetriesWhatFailsAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox := newFakeInbox()
		start := time.Now()
		type try struct {
			id       string
			at       time.Duration
			failures int
		}
		var tries []try
		var reported []string
		w := &Worker[int]{
			Queue: inbox,
			Poll:  100 * time.Millisecond,
			Handle: func(_ context.Context, _ int, m Message) error {
				tries = append(tries, try{m.ID, time.Since(start), m.Failures})
				if m.ID == "bad" && m.Failures < 3 {
					return errors.New("no")
				}
				return nil
			},
			Report: func(_ context.Context, w Work, err error) {
				reported = append(reported, fmt.Sprint(w.Message.ID, " ", w.Failure, " ", err))
			},
		}
		put(t, inbox, "bad", "good")
		stop := run(t, w)
		time.Sleep(10 * time.Second)
		stop()
		want := []try{{"bad", 0, 0}, {"good", 0, 0}, {"bad", time.Second, 1}, {"bad", 3 * time.Second, 2}, {"bad", 7 * time.Second, 3}}
		if !slices.Equal(tries, want) {
			t.Errorf("%v\nwant %v", tries, want)
		}
		if !slices.Equal(reported, []string{"bad no <nil>", "good <nil> <nil>", "bad no <nil>", "bad no <nil>", "bad <nil> <nil>"}) {
			t.Errorf("reported %q", reported)
		}
	})
}

func TestWorkerOutlivesItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox := newFakeInbox()
		put(t, inbox, "a")
		inbox.breakWith(errBroken)
		handled, failures := 0, 0
		w := &Worker[int]{
			Queue:  inbox,
			Handle: func(context.Context, int, Message) error { handled++; return nil },
			Report: func(_ context.Context, w Work, err error) {
				if err != nil {
					failures++
					if w.Found || !errors.Is(err, errBroken) {
						t.Errorf("reported %+v, %v", w, err)
					}
				}
			},
		}
		stop := run(t, w)
		time.Sleep(4*time.Second + time.Millisecond)
		synctest.Wait()
		if handled != 0 || failures != 5 { // at once, and with each poll: no busy loop
			t.Errorf("handled %d, %d failures in four seconds", handled, failures)
		}
		inbox.breakWith(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if handled != 1 {
			t.Errorf("handled %d after the queue came back", handled)
		}
		stop()
	})
}

func TestWorkerStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox := newFakeInbox()
		put(t, inbox, "a", "b")
		started := make(chan struct{}, 2)
		w := &Worker[int]{
			Queue: inbox,
			Handle: func(ctx context.Context, _ int, _ Message) error {
				started <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			},
			Report: func(context.Context, Work, error) { t.Error("a stop is reported as a failure") },
		}
		stop := run(t, w)
		<-started
		stop()
		if len(started) != 0 {
			t.Error("another message was begun after the stop")
		}
	})
}

func TestRetryIn(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 8: 128 * time.Second, 9: 256 * time.Second,
		10: 5 * time.Minute, 11: 5 * time.Minute, 1 << 40: 5 * time.Minute,
	} {
		if got := retryIn(failures); got != want {
			t.Errorf("retryIn(%d) = %v, want %v", failures, got, want)
		}
	}
}
