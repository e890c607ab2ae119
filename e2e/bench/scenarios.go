package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/egress"
	"waybill/app/sender"
	"waybill/app/signing"
	"waybill/e2e"
)

var scenarios = []struct {
	name string
	run  func(context.Context, *system, *figures) error
}{
	{"ceiling", ceiling},
	{"throughput", wide},
	{"narrow", narrow},
	{"https", secure},
	{"commits", commits},
	{"latency", latency},
	{"isolation", isolation},
	{"hanging", hanging},
	{"recover", catchUpOn},
	{"kill", kill},
	{"processes", processes},
	{"rolling", rolling},
	{"old", oldRows},
	{"pages", pages},
	{"wall", wall},
	{"catchup", catchUp},
	{"exact", exact},
}

// body is the data of every event: with its envelope some 370 bytes.
const body = `{"order_number":"S-2026-004512","tracking":"TR123456789","carrier":"Anand Roadways","weight_kg":412.5,"pieces":18}`

// ceiling sends the same number of signed requests through the same client and proxy to the same receiver, with no database.
func ceiling(ctx context.Context, s *system, f *figures) error {
	places, err := s.places(ctx, s.target, "ok", s.o.tenants, s.o.endpoints)
	if err != nil {
		return err
	}
	allow, err := egress.ParseAllow("127.0.0.2/32")
	if err != nil {
		return err
	}
	proxy, err := egress.Start(ctx, egress.Config{Allow: allow})
	if err != nil {
		return err
	}
	defer proxy.Close(ctx)
	client, err := sender.New(sender.Config{ProxyURL: proxy.URL(), Tunnel: proxy.Tunnel})
	if err != nil {
		return err
	}
	defer client.Close()
	key := signing.NewSecret()
	payload := []byte(`{"id":"evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R","type":"bench.t1","version":1,"timestamp":"2026-11-17T09:41:05.123Z","data":` + body + `}`)
	begun := time.Now()
	work := make(chan place, 1000)
	var wg sync.WaitGroup
	var failed sync.Map
	for range 100 {
		wg.Go(func() {
			for p := range work {
				signed, err := signing.Headers(signing.V1, []signing.Key{key}, "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R", time.Now().Unix(), payload)
				if err != nil {
					failed.Store(err.Error(), true)
					return
				}
				header := []sender.Header{{Name: "Content-Type", Value: "application/json"}}
				for _, h := range signed {
					header = append(header, sender.Header{Name: h.Name, Value: h.Value})
				}
				// The receiver checks the signature and refuses it, which costs it the same.
				out := client.Send(ctx, sender.Request{EndpointID: p.endpoint, URL: s.target + p.path, Header: header, Body: payload, MaxConns: 10})
				if out.Status != 401 {
					failed.Store(fmt.Sprintf("%s %s", out.Class, out.Err), true)
				}
			}
		})
	}
	for i := range s.o.events {
		work <- places[i%len(places)]
	}
	close(work)
	wg.Wait()
	failed.Range(func(k, _ any) bool { err = fmt.Errorf("ceiling: %v", k); return false })
	f.add("ceiling: client and proxy alone, requests/s", float64(s.o.events)/time.Since(begun).Seconds())
	return err
}

func wide(ctx context.Context, s *system, f *figures) error {
	return throughput(ctx, s, f, fmt.Sprintf("%d endpoints", s.o.endpoints), s.o.tenants, s.o.endpoints)
}

func narrow(ctx context.Context, s *system, f *figures) error {
	return throughput(ctx, s, f, "one endpoint", 1, 1)
}

func secure(ctx context.Context, s *system, f *figures) error {
	return throughputTo(ctx, s, f, s.secured, fmt.Sprintf("%d endpoints, https", s.o.endpoints), s.o.tenants, s.o.endpoints)
}

