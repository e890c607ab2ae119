package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// hanging measures an endpoint alone and beside a hundred of another tenant that hang for the whole timeout, by turns.
func hanging(ctx context.Context, s *system, f *figures) error {
	healthy, err := s.places(ctx, s.target, "ok", 1, 1)
	if err != nil {
		return err
	}
	var alone, beside []float64
	for range 2 {
		lags, err := s.steady(ctx, healthy, steadyFor)
		if err != nil {
			return err
		}
		alone = append(alone, lags...)
		hung, err := s.places(ctx, s.target, "hang", 1, 100)
		if err != nil {
			return err
		}
		tx, err := s.Pool.Begin(ctx)
		if err != nil {
			return err
		}
		if err := publish(ctx, tx, hung, 20*len(hung)); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond) // let it be dispatched: the question is what the hanging does
		if lags, err = s.steady(ctx, healthy, steadyFor); err != nil {
			return err
		}
		beside = append(beside, lags...)
		for _, p := range hung {
			if err := s.Call(ctx, "DELETE", "/v1/tenants/"+p.tenant+"/endpoints/"+p.endpoint, nil, nil); err != nil {
				return err
			}
		}
	}
	f.add("alone: p99 ms", quantile(alone, 0.99))
	f.add("beside 100 hung endpoints of another tenant: p50 ms", quantile(beside, 0.5))
	f.add("beside 100 hung endpoints of another tenant: p99 ms", quantile(beside, 0.99))
	f.add("100 hung endpoints: p99 beside ÷ alone", quantile(beside, 0.99)/quantile(alone, 0.99))
	return nil
}

// recovered is how many deliveries the scenario recover catches up on.
const recovered = 100_000

// catchUpOn previews, streams, cancels and ends a catch-up on what an endpoint has held.
func catchUpOn(ctx context.Context, s *system, f *figures) error {
	places, err := s.places(ctx, s.target, "ok", 1, 1)
	if err != nil {
		return err
	}
	tenant := "/v1/tenants/" + places[0].tenant
	address := tenant + "/endpoints/" + places[0].endpoint
	if err := s.Call(ctx, "POST", address+"/pause", nil, nil); err != nil {
		return err
	}
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for range recovered / 5000 {
		tx, err := s.Pool.Begin(ctx)
		if err != nil {
			return err
		}
		if err := publish(ctx, tx, places, 5000); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var held int
		if err := s.Pool.QueryRow(ctx, `select count(*) from parked where endpoint_id = $1`, places[0].endpoint).Scan(&held); err != nil {
			return err
		}
		if held == recovered {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d are held after two minutes", held, recovered)
		}
	}
	if err := s.Call(ctx, "POST", address+"/enable", nil, nil); err != nil {
		return err
	}
	var preview struct{ Total int }
	begun := time.Now()
	if err := s.Call(ctx, "POST", address+"/recover", map[string]any{"since": since, "dry_run": true}, &preview); err != nil {
		return err
	}
	f.add("recover 100,000: preview ms", float64(time.Since(begun).Microseconds())/1000)
	if preview.Total != recovered {
		return fmt.Errorf("the preview counts %d, want %d", preview.Total, recovered)
	}
	before := s.memory()
	first, err := s.startRecovery(ctx, address, since)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	var longest float64
	var most int64
	go func() {
		defer close(watched)
		for watching.Err() == nil {
			var ms float64
			if s.Pool.QueryRow(watching, `select coalesce(max(extract(epoch from clock_timestamp() - xact_start)) * 1000, 0)::float8 from pg_stat_activity
				where application_name like 'waybill%' and state <> 'idle' and pid <> pg_backend_pid()`).Scan(&ms) == nil {
				longest = max(longest, ms)
			}
			most = max(most, s.memory())
			time.Sleep(5 * time.Millisecond)
		}
	}()
	time.Sleep(2 * time.Second)
	asked := time.Now()
	if err := s.Call(ctx, "POST", tenant+"/recoveries/"+first+"/cancel", nil, nil); err != nil {
		stop()
		return err
	}
	if err := s.recoveryEnds(ctx, tenant, first); err != nil {
		stop()
		return err
	}
	f.add("recover 100,000: cancelled after ms", float64(time.Since(asked).Microseconds())/1000)
	rest, err := s.startRecovery(ctx, address, since)
	if err == nil {
		err = s.recoveryEnds(ctx, tenant, rest)
	}
	stop()
	<-watched
	if err != nil {
		return err
	}
	f.add("recover 100,000: longest transaction ms", longest)
	f.add("recover 100,000: memory added MB", float64(most-before)/(1<<20))
	if err := s.untilIdle(ctx, places); err != nil {
		return err
	}
	return s.nothingMissing(ctx, places, recovered)
}

func (s *system) startRecovery(ctx context.Context, address, since string) (string, error) {
	var made struct{ ID string }
	err := s.Call(ctx, "POST", address+"/recover", map[string]any{"since": since}, &made)
	return made.ID, err
}

func (s *system) recoveryEnds(ctx context.Context, tenant, id string) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var now struct{ State string }
		if err := s.Call(ctx, "GET", tenant+"/recoveries/"+id, nil, &now); err != nil {
			return err
		}
		if now.State != "running" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("catch-up %s runs after two minutes", id)
		}
	}
}

// memory is the resident memory of the program's processes, where the system says it.
func (s *system) memory() (total int64) {
	for _, p := range s.Programs() {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/statm")
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			total += pages * int64(os.Getpagesize())
		}
	}
	return total
}
