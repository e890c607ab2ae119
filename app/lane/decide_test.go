package lane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

func TestClaimSlots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		l    look
		t    tenant
		want int
	}{
		"warm: a few more than are due":    {look{Warm: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 3}, tenant{Cap: 50}, 4},
		"warm: the endpoint's limit":       {look{Warm: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 200}, tenant{Cap: 50}, 10},
		"warm: a throttled endpoint":       {look{Warm: true, Sends: true, Alive: true, Limit: 4, Concurrency: 10, Ready: 200}, tenant{Cap: 50}, 4},
		"a quarter of what is left":        {look{Warm: true, Sends: true, Alive: true, Limit: 100, Concurrency: 100, Ready: 200}, tenant{Cap: 50, Slots: 10}, 10},
		"cold: two":                        {look{Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 200}, tenant{Cap: 50}, 2},
		"suspect: one":                     {look{Suspect: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 200}, tenant{Cap: 50}, 1},
		"the last slot":                    {look{Warm: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 200}, tenant{Cap: 50, Slots: 49}, 1},
		"nothing left":                     {look{Warm: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 200}, tenant{Cap: 50, Slots: 50}, 0},
		"a cap that was lowered":           {look{Warm: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 200}, tenant{Cap: 3, Slots: 9}, 0},
		"suspects hold their half":         {look{Suspect: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 1}, tenant{Cap: 10, Slots: 5, Suspects: 5}, 0},
		"the healthy have the other":       {look{Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 1}, tenant{Cap: 10, Slots: 5, Suspects: 5}, 1},
		"a cap of one serves suspects too": {look{Suspect: true, Sends: true, Alive: true, Limit: 100, Concurrency: 10, Ready: 1}, tenant{Cap: 1}, 1},
		"only housekeeping":                {look{Alive: true, Limit: 100, Concurrency: 10, NextIn: ptr(time.Hour)}, tenant{Cap: 50}, 1},
		"a closed door: tests only":        {look{Warm: true, Sends: true, Alive: true, ShutFor: time.Second, Limit: 100, Concurrency: 10, Ready: 9, Tests: 2}, tenant{Cap: 50}, 2},
	} {
		if got := claimSlots(&c.l, &c.t); got != c.want {
			t.Errorf("%s: %d slots, want %d", name, got, c.want)
		}
	}
}

func TestAdjustSlots(t *testing.T) {
	t.Parallel()
	healthy := look{Sends: true, Alive: true, Limit: 100, Concurrency: 10}
	with := func(change func(*look)) look { l := healthy; change(&l); return l }
	for name, c := range map[string]struct {
		l            look
		t            tenant
		want, onWire int
		slots        int
	}{
		"grows to what it can use":         {with(func(l *look) { l.Slots = 2 }), tenant{Cap: 50, Slots: 2, Running: 1}, 7, 2, 7},
		"and to its limit":                 {with(func(l *look) { l.Slots = 2 }), tenant{Cap: 50, Slots: 2, Running: 1}, 70, 2, 10},
		"a fifth is kept for starters":     {with(func(l *look) { l.Slots, l.Concurrency = 2, 100 }), tenant{Cap: 50, Slots: 2, Running: 1}, 100, 2, 40},
		"never beyond what others left":    {with(func(l *look) { l.Slots = 1 }), tenant{Cap: 3, Slots: 3, Running: 3}, 10, 1, 1},
		"an equal share while others wait": {with(func(l *look) { l.Slots = 10 }), tenant{Cap: 12, Slots: 12, Running: 2, Blocked: 2}, 10, 0, 3},
		"what is on the wire keeps its":    {with(func(l *look) { l.Slots = 10 }), tenant{Cap: 12, Slots: 12, Running: 2, Blocked: 2}, 10, 8, 8},
		"gives back what it cannot use":    {with(func(l *look) { l.Slots = 10 }), tenant{Cap: 50, Slots: 10, Running: 1}, 4, 2, 4},
		"at least one":                     {with(func(l *look) { l.Slots = 4 }), tenant{Cap: 50, Slots: 4, Running: 1}, 0, 0, 1},
		"suspect: back to one":             {with(func(l *look) { l.Slots, l.Suspect = 10, true }), tenant{Cap: 50, Slots: 10, Running: 1}, 10, 0, 1},
		"suspect: as the wire clears":      {with(func(l *look) { l.Slots, l.Suspect = 10, true }), tenant{Cap: 50, Slots: 10, Running: 1}, 10, 6, 6},
		"a cap that was lowered":           {with(func(l *look) { l.Slots = 10 }), tenant{Cap: 4, Slots: 10, Running: 1}, 10, 0, 4},
	} {
		if got := adjustSlots(&c.l, &c.t, c.want, c.onWire); got != c.slots {
			t.Errorf("%s: %d slots, want %d", name, got, c.slots)
		}
	}
}

