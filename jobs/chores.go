package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"waybill/app/delivery"
)

// Chores are the jobs that keep the house: rare, short and idempotent, because a change of River's leader starts their intervals anew.
type Chores struct {
	Pool   *pgxpool.Pool
	Prunes []Prune
	// Deliveries works on catch-ups; nil: this process does not.
	Deliveries *delivery.Service
	Mails      *Mails // nil: this process sends no mails
	// Retention removes what is no longer kept; nil: this process does not.
	Retention *Retention
	// Digest mails what became undelivered in hours that are over; nil: this process does not.
	Digest func(ctx context.Context) (int, error)
	// Reseal seals with the newest key what is sealed with an older one, for a while, and says whether it got to the end; nil: this process does not.
	Reseal func(ctx context.Context, slice time.Duration) (over bool, err error)
}

func (c *Chores) register(known *river.Workers) {
	river.AddWorker(known, &PartitionsWorker{Pool: c.Pool})
	river.AddWorker(known, &PruneWorker{Prunes: c.Prunes})
	if c.Deliveries != nil {
		river.AddWorker(known, &RecoverWorker{Deliveries: c.Deliveries})
		river.AddWorker(known, &RecoverSweepWorker{Deliveries: c.Deliveries})
		river.AddWorker(known, &ExportWorker{Deliveries: c.Deliveries})
		river.AddWorker(known, &ExportSweepWorker{Deliveries: c.Deliveries})
	}
	if c.Retention != nil {
		river.AddWorker(known, &RetentionWorker{Retention: c.Retention})
	}
	if c.Digest != nil {
		river.AddWorker(known, &DigestWorker{Digest: c.Digest})
	}
	if c.Reseal != nil {
		river.AddWorker(known, &ResealWorker{Reseal: c.Reseal})
	}
}

func (c *Chores) periodic() []*river.PeriodicJob {
	every := func(interval time.Duration, args river.JobArgs) *river.PeriodicJob {
		return river.NewPeriodicJob(river.PeriodicInterval(interval), func() (river.JobArgs, *river.InsertOpts) {
			return args, &river.InsertOpts{Queue: QueueChores}
		}, &river.PeriodicJobOpts{RunOnStart: true})
	}
	chores := []*river.PeriodicJob{
		every(12*time.Hour, PartitionsArgs{}),
		every(time.Hour, PruneArgs{}),
	}
	if c.Deliveries != nil {
		chores = append(chores, every(15*time.Second, RecoverSweepArgs{}), every(time.Minute, ExportSweepArgs{}))
	}
	if c.Retention != nil {
		chores = append(chores, every(time.Hour, RetentionArgs{}))
	}
	if c.Digest != nil {
		chores = append(chores, every(5*time.Minute, DigestArgs{}))
	}
	if c.Reseal != nil {
		chores = append(chores, resealPeriodic())
	}
	return chores
}
