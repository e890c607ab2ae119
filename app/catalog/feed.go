package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/fault"
	"waybill/db/queries"
)

// How streams are fed.
const (
	lookEvery  = 50 * time.Millisecond // while anybody follows
	lookRetry  = time.Second           // after the database did not answer
	lookWithin = 5 * time.Second
	lookMost   = 250             // events of one look; each may have some 260 kB
	askEvery   = 2 * time.Second // whether the keys behind the streams go on

	maxBacklog  = 1 << 20 // bytes of bodies that a stream may be behind; then it catches up by itself
	maxCatching = 4       // streams that do so at once: they share the pool with all others

	maxStreams       = 5000 // of a process
	maxTenantStreams = 1000 // of a tenant in it
)

// Why a stream has ended.
var (
	ErrStopping = errors.New("the process stops")
	ErrKeyEnded = errors.New("the key was revoked or has expired")
)

var (
	sqlPositionLast  = queries.SQL("PositionLast")
	sqlEventsBetween = queries.SQL("EventsBetween")
)

// Followed is an event as streams carry it: with its body, and the cursor that stands behind it.
type Followed struct {
	Event
	Cursor string
}

// Feed tells the streams of a process what has been dispatched. It looks for all of them at once, and only while there are any: what it costs
// grows with what happens, not with how many watch.
type Feed struct {
	pool  *pgxpool.Pool
	log   *slog.Logger
	alive func(ctx context.Context, keyIDs []string) ([]string, error)

	ctx      context.Context // ends with the feed
	cancel   context.CancelFunc
	ended    sync.WaitGroup
	kick     chan struct{} // somebody has come
	catching chan struct{} // a place for each that catches up

	mu      sync.Mutex
	streams map[*follower]struct{}
	running bool
}

// follower is one stream as the feed sees it.
type follower struct {
	tenant, keyID string

	mu    sync.Mutex
	queue []Followed
	size  int
	lost  bool  // it was too far behind: the queue is gone
	over  error // why it has ended
	wake  chan struct{}

	// Of the feed, under its lock.
	attached bool          // it is given what is dispatched
	waiting  chan struct{} // closed when it is attached
}

// NewFeed makes a feed. alive says which keys have neither expired nor been revoked.
func NewFeed(pool *pgxpool.Pool, log *slog.Logger, alive func(ctx context.Context, keyIDs []string) ([]string, error)) *Feed {
	f := &Feed{pool: pool, log: log, alive: alive, kick: make(chan struct{}, 1), catching: make(chan struct{}, maxCatching), streams: map[*follower]struct{}{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close ends all streams with ErrStopping.
func (f *Feed) Close() {
	f.cancel()
	f.mu.Lock()
	for s := range f.streams {
		s.end(ErrStopping)
	}
	f.mu.Unlock()
	f.ended.Wait()
}

// join adds a follower, not attached yet.
func (f *Feed) join(tenant, keyID string) (*follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return nil, fault.Wrap(fault.Unavailable, "This process is about to stop. Connect again in a moment.", ErrStopping)
	}
	own := 0
	for s := range f.streams {
		if s.tenant == tenant {
			own++
		}
	}
	switch {
	case own >= maxTenantStreams:
		return nil, fault.Newf(fault.RateLimited, "%d streams are open, which is the most at once. Close one first.", own)
	case len(f.streams) >= maxStreams:
		return nil, fault.New(fault.Unavailable, "Too many streams are open here. Connect again in a moment.")
	}
	s := &follower{tenant: tenant, keyID: keyID, wake: make(chan struct{}, 1)}
	f.streams[s] = struct{}{}
	if !f.running {
		f.running = true
		ctx, cancel := context.WithCancel(f.ctx)
		f.ended.Go(func() { defer cancel(); f.run() })
		f.ended.Go(func() { f.askLoop(ctx) })
	}
	return s, nil
}

func (f *Feed) leave(s *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, s)
}

// attach makes the follower be told of everything that is dispatched from some moment during the call on.
func (f *Feed) attach(ctx context.Context, s *follower) error {
	attached := make(chan struct{})
	f.mu.Lock()
	s.mu.Lock()
	s.queue, s.size, s.lost = nil, 0, false
	s.mu.Unlock()
	s.attached, s.waiting = false, attached
	f.mu.Unlock()
	select {
	case f.kick <- struct{}{}:
	default:
	}
	select {
	case <-attached:
		return nil
	case <-f.ctx.Done():
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run looks again and again while there are streams.
func (f *Feed) run() {
	var seen int64
	var since time.Time // the day of the last look: what is new is of this day or a later one
	known := false
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.kick:
		case <-wait.C:
		}
		if f.rest() {
			return
		}
		next, today, more, err := f.look(seen, since, known)
		pause := lookEvery
		switch {
		case f.ctx.Err() != nil:
			return
		case err != nil:
			f.log.Warn("streams could not be fed; it is tried again", "error", err)
			pause = lookRetry
		case more:
			seen, pause = next, 0
		default:
			seen, since, known = next, today, true
		}
		wait.Reset(pause)
	}
}

// rest says whether nobody is left, and that the loop ends therefore.
func (f *Feed) rest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = len(f.streams) > 0
	return !f.running
}

