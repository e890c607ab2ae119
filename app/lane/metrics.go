package lane

import (
	"sync/atomic"
	"time"
)

// Metrics are this process's counters since its start.
type Metrics struct {
	firsts atomic.Int64
	waits  atomic.Int64 // nanoseconds, summed

	flushes, results       atomic.Int64
	delivered, undelivered atomic.Int64
}

// Settled is how many deliveries this process has seen end, by the status they ended with.
func (e *Engine) Settled() map[string]int64 {
	return map[string]int64{"delivered": e.metrics.delivered.Load(), "undelivered": e.metrics.undelivered.Load()}
}

// Flushes is how many batches of results this process has committed, and how many results were in them.
func (e *Engine) Flushes() (batches, results int64) {
	return e.metrics.flushes.Load(), e.metrics.results.Load()
}

// flushed counts a committed batch.
func (m *Metrics) flushed(batch []*result) {
	m.flushes.Add(1)
	m.results.Add(int64(len(batch)))
	for _, r := range batch {
		switch r.verdict.action {
		case actionDone:
			m.delivered.Add(1)
		case actionExhausted:
			m.undelivered.Add(1)
		}
	}
}

// waited counts a first attempt and how long it was due before it was fetched.
func (m *Metrics) waited(d time.Duration) {
	m.firsts.Add(1)
	m.waits.Add(int64(d))
}
