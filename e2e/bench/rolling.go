package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"waybill/e2e"
)

// The load of scenario rolling: calls of so many events each.
const (
	rollingCalls  = 100 // a second
	rollingEvents = 5   // of each
	rollingAlone  = 15 * time.Second
	rollingCheck  = 250 * time.Millisecond
	rollingDrain  = 2 * time.Second
)

// rolling rolls a later version out under load: two web and two worker processes of this version, the later one's migration, then one process after the
// other replaced. It compares the latency from the call that publishes to the receipt with that of undisturbed processes.
func rolling(ctx context.Context, s *system, f *figures) (err error) {
	later, err := e2e.BuildLater(ctx, s.binaries)
	if err != nil {
		return err
	}
	for _, p := range s.Programs() {
		if _, err := s.Stop(p, time.Minute); err != nil {
			return err
		}
	}
	defer func() { // as it was
		for _, p := range s.Programs() {
			s.Kill(p)
		}
		if _, undo := s.Pool.Exec(ctx, `drop table if exists of_later; delete from migrations where name = '`+e2e.Later+`'`); err == nil {
			err = undo
		}
		for range s.o.processes {
			if again := s.another(ctx); err == nil {
				err = again
			}
		}
	}()
	launch := func(role, binary string) e2e.Launch {
		return e2e.Launch{Roles: []string{role}, Binary: binary, Env: map[string]string{"SSL_CERT_FILE": s.authority(), "WAYBILL_DRAIN": rollingDrain.String()}}
	}
	for range 2 {
		for _, role := range []string{"web", "worker"} {
			if _, err := s.Start(ctx, launch(role, "")); err != nil {
				return err
			}
		}
	}
	places, err := s.places(ctx, s.target, "ok", 5, 20)
	if err != nil {
		return err
	}
	balancer := e2e.NewBalancer(ctx, s.System, rollingCheck)
	defer balancer.Close()

	load := s.callAtRate(ctx, balancer, places)
	time.Sleep(rollingAlone)
	alone, n, err := load.end(ctx)
	if err != nil {
		return err
	}
	if err := s.untilIdle(ctx, places); err != nil {
		return err
	}
	if err := s.nothingMissing(ctx, places, n); err != nil {
		return err
	}

	load = s.callAtRate(ctx, balancer, places)
	time.Sleep(time.Second)
	begun := time.Now()
	migrate := exec.CommandContext(ctx, later, "migrate")
	migrate.Env = s.Env(nil)
	if out, err := migrate.CombinedOutput(); err != nil || !strings.Contains(string(out), e2e.Later) {
		return fmt.Errorf("migrate by the later version: %w\n%s", err, out)
	}
	for _, p := range s.Programs() {
		if _, err := s.Stop(p, time.Minute); err != nil {
			return err
		}
		if _, err := s.Start(ctx, launch(p.Roles[0], later)); err != nil {
			return err
		}
		wait := func() (bool, error) { return balancer.Ready() == 2, nil }
		if err := e2e.Until(ctx, time.Minute, "both web processes get requests", wait); err != nil {
			return err
		}
	}
	took := time.Since(begun)
	time.Sleep(time.Second)
	during, more, err := load.end(ctx)
	if err != nil {
		return err
	}
	if err := s.untilIdle(ctx, places); err != nil {
		return err
	}
	if err := s.nothingMissing(ctx, places, n+more); err != nil {
		return err
	}
	answered, refused, failures := balancer.Tally()
	for _, failure := range failures {
		fmt.Fprintln(os.Stderr, failure)
	}
	label := fmt.Sprintf("rolling restart of 2 web and 2 workers to a later version at %d deliveries/s: ", rollingCalls*rollingEvents)
	f.add(label+"s", took.Seconds())
	f.add(label+"calls answered", float64(answered))
	f.add(label+"calls failed", float64(len(failures)))
	f.add(label+"connections refused, and another process asked", float64(refused))
	f.add(label+"events lost", float64(more-during.arrived))
	f.add(label+"events received twice", float64(during.twice))
	f.add(label+"call → receipt undisturbed: p50 ms", quantile(alone.lags, 0.5))
	f.add(label+"call → receipt undisturbed: p99 ms", quantile(alone.lags, 0.99))
	f.add(label+"call → receipt: p50 ms", quantile(during.lags, 0.5))
	f.add(label+"call → receipt: p99 ms", quantile(during.lags, 0.99))
	f.add(label+"p99 ÷ undisturbed", quantile(during.lags, 0.99)/quantile(alone.lags, 0.99))
	return nil
}

// rate is a load under way: each call begins at its time, whatever became of those before.
type rate struct {
	s    *system
	stop context.CancelFunc
	done chan struct{}
	err  error

	mu    sync.Mutex
	begun map[string]time.Time // events whose call was answered, by id
}

// receipts are what became of a load's events.
type receipts struct {
	lags           []float64 // ms from the beginning of the call to the first receipt
	arrived, twice int
}

func (s *system) callAtRate(ctx context.Context, b *e2e.Balancer, places []place) *rate {
	running, stop := context.WithCancel(ctx)
	l := &rate{s: s, stop: stop, done: make(chan struct{}), begun: map[string]time.Time{}}
	if l.err = s.tell("forget", []byte("keep"), nil); l.err != nil {
		stop()
	}
	s.serial++
	go func() {
		defer close(l.done)
		var calls sync.WaitGroup
		defer calls.Wait()
		tick := time.NewTicker(time.Second / rollingCalls)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-running.Done():
				return
			case <-tick.C:
			}
			calls.Go(func() { l.call(ctx, b, places, n) })
		}
	}()
	return l
}

func (l *rate) call(ctx context.Context, b *e2e.Balancer, places []place, n int) {
	var text bytes.Buffer
	ids := make([]string, rollingEvents)
	for i := range ids {
		p := places[rand.IntN(len(places))]
		ids[i] = fmt.Sprintf("rolling-%d-%d-%d", l.s.serial, n, i)
		text.WriteString([]string{`{"events":[`, ","}[min(i, 1)])
		fmt.Fprintf(&text, `{"id":%q,"tenant":%q,"type":%q,"resource":{"type":"consignment","id":"C-%d"},"data":%s}`, ids[i], p.tenant, p.eventType, n%1000, body)
	}
	text.WriteString("]}")
	at := time.Now()
	if b.Call(ctx, http.MethodPost, "/v1/events", text.Bytes()) != nil {
		return // it is in the balancer's book
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.begun[id] = at
	}
}

// end stops the load, waits for the receipts, and says how many events were published.
func (l *rate) end(ctx context.Context) (r receipts, published int, err error) {
	l.stop()
	<-l.done
	if l.err != nil {
		return r, 0, l.err
	}
	published = len(l.begun)
	if _, err := l.s.untilReceived(ctx, int64(published), time.Minute); err != nil {
		return r, published, err
	}
	var arrived []arrival
	if err := l.s.tell("arrived", nil, &arrived); err != nil {
		return r, published, err
	}
	first := map[string]bool{}
	for _, a := range arrived {
		at, ok := l.begun[a.ID]
		switch {
		case !ok:
		case first[a.ID]:
			r.twice++
		default:
			first[a.ID] = true
			r.lags = append(r.lags, float64(a.At-at.UnixNano())/1e6)
		}
	}
	r.arrived = len(first)
	return r, published, nil
}
