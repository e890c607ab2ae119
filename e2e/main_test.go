package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/db/embedded"
)

// built is what all tests share: the program, built once, and a server on which each has a database of its own.
var built struct {
	dir    string
	binary func() (string, error)
	server func() (*embedded.Server, error)
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait, for leases and for answers, more than they work.
	if f := flag.Lookup("test.parallel"); f != nil && !raced && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("4") // a number
	}
	os.Exit(func() int {
		dir, err := TempDir("waybill-e2e-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built.dir = dir
		built.binary = sync.OnceValues(func() (string, error) { return Build(context.Background(), dir, raced) })
		var running *embedded.Server
		built.server = sync.OnceValues(func() (*embedded.Server, error) {
			var err error
			running, err = StartPostgres(context.Background(), embedded.Config{Dir: filepath.Join(dir, "data"), Offline: true})
			return running, err
		})
		defer func() {
			if running != nil {
				_ = running.Close()
			}
		}()
		return m.Run()
	}())
}

// mostly is n, and with the race detector, which makes everything some five times slower, a part of it.
func mostly(n int) int {
	if raced {
		return max(1, n/4)
	}
	return n
}

// quick is a policy whose whole schedule is over in half a minute.
const quick = `
webhook_delivery:
  timeout_seconds: 2
  waits_between_attempts: [1s, 1s, 1s, 2s, 2s, 2s, 3s, 3s]
  circuit_breaker: {consecutive_failures: 0, probe_every: [1s]}
presets:
  commerce: {timeout_seconds: 2}
`

// rig is a system with receivers and the ledger of both sides.
type rig struct {
	*System
	*Receiver
	t      *testing.T
	ledger *Ledger
	random *rand.Rand
}

// newRig makes a rig on the shared server, or, with alone, on one of its own. Nothing of the program runs yet.
func newRig(t *testing.T, policy string, alone bool) *rig {
	t.Helper()
	var server *embedded.Server
	if !alone {
		var err error
		if server, err = built.server(); err != nil && (!errors.Is(err, embedded.ErrNoBinaries) || os.Getenv("CI") == "true") {
			t.Fatal(err)
		} else if err != nil {
			t.Skip(err)
		}
	}
	return newRigOn(t, policy, server)
}

// newRigOn makes a rig on a database of its own on a server; nil: on a server of its own.
func newRigOn(t *testing.T, policy string, server *embedded.Server) *rig {
	t.Helper()
	binary, err := built.binary()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Binary: binary, Policy: policy, Offline: true, Server: server}
	r := &rig{t: t, ledger: NewLedger(), random: newRandom(t)}
	r.System, err = New(t.Context(), o)
	if errors.Is(err, embedded.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.System.Close)
	if r.Receiver, err = NewReceiver(r.ledger); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Receiver.Close)
	t.Cleanup(r.looksBack)
	return r
}

// newRandom is seeded by WAYBILL_E2E_SEED, or by the clock; the log says with what.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("WAYBILL_E2E_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("WAYBILL_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// looksBack fails the test when a process panicked, raced or ended by itself, and shows the logs of a test that failed.
func (r *rig) looksBack() {
	for _, p := range r.Ever() {
		for _, crash := range p.Crashes() {
			r.t.Errorf("%s: %s", p.Name, crash)
		}
		if died := p.Died(); died != "" {
			r.t.Error(died)
		}
		if r.t.Failed() {
			r.t.Logf("%s:\n%s", p.Name, loud(p.Log()))
		}
	}
}

// loud is the last lines of a log that say more than that all is well.
func loud(lines []string) string {
	var kept []string
	for _, line := range lines {
		if !strings.Contains(line, `"level":"INFO"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-25):], "\n")
}

func (r *rig) start(l Launch) *Program {
	r.t.Helper()
	p, err := r.Start(r.t.Context(), l)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) tenant(uid string, limit int) {
	r.t.Helper()
	r.ledger.AddTenant(uid, limit)
	if err := r.Tenant(r.t.Context(), uid, limit); err != nil {
		r.t.Fatal(err)
	}
}

// place makes an endpoint of a tenant for the type of the same name as its key.
func (r *rig) place(tenant, key string, script Script, change ...func(*Place)) *Place {
	r.t.Helper()
	p := &Place{Key: key, Tenant: tenant, Types: []string{"e2e." + strings.ReplaceAll(key, "-", "_")}, Script: script}
	for _, f := range change {
		f(p)
	}
	if err := r.Endpoint(r.t.Context(), r.ledger, r.Receiver, p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// publish commits n events for a place in one transaction.
func (r *rig) publish(p *Place, prefix string, n int) []Event {
	r.t.Helper()
	events := Events(p.Tenant, p.Types[0], prefix+"-"+p.Key, n)
	if err := r.PublishSQL(r.t.Context(), r.ledger, events...); err != nil {
		r.t.Fatal(err)
	}
	return events
}

// balances waits until nothing is due any more and holds the ledger against the database.
func (r *rig) balances(within time.Duration) *Verdict {
	r.t.Helper()
	if err := r.UntilIdle(r.t.Context(), within); err != nil {
		r.t.Error(err)
	}
	v, err := r.ledger.Check(r.t.Context(), r.Pool)
	if err != nil {
		r.t.Fatal(err)
	}
	v.Print(r.t.Output())
	if !v.Balanced() {
		r.t.Error("the ledger does not balance")
	}
	return v
}

func (r *rig) count(sql string, arguments ...any) int {
	r.t.Helper()
	n, err := r.Count(r.t.Context(), sql, arguments...)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// eventually waits until a query answers with want.
func (r *rig) eventually(within time.Duration, want int, sql string, arguments ...any) {
	r.t.Helper()
	n := 0
	err := Until(r.t.Context(), within, sql, func() (ok bool, err error) {
		n, err = r.Count(r.t.Context(), sql, arguments...)
		return err == nil && n == want, err
	})
	if err != nil {
		r.t.Fatalf("%v: %d, want %d", err, n, want)
	}
}
