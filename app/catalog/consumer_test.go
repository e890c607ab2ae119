package catalog

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

func (s *shelf) consumers() *Consumers {
	return &Consumers{Events: s.fed().Events, Accounts: &account.Service{DB: s.pool, Now: time.Now}}
}

func bodies(h Handed) (ids []string) {
	for _, e := range h.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestConsumerReadsAndAcknowledges(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	before := s.put(dbtest.Event{})
	for name, at := range map[string]Place{"now": {}, "start": {Start: true}, "time": {Time: before.CreatedAt}, "cursor": {Cursor: cursorOf(mark{}, before.Day)}} {
		made, err := c.Put(t.Context(), s.caller, name, nil, at)
		if err != nil || made.Name != name || made.LeaseUntil != nil {
			t.Fatalf("%s: %+v, %v", name, made, err)
		}
		h, err := c.Next(t.Context(), s.caller, name, 0, 0, 0)
		if err != nil || (len(h.Events) == 1) == (name == "now") || (h.Lease == "") != (name == "now") {
			t.Errorf("%s: handed %v, %v", name, bodies(h), err)
		}
	}
	ids := []string{s.put(dbtest.Event{}).ID, s.put(dbtest.Event{}).ID, s.put(dbtest.Event{}).ID}
	h, err := c.Next(t.Context(), s.caller, "now", 2, time.Minute, 0)
	if err != nil || fmt.Sprint(bodies(h)) != fmt.Sprint(ids[:2]) || !h.More {
		t.Fatalf("%v, %v", bodies(h), err)
	}
	if _, err := c.Next(t.Context(), s.caller, "now", 2, time.Minute, 0); fault.KindOf(err) != fault.LeaseHeld {
		t.Errorf("a second reader: %v", err)
	}
	// Beyond what was handed out nothing can be acknowledged.
	page, err := s.List(t.Context(), s.caller, EventFilter{}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ack(t.Context(), s.caller, "now", page.Next); fault.KindOf(err) != fault.Invalid {
		t.Errorf("beyond: %v", err)
	}
	for _, bad := range []string{"", "nonsense"} {
		if _, err := c.Ack(t.Context(), s.caller, "now", bad); err == nil {
			t.Errorf("%q is acknowledged", bad)
		}
	}
	// A part: the lease goes on, and the rest comes again when it is over.
	if got, err := c.Ack(t.Context(), s.caller, "now", h.Events[0].Cursor); err != nil || got.LeaseUntil == nil || got.AckedAt == nil {
		t.Errorf("%+v, %v", got, err)
	}
	s.exec(`update consumers set lease_until = now() where name = 'now'`)
	h, err = c.Next(t.Context(), s.caller, "now", 0, time.Minute, 0)
	if err != nil || fmt.Sprint(bodies(h)) != fmt.Sprint(ids[1:]) || h.More {
		t.Fatalf("%v, %v", bodies(h), err)
	}
	// All of it: the lease ends. Again, or less: nothing changes.
	for _, cursor := range []string{h.Events[1].Cursor, h.Events[1].Cursor, h.Events[0].Cursor} {
		if got, err := c.Ack(t.Context(), s.caller, "now", cursor); err != nil || got.LeaseUntil != nil || got.Cursor != h.Events[1].Cursor {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if h, err = c.Next(t.Context(), s.caller, "now", 0, 0, 0); err != nil || len(h.Events) != 0 || h.Lease != "" {
		t.Errorf("%v, %v", bodies(h), err)
	}
}

func TestConsumerOfTypes(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	s.Events.bounds = bounds{scanned: 3, bytes: 1 << 20}
	if _, err := c.Put(t.Context(), s.caller, "paid", []string{"order.paid"}, Place{Start: true}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s.put(dbtest.Event{Type: "order.lost"})
	}
	id := s.put(dbtest.Event{Type: "order.paid"}).ID
	s.put(dbtest.Event{Type: "order.lost"})
	h, err := c.Next(t.Context(), s.caller, "paid", 0, 0, 0)
	if err != nil || fmt.Sprint(bodies(h)) != fmt.Sprint([]string{id}) {
		t.Fatalf("%v, %v", bodies(h), err)
	}
	if _, err := c.Ack(t.Context(), s.caller, "paid", h.Events[0].Cursor); err != nil {
		t.Fatal(err)
	}
	// What it does not want it passes over, so that its cursor does not age.
	if h, err = c.Next(t.Context(), s.caller, "paid", 0, 0, 0); err != nil || h.Lease != "" {
		t.Fatalf("%v, %v", bodies(h), err)
	}
	got, err := c.Read(t.Context(), s.caller, "paid")
	if err != nil || got.Cursor == h.Lease || got.LeaseUntil != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestConsumerWaits(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	if _, err := c.Put(t.Context(), s.caller, "a", []string{"order.*"}, Place{}); err != nil {
		t.Fatal(err)
	}
	if h, err := c.Next(t.Context(), s.caller, "a", 0, 0, 200*time.Millisecond); err != nil || h.Lease != "" {
		t.Errorf("%v, %v", h, err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		h, err := c.Next(t.Context(), s.caller, "a", 0, time.Minute, 20*time.Second)
		if err != nil || len(h.Events) != 1 || h.Events[0].Type != "order.paid" {
			t.Errorf("%v, %v", bodies(h), err)
			return
		}
		time.Sleep(50 * time.Millisecond)
		if _, err := c.Ack(t.Context(), s.caller, "a", h.Events[0].Cursor); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(100 * time.Millisecond)
	s.put(dbtest.Event{Type: "other.thing"})
	s.put(dbtest.Event{Type: "order.paid"})
	wait.Wait()
	// One that waits for another's lease gets what is left of it.
	s.put(dbtest.Event{Type: "order.paid"})
	if _, err := c.Next(t.Context(), s.caller, "a", 0, 2*time.Second, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Next(t.Context(), s.caller, "a", 0, time.Second, 300*time.Millisecond); fault.KindOf(err) != fault.LeaseHeld {
		t.Errorf("a short wait: %v", err)
	}
	if h, err := c.Next(t.Context(), s.caller, "a", 0, time.Second, 10*time.Second); err != nil || len(h.Events) != 1 {
		t.Errorf("%v, %v", h, err)
	}
}

// Readers that compete, die and are slow: no two hold the lease at once, and every event is acknowledged.
func TestConsumerWithManyReaders(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	if _, err := c.Put(t.Context(), s.caller, "many", nil, Place{}); err != nil {
		t.Fatal(err)
	}
	const total = 60
	want := map[string]bool{}
	for range total {
		want[s.put(dbtest.Event{}).ID] = true
	}
	var mu sync.Mutex
	var holder string
	var until time.Time
	seen, acked := map[string]int{}, 0
	var wait sync.WaitGroup
	for r := range 6 {
		wait.Go(func() {
			for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
				h, err := c.Next(t.Context(), s.caller, "many", 7, time.Second, time.Second)
				if fault.KindOf(err) == fault.LeaseHeld {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if h.Lease == "" {
					mu.Unlock()
					return
				}
				if holder != "" && time.Now().Before(until.Add(-100*time.Millisecond)) {
					t.Errorf("%s is given while %s is held", h.Lease, holder)
				}
				holder, until = h.Lease, h.Until
				for _, id := range bodies(h) {
					seen[id]++
				}
				mu.Unlock()
				if (len(bodies(h))+r)%5 == 4 && acked < 3 {
					mu.Lock()
					acked++
					mu.Unlock()
					continue // dies
				}
				mu.Lock()
				holder = ""
				mu.Unlock()
				if _, err := c.Ack(t.Context(), s.caller, "many", h.Events[len(h.Events)-1].Cursor); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for id := range want {
		if seen[id] == 0 {
			t.Errorf("%s was never handed out", id)
		}
	}
	if h, err := c.Next(t.Context(), s.caller, "many", 0, 0, 2*time.Second); err != nil || len(h.Events) != 0 {
		t.Errorf("left: %v, %v", bodies(h), err)
	}
}

func TestConsumerSeeks(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	var all []dbtest.Event
	for i := range 5 {
		all = append(all, s.put(dbtest.Event{CreatedAt: time.Now().Add(time.Duration(i-10) * time.Minute)}))
	}
	if _, err := c.Put(t.Context(), s.caller, "a", nil, Place{Start: true}); err != nil {
		t.Fatal(err)
	}
	old, err := c.Next(t.Context(), s.caller, "a", 0, time.Hour, 0)
	if err != nil || len(old.Events) != 5 {
		t.Fatal(err)
	}
	for name, to := range map[string]struct {
		place Place
		left  int
	}{
		"start": {Place{Start: true}, 5}, "now": {Place{}, 0}, "cursor": {Place{Cursor: old.Events[1].Cursor}, 3}, "time": {Place{Time: all[3].CreatedAt}, 2},
		"a time to come": {Place{Time: time.Now().Add(time.Hour)}, 0},
	} {
		if _, err := c.Seek(t.Context(), s.caller, "a", to.place); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Ack(t.Context(), s.caller, "a", old.Events[4].Cursor); (err == nil) != (to.left == 0) {
			t.Errorf("%s: the reader of before acknowledges: %v", name, err)
		}
		h, err := c.Next(t.Context(), s.caller, "a", 0, time.Hour, 0)
		if err != nil || len(h.Events) != to.left {
			t.Errorf("%s: %v, %v", name, bodies(h), err)
		}
	}
	var actions string
	err = s.pool.QueryRow(t.Context(), `select string_agg(action || ' ' || object, ',' order by id) from audit where action <> 'consumer.sought'`).Scan(&actions)
	if err != nil || actions != "consumer.created a" {
		t.Errorf("audit: %s, %v", actions, err)
	}
}

func TestConsumersOfAnother(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	s.put(dbtest.Event{})
	if _, err := c.Put(t.Context(), s.caller, "a", nil, Place{Start: true}); err != nil {
		t.Fatal(err)
	}
	h, err := c.Next(t.Context(), s.caller, "a", 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	noRight := account.Caller{Kind: account.TenantKey, TenantID: s.tenant.ID, Scopes: []account.Scope{account.EndpointsWrite}}
	for want, caller := range map[fault.Kind]account.Caller{fault.NotFound: s.stranger, fault.Forbidden: noRight} {
		_, errRead := c.Read(t.Context(), caller, "a")
		_, errNext := c.Next(t.Context(), caller, "a", 0, 0, 0)
		_, errAck := c.Ack(t.Context(), caller, "a", h.Events[0].Cursor)
		_, errSeek := c.Seek(t.Context(), caller, "a", Place{})
		for i, err := range []error{errRead, errNext, errAck, errSeek, c.Delete(t.Context(), caller, "a")} {
			if fault.KindOf(err) != want {
				t.Errorf("%d: %v, want %s", i, err, want)
			}
		}
	}
	if list, next, err := c.List(t.Context(), s.stranger, "", 10); err != nil || len(list) != 0 || next != "" {
		t.Errorf("%v, %v", list, err)
	}
	// The same name is another consumer; a cursor of another tenant is none.
	if _, err := c.Put(t.Context(), s.stranger, "a", nil, Place{Cursor: h.Events[0].Cursor}); fault.KindOf(err) != fault.Malformed {
		t.Error(err)
	}
	if _, err := c.Put(t.Context(), s.stranger, "a", nil, Place{}); err != nil {
		t.Error(err)
	}
	for i := range MaxConsumers + 1 {
		_, err := c.Put(t.Context(), s.caller, fmt.Sprintf("c%03d", i), nil, Place{})
		if (fault.KindOf(err) == fault.Conflict) != (i >= MaxConsumers-1) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if _, err := c.Put(t.Context(), s.caller, "a", []string{"x.*"}, Place{}); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	list, next, err := c.List(t.Context(), s.caller, "", 60)
	if err != nil || len(list) != 60 {
		t.Fatal(len(list), err)
	}
	if rest, next, err := c.List(t.Context(), s.caller, next, 60); err != nil || len(rest) != 40 || next != "" || rest[0].Name <= list[59].Name {
		t.Errorf("%d, %q, %v", len(rest), next, err)
	}
	if err := c.Delete(t.Context(), s.caller, "a"); err != nil {
		t.Error(err)
	}
	if err := c.Delete(t.Context(), s.caller, "a"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}
