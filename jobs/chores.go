package jobs

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
)

// Chores are the jobs that keep the house: rare, short and idempotent.
type Chores struct {
	Pool *pgxpool.Pool
}

func (c *Chores) register(known *river.Workers) {
	river.AddWorker(known, &PartitionsWorker{Pool: c.Pool})
}

func (c *Chores) periodic() []*river.PeriodicJob {
	return []*river.PeriodicJob{
		river.NewPeriodicJob(river.PeriodicInterval(12*time.Hour), func() (river.JobArgs, *river.InsertOpts) {
			return PartitionsArgs{}, &river.InsertOpts{Queue: QueueChores}
		}, &river.PeriodicJobOpts{RunOnStart: true}),
	}
}
