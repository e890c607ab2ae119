package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Balancer stands before the web processes of a system as a load balancer would: it asks each for /readyz again and again, sends requests in turn to those
// that said yes last, and tries another one only where a connection was refused. Everything else that goes wrong is a failed request.
type Balancer struct {
	s      *System
	client *http.Client
	stop   context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	ready    []string
	turn     int
	answered int
	refused  int
	failures []string
}

// checkPatience is how long /readyz may take before a process counts as not ready.
const checkPatience = 2 * time.Second

// NewBalancer starts one that asks every so often. It knows whoever is ready when it returns. Close it.
func NewBalancer(ctx context.Context, s *System, every time.Duration) *Balancer {
	ctx, stop := context.WithCancel(ctx)
	b := &Balancer{s: s, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, stop: stop, ended: make(chan struct{})}
	b.check(ctx)
	go func() {
		defer close(b.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				b.check(ctx)
			}
		}
	}()
	return b
}

// Close ends the asking.
func (b *Balancer) Close() {
	b.stop()
	<-b.ended
	b.client.CloseIdleConnections()
}

// check asks all at the same time, so that one that is slow does not delay what is learnt of the others.
func (b *Balancer) check(ctx context.Context) {
	var asked sync.WaitGroup
	for _, p := range b.s.Programs() {
		if addr := p.Addr(); p.Has("web") && addr != "" {
			asked.Go(func() {
				asking, cancel := context.WithTimeout(ctx, checkPatience)
				defer cancel()
				status, err := p.Ready(asking)
				if ctx.Err() != nil {
					return
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				switch known, is := slices.Contains(b.ready, addr), err == nil && status == http.StatusOK; {
				case is && !known:
					b.ready = append(b.ready, addr)
				case known && !is:
					b.ready = slices.DeleteFunc(b.ready, func(x string) bool { return x == addr })
				}
			})
		}
	}
	asked.Wait()
}

// Ready is how many processes get requests.
func (b *Balancer) Ready() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.ready) }

// Tally is how many requests were answered with 2xx, how many connections were refused, and what failed.
func (b *Balancer) Tally() (answered, refused int, failures []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answered, b.refused, slices.Clone(b.failures)
}

// Call sends one request as the platform. A failure is kept as well as returned.
func (b *Balancer) Call(ctx context.Context, method, path string, body []byte) error {
	b.mu.Lock()
	b.turn++
	order := slices.Clone(b.ready)
	if len(order) > 0 {
		n := b.turn % len(order)
		order = slices.Concat(order[n:], order[:n])
	}
	b.mu.Unlock()
	err := errors.New("no process is ready")
	refused := 0
	for _, addr := range order {
		if err = b.send(ctx, addr, method, path, body); !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		refused++
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused += refused
	if err == nil {
		b.answered++
	} else if len(b.failures) < 20 {
		b.failures = append(b.failures, fmt.Sprintf("%s %s %s: %v", time.Now().Format("05.000"), method, path, err))
	}
	return err
}

func (b *Balancer) send(ctx context.Context, addr, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.GetBody = nil // nothing that was sent is sent again
	req.Header.Set("Authorization", "Bearer "+b.s.PlatformKey)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = &Refusal{res.StatusCode, string(answer)}
	}
	return err
}

// Publish is System.PublishAPI through the balancer.
func (b *Balancer) Publish(ctx context.Context, l *Ledger, events ...Event) error {
	err := b.Call(ctx, http.MethodPost, "/v1/events", apiBody(events))
	if err == nil {
		l.Commit(events...)
	}
	return err
}