func TestRest(t *testing.T) {
	t.Parallel()
	open := look{Sends: true, Alive: true, Gen: 7}
	with := func(change func(*look)) look { l := open; change(&l); return l }
	for name, c := range map[string]struct {
		l     look
		state string
		wake  time.Duration
	}{
		"nothing due":                        {open, stateIdle, 0},
		"due now":                            {with(func(l *look) { l.Ready, l.NextIn = 1, ptr(-time.Second) }), stateQueued, 0},
		"due later":                          {with(func(l *look) { l.NextIn = ptr(time.Minute) }), stateSleeping, time.Minute},
		"due between the look and the row":   {with(func(l *look) { l.NextIn = ptr(-time.Millisecond) }), stateSleeping, 0},
		"due now behind a closed door":       {with(func(l *look) { l.Ready, l.NextIn, l.ShutFor = 1, ptr(-time.Second), time.Hour }), stateSleeping, time.Hour},
		"due after the door opens":           {with(func(l *look) { l.NextIn, l.ShutFor = ptr(2*time.Hour), time.Hour }), stateSleeping, 2 * time.Hour},
		"a test behind a closed door":        {with(func(l *look) { l.Tests, l.NextIn, l.ShutFor = 1, ptr(-time.Second), time.Hour }), stateQueued, 0},
		"paused with something due":          {with(func(l *look) { l.Sends, l.Ready, l.NextIn = false, 1, ptr(-time.Second) }), stateQueued, 0},
		"paused with something due later":    {with(func(l *look) { l.Sends, l.NextIn = false, ptr(time.Hour) }), stateQueued, 0},
		"paused with a test":                 {with(func(l *look) { l.Sends, l.Tests, l.NextIn = false, 1, ptr(-time.Second) }), stateQueued, 0},
		"paused and empty":                   {with(func(l *look) { l.Sends = false }), stateIdle, 0},
		"deleted with a test":                {with(func(l *look) { l.Sends, l.Alive, l.Tests, l.NextIn = false, false, 1, ptr(time.Duration(0)) }), stateQueued, 0},
		"deleted and empty":                  {with(func(l *look) { l.Sends, l.Alive = false, false }), stateIdle, 0},
		"a suspect stays one while it rests": {with(func(l *look) { l.Suspect, l.NextIn = true, ptr(time.Minute) }), stateSleeping, time.Minute},
	} {
		m := rest(&c.l)
		if m.State != c.state || m.Gen != 8 || m.Owner != "" || m.Slots != 0 || m.Suspect != c.l.Suspect {
			t.Errorf("%s: %+v, want state %s under generation 8 without owner or slots", name, m, c.state)
		}
		if got := m.WakeIn; (got != nil) != (c.state == stateSleeping) || got != nil && *got != c.wake {
			t.Errorf("%s: wakes in %v, want %s", name, got, c.wake)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	e := &Engine{}
	const me, other = "wrk_me", "wrk_other"
	row := func(state, owner string, change func(*look)) *look {
		l := &look{EndpointID: "ep_1", TenantID: "tnt_1", State: state, Gen: 5, Owner: owner, Limit: 100, Concurrency: 10, Sends: true, Alive: true, Ready: 20,
			NextIn: ptr(-time.Second)}
		if state == stateRunning {
			l.Slots = 2
		}
		if change != nil {
			change(l)
		}
		return l
	}
	empty := func(l *look) { l.Ready, l.NextIn = 0, nil }
	for name, c := range map[string]struct {
		c       control
		l       *look
		t       tenant
		changes bool
		state   string
		gen     int64
		mine    bool
	}{
		"a ticket in time":            {control{verb: claim, gen: 5}, row(stateQueued, "", nil), tenant{Cap: 50}, true, stateRunning, 5, true},
		"a ticket that is too late":   {control{verb: claim, gen: 4}, row(stateQueued, "", nil), tenant{Cap: 50}, false, "", 0, false},
		"a ticket used twice":         {control{verb: claim, gen: 5}, row(stateRunning, other, nil), tenant{Cap: 50}, false, "", 0, false},
		"a ticket of a resting lane":  {control{verb: claim, gen: 5}, row(stateIdle, "", empty), tenant{Cap: 50}, false, "", 0, false},
		"a ticket for nothing":        {control{verb: claim, gen: 5}, row(stateQueued, "", empty), tenant{Cap: 50}, true, stateIdle, 6, false},
		"a ticket without a slot":     {control{verb: claim, gen: 5}, row(stateQueued, "", nil), tenant{Cap: 2, Slots: 2}, true, stateBlocked, 5, false},
		"finish with nothing to do":   {control{verb: finish, gen: 5}, row(stateRunning, me, empty), tenant{Cap: 50, Slots: 2}, true, stateIdle, 6, false},
		"finish with something to do": {control{verb: finish, gen: 5}, row(stateRunning, me, nil), tenant{Cap: 50, Slots: 2}, true, stateRunning, 5, true},
		"yield with something to do":  {control{verb: finish, gen: 5, yield: true}, row(stateRunning, me, nil), tenant{Cap: 50, Slots: 2}, true, stateQueued, 6, false},
		"finish of a lost lane":       {control{verb: finish, gen: 5}, row(stateRunning, other, nil), tenant{Cap: 50, Slots: 2}, false, "", 0, false},
		"finish of an older lane":     {control{verb: finish, gen: 4}, row(stateRunning, me, nil), tenant{Cap: 50, Slots: 2}, false, "", 0, false},
		"adjust of a lane given back": {control{verb: adjust, gen: 5, want: 9}, row(stateQueued, "", nil), tenant{Cap: 50, Slots: 2}, false, "", 0, false},
		"finish where rows are to hold": {control{verb: finish, gen: 5}, row(stateRunning, me, func(l *look) { l.Sends = false }), tenant{Cap: 50, Slots: 2},
			true, stateRunning, 5, true},
	} {
		m, changes := e.decide(&c.c, c.l, &c.t, me)
		if changes != c.changes || c.c.mine != c.mine || changes && (m.State != c.state || m.Gen != c.gen) {
			t.Errorf("%s: changes %v to %+v, mine %v; want %v, %s under %d, %v", name, changes, m, c.c.mine, c.changes, c.state, c.gen, c.mine)
		}
		if changes && (m.State == stateRunning) != (m.Owner == me && m.Slots >= 1) {
			t.Errorf("%s: %s with owner %q and %d slots", name, m.State, m.Owner, m.Slots)
		}
	}
}

// Whatever lanes ask for, in whatever order, a tenant's cap and each endpoint's limit hold, and a request on the wire never loses its slot.
func TestSlotsNeverExceedTheCap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		sim := newSlotSim(r)
		for step := range 600 {
			what := sim.step(r)
			if wrong := sim.wrong(); wrong != "" {
				t.Fatalf("seed %d, step %d, after %s: %s", seed, step, what, wrong)
			}
		}
		if sim.sent == 0 {
			t.Errorf("seed %d: nothing was sent in 600 steps", seed)
		}
	}
}

