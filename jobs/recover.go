package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"waybill/app/delivery"
)

// QueueRecoveries is the queue of catch-ups. They work for a slice and go to its end, so that more of them than places all get on.
const QueueRecoveries = "recoveries"

const (
	recoverPlaces = 10
	recoverSlice  = 10 * time.Second
)

// RecoverArgs is a ticket to work on one catch-up, if its generation still matches.
type RecoverArgs struct {
	Recovery string `json:"recovery"`
	Tenant   string `json:"tenant"`
	Gen      int64  `json:"gen"`
}

// Kind names the job.
func (RecoverArgs) Kind() string { return "recover" }

// RecoverWorker moves what is parked to what is due, slice by slice.
type RecoverWorker struct {
	river.WorkerDefaults[RecoverArgs]
	Deliveries *delivery.Service
}

// Work returns nil once the catch-up is finished, or another job works on it.
func (w *RecoverWorker) Work(ctx context.Context, job *river.Job[RecoverArgs]) error {
	over, err := w.Deliveries.RecoverRun(ctx, delivery.RecoveryTicket{ID: job.Args.Recovery, TenantID: job.Args.Tenant, Gen: job.Args.Gen}, recoverSlice)
	if err != nil || over {
		return err
	}
	return river.JobSnooze(0)
}

// NextRetry is soon: only the database's absence fails a step, and what was done stays done.
func (w *RecoverWorker) NextRetry(*river.Job[RecoverArgs]) time.Time {
	return time.Now().Add(2 * time.Second)
}

// Timeout only tidies up.
func (w *RecoverWorker) Timeout(*river.Job[RecoverArgs]) time.Duration { return 2 * time.Minute }

// InsertRecovery adds the job of a catch-up inside tx.
func (i *Inserter) InsertRecovery(ctx context.Context, tx pgx.Tx, t delivery.RecoveryTicket) error {
	return i.Insert(ctx, tx, RecoverArgs{Recovery: t.ID, Tenant: t.TenantID, Gen: t.Gen}, &river.InsertOpts{Queue: QueueRecoveries})
}

// RecoverSweepArgs asks for new jobs for catch-ups whose process was killed.
type RecoverSweepArgs struct{}

// Kind names the job.
func (RecoverSweepArgs) Kind() string { return "recover_sweep" }

// RecoverSweepWorker looks for them.
type RecoverSweepWorker struct {
	river.WorkerDefaults[RecoverSweepArgs]
	Deliveries *delivery.Service
}

// Work makes the jobs; two at once, or a second run, make none twice.
func (w *RecoverSweepWorker) Work(ctx context.Context, _ *river.Job[RecoverSweepArgs]) error {
	_, err := w.Deliveries.RecoverSweep(ctx)
	return err
}