// look hands out what was dispatched since seen, and attaches who waits for that. more says that there is more at once.
func (f *Feed) look(seen int64, since time.Time, known bool) (next int64, today time.Time, more bool, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, lookWithin)
	defer cancel()
	tenants := map[string]struct{}{}
	f.mu.Lock()
	for s := range f.streams {
		if s.attached {
			tenants[s.tenant] = struct{}{}
		}
	}
	f.mu.Unlock()
	if err := f.pool.QueryRow(ctx, sqlPositionLast).Scan(&next, &today); err != nil {
		return seen, today, false, fmt.Errorf("look at the catalog's end: %w", err)
	}
	var news map[string][]Followed
	if known && next > seen && len(tenants) > 0 {
		var reached int64
		// The database's clock may have been set back, or a day may end between its giving a day and our looking.
		news, reached, err = f.between(ctx, seen, next, slices.Collect(maps.Keys(tenants)), since.AddDate(0, 0, -1), today.AddDate(0, 0, 1))
		if err != nil {
			return seen, today, false, err
		}
		if reached > 0 {
			next, more = reached, true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.streams {
		if batch := news[s.tenant]; s.attached && len(batch) > 0 {
			s.push(batch)
		}
		if s.waiting != nil {
			// From next on, which may be from before it asked: what it reads twice it knows by its position.
			close(s.waiting)
			s.attached, s.waiting = true, nil
		}
	}
	return next, today, more, nil
}

// between reads the events of some tenants. reached is where it stopped when there were too many, else 0.
func (f *Feed) between(ctx context.Context, seen, last int64, tenants []string, from, to time.Time) (news map[string][]Followed, reached int64, err error) {
	rows, err := f.pool.Query(ctx, sqlEventsBetween, seen, last, tenants, from, to, lookMost)
	if err != nil {
		return nil, 0, fmt.Errorf("look at new events: %w", err)
	}
	news, n := map[string][]Followed{}, 0
	var tenant string
	var e Event
	_, err = pgx.ForEachRow(rows, []any{&tenant, &e.ID, &e.Day, &e.position, &e.Type, &e.Version, &e.ResourceType, &e.ResourceID, &e.Sequence,
		&e.OccurredAt, &e.PublishedAt, &e.CreatedAt, &e.Test, &e.Body}, func() error {
		news[tenant] = append(news[tenant], followed(e))
		reached = e.position
		n++
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("look at new events: %w", err)
	}
	if n < lookMost {
		reached = 0
	}
	return news, reached, nil
}

func followed(e Event) Followed {
	return Followed{Event: e, Cursor: cursorOf(mark{day: e.Day, id: e.ID, position: e.position}, e.Day)}
}

// askLoop ends the streams whose keys have ended elsewhere.
func (f *Feed) askLoop(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		keys := map[string]struct{}{}
		f.mu.Lock()
		for s := range f.streams {
			if s.keyID != "" {
				keys[s.keyID] = struct{}{}
			}
		}
		f.mu.Unlock()
		asking, cancel := context.WithTimeout(ctx, lookWithin)
		alive, err := f.alive(asking, slices.Collect(maps.Keys(keys)))
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				f.log.Warn("the keys of streams could not be asked for", "error", err)
			}
			continue
		}
		for _, id := range alive {
			delete(keys, id)
		}
		f.mu.Lock()
		for s := range f.streams {
			if _, gone := keys[s.keyID]; gone {
				s.end(ErrKeyEnded)
			}
		}
		f.mu.Unlock()
	}
}

// push gives a follower a batch, or lets it lose its queue when it is too far behind.
func (s *follower) push(batch []Followed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost || s.over != nil {
		return
	}
	for i := range batch {
		s.size += len(batch[i].Body) + 500
	}
	if s.size > maxBacklog {
		s.queue, s.size, s.lost = nil, 0, true
	} else {
		s.queue = append(s.queue, batch...)
	}
	s.rouse()
}

// end ends a follower; the first reason stays.
func (s *follower) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = why
	}
	s.rouse()
}

func (s *follower) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take empties the queue. lost says that there was more than it could hold.
func (s *follower) take() (batch []Followed, lost bool, over error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, lost, over = s.queue, s.lost, s.over
	s.queue, s.size = nil, 0
	return batch, lost, over
}