// processes measures the wide throughput with one process, with two and with three, on the same cores, and ends the ones it has started.
func processes(ctx context.Context, s *system, f *figures) error {
	var started []*e2e.Program
	defer func() {
		for _, p := range started {
			s.Kill(p)
		}
	}()
	for n := 1; n <= 3; n++ {
		if n > 1 {
			if err := s.another(ctx); err != nil {
				return err
			}
			programs := s.Programs()
			started = append(started, programs[len(programs)-1])
		}
		if err := throughput(ctx, s, f, fmt.Sprintf("%d endpoints, processes: %d", s.o.endpoints, n), s.o.tenants, s.o.endpoints); err != nil {
			return err
		}
	}
	return nil
}

// throughput commits all events at once and measures until the last is recorded as delivered.
func throughput(ctx context.Context, s *system, f *figures, label string, tenants, endpoints int) error {
	return throughputTo(ctx, s, f, s.target, label, tenants, endpoints)
}

func throughputTo(ctx context.Context, s *system, f *figures, target, label string, tenants, endpoints int) error {
	places, err := s.places(ctx, target, "ok", tenants, endpoints)
	if err != nil {
		return err
	}
	if err := s.tell("forget", nil, nil); err != nil {
		return err
	}
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := publish(ctx, tx, places, s.o.events); err != nil {
		return err
	}
	backends, err := s.backendCPU(ctx)
	if err != nil {
		return err
	}
	postgres, program := cpuTree(s.Postgres.PID()), s.senderCPU()
	begun := time.Now()
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	received, err := s.untilReceived(ctx, int64(s.o.events), 3*time.Minute)
	if err != nil {
		return err
	}
	if err := s.untilIdle(ctx, places); err != nil {
		return err
	}
	took := time.Since(begun)
	if err := s.printBackends(ctx, os.Stderr, backends, s.o.events); err != nil {
		return err
	}
	per := float64(s.o.events) / 1000
	f.add(label+": deliveries/s", float64(s.o.events)/took.Seconds())
	f.add(label+": received/s", float64(s.o.events)/received.Sub(begun).Seconds())
	f.add(label+": Postgres CPU ms per 1,000", float64((cpuTree(s.Postgres.PID())-postgres).Milliseconds())/per)
	f.add(label+": sender CPU ms per 1,000", float64((s.senderCPU()-program).Milliseconds())/per)
	return s.nothingMissing(ctx, places, s.o.events)
}

// publish puts n events into the outbox, spread over the places, through the public function.
func publish(ctx context.Context, tx pgx.Tx, places []place, n int) error {
	tenants, types, resources := make([]string, n), make([]string, n), make([]string, n)
	for i := range n {
		p := places[i%len(places)]
		tenants[i], types[i], resources[i] = p.tenant, p.eventType, fmt.Sprintf("C-%d", i%1000)
	}
	_, err := tx.Exec(ctx, `
		select waybill.publish(tenant => t, type => y, resource_type => 'consignment', resource_id => r, data => $4)
		from unnest($1::text[], $2::text[], $3::text[]) as u(t, y, r)`, tenants, types, resources, body)
	return err
}

