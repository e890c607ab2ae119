package jobs

import (
	"context"

	"github.com/riverqueue/river"
)

// Prune removes what has expired of one kind and says how many rows.
type Prune func(ctx context.Context) (int, error)

// PruneArgs asks for everything that has expired to be removed: sessions, links, signing secrets past their overlap.
type PruneArgs struct{}

// Kind names the job.
func (PruneArgs) Kind() string { return "prune" }

// PruneWorker removes what has expired.
type PruneWorker struct {
	river.WorkerDefaults[PruneArgs]
	Prunes []Prune
}

// Work runs every prune; the first failure ends it, and the job is tried again.
func (w *PruneWorker) Work(ctx context.Context, _ *river.Job[PruneArgs]) error {
	for _, prune := range w.Prunes {
		if _, err := prune(ctx); err != nil {
			return err
		}
	}
	return nil
}
