package catalog

import (
	"context"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
)

// Start is where a stream begins. The zero Start is now: with what is dispatched from then on.
type Start struct {
	After string // behind this cursor of List or of a stream
	Last  int    // else with the last so many events that match, 0 to MaxLast
}

// MaxLast is with how many earlier events a stream can begin.
const MaxLast = 1000

// catchUpPage is how many events a stream reads at once that is behind.
const catchUpPage = 500

// Stream follows the catalog. It is for one goroutine.
type Stream struct {
	events   *Events
	caller   account.Caller
	filter   EventFilter
	follower *follower
	cursor   string
	position int64 // of the last event that was returned or passed over
	state    streamState
}

type streamState int

const (
	behind    streamState = iota // it reads by itself, and is not told of anything
	following                    // it is told, and reads by itself what was before
	current                      // it has read all that was before
)

// Follow opens a stream of the caller's tenant's events that match the filter. Every event that is dispatched behind its start comes exactly once, in
// the order of the catalog. A filter may not ask for deliveries. Faults are those of List, and RateLimited or Unavailable when too
// many streams are open. It needs catalog:read; whoever opened it closes it.
func (c *Events) Follow(ctx context.Context, caller account.Caller, f EventFilter, from Start) (*Stream, error) {
	if _, err := checkList(caller, f, 0); err != nil {
		return nil, err
	}
	if f.Delivery != (DeliveryFilter{}) {
		return nil, fault.New(fault.Invalid, "A filter is not valid.").Field("endpoint_id", "cannot be asked of a stream")
	}
	if from.Last < 0 || from.Last > MaxLast {
		return nil, fault.New(fault.Invalid, "A filter is not valid.").Field("last", "must be 0 to 1000")
	}
	if c.Feed == nil {
		return nil, fault.New(fault.Unavailable, "This process feeds no streams.")
	}
	s := &Stream{events: c, caller: caller, filter: f}
	if err := s.start(ctx, from); err != nil {
		return nil, err
	}
	keyID := ""
	if caller.Kind == account.TenantKey || caller.Kind == account.PlatformKey {
		keyID = caller.ID
	}
	var err error
	if s.follower, err = c.Feed.join(caller.Tenant(), keyID); err != nil {
		return nil, err
	}
	return s, nil
}

// start finds the cursor to begin behind.
func (s *Stream) start(ctx context.Context, from Start) error {
	at, err := s.events.placeOf(ctx, s.caller.Tenant(), from.After)
	if err != nil {
		return err
	}
	if from.After != "" || !s.filter.Since.IsZero() && from.Last == 0 {
		s.cursor, s.position = from.After, at.position
		return nil
	}
	last, err := s.events.last(ctx, s.caller.Tenant(), place{from: at.today.AddDate(0, 0, -2)})
	if err == nil && last.position == 0 {
		last, err = s.events.last(ctx, s.caller.Tenant(), place{})
	}
	if err != nil {
		return err
	}
	if from.Last > 0 && last.position > 0 {
		back := place{mark: mark{position: last.position + 1, day: last.day}, back: true}
		out, err := s.events.walk(ctx, s.caller.Tenant(), s.filter, back, from.Last, false)
		if err != nil {
			return err
		}
		if n := len(out.events); n > 0 {
			return s.before(ctx, out.events[n-1])
		}
	}
	s.cursor, s.position = cursorOf(last, at.today), last.position
	return nil
}

// before puts the stream in front of an event.
func (s *Stream) before(ctx context.Context, e Event) error {
	back := place{mark: mark{position: e.position, day: e.Day}, back: true}
	out, err := s.events.walk(ctx, s.caller.Tenant(), EventFilter{}, back, 1, false)
	if err != nil {
		return err
	}
	if len(out.events) > 0 {
		one := out.events[0]
		s.cursor, s.position = cursorOf(mark{day: one.Day, id: one.ID}, one.Day), one.position
	}
	return nil // without one, it begins with the catalog
}

// Close gives up the stream's place.
func (s *Stream) Close() { s.events.Feed.leave(s.follower) }