func (s *system) untilReceived(ctx context.Context, want int64, within time.Duration) (time.Time, error) {
	deadline := time.Now().Add(within)
	for {
		var t tally
		if err := s.tell("tally", nil, &t); err != nil {
			return time.Time{}, err
		}
		if t.Bad > 0 {
			return time.Time{}, fmt.Errorf("%d signatures did not verify", t.Bad)
		}
		if t.Count >= want {
			return time.Now(), nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return time.Time{}, fmt.Errorf("%d of %d received after %s", t.Count, want, within)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// untilIdle waits until nothing is due at the places and their lanes rest: everything is committed.
func (s *system) untilIdle(ctx context.Context, places []place) error {
	ids := endpointIDs(places)
	for deadline := time.Now().Add(time.Minute); ; {
		var busy int
		err := s.Pool.QueryRow(ctx, `select (select count(*) from due where endpoint_id = any($1)) + (select count(*) from outbox)`, ids).Scan(&busy)
		if err != nil {
			return err
		}
		if busy == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d deliveries are still due a minute after the last was received", busy)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func endpointIDs(places []place) []string {
	ids := make([]string, len(places))
	for i, p := range places {
		ids[i] = p.endpoint
	}
	return ids
}

// nothingMissing holds the ledger: every delivery of the places is delivered, with an attempt.
func (s *system) nothingMissing(ctx context.Context, places []place, want int) error {
	var delivered, attempts int
	err := s.Pool.QueryRow(ctx, `select count(*) filter (where status = 'delivered'), coalesce(sum(attempts), 0) from deliveries where endpoint_id = any($1)`,
		endpointIDs(places)).Scan(&delivered, &attempts)
	if err == nil && (delivered != want || attempts < want) {
		err = fmt.Errorf("ledger: %d delivered, %d attempts, want %d", delivered, attempts, want)
	}
	return err
}

// Steady traffic of the latency scenarios.
const (
	steadyRate = 50 // events a second
	steadyFor  = 10 * time.Second
)

func latency(ctx context.Context, s *system, f *figures) error {
	places, err := s.places(ctx, s.target, "ok", 5, 20)
	if err != nil {
		return err
	}
	lags, err := s.steady(ctx, places, steadyFor)
	if err != nil {
		return err
	}
	f.add("commit → receipt at 50/s: p50 ms", quantile(lags, 0.5))
	f.add("commit → receipt at 50/s: p99 ms", quantile(lags, 0.99))
	return nil
}

// steady publishes at a steady rate, a transaction each, and returns the milliseconds from each commit to its receipt.
func (s *system) steady(ctx context.Context, places []place, for_ time.Duration) ([]float64, error) {
	if err := s.tell("forget", []byte("keep"), nil); err != nil {
		return nil, err
	}
	committed := map[string]time.Time{}
	tick := time.NewTicker(time.Second / steadyRate)
	defer tick.Stop()
	for end := time.Now().Add(for_); time.Now().Before(end); <-tick.C {
		p := places[rand.IntN(len(places))]
		var id string
		err := s.Pool.QueryRow(ctx, `select waybill.publish(tenant => $1, type => $2, resource_type => 'consignment', resource_id => 'C-1', data => $3)`,
			p.tenant, p.eventType, body).Scan(&id)
		if err != nil {
			return nil, err
		}
		committed[id] = time.Now()
	}
	if _, err := s.untilReceived(ctx, int64(len(committed)), time.Minute); err != nil {
		return nil, err
	}
	var arrived []arrival
	if err := s.tell("arrived", nil, &arrived); err != nil {
		return nil, err
	}
	var lags []float64
	for _, a := range arrived {
		if at, ok := committed[a.ID]; ok {
			lags = append(lags, float64(a.At-at.UnixNano())/1e6)
		}
	}
	return lags, nil
}

func quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

// isolation measures healthy endpoints alone and beside one of the same tenant that hangs with 2,000 deliveries waiting.
func isolation(ctx context.Context, s *system, f *figures) error {
	healthy, err := s.places(ctx, s.target, "ok", 1, 5)
	if err != nil {
		return err
	}
	alone, err := s.steady(ctx, healthy, steadyFor)
	if err != nil {
		return err
	}
	var hung struct{ ID string }
	if err := s.Call(ctx, "POST", "/v1/tenants/"+healthy[0].tenant+"/endpoints", map[string]any{"url": s.target + "/hang/x", "types": []string{"bench.hang"}}, &hung); err != nil {
		return err
	}
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := publish(ctx, tx, []place{{tenant: healthy[0].tenant, eventType: "bench.hang"}}, 2000); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond) // let it be dispatched: the question is what the hanging does
	beside, err := s.steady(ctx, healthy, steadyFor)
	if err != nil {
		return err
	}
	f.add("healthy alone: p99 ms", quantile(alone, 0.99))
	f.add("healthy beside a hung endpoint of its tenant: p50 ms", quantile(beside, 0.5))
	f.add("healthy beside a hung endpoint of its tenant: p99 ms", quantile(beside, 0.99))
	f.add("p99 beside ÷ alone", quantile(beside, 0.99)/quantile(alone, 0.99))
	return s.Call(ctx, "DELETE", "/v1/tenants/"+healthy[0].tenant+"/endpoints/"+hung.ID, nil, nil)
}

// kill sends to many endpoints, kills the program with SIGKILL on the way, starts another, and counts.
func kill(ctx context.Context, s *system, f *figures) error {
	places, err := s.places(ctx, s.target, "ok", s.o.tenants, s.o.endpoints)
	if err != nil {
		return err
	}
	if err := s.tell("forget", []byte("keep"), nil); err != nil {
		return err
	}
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := publish(ctx, tx, places, s.o.events); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if _, err := s.untilReceived(ctx, int64(s.o.events/3), time.Minute); err != nil {
		return err
	}
	programs := s.Programs()
	killed := time.Now()
	s.Kill(programs[len(programs)-1])
	if err := s.another(ctx); err != nil {
		return err
	}
	if err := s.untilIdle(ctx, places); err != nil {
		return err
	}
	drained := time.Since(killed)
	var arrived []arrival
	if err := s.tell("arrived", nil, &arrived); err != nil {
		return err
	}
	times := map[string]int{}
	var first time.Time
	var resumed time.Duration
	last := map[string]time.Time{}
	for _, a := range arrived {
		times[a.ID]++
		at := time.Unix(0, a.At)
		if at.After(killed) {
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if _, ok := last[a.Path]; !ok || at.Before(last[a.Path]) {
				last[a.Path] = at
			}
		}
	}
	for _, at := range last {
		resumed = max(resumed, at.Sub(killed))
	}
	f.add("kill -9: events lost", float64(s.o.events-len(times)))
	f.add("kill -9: events received twice", float64(len(arrived)-len(times)))
	f.add("kill -9: s until the last lane sends again", resumed.Seconds())
	f.add("kill -9: s until everything is delivered", drained.Seconds())
	return s.nothingMissing(ctx, places, s.o.events)
}

// Business transactions of scenario commits.
const (
	committers = 50
	commitFor  = 3 * time.Second
)

// commits measures what publishing costs the platform: 50 connections that each change a row of their own and commit, without an event and with one.
func commits(ctx context.Context, s *system, f *figures) error {
	places, err := s.places(ctx, s.target, "ok", 5, 20)
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(s.DatabaseURL)
	if err != nil {
		return err
	}
	config.MaxConns = committers
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `create table if not exists public.consignment (id integer primary key, version integer not null);
		insert into public.consignment select n, 1 from generate_series(1, 50) n on conflict do nothing`); err != nil {
		return err
	}
	rate := func(publishes bool) (float64, error) {
		var done atomic.Int64
		work, cancel := context.WithTimeout(ctx, commitFor)
		defer cancel()
		errs := make(chan error, committers)
		begun := time.Now()
		for n := range committers {
			p := places[n%len(places)]
			go func() {
				errs <- func() error {
					for work.Err() == nil {
						err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
							if _, err := tx.Exec(ctx, `update public.consignment set version = version + 1 where id = $1`, n+1); err != nil || !publishes {
								return err
							}
							_, err := tx.Exec(ctx, `select waybill.publish(tenant => $1, type => $2, resource_type => 'consignment', resource_id => $3, data => $4)`,
								p.tenant, p.eventType, fmt.Sprintf("C-%d", n), body)
							return err
						})
						if err != nil {
							return err
						}
						done.Add(1)
					}
					return nil
				}()
			}()
		}
		for range committers {
			err = errors.Join(err, <-errs)
		}
		return float64(done.Load()) / time.Since(begun).Seconds(), err
	}
	plain, err := rate(false)
	if err != nil {
		return err
	}
	with, err := rate(true)
	if err != nil {
		return err
	}
	f.add("50 committers, no event: commits/s", plain)
	f.add("50 committers, each publishes, deliveries on the way: commits/s", with)
	return s.untilIdle(ctx, places)
}
