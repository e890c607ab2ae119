package jobs_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waybill/db"
	"waybill/db/dbtest"
	"waybill/jobs"
)

// Jobs of another version of the program (CASES B48): of kinds that this one does not know none is touched, however many stand before its own; of its own
// kinds, one with fields more or fewer is worked, and one that cannot be read is loud, stays to be tried again, and holds nobody up.
func TestJobsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	log := &logged{}
	worked := make(chan struct{}, 100)
	chores := &jobs.Chores{Pool: pool, Prunes: []jobs.Prune{func(context.Context) (int, error) {
		worked <- struct{}{}
		return 0, nil
	}}}
	// One attempt each: whoever took one of these and could not work it would have thrown it away.
	if _, err := pool.Exec(t.Context(), `
		insert into river_job (kind, queue, args, max_attempts, priority)
		select 'deliver_v2', queue, '{"x":1}', 1, 1 from unnest(array['lanes', 'suspects', 'chores', 'recoveries', 'exports', 'of_later']) queue, generate_series(1, 200)`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `
		insert into river_job (kind, queue, args, max_attempts, priority)
		select 'prune', 'chores', args::jsonb, 25, 2 from unnest(array['{"of_later":{"a":[1]}}', '[1]', '"text"', '7']) args`); err != nil {
		t.Fatal(err)
	}
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
	count := func(where string) (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "select count(*) from river_job where "+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s, in vain; the log: %s", what, log.String())
			}
		}
	}
	<-worked // one of ours
	until("the one with a field more is worked", func() bool { return count(`args ? 'of_later' and state = 'completed'`) == 1 })
	until("the unreadable ones are tried", func() bool {
		return count(`kind = 'prune' and jsonb_typeof(args) <> 'object' and attempt > 0 and errors is not null`) == 3
	})
	if n := count(`kind = 'prune' and state in ('discarded', 'cancelled')`); n != 0 {
		t.Errorf("%d jobs that could not be read were thrown away", n)
	}
	if n := bytes.Count([]byte(log.String()), []byte("a job failed")); n < 3 {
		t.Errorf("the log tells of %d of 3 jobs that cannot be read: %s", n, log.String())
	}
	if n := count(`kind = 'deliver_v2' and state = 'available' and attempt = 0 and errors is null`); n != 1200 {
		t.Errorf("%d of 1200 jobs of kinds of later wait untouched", n)
	}
	if strings.Contains(log.String(), "deliver_v2") {
		t.Errorf("they are complained of: %s", log.String())
	}
}
