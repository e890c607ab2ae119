package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"waybill/app/notice"
)

// QueueMails holds the mail job alone, so that a mail server that hangs delays nothing else.
const QueueMails = "mails"

// mailEvery is how often waiting mails are looked for, beyond the job that each new one inserts: it is what tries again.
const mailEvery = 15 * time.Second

// unfinished are the states of a job that has yet to end.
var unfinished = []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateRetryable, rivertype.JobStateScheduled}

// MailArgs asks for all mails that are due to be sent.
type MailArgs struct{}

// Kind names the job.
func (MailArgs) Kind() string { return "mail" }

// Mails is what the mail job works with.
type Mails struct {
	Outbox  *notice.Outbox
	Carrier notice.Carrier
	Logger  *slog.Logger
}

// MailWorker sends what is due.
type MailWorker struct {
	river.WorkerDefaults[MailArgs]
	Mails
}

// Work sends until nothing is due, or the mail server does not answer: which mail is tried when, its own row says. An error means that
// the database could not be asked.
func (w *MailWorker) Work(ctx context.Context, _ *river.Job[MailArgs]) error {
	return w.Outbox.Send(ctx, w.Carrier, w.Logger)
}

// Timeout leaves room for a long list; a mail that is being sent then is tried again when its lease is over.
func (w *MailWorker) Timeout(*river.Job[MailArgs]) time.Duration { return 10 * time.Minute }

// NextRetry is soon: only the database's absence fails the job.
func (w *MailWorker) NextRetry(*river.Job[MailArgs]) time.Time {
	return time.Now().Add(5 * time.Second)
}

// register adds the worker and its queue; without a mail server there is none, and mails wait in their table.
func (m *Mails) register(known *river.Workers, queues map[string]river.QueueConfig) []*river.PeriodicJob {
	if m == nil {
		return nil
	}
	river.AddWorker(known, &MailWorker{Mails: *m})
	queues[QueueMails] = river.QueueConfig{MaxWorkers: 1, FetchCooldown: 100 * time.Millisecond, FetchPollInterval: time.Second}
	return []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(mailEvery), func() (river.JobArgs, *river.InsertOpts) {
		// Unique: while a mail server hangs, these do not pile up.
		return MailArgs{}, &river.InsertOpts{Queue: QueueMails, UniqueOpts: river.UniqueOpts{ByQueue: true, ByState: unfinished}}
	}, &river.PeriodicJobOpts{RunOnStart: true})}
}

// WakeMails inserts the mail job inside tx. It is notice.Outbox's Wake.
func (i *Inserter) WakeMails(ctx context.Context, tx pgx.Tx) error {
	return i.Insert(ctx, tx, MailArgs{}, &river.InsertOpts{Queue: QueueMails})
}
