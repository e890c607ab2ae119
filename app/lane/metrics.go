package lane

import (
	"sync/atomic"
	"time"
)

// Metrics are this process's counters since its start.
type Metrics struct {
	firsts atomic.Int64
	waits  atomic.Int64 // nanoseconds, summed
}

// waited counts a first attempt and how long it was due before it was fetched.
func (m *Metrics) waited(d time.Duration) {
	m.firsts.Add(1)
	m.waits.Add(int64(d))
}
