package jobs

import (
	"context"

	"github.com/riverqueue/river"
)

// DigestArgs asks for the mails about what became undelivered in the last hours.
type DigestArgs struct{}

// Kind names the job.
func (DigestArgs) Kind() string { return "digest" }

// DigestWorker writes them; a run that finds nothing to tell costs one look at an index.
type DigestWorker struct {
	river.WorkerDefaults[DigestArgs]
	Digest func(ctx context.Context) (int, error)
}

// Work writes one mail a tenant and hour.
func (w *DigestWorker) Work(ctx context.Context, _ *river.Job[DigestArgs]) error {
	_, err := w.Digest(ctx)
	return err
}
