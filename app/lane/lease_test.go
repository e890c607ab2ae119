package lane

import (
	"testing"
	"time"
)

// TestPatienceOfAHeartbeat: whatever the database does, a heartbeat is over when four fifths of the lease are.
func TestPatienceOfAHeartbeat(t *testing.T) {
	t.Parallel()
	const length = 5 * time.Second
	const last = time.Minute // after the engine's birth
	for since, want := range map[time.Duration]time.Duration{
		time.Second:             2 * time.Second, // the usual: two of five tries may hang
		2 * time.Second:         2 * time.Second,
		3 * time.Second:         time.Second, // 4 s after the last one the lanes must stop
		3900 * time.Millisecond: 100 * time.Millisecond,
		4 * time.Second:         500 * time.Millisecond, // suspended meanwhile: once more, shortly
		time.Hour:               500 * time.Millisecond,
	} {
		l := &lease{}
		l.beat.Store(int64(last))
		if got := l.patience(last+since, length); got != want {
			t.Errorf("%s after the last heartbeat: %s, want %s", since, got, want)
		}
	}
}
