// Package jobs holds Waybill's River jobs, one file each: its arguments and its worker, thin over the package that does the work.
//
// River is the distributed queue: any process with workers takes any job. Lanes use no uniqueness of River's; the lane's row and its
// generation say which ticket counts.
package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"waybill/app/lane"
)

// The queues. Lanes whose endpoints have lately timed out wait in a queue of their own, so that they hold no place of a healthy one.
const (
	QueueLanes    = "lanes"
	QueueSuspects = "suspects"
	QueueChores   = "chores"
)

// Schema is where River's tables live.
const Schema = "waybill"

// laneTries: River counts only tickets that failed because the database was away; the sweeper makes a new one if they run out.
const laneTries = 10

// Client is River's client for pgx.
type Client = river.Client[pgx.Tx]

// Inserter inserts jobs; every process has one, also those that work nothing.
type Inserter struct {
	client *Client
}

// NewInserter makes a client that only inserts.
func NewInserter(pool *pgxpool.Pool, logger *slog.Logger) (*Inserter, error) {
	// FetchCooldown is also how long an inserting client keeps quiet about a queue after it has announced something there: what it inserts meanwhile waits
	// for the next poll, a quarter of a second.
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: Schema, Logger: logger, FetchCooldown: river.FetchCooldownMin,
		FetchPollInterval: 250 * time.Millisecond})
	if err != nil {
		return nil, fmt.Errorf("make the job inserter: %w", err)
	}
	return &Inserter{client: client}, nil
}

// Insert adds one job inside tx.
func (i *Inserter) Insert(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) error {
	if _, err := i.client.InsertTx(ctx, tx, args, opts); err != nil {
		return fmt.Errorf("insert job %s: %w", args.Kind(), err)
	}
	return nil
}

// InsertTickets adds a job for each lane ticket inside tx, by COPY.
func (i *Inserter) InsertTickets(ctx context.Context, tx pgx.Tx, tickets []lane.Ticket) error {
	params := make([]river.InsertManyParams, len(tickets))
	for n, t := range tickets {
		queue := QueueLanes
		if t.Suspect {
			queue = QueueSuspects
		}
		params[n] = river.InsertManyParams{
			Args:       LaneArgs{Endpoint: t.EndpointID, Tenant: t.TenantID, Gen: t.Gen},
			InsertOpts: &river.InsertOpts{Queue: queue, MaxAttempts: laneTries},
		}
	}
	if _, err := i.client.InsertManyFastTx(ctx, tx, params); err != nil {
		return fmt.Errorf("insert %d lane jobs: %w", len(tickets), err)
	}
	return nil
}

// Workers says how many jobs of each queue a process works at once.
type Workers struct {
	Lanes, Suspects, Chores int
}

// DefaultWorkers suits a machine of a few cores: a lane at rest costs a goroutine, not a core.
var DefaultWorkers = Workers{Lanes: 500, Suspects: 200, Chores: 5}

// NewClient makes the client that works.
func NewClient(pool *pgxpool.Pool, engine *lane.Engine, chores *Chores, workers Workers, logger *slog.Logger) (*Client, error) {
	known := river.NewWorkers()
	river.AddWorker(known, &LaneWorker{Engine: engine})
	chores.register(known)
	queues := map[string]river.QueueConfig{
		// A fetch takes no more than the free places, and two fetches are at least FetchCooldown apart, which bounds a queue's throughput.
		QueueLanes:      {MaxWorkers: workers.Lanes, FetchCooldown: 5 * time.Millisecond, FetchPollInterval: 250 * time.Millisecond},
		QueueSuspects:   {MaxWorkers: workers.Suspects, FetchCooldown: 50 * time.Millisecond, FetchPollInterval: time.Second},
		QueueRecoveries: {MaxWorkers: recoverPlaces, FetchCooldown: 50 * time.Millisecond, FetchPollInterval: 500 * time.Millisecond},
		QueueExports:    {MaxWorkers: exportPlaces, FetchCooldown: 50 * time.Millisecond, FetchPollInterval: 500 * time.Millisecond},
		QueueChores:     {MaxWorkers: workers.Chores, FetchCooldown: 100 * time.Millisecond, FetchPollInterval: time.Second},
	}
	periodic := append(chores.periodic(), chores.Mails.register(known, queues)...)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: Schema,
		Logger: logger,
		Queues: queues,
		// The inserting client spends the NOTIFY of a queue once in each cooldown.
		FetchCooldown:               5 * time.Millisecond,
		FetchPollInterval:           250 * time.Millisecond,
		CompletedJobRetentionPeriod: 5 * time.Minute,
		CancelledJobRetentionPeriod: time.Hour,
		DiscardedJobRetentionPeriod: 24 * time.Hour,
		RescueStuckJobsAfter:        time.Hour,
		// While two versions run, and after one was taken back, jobs of kinds that only the other knows wait for it (CASES B48). River's rescuer would still
		// discard one whose process died an hour ago: every job here is a ticket, and a sweep makes a new one from the row that it stands for.
		FetchOnlyKnownKinds: true,
		Workers:             known,
		ErrorHandler:        &errorHandler{logger: logger},
		PeriodicJobs:        periodic,
	})
	if err != nil {
		return nil, fmt.Errorf("make the job client: %w", err)
	}
	return client, nil
}

// errorHandler makes our own failures loud: River logs a worker's error at Info.
type errorHandler struct {
	logger *slog.Logger
}

func (h *errorHandler) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	h.logger.Error("a job failed", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "error", err)
	return nil
}

func (h *errorHandler) HandlePanic(_ context.Context, job *rivertype.JobRow, value any, trace string) *river.ErrorHandlerResult {
	h.logger.Error("a job panicked", "kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "panic", fmt.Sprint(value), "trace", trace)
	return nil
}
