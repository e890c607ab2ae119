package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"

	"waybill/e2e"
)

// trouble is one thing that goes wrong. Its error ends the run: the trouble itself could not be made.
type trouble struct {
	name   string
	weight int
	make   func(context.Context, *rand.Rand) error
}

func (c *chaos) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[name]++
}

// stream makes one trouble after the other until ctx ends.
func (c *chaos) stream(ctx context.Context, name string, least, most time.Duration, troubles []trouble) error {
	random := c.random(name)
	sum := 0
	for _, t := range troubles {
		sum += t.weight
	}
	for wait(ctx, between(random, least, most)); ctx.Err() == nil; wait(ctx, between(random, least, most)) {
		n := random.IntN(sum)
		for _, t := range troubles {
			if n -= t.weight; n < 0 {
				c.note(t.name)
				// A trouble that has begun is undone, however little time is left.
				if err := t.make(context.WithoutCancel(ctx), random); err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				break
			}
		}
	}
	return nil
}

// processes ends, freezes and restarts processes of the program and of Postgres, one at a time.
func (c *chaos) processes(ctx context.Context) error {
	return c.stream(ctx, "processes", 300*time.Millisecond, 1800*time.Millisecond, []trouble{
		{"worker killed", 30, c.killWorker},
		{"worker stopped", 10, c.stopWorker},
		{"worker frozen", 8, c.freezeWorker},
		{"web killed", 10, c.killWeb},
		{"proxy killed", 5, c.killProxy},
		{"backends terminated", 15, c.terminate},
		{"Postgres restarted", 5, c.restartPostgres},
		{"Postgres shut down at once", 4, c.crashPostgres(syscall.SIGQUIT)},
		{"Postgres killed", 5, c.crashPostgres(syscall.SIGKILL)},
		{"Postgres frozen", 4, c.freezePostgres},
	})
}

// up starts a process in place of another, again and again while the database is away.
func (c *chaos) up(ctx context.Context, l e2e.Launch) (p *e2e.Program, err error) {
	begun := time.Now()
	err = e2e.Until(ctx, patience, l.Name+" starts", func() (bool, error) {
		p, err = c.system.Start(ctx, l)
		return err == nil, err
	})
	if err == nil {
		c.tell("%s is up, %.2f s after its start", l.Name, time.Since(begun).Seconds())
	}
	return p, err
}

func (c *chaos) killWorker(ctx context.Context, random *rand.Rand) error {
	n := random.IntN(len(c.workers))
	pause := between(random, 0, 1500*time.Millisecond)
	c.tell("kill -9 %s, for %.2f s", c.workers[n].Name, pause.Seconds())
	c.system.Kill(c.workers[n])
	wait(ctx, pause)
	p, err := c.up(ctx, c.launch("worker", n+1))
	c.workers[n] = p
	return err
}

func (c *chaos) stopWorker(ctx context.Context, random *rand.Rand) error {
	n := random.IntN(len(c.workers))
	begun := time.Now()
	code, err := c.system.Stop(c.workers[n], stopsWithin)
	c.tell("%s was asked to stop and ended with code %d after %.2f s", c.workers[n].Name, code, time.Since(begun).Seconds())
	if err != nil || code != 0 {
		c.ledger.Complain("%s ended with code %d: %v\n%s", c.workers[n].Name, code, err, c.workers[n].Tail(8))
		c.system.Kill(c.workers[n])
	}
	p, err := c.up(ctx, c.launch("worker", n+1))
	c.workers[n] = p
	return err
}

// freezeWorker stays well within a lease: beyond it a process that is suspended as a whole is the documented exception to the limits.
func (c *chaos) freezeWorker(ctx context.Context, random *rand.Rand) error {
	p := c.workers[random.IntN(len(c.workers))]
	pause := between(random, 200*time.Millisecond, 1500*time.Millisecond)
	c.tell("freeze %s for %.2f s", p.Name, pause.Seconds())
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wait(ctx, pause)
	return p.Signal(syscall.SIGCONT)
}

func (c *chaos) killWeb(ctx context.Context, random *rand.Rand) error {
	pause := between(random, 0, time.Second)
	c.tell("kill -9 %s, for %.2f s", c.web.Name, pause.Seconds())
	c.system.Kill(c.web)
	wait(ctx, pause)
	p, err := c.up(ctx, c.launch("web", 1))
	c.web = p
	return err
}

func (c *chaos) killProxy(ctx context.Context, random *rand.Rand) error {
	pause := between(random, 0, time.Second)
	c.tell("kill -9 %s, for %.2f s", c.proxy.Name, pause.Seconds())
	c.system.Kill(c.proxy)
	wait(ctx, pause)
	p, err := c.up(ctx, proxyLaunch(1))
	if err == nil {
		c.proxy = p
		c.relay.SetTarget(p.Addr())
	}
	return err
}

