package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"waybill/db/queries"
)

var sqlPartitionsMake = queries.SQL("PartitionsMake")

// PartitionDays is how many days of partitions are kept ready beyond today.
const PartitionDays = 8

// PartitionsArgs asks for the daily partitions of the days to come.
type PartitionsArgs struct{}

// Kind names the job.
func (PartitionsArgs) Kind() string { return "partitions" }

// PartitionsWorker makes the partitions that are missing. Two at once, or a second run, change nothing.
type PartitionsWorker struct {
	river.WorkerDefaults[PartitionsArgs]
	Pool *pgxpool.Pool
}

// Work makes partitions up to PartitionDays ahead.
func (w *PartitionsWorker) Work(ctx context.Context, _ *river.Job[PartitionsArgs]) error {
	return MakePartitions(ctx, w.Pool)
}

// MakePartitions makes the partitions that are missing, from yesterday to PartitionDays ahead; it is called at the start of the program too.
func MakePartitions(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, sqlPartitionsMake, PartitionDays); err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	return nil
}
