package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"waybill/app/delivery"
)

// QueueExports is the queue of CSV files: few at once, for they read much, and each goes to its end after a slice, so that all get on.
const QueueExports = "exports"

const (
	exportPlaces = 2
	exportSlice  = 10 * time.Second
)

// ExportArgs is a ticket to work on one file, if its generation still matches.
type ExportArgs struct {
	Export string `json:"export"`
	Tenant string `json:"tenant"`
	Gen    int64  `json:"gen"`
}

// Kind names the job.
func (ExportArgs) Kind() string { return "export" }

// ExportWorker writes a file, slice by slice.
type ExportWorker struct {
	river.WorkerDefaults[ExportArgs]
	Deliveries *delivery.Service
}

// Work returns nil once the file is finished, or another job works on it.
func (w *ExportWorker) Work(ctx context.Context, job *river.Job[ExportArgs]) error {
	over, err := w.Deliveries.FileRun(ctx, delivery.FileTicket{ID: job.Args.Export, TenantID: job.Args.Tenant, Gen: job.Args.Gen}, exportSlice)
	if err != nil || over {
		return err
	}
	return river.JobSnooze(0)
}

// NextRetry is soon: only the database's absence fails a step, and what was done stays done.
func (w *ExportWorker) NextRetry(*river.Job[ExportArgs]) time.Time {
	return time.Now().Add(2 * time.Second)
}

// Timeout only tidies up.
func (w *ExportWorker) Timeout(*river.Job[ExportArgs]) time.Duration { return 2 * time.Minute }

// InsertExport adds the job of a file inside tx.
func (i *Inserter) InsertExport(ctx context.Context, tx pgx.Tx, t delivery.FileTicket) error {
	return i.Insert(ctx, tx, ExportArgs{Export: t.ID, Tenant: t.TenantID, Gen: t.Gen}, &river.InsertOpts{Queue: QueueExports})
}

// ExportSweepArgs asks for new jobs for files whose process was killed.
type ExportSweepArgs struct{}

// Kind names the job.
func (ExportSweepArgs) Kind() string { return "export_sweep" }

// ExportSweepWorker looks for them.
type ExportSweepWorker struct {
	river.WorkerDefaults[ExportSweepArgs]
	Deliveries *delivery.Service
}

// Work makes the jobs; two at once, or a second run, make none twice.
func (w *ExportSweepWorker) Work(ctx context.Context, _ *river.Job[ExportSweepArgs]) error {
	_, err := w.Deliveries.FileSweep(ctx)
	return err
}