// Cursor stands behind everything that Next has returned, and what did not match in between. A stream that is opened behind it goes on where this one was. It is
// empty until the first page of a stream that began with Since has been read.
func (s *Stream) Cursor() string { return s.cursor }

// Next waits for events, at most some hundred. It returns none when ctx ends first, and then no error. ErrStopping and ErrKeyEnded say
// why a stream has ended; after any other error it can be opened anew behind Cursor.
func (s *Stream) Next(ctx context.Context) ([]Followed, error) {
	for {
		if s.state != current {
			batch, err := s.catchUp(ctx)
			switch {
			case len(batch) > 0 || err != nil && ctx.Err() == nil:
				return batch, err
			case ctx.Err() != nil:
				return nil, s.over()
			}
			continue
		}
		batch, lost, over := s.follower.take()
		if over != nil {
			return nil, over
		}
		if lost {
			s.state = behind
			continue
		}
		if matching := s.pick(batch); len(matching) > 0 {
			return matching, nil
		}
		select {
		case <-s.follower.wake:
		case <-ctx.Done():
			return nil, s.over()
		}
	}
}

func (s *Stream) over() error {
	s.follower.mu.Lock()
	defer s.follower.mu.Unlock()
	return s.follower.over
}

// pick is what of a batch the stream has not had and wants.
func (s *Stream) pick(batch []Followed) []Followed {
	var matching []Followed
	for _, e := range batch {
		if e.position <= s.position {
			continue
		}
		s.position, s.cursor = e.position, e.Cursor
		if s.filter.matches(e.Event) {
			matching = append(matching, e)
		}
	}
	return matching
}

// catchUp reads the next page, and lets the stream be told of what is new when it has come to the end: what is dispatched between that and being
// told is on the page that is read after.
func (s *Stream) catchUp(ctx context.Context) ([]Followed, error) {
	if err := s.over(); err != nil {
		return nil, err
	}
	select {
	case s.events.Feed.catching <- struct{}{}:
		defer func() { <-s.events.Feed.catching }()
	case <-s.events.Feed.ctx.Done():
		return nil, ErrStopping
	case <-ctx.Done():
		return nil, nil
	}
	page, _, err := s.events.page(ctx, s.caller.Tenant(), s.filter, s.cursor, catchUpPage)
	if err != nil {
		return nil, err
	}
	s.cursor = page.Next
	batch := make([]Followed, len(page.Events))
	for i, e := range page.Events {
		batch[i], s.position = followed(e), e.position
	}
	if page.More {
		return batch, nil
	}
	if s.state == behind {
		if err := s.events.Feed.attach(ctx, s.follower); err != nil {
			return batch, onlyStopping(err, len(batch))
		}
		s.state = following
		return batch, nil
	}
	s.state = current
	return batch, nil
}

// onlyStopping keeps a batch that was read from being lost with the error that followed.
func onlyStopping(err error, read int) error {
	if read > 0 {
		return nil
	}
	return err
}

// matches is the filter's conditions on an event that was read already.
func (f EventFilter) matches(e Event) bool {
	if len(f.Types) > 0 {
		found := false
		for _, text := range f.Types {
			prefix, is := strings.CutSuffix(text, "*")
			found = found || is && strings.HasPrefix(e.Type, prefix) || !is && e.Type == text
		}
		if !found {
			return false
		}
	}
	return (f.ResourceType == "" || e.ResourceType == f.ResourceType) && (f.ResourceID == "" || e.ResourceID == f.ResourceID) &&
		(f.Since.IsZero() || !e.CreatedAt.Before(f.Since)) && (f.Until.IsZero() || e.CreatedAt.Before(f.Until))
}

// Wait returns when something was dispatched for the caller's tenant, or when ctx ends; which of both, and whether it matters, the caller
// has to look for. It asks the database nothing by itself.
func (s *Stream) Wait(ctx context.Context, until time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, until)
	defer cancel()
	select {
	case <-s.follower.wake:
	case <-ctx.Done():
	}
	return s.over()
}
