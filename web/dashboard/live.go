package dashboard

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"waybill/app/fault"
)

// How live pages are fed. Streams that watch the same thing share one look at it.
const (
	lookEvery   = time.Second     // while it changes
	lookIdle    = 3 * time.Second // when it has been quiet
	lookWithin  = 5 * time.Second // or the look counts as failed
	askSessions = 3 * time.Second // whether the sessions behind the streams go on
	backlog     = 8               // looks with news that a reader may be behind before it is dropped

	maxStreams        = 2000 // of a process
	maxSessionStreams = 20   // of one session: its tabs
)

// item is one thing that a stream tells of. Version changes when the thing does; At is when that was, as far as the thing knows itself.
type item struct {
	ID, Version string
	At          time.Time
	HTML        string // a table row; empty: only that something has changed
}

// look finds the things that a feed's streams watch, the newest first.
type look func(ctx context.Context) ([]item, error)

// hub is all streams of a process.
type hub struct {
	log   *slog.Logger
	now   func() time.Time
	alive func(ctx context.Context, sessionIDs []string) ([]string, error)
	every time.Duration // lookEvery; tests are faster
	ask   time.Duration // askSessions

	ctx    context.Context // ends with the hub
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	feeds   map[string]*feed
	streams map[*stream]struct{}
	asking  bool
}

// feed is one thing that is watched by one or more streams.
type feed struct {
	key     string
	look    look
	streams map[*stream]struct{}
	cancel  context.CancelFunc
	seen    []item // as of the last look; nil before the first
}

// stream is one reader. News come in sets, each of one look, the oldest first; the channel is closed when the stream is to end.
type stream struct {
	sessionID string
	feed      *feed
	news      chan []item
	since     time.Time // what has not changed since then is known to the reader
	version   string    // or what the reader has seen is of this version
	greeted   bool
	closed    bool
}

func newHub(log *slog.Logger, now func() time.Time, alive func(context.Context, []string) ([]string, error)) *hub {
	h := &hub{log: log, now: now, alive: alive, every: lookEvery, ask: askSessions, feeds: map[string]*feed{}, streams: map[*stream]struct{}{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// open begins a stream of a session on what key names and look finds.
func (h *hub) open(sessionID, key string, look look, since time.Time, version string) (*stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := 0
	for s := range h.streams {
		if s.sessionID == sessionID {
			own++
		}
	}
	if h.ctx.Err() != nil || len(h.streams) >= maxStreams || own >= maxSessionStreams {
		return nil, fault.New(fault.Unavailable, "Too many live pages are open. This one can be reloaded by hand.")
	}
	f := h.feeds[key]
	if f == nil {
		ctx, cancel := context.WithCancel(h.ctx)
		f = &feed{key: key, look: look, streams: map[*stream]struct{}{}, cancel: cancel}
		h.feeds[key] = f
		h.ended.Go(func() { h.feed(ctx, f) })
	}
	s := &stream{sessionID: sessionID, feed: f, news: make(chan []item, backlog), since: since, version: version}
	h.streams[s], f.streams[s] = struct{}{}, struct{}{}
	if f.seen != nil {
		s.greet(f.seen)
	}
	if !h.asking {
		h.asking = true
		h.ended.Go(h.askLoop)
	}
	return s, nil
}

// end ends a stream; a second call does nothing.
func (h *hub) end(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(s)
}

// drop ends a stream. The hub is locked.
func (h *hub) drop(s *stream) {
	if s.closed {
		return
	}
	s.closed = true
	close(s.news)
	delete(h.streams, s)
	delete(s.feed.streams, s)
	if len(s.feed.streams) == 0 {
		s.feed.cancel()
		delete(h.feeds, s.feed.key)
	}
}

// endSession ends the streams of a session that is over.
func (h *hub) endSession(sessionID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		if s.sessionID == sessionID {
			h.drop(s)
		}
	}
}

// close ends all streams and waits for the looks that are under way.
func (h *hub) close() {
	h.cancel()
	h.mu.Lock()
	for s := range h.streams {
		h.drop(s)
	}
	h.mu.Unlock()
	h.ended.Wait()
}

// feed looks again and again while anybody watches, less often while nothing changes.
func (h *hub) feed(ctx context.Context, f *feed) {
	wait := h.every
	for {
		looking, cancel := context.WithTimeout(ctx, lookWithin)
		found, err := f.look(looking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			// The database is busy: the page says how old it is by itself, and the next look makes up for this one.
			h.log.WarnContext(ctx, "a live page could not be fed", "error", err)
			wait = lookIdle
		case h.tell(f, found):
			wait = h.every
		default:
			wait = min(wait+h.every/4, max(lookIdle, h.every))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// tell gives the streams of a feed what is new, and says whether anything was.
func (h *hub) tell(f *feed, found []item) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found == nil {
		found = []item{}
	}
	if f.seen == nil {
		f.seen = found
		for s := range f.streams {
			s.greet(found)
		}
		return false
	}
	news := difference(f.seen, found, h.now())
	f.seen = found
	if len(news) == 0 {
		return false
	}
	for s := range f.streams {
		if !s.greeted {
			s.greet(found)
			continue
		}
		select {
		case s.news <- news:
		default:
			h.drop(s) // it does not read; it may come back
		}
	}
	return true
}

// difference is what is new or changed in found, the oldest first, marked as of now. It is a single change without a row, upon which the reader
// loads the list again, when rows have left the list or have come in below others; rows that new ones push off the end have not.
func difference(seen, found []item, now time.Time) []item {
	before, after := versions(seen), versions(found)
	var news []item
	fresh, below := 0, false
	for i, it := range found {
		version, was := before[it.ID]
		if was && version == it.Version {
			below = true
			continue
		}
		if !was && below {
			return []item{{At: now}}
		}
		if !was {
			fresh++
		}
		below = below || was
		found[i].At = now
		news = append(news, found[i])
	}
	pushed, tail := 0, true
	for _, it := range slices.Backward(seen) {
		_, stays := after[it.ID]
		switch {
		case stays:
			tail = false
		case tail:
			pushed++
		default:
			return []item{{At: now}}
		}
	}
	if pushed > fresh || pushed > 0 && len(found) < len(seen) {
		return []item{{At: now}}
	}
	slices.Reverse(news)
	return news
}

func versions(items []item) map[string]string {
	all := make(map[string]string, len(items))
	for _, it := range items {
		all[it.ID] = it.Version
	}
	return all
}

// greet gives a stream what changed between its page and its first look. The hub is locked.
func (s *stream) greet(found []item) {
	if s.greeted {
		return
	}
	s.greeted = true
	var news []item
	for _, it := range slices.Backward(found) {
		if s.version != "" && it.Version != s.version || s.version == "" && !s.since.IsZero() && it.At.After(s.since) {
			news = append(news, it)
		}
	}
	if len(news) > 0 {
		s.news <- news // the first: there is room
	}
}

// askLoop ends the streams whose sessions have ended elsewhere.
func (h *hub) askLoop() {
	tick := time.NewTicker(h.ask)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		sessions := map[string]struct{}{}
		for s := range h.streams {
			sessions[s.sessionID] = struct{}{}
		}
		if len(sessions) == 0 {
			h.asking = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(h.ctx, lookWithin)
		alive, err := h.alive(ctx, slices.Collect(maps.Keys(sessions)))
		cancel()
		if err != nil {
			if h.ctx.Err() == nil {
				h.log.Warn("the sessions of live pages could not be asked for", "error", err)
			}
			continue
		}
		for _, id := range alive {
			delete(sessions, id)
		}
		for id := range sessions {
			h.endSession(id)
		}
	}
}