func (c *chaos) terminate(ctx context.Context, random *rand.Rand) error {
	most := pick(random, 1, 2, 5, 100)
	n, err := c.system.Count(ctx, `
		select count(pg_terminate_backend(pid)) from (
			select pid from pg_stat_activity
			where datname = current_database() and application_name like 'waybill%'
			order by md5(pid::text || $1) limit $2) x`, fmt.Sprint(random.Uint64()), most)
	c.tell("terminate %d of the program's backends: %d, %v", most, n, err)
	return nil
}

func (c *chaos) restartPostgres(ctx context.Context, _ *rand.Rand) error {
	begun := time.Now()
	err := c.system.Postgres.Restart(ctx)
	c.tell("restart Postgres: %.2f s", time.Since(begun).Seconds())
	return err
}

func (c *chaos) crashPostgres(signal syscall.Signal) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, _ *rand.Rand) error {
		begun := time.Now()
		err := c.system.CrashPostgres(ctx, signal, time.Minute)
		c.tell("%s to Postgres: it answers again after %.2f s", signal, time.Since(begun).Seconds())
		return err
	}
}

// freezePostgres makes it neither answer nor refuse, now and then for longer than a lease.
func (c *chaos) freezePostgres(ctx context.Context, random *rand.Rand) error {
	postmaster := c.system.Postgres.PID()
	pause := between(random, 300*time.Millisecond, 7*time.Second)
	c.tell("freeze Postgres for %.2f s", pause.Seconds())
	signal := func(s syscall.Signal) {
		for _, pid := range append(e2e.Children(postmaster), postmaster) {
			_ = syscall.Kill(pid, s) // a backend may have ended
		}
	}
	signal(syscall.SIGSTOP)
	wait(ctx, pause)
	signal(syscall.SIGCONT)
	return nil
}

// stalls stops everything on the way to the proxy now and then.
func (c *chaos) stalls(ctx context.Context) error {
	return c.stream(ctx, "stalls", 3*time.Second, 9*time.Second, []trouble{{"proxy stalled", 1, func(ctx context.Context, random *rand.Rand) error {
		pause := between(random, 300*time.Millisecond, 4*time.Second)
		c.tell("stall the proxy for %.2f s", pause.Seconds())
		c.relay.Stall()
		wait(ctx, pause)
		c.relay.Resume()
		return nil
	}}})
}

// people use the API: they pause and enable endpoints, send tests, and delete one.
func (c *chaos) people(ctx context.Context) error {
	return c.stream(ctx, "people", 500*time.Millisecond, 3*time.Second, []trouble{
		{"endpoint paused", 4, c.pause},
		{"test sent", 4, c.sendTest},
		{"endpoint deleted", 1, c.delete},
	})
}

// act calls an action of a random endpoint that was not deleted; it may fail while the web is away.
func (c *chaos) act(ctx context.Context, p *e2e.Place, method, action string) (returned time.Time, err error) {
	calling, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = c.system.Call(calling, method, "/v1/tenants/"+p.Tenant+"/endpoints/"+p.EndpointID+action, nil, nil)
	return time.Now(), err
}

func (c *chaos) somePlace(random *rand.Rand) *e2e.Place {
	living := slices.DeleteFunc(slices.Clone(c.places), c.ledger.IsDeleted)
	return pick(random, living...)
}

// graceOfPause is how long after the call's return a request may still arrive that had begun before it.
const graceOfPause = time.Second

func (c *chaos) pause(ctx context.Context, random *rand.Rand) error {
	p := c.somePlace(random)
	from, err := c.act(ctx, p, http.MethodPost, "/pause")
	c.tell("pause %s: %v", p.Key, err)
	if err != nil {
		return nil // it may have happened; it is enabled below all the same
	}
	wait(ctx, between(random, 1200*time.Millisecond, 2500*time.Millisecond))
	to := time.Now()
	if !c.relay.Stalled(from.Add(-graceOfPause), to) {
		c.ledger.Silent(p, from.Add(graceOfPause), to)
	}
	err = e2e.Until(ctx, patience, p.Key+" is enabled again", func() (bool, error) {
		_, err := c.act(ctx, p, http.MethodPost, "/enable")
		pauseAfter(err)
		return err == nil, err
	})
	c.tell("enable %s: %v", p.Key, err)
	return err
}

func (c *chaos) sendTest(ctx context.Context, random *rand.Rand) error {
	p := c.somePlace(random)
	_, err := c.act(ctx, p, http.MethodPost, "/test")
	c.tell("test %s: %v", p.Key, err)
	return nil
}

func (c *chaos) delete(ctx context.Context, random *rand.Rand) error {
	p := c.somePlace(random)
	if c.deleted++; c.deleted > 2 {
		return c.sendTest(ctx, random) // leave somebody to send to
	}
	c.ledger.SetDeleted(p)
	_, err := c.act(ctx, p, http.MethodDelete, "")
	c.tell("delete %s: %v", p.Key, err)
	return nil
}
