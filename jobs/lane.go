package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"waybill/app/lane"
)

// LaneArgs is a ticket to take one lane, if its generation still matches.
type LaneArgs struct {
	Endpoint string `json:"endpoint"`
	Tenant   string `json:"tenant"`
	Gen      int64  `json:"gen"`
}

// Kind names the job. The sweeper's statement SweepStale looks for it by this name and by the names of the fields.
func (LaneArgs) Kind() string { return "lane" }

// LaneWorker takes the lane and sends what is due.
type LaneWorker struct {
	river.WorkerDefaults[LaneArgs]
	Engine *lane.Engine
}

// Work returns nil for a stale ticket as well: the lane's row is the truth. An error means that we could not even ask for the lane.
func (w *LaneWorker) Work(ctx context.Context, job *river.Job[LaneArgs]) error {
	err := w.Engine.Work(ctx, lane.Ticket{EndpointID: job.Args.Endpoint, TenantID: job.Args.Tenant, Gen: job.Args.Gen, Suspect: job.Queue == QueueSuspects})
	switch {
	case errors.Is(err, lane.ErrDraining):
		return river.JobSnooze(100 * time.Millisecond) // another process takes it
	case errors.Is(err, lane.ErrNoLease):
		return river.JobSnooze(200 * time.Millisecond)
	}
	return err
}

// NextRetry is soon, every time: only the database's absence fails a ticket, and when it is back nobody is to wait for an exponential backoff. The
// sweeper makes a new ticket when the tries have run out.
func (w *LaneWorker) NextRetry(*river.Job[LaneArgs]) time.Time { return time.Now().Add(time.Second) }

// Timeout only tidies up: a lane hands itself back after a minute.
func (w *LaneWorker) Timeout(*river.Job[LaneArgs]) time.Duration { return 10 * time.Minute }