// slotSim is one tenant's lanes as rows, and what their owner has on the wire.
type slotSim struct {
	e      *Engine
	cap    int
	lanes  []*look
	onWire map[*look]int
	sent   int
}

func newSlotSim(r *rand.Rand) *slotSim {
	s := &slotSim{e: &Engine{}, cap: 1 + r.IntN(12), onWire: map[*look]int{}}
	if r.IntN(3) == 0 {
		s.cap = 1 + r.IntN(100)
	}
	for i := range 1 + r.IntN(12) {
		s.lanes = append(s.lanes, &look{EndpointID: fmt.Sprint("ep_", i), TenantID: "tnt_1", State: stateIdle, Sends: true, Alive: true,
			Limit: 100, Concurrency: 1 + r.IntN(20), Warm: r.IntN(2) == 0})
	}
	return s
}

func (s *slotSim) tenant() *tenant {
	t := &tenant{Cap: s.cap}
	for _, l := range s.lanes {
		t.Slots += l.Slots
		switch {
		case l.State == stateRunning:
			t.Running++
			if l.Suspect {
				t.Suspects += l.Slots
			}
		case l.State == stateBlocked:
			t.Blocked++
		}
	}
	return t
}

func (s *slotSim) step(r *rand.Rand) string {
	l := s.lanes[r.IntN(len(s.lanes))]
	switch r.IntN(6) {
	case 0:
		if l.State == stateIdle || l.State == stateSleeping || l.State == stateBlocked {
			l.State, l.Gen = stateQueued, l.Gen+1
		}
		l.Ready = r.IntN(30)
		return "something became due"
	case 1:
		return s.ask(&control{verb: claim, gen: l.Gen, endpointID: l.EndpointID}, l)
	case 2:
		suspect := l.Suspect
		if r.IntN(4) == 0 {
			suspect = !suspect
		}
		return s.ask(&control{verb: adjust, gen: l.Gen, want: r.IntN(40), onWire: s.onWire[l], suspect: suspect}, l)
	case 3:
		if s.onWire[l] > 0 {
			return "nothing"
		}
		return s.ask(&control{verb: finish, gen: l.Gen, yield: r.IntN(3) == 0, suspect: l.Suspect}, l)
	case 4:
		if l.State == stateRunning && s.onWire[l] < l.Slots {
			s.onWire[l]++
			s.sent++
		}
		return "a request started"
	default:
		if s.onWire[l] > 0 {
			s.onWire[l]--
		}
		return "an answer"
	}
}

