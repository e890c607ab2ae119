package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river"
)

const (
	resealEvery = 10 * time.Minute // beyond the run at the start; a process with an older ring may have sealed something since
	resealSlice = 20 * time.Second
)

// ResealArgs asks for everything to be sealed with the newest key of the ring.
type ResealArgs struct{}

// Kind names the job.
func (ResealArgs) Kind() string { return "reseal" }

// ResealWorker seals again, slice by slice.
type ResealWorker struct {
	river.WorkerDefaults[ResealArgs]
	Reseal func(ctx context.Context, slice time.Duration) (over bool, err error)
}

// Work returns nil once nothing is left. What one run did the next finds done.
func (w *ResealWorker) Work(ctx context.Context, _ *river.Job[ResealArgs]) error {
	over, err := w.Reseal(ctx, resealSlice)
	if err != nil || over {
		return err
	}
	return river.JobSnooze(0)
}

// Timeout only tidies up.
func (w *ResealWorker) Timeout(*river.Job[ResealArgs]) time.Duration { return 2 * time.Minute }

func resealPeriodic() *river.PeriodicJob {
	return river.NewPeriodicJob(river.PeriodicInterval(resealEvery), func() (river.JobArgs, *river.InsertOpts) {
		return ResealArgs{}, &river.InsertOpts{Queue: QueueChores, UniqueOpts: river.UniqueOpts{ByQueue: true, ByState: unfinished}}
	}, &river.PeriodicJobOpts{RunOnStart: true})
}
