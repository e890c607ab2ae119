package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	publishers  = 50
	publishEach = 2_000 // events of one publisher that it tries to commit
	deepPages   = 20    // pages of the list that are read at each depth
)

// follower is a tenant's own reader of the catalog.
type follower struct {
	base, key string
}

// follower makes a tenant with a key.
func (s *system) follower(ctx context.Context, uid string) (follower, error) {
	var made struct{ Key string }
	err := errors.Join(s.Call(ctx, "PUT", "/v1/tenants/"+uid, map[string]any{"name": uid}, nil), s.Call(ctx, "POST", "/v1/tenants/"+uid+"/keys", map[string]any{"name": "bench"}, &made))
	for _, p := range s.Programs() {
		if p.Has("web") && p.Alive() {
			return follower{"http://" + p.Addr(), made.Key}, err
		}
	}
	return follower{}, errors.Join(err, errors.New("no process serves the API"))
}

func (f follower) request(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+f.key)
	return http.DefaultClient.Do(req)
}

// page is one answer of the list of events.
type page struct {
	Data []struct{ ID string }
	Next string
}

// list reads one page, also if it has to wait for the key's rate.
func (f follower) list(ctx context.Context, after string) (p page, took time.Duration, err error) {
	for {
		begun := time.Now()
		res, err := f.request(ctx, "/v1/events?limit=200&after="+url.QueryEscape(after))
		if err != nil {
			return p, 0, err
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		took = time.Since(begun)
		switch {
		case err != nil:
			return p, 0, err
		case res.StatusCode == http.StatusTooManyRequests:
			seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
			time.Sleep(time.Duration(max(seconds, 1)) * time.Second)
		case res.StatusCode != http.StatusOK:
			return p, 0, fmt.Errorf("the list answered %s: %s", res.Status, text)
		default:
			return p, took, json.Unmarshal(text, &p)
		}
	}
}

// stream reads server-sent events from behind a cursor, and gives each message's cursor and data to take until that says stop.
func (f follower) stream(ctx context.Context, after string, take func(cursor string, data []byte) (more bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := f.request(ctx, "/v1/events/stream?after="+url.QueryEscape(after))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New("the stream answered " + res.Status)
	}
	cursor, lines := "", bufio.NewReaderSize(res.Body, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("the stream: %w", err)
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			cursor = string(bytes.TrimSpace(id))
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !take(cursor, data) {
			return nil
		}
	}
}

// catchUp reads a whole catalog of -catalog events over the stream, and pages of the list at three depths.
func catchUp(ctx context.Context, s *system, f *figures) error {
	n := s.o.catalog
	s.serial++
	uid := fmt.Sprintf("bench-follow-%d", s.serial)
	reader, err := s.follower(ctx, uid)
	if err != nil {
		return err
	}
	if err := s.fillCatalog(ctx, uid, n); err != nil {
		return err
	}
	first, _, err := reader.list(ctx, "")
	if err != nil {
		return err
	}
	program, postgres, resident, heap := s.senderCPU(), cpuTree(s.Postgres.PID()), s.resident(), heapNow()
	mostResident, mostHeap := resident, heap
	depths := map[int]string{0: "", n / 2: "", n - 1000: ""}
	seen, begun := len(first.Data), time.Now()
	err = reader.stream(ctx, first.Next, func(cursor string, _ []byte) bool {
		seen++
		if _, ok := depths[seen]; ok {
			depths[seen] = cursor
		}
		if seen%10_000 == 0 {
			mostResident, mostHeap = max(mostResident, s.resident()), max(mostHeap, heapNow())
		}
		return seen < n
	})
	if err != nil {
		return err
	}
	took, used, database := time.Since(begun), s.senderCPU()-program, cpuTree(s.Postgres.PID())-postgres
	of := fmt.Sprintf("a stream of %d old events: ", n)
	f.add(of+"events/s", float64(n)/took.Seconds())
	f.add(of+"events a second of the program's CPU", float64(n)/used.Seconds())
	f.add(of+"events a second of Postgres' CPU", float64(n)/database.Seconds())
	f.add(of+"the program's memory grows by MiB", float64(mostResident-resident)/(1<<20))
	f.add(of+"the reader's memory grows by MiB", float64(mostHeap-heap)/(1<<20))
	for _, depth := range slices.Sorted(maps.Keys(depths)) {
		var all []float64
		for range deepPages {
			p, took, err := reader.list(ctx, depths[depth])
			if err != nil || len(p.Data) != 200 {
				return fmt.Errorf("%d events in a page at depth %d, %w", len(p.Data), depth, err)
			}
			all = append(all, float64(took.Microseconds())/1000)
		}
		f.add(fmt.Sprintf("a page of 200 events behind %d, ms", depth), quantile(all, 0.5))
	}
	return nil
}

// fillCatalog puts n events of a tenant into today's partition, as the dispatcher would have.
func (s *system) fillCatalog(ctx context.Context, uid string, n int) error {
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local statement_timeout = 0`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			with taken as (update positions set last = last + $2 returning last - $2 as base)
			insert into events (position, day, tenant_id, id, type, version, resource_type, resource_id, sequence, occurred_at, published_at, created_at, test, body)
			select base + n, (now() at time zone 'UTC')::date, t.id, t.id || '-' || n, 'bench.follow', 1, 'consignment', 'C-' || n % 5000, n, now(), now(), now(), false,
			       '{"id":"' || t.id || '-' || n || '","type":"bench.follow","version":1,"data":' || $3 || '}'
			from taken, tenants t, generate_series(1, $2::integer) n
			where t.uid = $1`, uid, n, body)
		return err
	})
}

