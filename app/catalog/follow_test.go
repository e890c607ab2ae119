package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
	"waybill/db/dbtest"
)

func (s *shelf) fed() *shelf {
	alive := func(_ context.Context, ids []string) ([]string, error) { return ids, nil }
	s.Events.Feed = NewFeed(s.pool, slog.New(slog.NewTextHandler(s.t.Output(), nil)), alive)
	s.t.Cleanup(s.Events.Feed.Close)
	return s
}

// put adds an event as the dispatcher does: with its position, in one transaction.
func (s *shelf) put(row dbtest.Event) (added dbtest.Event) {
	s.t.Helper()
	err := db.Tx(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		row.TenantID = s.tenant.ID
		added = dbtest.AddEvent(s.t, tx, row)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return added
}

func (s *shelf) stream(f EventFilter, from Start) *Stream {
	s.t.Helper()
	stream, err := s.Follow(s.t.Context(), s.caller, f, from)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(stream.Close)
	return stream
}

// read takes n events from a stream, or as many as come within a while.
func (s *shelf) read(stream *Stream, n int) (got []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	for len(got) < n && ctx.Err() == nil {
		events, err := stream.Next(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			got = append(got, e.ID)
		}
	}
	return got
}

// silent fails when the stream has anything to say.
func (s *shelf) silent(stream *Stream) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 300*time.Millisecond)
	defer cancel()
	if events, err := stream.Next(ctx); err != nil || len(events) > 0 {
		s.t.Errorf("the stream says %v, %v", events, err)
	}
}

func TestStreamBegins(t *testing.T) {
	t.Parallel()
	s := newShelf(t).fed()
	var ids []string
	for i := range 6 {
		ids = append(ids, s.put(dbtest.Event{Type: []string{"order.paid", "order.lost"}[i%2]}).ID)
	}
	page, err := s.List(t.Context(), s.caller, EventFilter{}, "", 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f    EventFilter
		from Start
		want []string
	}{
		"now":             {EventFilter{}, Start{}, nil},
		"behind a cursor": {EventFilter{}, Start{After: page.Next}, ids[2:]},
		"the last":        {EventFilter{}, Start{Last: 2}, ids[4:]},
		"the last of one": {EventFilter{Types: []string{"order.paid"}}, Start{Last: 2}, []string{ids[2], ids[4]}},
		"more than exist": {EventFilter{}, Start{Last: 100}, ids},
		"none of these":   {EventFilter{Types: []string{"x.*"}}, Start{Last: 100}, nil},
		"since":           {EventFilter{Since: time.Now().Add(-time.Hour)}, Start{}, ids},
	} {
		stream := s.stream(c.f, c.from)
		if got := s.read(stream, len(c.want)); strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		s.silent(stream)
	}
	if _, err := s.Follow(t.Context(), s.caller, EventFilter{}, Start{After: "nonsense"}); fault.KindOf(err) != fault.Malformed {
		t.Error(err)
	}
	if _, err := s.Follow(t.Context(), account.Caller{Kind: account.TenantKey, TenantID: s.tenant.ID}, EventFilter{}, Start{}); fault.KindOf(err) != fault.Forbidden {
		t.Error(err)
	}
}

func TestStreamFollows(t *testing.T) {
	t.Parallel()
	s := newShelf(t).fed()
	all, paid := s.stream(EventFilter{}, Start{}), s.stream(EventFilter{Types: []string{"order.paid"}, ResourceID: "C-1"}, Start{})
	s.silent(all)
	s.silent(paid)
	stranger := &shelf{Events: s.Events, t: t, pool: s.pool, tenant: dbtest.AddTenant(t, s.pool, dbtest.Tenant{})}
	stranger.put(dbtest.Event{})
	first := s.put(dbtest.Event{Type: "order.lost", ResourceID: "C-1"})
	s.put(dbtest.Event{Type: "order.paid", ResourceID: "C-1", Test: true})
	second := s.put(dbtest.Event{Type: "order.paid", ResourceID: "C-1"})
	if got := s.read(all, 2); strings.Join(got, " ") != first.ID+" "+second.ID {
		t.Errorf("%v", got)
	}
	if got := s.read(paid, 1); strings.Join(got, " ") != second.ID {
		t.Errorf("%v", got)
	}
	// A stream's cursor is one of the list, and the other way round.
	third := s.put(dbtest.Event{Type: "order.lost"})
	page, err := s.List(t.Context(), s.caller, EventFilter{}, all.Cursor(), 0)
	if err != nil || len(page.Events) != 1 || page.Events[0].ID != third.ID {
		t.Errorf("%v, %v", page.Events, err)
	}
	if got := s.read(s.stream(EventFilter{}, Start{After: all.Cursor()}), 1); strings.Join(got, " ") != third.ID {
		t.Errorf("%v", got)
	}
}

