package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// TestStop ends the program by SIGTERM while requests are on the wire, some of which will not be answered.
func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	program := r.start(Launch{})
	r.tenant("stop", 0)
	slow := r.place("stop", "stop-slow", Always(Answer{Kind: Reply, Status: 200, After: 300 * time.Millisecond}))
	hang := r.place("stop", "stop-hang", func(h Hit) Answer {
		if h.N == 1 {
			return Answer{Kind: Hang}
		}
		return Answer{Kind: Reply, Status: 200}
	})
	r.publish(slow, "a", 80)
	r.publish(hang, "a", 2)
	if err := Until(t.Context(), 20*time.Second, "both places hold requests", func() (bool, error) {
		return r.ledger.OnWire(slow) > 1 && r.ledger.OnWire(hang) > 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	// The timeout of the policy is 2 s, the grace 5 s; the last second is the machine's.
	code, err := r.Stop(program, 8*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	sent := r.ledger.Seen()
	t.Logf("ended with code %d after %.1f s, %d requests sent", code, time.Since(asked).Seconds(), sent)
	if code != 0 {
		t.Errorf("exit code %d:\n%s", code, program.Tail(20))
	}
	if n := r.ledger.OnWire(slow, hang); n != 0 {
		t.Errorf("%d requests were left on the wire", n)
	}
	if sent >= 82 {
		t.Error("everything had been sent when the stop came: it stopped nothing")
	}
	if n := r.count(`select count(*) from lanes where state = 'running'`); n != 0 {
		t.Errorf("%d lanes were not given back", n)
	}
	if n := r.count(`select count(*) from workers`); n != 0 {
		t.Errorf("%d workers have not left", n)
	}
	if n := r.count(`select count(*) from attempts`); n != sent {
		t.Errorf("%d requests were sent and %d attempts are in the history", sent, n)
	}

	begun := time.Now()
	r.start(Launch{})
	if err := r.ledger.WaitSeen(sent+1, 10*time.Second); err != nil {
		t.Error(err)
	}
	t.Logf("the next process sent again %.1f s after its start", time.Since(begun).Seconds())
	v := r.balances(30 * time.Second)
	if v.Delivered != 82 || v.Unknown != 0 {
		t.Errorf("%d of 82 deliveries are delivered, %d attempts are of unknown outcome", v.Delivered, v.Unknown)
	}
	times := map[string]int{}
	for _, it := range r.ledger.Requests() {
		if times[it.ID]++; it.Place == slow && times[it.ID] > 1 {
			t.Errorf("%s was sent twice", it.ID)
		}
	}
}

// TestStopWithTheDatabaseAway: the stop must end in time although nothing can be recorded.
func TestStopWithTheDatabaseAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, true)
	program := r.start(Launch{})
	r.tenant("away", 0)
	place := r.place("away", "away", Always(Answer{Kind: Reply, Status: 200, After: 100 * time.Millisecond}))
	r.publish(place, "a", 40)
	if err := r.ledger.WaitSeen(5, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	postmaster := r.Postgres.PID()
	r.freeze(postmaster)
	asked := time.Now()
	if err := program.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The timeout and the grace are 7 s; a busy machine needs a moment more.
	code, err := program.WaitExit(15 * time.Second)
	r.thaw(postmaster)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ended with code %d after %.1f s", code, time.Since(asked).Seconds())
	r.Forget(program)
	r.start(Launch{})
	if v := r.balances(time.Minute); v.Delivered != 40 {
		t.Errorf("%d of 40 deliveries are delivered", v.Delivered)
	}
}

// freeze stops a Postgres server and all its backends where they stand: it neither answers nor refuses. thaw lets them go on.
func (r *rig) freeze(postmaster int) { r.signal(postmaster, syscall.SIGSTOP) }
func (r *rig) thaw(postmaster int)   { r.signal(postmaster, syscall.SIGCONT) }

func (r *rig) signal(postmaster int, s syscall.Signal) {
	r.t.Helper()
	for _, pid := range append(Children(postmaster), postmaster) {
		if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
			r.t.Fatal(fmt.Errorf("signal Postgres: %w", err))
		}
	}
}
