package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waybill/app/fault"
)

// world is what a hub looks at and asks.
type world struct {
	mu    sync.Mutex
	items []item
	err   error
	looks int
	ended map[string]bool
	asks  int
}

func (w *world) look(context.Context) ([]item, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	return slices.Clone(w.items), w.err
}

func (w *world) alive(_ context.Context, ids []string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks++
	var alive []string
	for _, id := range ids {
		if !w.ended[id] {
			alive = append(alive, id)
		}
	}
	return alive, nil
}

func (w *world) set(items ...item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items = items
}

func row(id, version string) item { return item{ID: id, Version: version, HTML: "<tr id=" + id + ">"} }

func newWorld(t *testing.T) (*world, *hub) {
	w := &world{ended: map[string]bool{}}
	h := newHub(slog.New(slog.NewTextHandler(t.Output(), nil)), time.Now, w.alive)
	return w, h
}

func open(t *testing.T, h *hub, w *world, session string) *stream {
	t.Helper()
	s, err := h.open(session, "list", w.look, time.Time{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// told is the ids of the next set of news.
func told(t *testing.T, s *stream) []string {
	t.Helper()
	select {
	case news, open := <-s.news:
		if !open {
			t.Fatal("the stream has ended")
		}
		var ids []string
		for _, it := range news {
			ids = append(ids, it.ID+"@"+it.Version)
		}
		return ids
	case <-time.After(time.Minute):
		t.Fatal("nothing was told")
	}
	return nil
}

func TestStreamsOfOneThingShareALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		defer h.close()
		w.set(row("b", "1"), row("a", "1"))
		streams := make([]*stream, 10)
		for i := range streams {
			streams[i] = open(t, h, w, "ses_"+strconv.Itoa(i))
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if w.looks > 30 {
			t.Errorf("%d looks in 30 s for ten streams of one list", w.looks)
		}
		w.set(row("d", "1"), row("c", "1"), row("b", "2"), row("a", "1"))
		for _, s := range streams {
			if got, want := told(t, s), []string{"b@2", "c@1", "d@1"}; !slices.Equal(got, want) {
				t.Errorf("told %v, want the oldest first: %v", got, want)
			}
		}
	})
}

func TestQuietListsAreLookedAtLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		defer h.close()
		s := open(t, h, w, "ses_1")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if w.looks > 5*60/3+20 {
			t.Errorf("%d looks in five quiet minutes", w.looks)
		}
		h.end(s)
		synctest.Wait()
		before := w.looks
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.looks != before {
			t.Error("nobody watches, and it is still looked at")
		}
	})
}

func TestRowsThatLeaveAreAReload(t *testing.T) {
	t.Parallel()
	now := time.Now()
	full := []item{row("c", "1"), row("b", "1"), row("a", "1")}
	for name, test := range map[string]struct {
		found []item
		want  []string
	}{
		"nothing new":             {full, nil},
		"one changed":             {[]item{row("c", "1"), row("b", "2"), row("a", "1")}, []string{"b"}},
		"a new one":               {append([]item{row("d", "1")}, full...), []string{"d"}},
		"a new one pushes":        {[]item{row("d", "1"), row("c", "1"), row("b", "1")}, []string{"d"}},
		"three push three":        {[]item{row("f", "1"), row("e", "1"), row("d", "1")}, []string{"d", "e", "f"}},
		"one in the middle left":  {[]item{row("c", "1"), row("a", "1")}, []string{""}},
		"the last one left":       {[]item{row("c", "1"), row("b", "1")}, []string{""}},
		"all left":                {nil, []string{""}},
		"one left, one pulled up": {[]item{row("c", "1"), row("b", "1"), row("0", "1")}, []string{""}},
		"one below":               {[]item{row("c", "1"), row("b", "1"), row("aa", "1"), row("a", "1")}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []string
			for _, it := range difference(slices.Clone(full), slices.Clone(test.found), now) {
				ids = append(ids, it.ID)
				if !it.At.Equal(now) {
					t.Errorf("%s is not marked as of now", it.ID)
				}
			}
			if !slices.Equal(ids, test.want) {
				t.Errorf("got %q, want %q", ids, test.want)
			}
		})
	}
}

func TestStreamBeginsWhereThePageEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		defer h.close()
		made := time.Now()
		old, fresh := row("a", "1"), row("b", "1")
		old.At, fresh.At = made.Add(-time.Minute), made.Add(time.Second)
		w.set(fresh, old)
		s, err := h.open("ses_1", "list", w.look, made, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := told(t, s); !slices.Equal(got, []string{"b@1"}) {
			t.Errorf("told %v, want what came after the page", got)
		}
		late, err := h.open("ses_2", "list", w.look, made, "") // the feed runs already
		if err != nil {
			t.Fatal(err)
		}
		if got := told(t, late); !slices.Equal(got, []string{"b@1"}) {
			t.Errorf("told %v, want what came after the page", got)
		}
	})
}

func TestStreamOfAVersionTellsWhenItIsAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		defer h.close()
		w.set(item{ID: "dlv", Version: "v2"})
		for version, want := range map[string]bool{"v1": true, "v2": false} {
			s, err := h.open("ses_1", "delivery", w.look, time.Time{}, version)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := len(s.news) == 1; got != want {
				t.Errorf("a page of %s was told: %t, want %t", version, got, want)
			}
		}
	})
}

func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		defer h.close()
		ended, stays := open(t, h, w, "ses_1"), open(t, h, w, "ses_2")
		w.mu.Lock()
		w.ended["ses_1"] = true
		w.mu.Unlock()
		time.Sleep(askSessions + time.Second)
		synctest.Wait()
		if _, open := <-ended.news; open {
			t.Error("the stream of a session that was revoked goes on")
		}
		select {
		case <-stays.news:
			t.Error("another session's stream ended, too")
		default:
		}
		h.end(stays)
		time.Sleep(time.Minute)
		synctest.Wait()
		before := w.asks
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.asks != before {
			t.Error("sessions are asked for although no stream is open")
		}
	})
}

func TestSlowReadersAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		defer h.close()
		slow, quick := open(t, h, w, "ses_1"), open(t, h, w, "ses_2")
		synctest.Wait()
		for i := range backlog + 3 {
			w.set(row("a", strconv.Itoa(i)))
			told(t, quick)
		}
		n := 0
		for range slow.news {
			n++
		}
		if n != backlog {
			t.Errorf("%d sets of news were kept for a reader that does not read, want %d and then an end", n, backlog)
		}
	})
}

func TestHubIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		for range maxSessionStreams {
			open(t, h, w, "ses_1")
		}
		if _, err := h.open("ses_1", "list", w.look, time.Time{}, ""); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("a session's stream too many: %v", err)
		}
		s := open(t, h, w, "ses_2")
		h.close()
		if _, open := <-s.news; open {
			t.Error("a stream outlives its hub")
		}
		if _, err := h.open("ses_3", "list", w.look, time.Time{}, ""); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("a closed hub opens a stream: %v", err)
		}
	})
}

func TestFailedLooksTellNothingAndGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t)
		defer h.close()
		w.set(row("a", "1"))
		s := open(t, h, w, "ses_1")
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		w.err, w.items = errors.New("the database is away"), nil
		w.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.news) != 0 {
			t.Error("a look that failed was told as a list that is empty")
		}
		w.mu.Lock()
		w.err, w.items = nil, []item{row("b", "1"), row("a", "1")}
		w.mu.Unlock()
		if got := told(t, s); !slices.Equal(got, []string{"b@1"}) {
			t.Errorf("told %v", got)
		}
	})
}