// resident is the memory of all processes of the program, in bytes.
func (s *system) resident() (total int64) {
	for _, p := range s.Programs() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			total += pages * int64(os.Getpagesize())
		}
	}
	return total
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// exact lets publishers commit in any order, hold their transactions open and roll back, while a reader of the list and one of the stream follow. Each must see
// every committed event, once, in the same order.
func exact(ctx context.Context, s *system, f *figures) error {
	s.serial++
	uid := fmt.Sprintf("bench-exact-%d", s.serial)
	reader, err := s.follower(ctx, uid)
	if err != nil {
		return err
	}
	start, _, err := reader.list(ctx, "")
	if err != nil {
		return err
	}
	config := s.Pool.Config().Copy()
	config.MaxConns = publishers
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	begun := time.Now()
	var committed []string
	var mu sync.Mutex
	var publishing, reading sync.WaitGroup
	failures := make(chan error, publishers+2)
	for p := range publishers {
		publishing.Go(func() {
			failures <- publishRestlessly(ctx, pool, uid, p, func(ids []string) { mu.Lock(); committed = append(committed, ids...); mu.Unlock() })
		})
	}
	ended := make(chan struct{})
	go func() { publishing.Wait(); close(ended) }()
	all := func() (int, bool) { // how many there are, once there are no more to come
		select {
		case <-ended:
			mu.Lock()
			defer mu.Unlock()
			return len(committed), true
		default:
			return 0, false
		}
	}
	following, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var listed, streamed []string
	reading.Go(func() {
		for after := start.Next; ; {
			p, _, err := reader.list(following, after)
			if err != nil {
				failures <- err
				return
			}
			for _, e := range p.Data {
				listed = append(listed, e.ID)
			}
			after = p.Next
			if n, over := all(); over && len(listed) >= n && len(p.Data) == 0 {
				failures <- nil
				return
			}
			if len(p.Data) < 200 {
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
	reading.Go(func() {
		err := reader.stream(following, start.Next, func(_ string, data []byte) bool {
			var e struct{ ID string }
			if json.Unmarshal(data, &e) != nil {
				e.ID = "unreadable: " + string(data)
			}
			streamed = append(streamed, e.ID)
			return !strings.HasSuffix(e.ID, "-last")
		})
		failures <- err
	})
	<-ended
	reached := time.Now()
	// One more, which says that there are no more: behind it nothing is left.
	if _, err := pool.Exec(ctx, `select waybill.publish(tenant => $1, type => 'bench.exact', resource_type => 'consignment', resource_id => 'C-last', data => '{}', id => $2)`, uid, uid+"-last"); err != nil {
		return err
	}
	mu.Lock()
	committed = append(committed, uid+"-last")
	mu.Unlock()
	reading.Wait()
	for range publishers + 2 {
		if err := <-failures; err != nil {
			return err
		}
	}
	slices.Sort(committed)
	for name, seen := range map[string][]string{"list": listed, "stream": streamed} {
		if sorted := slices.Sorted(slices.Values(seen)); !slices.Equal(sorted, committed) {
			return fmt.Errorf("the reader of the %s saw %d events, %d of them different, of %d", name, len(seen), len(slices.Compact(sorted)), len(committed))
		}
	}
	if !slices.Equal(listed, streamed) {
		return errors.New("the two readers saw different orders")
	}
	f.add(fmt.Sprintf("%d publishers, two readers: events seen exactly once by each", publishers), float64(len(committed)))
	f.add(fmt.Sprintf("%d publishers, two readers: events/s committed", publishers), float64(len(committed))/reached.Sub(begun).Seconds())
	return nil
}

// publishRestlessly commits events, some in each transaction; it holds some open for a while, and rolls some back.
func publishRestlessly(ctx context.Context, pool *pgxpool.Pool, uid string, publisher int, committed func([]string)) error {
	random := rand.New(rand.NewPCG(uint64(publisher), 42))
	for n := 0; n < publishEach; {
		var ids []string
		gone := random.IntN(10) == 0
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			for range min(1+random.IntN(20), publishEach-n) {
				id := fmt.Sprintf("%s-%d-%d", uid, publisher, n+len(ids))
				if gone {
					id += "-gone"
				}
				if _, err := tx.Exec(ctx, `select waybill.publish(tenant => $1, type => 'bench.exact', resource_type => 'consignment', resource_id => $2, data => $3, id => $4)`,
					uid, fmt.Sprintf("C-%d", random.IntN(500)), body, id); err != nil {
					return err
				}
				ids = append(ids, id)
			}
			if random.IntN(4) == 0 {
				time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
			}
			if gone {
				return errGone
			}
			return nil
		})
		switch {
		case err == nil:
			committed(ids)
			n += len(ids)
		case !errors.Is(err, errGone):
			return err
		}
	}
	return nil
}

var errGone = errors.New("rolled back on purpose")