func (s *slotSim) ask(c *control, l *look) string {
	if m, ok := s.e.decide(c, l, s.tenant(), "wrk_1"); ok {
		l.State, l.Gen, l.Owner, l.Slots, l.Suspect = m.State, m.Gen, m.Owner, m.Slots, m.Suspect
	}
	return fmt.Sprintf("verb %d", c.verb)
}

func (s *slotSim) wrong() string {
	sum := 0
	for _, l := range s.lanes {
		sum += l.Slots
		if l.Slots > l.Concurrency {
			return fmt.Sprintf("%s has %d slots, its limit is %d", l.EndpointID, l.Slots, l.Concurrency)
		}
		if s.onWire[l] > l.Slots {
			return fmt.Sprintf("%s has %d requests on the wire and %d slots", l.EndpointID, s.onWire[l], l.Slots)
		}
		if (l.State == stateRunning) != (l.Slots > 0) {
			return fmt.Sprintf("%s is %s with %d slots", l.EndpointID, l.State, l.Slots)
		}
	}
	if sum > s.cap {
		return fmt.Sprintf("%d slots are given, the cap is %d", sum, s.cap)
	}
	return ""
}

// TestLostAnswer: when the database's answer to a request for slots is lost, the lane goes on with what its row has at least.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	l := &lane{slots: 7, verified: "https://example.com", ok: true}
	l.applied(&control{mine: true, slots: 5}, errors.New("connection reset"))
	if l.slots != 1 || l.lost || !l.ok || l.verified == "" {
		t.Errorf("after a lost answer: %d slots, lost %v, ok %v, verified %q; want 1 slot and everything else as it was", l.slots, l.lost, l.ok, l.verified)
	}
	l.applied(&control{mine: true, slots: 5}, nil)
	if l.slots != 5 || l.ok {
		t.Errorf("after the next answer: %d slots, ok %v", l.slots, l.ok)
	}
}
