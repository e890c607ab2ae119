package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"waybill/app/lane"
	"waybill/app/policy"
	"waybill/db"
	"waybill/db/dbtest"
	"waybill/jobs"
)

func quiet(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Tickets are jobs in the transaction that makes them, in the queue of their kind.
func TestTickets(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	inserter, err := jobs.NewInserter(pool, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	tickets := []lane.Ticket{{EndpointID: "ep_1", TenantID: "tnt_1", Gen: 7}, {EndpointID: "ep_2", TenantID: "tnt_1", Gen: 9007199254740993, Suspect: true},
		{EndpointID: "ep_1", TenantID: "tnt_1", Gen: 7}} // no uniqueness: the lane's row says which one counts
	broken := errors.New("broken on purpose")
	insert := func(then error) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if err := inserter.InsertTickets(t.Context(), tx, tickets); err != nil {
				return err
			}
			return then
		})
	}
	if err := insert(broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := insert(nil); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), `select queue || ' ' || state || ' ' || kind || ' ' || (args->>'endpoint') || ' ' || (args->>'tenant') || ' ' || (args->>'gen') from river_job order by id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := "lanes available lane ep_1 tnt_1 7, suspects available lane ep_2 tnt_1 9007199254740993, lanes available lane ep_1 tnt_1 7"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// engine is one that was made and joined; its loops do not run.
func engine(t testing.TB, url string) *lane.Engine {
	t.Helper()
	inserter, err := jobs.NewInserter(dbtest.Open(t, url, db.Options{}), quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	e := lane.New(lane.Config{Pool: dbtest.Open(t, url, lane.PoolOptions("lanes", 2)), FlushPool: dbtest.Open(t, url, lane.PoolOptions("results", 2)),
		Tickets: inserter, Policies: policy.Builtin(), Logger: quiet(t)})
	if err := e.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func laneJob(gen int64) *river.Job[jobs.LaneArgs] {
	return &river.Job[jobs.LaneArgs]{JobRow: &rivertype.JobRow{Kind: "lane", Queue: jobs.QueueLanes, Attempt: 9}, Args: jobs.LaneArgs{Endpoint: "ep_1", Tenant: "tnt_1", Gen: gen}}
}

// A process that stops puts tickets back for others; one that cannot ask the database fails them, and they are tried again soon, however often.
func TestLaneWorker(t *testing.T) {
	t.Parallel()
	e := engine(t, dbtest.NewURL(t))
	w := &jobs.LaneWorker{Engine: e}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Work(gone, laneJob(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("without an answer: %v", err)
	}
	if wait := time.Until(w.NextRetry(laneJob(1))); wait <= 0 || wait > 5*time.Second {
		t.Errorf("after nine tries the next one is in %s", wait)
	}
	if limit := w.Timeout(laneJob(1)); limit <= time.Minute || limit > time.Hour {
		t.Errorf("a job is given up after %s; a lane hands itself back after a minute, and River rescues after an hour", limit)
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var snooze *rivertype.JobSnoozeError
	if err := w.Work(t.Context(), laneJob(1)); !errors.As(err, &snooze) || snooze.Duration <= 0 || snooze.Duration > 5*time.Second {
		t.Errorf("while the process stops: %v", err)
	}
}

// Partitions that are missing are made, and a second run or two at once change nothing.
func TestPartitions(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format("20060102")
	for _, parent := range []string{"events", "deliveries", "attempts"} {
		if _, err := pool.Exec(t.Context(), "drop table "+parent+"_"+tomorrow); err != nil {
			t.Fatal(err)
		}
	}
	partitions := func() (n int) {
		err := pool.QueryRow(t.Context(), `select count(*) from pg_inherits where inhparent in ('events'::regclass, 'deliveries'::regclass, 'attempts'::regclass)`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := partitions()
	w := &jobs.PartitionsWorker{Pool: pool}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := w.Work(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := partitions(); n != before+3 {
		t.Errorf("%d partitions, want %d", n, before+3)
	}
	var ahead int
	if err := pool.QueryRow(t.Context(), `select count(*) from generate_series(0, $1) d where to_regclass('events_' || to_char((now() at time zone 'UTC')::date + d, 'YYYYMMDD')) is not null
		and to_regclass('deliveries_' || to_char((now() at time zone 'UTC')::date + d, 'YYYYMMDD')) is not null
		and to_regclass('attempts_' || to_char((now() at time zone 'UTC')::date + d, 'YYYYMMDD')) is not null`, jobs.PartitionDays).Scan(&ahead); err != nil {
		t.Fatal(err)
	}
	if ahead != jobs.PartitionDays+1 {
		t.Errorf("%d days have their partitions, want today and %d more", ahead, jobs.PartitionDays)
	}
}

// A prune that fails fails the job, after those before it have run.
func TestPrune(t *testing.T) {
	t.Parallel()
	ran := 0
	broken := errors.New("broken on purpose")
	fine := func(context.Context) (int, error) { ran++; return 3, nil }
	w := &jobs.PruneWorker{Prunes: []jobs.Prune{fine, func(context.Context) (int, error) { return 0, broken }, fine}}
	if err := w.Work(t.Context(), nil); !errors.Is(err, broken) || ran != 1 {
		t.Errorf("%v after %d prunes", err, ran)
	}
	w.Prunes = w.Prunes[:1]
	if err := w.Work(t.Context(), nil); err != nil || ran != 2 {
		t.Errorf("%v after %d prunes", err, ran)
	}
}

// River itself says a worker's error at a level that nobody reads.
func TestFailedJobsAreLoud(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	log := &logged{}
	failed := make(chan struct{}, 10)
	chores := &jobs.Chores{Pool: pool, Prunes: []jobs.Prune{func(context.Context) (int, error) {
		failed <- struct{}{}
		return 0, errors.New("the prune is broken on purpose")
	}}}
	client, err := jobs.NewClient(pool, engine(t, url), chores, jobs.Workers{Lanes: 1, Suspects: 1, Chores: 1}, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.StopAndCancel(ctx); err != nil {
			t.Error(err)
		}
	})
	if _, err := client.Insert(t.Context(), jobs.PruneArgs{}, &river.InsertOpts{Queue: jobs.QueueChores}); err != nil {
		t.Fatal(err)
	}
	<-failed
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), "the prune is broken on purpose"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a job has failed and the log says nothing of it: %s", log.String())
		}
	}
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}
func (l *logged) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.text.String() }
