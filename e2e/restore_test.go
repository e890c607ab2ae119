package e2e

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
)

// clientProgram is the path of pg_dump or pg_restore: of the highest version where Debian keeps several, since an old one refuses a newer server.
func clientProgram(t *testing.T, name string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // fails for a bad pattern only
	if len(found) > 0 {
		return found[len(found)-1]
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing: it comes with the server's package, which e2e/run installs", name)
	}
	t.Skipf("%s is missing on this machine", name)
	return ""
}

func command(t *testing.T, name string, arguments ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(arguments, " "), err, out)
	}
}

// TestBackupAndRestore follows the README: a dump of the database while everything runs, the loss of that database with all processes, and a new one made
// from the dump. What was waiting at the dump is sent, what was delivered after it is delivered again under the same ids, what was published after it
// is gone until it is published again, and the history agrees with all that receivers saw of what it knows.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dump, restore := clientProgram(t, "pg_dump"), clientProgram(t, "pg_restore")
	r := newRig(t, quick, false)
	program := r.start(Launch{})
	r.tenant("backup", 0)
	fine := r.place("backup", "backup-fine", nil)
	slow := r.place("backup", "backup-slow", Always(Answer{Kind: Reply, Status: 200, After: 150 * time.Millisecond}))
	open := make(chan struct{})
	shut := r.place("backup", "backup-shut", func(Hit) Answer {
		select {
		case <-open:
			return Answer{Kind: Reply, Status: 200}
		default:
			return Answer{Kind: Reply, Status: 503}
		}
	}, func(p *Place) { p.Scheme = "v1+v1a" })
	r.publish(shut, "before", 10)
	done := r.publish(fine, "before", 30)
	r.eventually(30*time.Second, 30, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, fine.EndpointID)
	r.eventually(30*time.Second, 10, `select count(distinct delivery_id) from attempts where endpoint_id = $1`, shut.EndpointID)
	r.publish(slow, "before", 120)
	if err := r.ledger.WaitSeen(50, time.Minute); err != nil { // requests are on the wire
		t.Fatal(err)
	}
	begun := time.Now()
	file := filepath.Join(r.Dir, "waybill.dump")
	command(t, dump, "--format=custom", "--file="+file, r.DatabaseURL)
	t.Logf("the dump took %.1f s", time.Since(begun).Seconds())

	again := r.publish(fine, "after", 20)
	r.eventually(time.Minute, 50+120, `select count(*) from deliveries where status = 'delivered'`)
	var reader struct{ Next string }
	if err := r.Call(t.Context(), http.MethodGet, "/v1/tenants/backup/events?limit=200", nil, &reader); err != nil {
		t.Fatal(err)
	}

	// All of it is lost, and comes back elsewhere.
	r.Kill(program)
	lost := r.DatabaseURL
	r.Pool.Close()
	var err error
	if r.DatabaseURL, err = newDatabase(t.Context(), r.Postgres.URL()); err != nil {
		t.Fatal(err)
	}
	dropDatabase(t, r.Postgres.URL(), lost)
	command(t, restore, "--exit-on-error", "--single-transaction", "--dbname="+r.DatabaseURL, file)
	applied, err := db.Migrate(t.Context(), r.DatabaseURL, slog.New(slog.DiscardHandler))
	if err != nil || len(applied) != 0 {
		t.Fatalf("migrating what was restored applied %v, %v", applied, err)
	}
	if r.Pool, err = db.Open(t.Context(), r.DatabaseURL, db.Options{AppName: "e2e", MaxConns: 8}); err != nil {
		t.Fatal(err)
	}
	if n := r.count(`select count(*) from lanes where state = 'running'`); n == 0 {
		t.Error("no lane was running when the dump was made")
	}
	left := r.count(`select count(*) from deliveries where endpoint_id = $1 and status = 'pending'`, slow.EndpointID)
	if left == 0 {
		t.Fatal("everything had been delivered when the dump was made")
	}
	r.ledger.Forget(begun, time.Now())
	close(open)
	r.start(Launch{})

	var refusal *Refusal
	err = r.Call(t.Context(), http.MethodGet, "/v1/tenants/backup/events?after="+reader.Next, nil, nil)
	if !errors.As(err, &refusal) || refusal.Status != http.StatusBadRequest && refusal.Status != http.StatusGone {
		t.Errorf("a reader that had read what is gone is told: %v", err)
	}
	if err := r.PublishSQL(t.Context(), r.ledger, again...); err != nil { // by the platform, under the same ids
		t.Fatal(err)
	}
	v := r.balances(time.Minute)
	if v.Delivered != 10+30+120+20 || v.Undelivered+v.Held+v.Pending != 0 {
		t.Errorf("%d of 180 deliveries are delivered", v.Delivered)
	}
	if v.Twice < left+len(again) {
		t.Errorf("%d repeats; %d had been delivered after the dump, and %d were published again", v.Twice, left, len(again))
	}
	for _, e := range done {
		if n := r.ledger.Times(fine, e.ID); n != 1 {
			t.Errorf("%s, which was delivered before the dump, was sent %d times", e.ID, n)
		}
	}
}

func dropDatabase(t *testing.T, server, database string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "drop database "+pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()+" with (force)"); err != nil {
		t.Fatal(err)
	}
}