// A reader that is far behind is not remembered for: it reads on its own, and comes back.
func TestStreamThatIsFarBehind(t *testing.T) {
	t.Parallel()
	s := newShelf(t).fed()
	slow, quick := s.stream(EventFilter{}, Start{}), s.stream(EventFilter{}, Start{})
	s.silent(slow)
	s.silent(quick)
	body := `{"data":"` + strings.Repeat("x", 200<<10) + `"}`
	var want []string
	for range 12 {
		want = append(want, s.put(dbtest.Event{Body: body}).ID)
	}
	if got := s.read(quick, 12); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("quick: %v", got)
	}
	slow.follower.mu.Lock()
	lost, size := slow.follower.lost, slow.follower.size
	slow.follower.mu.Unlock()
	if !lost || size != 0 {
		t.Errorf("lost %v, %d bytes are kept for it", lost, size)
	}
	if got := s.read(slow, 12); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("slow: %v", got)
	}
	next := s.put(dbtest.Event{})
	if got := s.read(slow, 1); len(got) != 1 || got[0] != next.ID {
		t.Errorf("slow, afterwards: %v", got)
	}
	s.silent(slow)
}

func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	accounts := &account.Service{DB: s.pool, Now: time.Now}
	s.Events.Feed = NewFeed(s.pool, slog.New(slog.NewTextHandler(t.Output(), nil)), accounts.KeysAlive)
	platform := account.Waybill("test", s.tenant.ID)
	open := func(input account.KeyInput) (account.Key, *Stream) {
		key, text, err := accounts.KeyCreate(t.Context(), platform, input)
		if err != nil {
			t.Fatal(err)
		}
		caller, err := accounts.Authenticate(t.Context(), text.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		stream, err := s.Follow(t.Context(), caller, EventFilter{}, Start{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stream.Close)
		return key, stream
	}
	soon := time.Now().Add(3 * time.Second)
	revoked, one := open(account.KeyInput{Name: "a"})
	_, two := open(account.KeyInput{Name: "b", ExpiresAt: &soon})
	_, three := open(account.KeyInput{Name: "c"})
	if err := accounts.KeyRevoke(t.Context(), platform, revoked.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, stream := range map[string]*Stream{"revoked": one, "expired": two} {
		if _, err := stream.Next(ctx); !errors.Is(err, ErrKeyEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.silent(three)
	s.Events.Feed.Close()
	if _, err := three.Next(ctx); !errors.Is(err, ErrStopping) {
		t.Errorf("at the stop: %v", err)
	}
	if _, err := s.Follow(t.Context(), s.caller, EventFilter{}, Start{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after the stop: %v", err)
	}
}

// What the streams of a process cost the database does not depend on how many there are, and nothing when there are none.
func TestOneLookForAllStreams(t *testing.T) {
	t.Parallel()
	s := newShelf(t).fed()
	var streams []*Stream
	for range 200 {
		stream, err := s.Follow(t.Context(), s.caller, EventFilter{}, Start{})
		if err != nil {
			t.Fatal(err)
		}
		s.silentBriefly(stream)
		streams = append(streams, stream)
	}
	before := s.pool.Stat().AcquireCount()
	began := time.Now()
	id := s.put(dbtest.Event{}).ID
	for _, stream := range streams {
		if got := s.read(stream, 1); len(got) != 1 || got[0] != id {
			t.Fatalf("%v", got)
		}
	}
	looks := int64(time.Since(began)/lookEvery) + 2
	if n := s.pool.Stat().AcquireCount() - before; n > 2*looks+10 {
		t.Errorf("%d connections were taken for 200 streams in %v", n, time.Since(began))
	}
	for _, stream := range streams {
		stream.Close()
	}
	time.Sleep(2 * lookEvery)
	before = s.pool.Stat().AcquireCount()
	time.Sleep(4 * lookEvery)
	if n := s.pool.Stat().AcquireCount() - before; n > 0 {
		t.Errorf("%d connections were taken for no stream", n)
	}
	// Streams that come later are fed again.
	again := s.stream(EventFilter{}, Start{})
	s.silent(again)
	id = s.put(dbtest.Event{}).ID
	if got := s.read(again, 1); len(got) != 1 || got[0] != id {
		t.Errorf("%v", got)
	}
}

// silentBriefly lets a stream read to the end of the catalog.
func (s *shelf) silentBriefly(stream *Stream) {
	s.t.Helper()
	for stream.state != current {
		ctx, cancel := context.WithTimeout(s.t.Context(), 100*time.Millisecond)
		events, err := stream.Next(ctx)
		cancel()
		if err != nil || len(events) > 0 {
			s.t.Fatalf("%v, %v", events, err)
		}
	}
}
