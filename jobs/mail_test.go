package jobs_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"waybill/app/notice"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/dbtest"
	"waybill/jobs"
)

// postbox is a carrier that keeps mails; while it hangs it answers nothing.
type postbox struct {
	mu    sync.Mutex
	to    []string
	hangs chan struct{} // closed: it hangs no more
	open  chan struct{} // a token for each connection
}

func (p *postbox) Open(ctx context.Context) (notice.Connection, error) {
	p.open <- struct{}{}
	select {
	case <-p.hangs:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *postbox) Send(_ context.Context, m notice.Mail) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = append(p.to, m.To)
	return nil
}

func (p *postbox) Close() {}

func (p *postbox) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.to)
}

// A new mail goes out by itself, and a mail server that hangs holds up no other job.
func TestMails(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	inserter, err := jobs.NewInserter(pool, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	outbox := &notice.Outbox{DB: pool, Ring: ring, URL: "https://waybill.test", Now: time.Now, Wake: inserter.WakeMails}
	box := &postbox{hangs: make(chan struct{}), open: make(chan struct{}, 100)}
	pruned := make(chan struct{}, 100)
	chores := &jobs.Chores{
		Pool: pool, Mails: &jobs.Mails{Outbox: outbox, Carrier: box, Logger: quiet(t)},
		Prunes: []jobs.Prune{func(context.Context) (int, error) { pruned <- struct{}{}; return 0, nil }},
	}
	client, err := jobs.NewClient(pool, engine(t, url), chores, jobs.Workers{Lanes: 1, Suspects: 1, Chores: 1}, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	put := func(to string) {
		t.Helper()
		err := db.Tx(t.Context(), pool, func(tx pgx.Tx) error {
			return outbox.Put(t.Context(), tx, notice.Letter{Kind: notice.KindReset, Key: to, To: to, Notice: notice.Reset("wbr_x", time.Hour)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("a@example.com")
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
	await := func(what string, signal <-chan struct{}) {
		t.Helper()
		select {
		case <-signal:
		case <-time.After(20 * time.Second):
			t.Fatal("waited in vain for " + what)
		}
	}
	await("a connection to the mail server", box.open)
	if _, err := client.Insert(t.Context(), jobs.PruneArgs{}, &river.InsertOpts{Queue: jobs.QueueChores}); err != nil {
		t.Fatal(err)
	}
	await("a chore while the mail server hangs", pruned)
	put("b@example.com")
	close(box.hangs)
	for deadline := time.Now().Add(20 * time.Second); len(box.sent()) < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("sent %q", box.sent())
		}
	}
	put("c@example.com")
	for deadline := time.Now().Add(10 * time.Second); len(box.sent()) < 3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("sent %q", box.sent())
		}
	}
	if got := box.sent(); got[0] != "a@example.com" || got[1] != "b@example.com" || got[2] != "c@example.com" {
		t.Errorf("sent %q", got)
	}
}
