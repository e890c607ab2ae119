package lane

import (
	"time"
)

// look is what the control loop sees of one lane, with its row and its tenant's row locked.
type look struct {
	EndpointID, TenantID string
	State                string
	Gen                  int64
	Owner                string
	Slots                int
	Limit                int // lanes.limit_now
	Suspect, Warm        bool
	ShutFor              time.Duration // until not_before; zero or less: open
	Sends, Alive         bool          // the endpoint is active; it exists
	Concurrency          int           // the endpoint's own limit
	Tests, Ready         int           // due now, counted up to the endpoint's limit, and twice that
	NextIn               *time.Duration
}

// tenant is what the control loop sees of one tenant: its cap and what its running lanes have reserved.
type tenant struct {
	Cap, Slots, Suspects, Running, Blocked int
}

// suspectsMay says that endpoints which hang have not used up their half of the cap. The statements that wake blocked lanes say the same.
func (t *tenant) suspectsMay() bool { return t.Suspects < max(1, t.Cap/2) }

// sendable is how many due deliveries the lane may send now. A closed door or an inactive endpoint lets tests through only.
func (l *look) sendable() int {
	switch {
	case !l.Alive:
		return 0
	case !l.Sends || l.ShutFor > 0:
		return l.Tests
	default:
		return l.Tests + l.Ready
	}
}

// housekeeping says that rows wait which this endpoint will not send, due now or later: its lane must run to hold or cancel them.
func (l *look) housekeeping() bool {
	return !l.Sends && l.NextIn != nil && l.Tests == 0 || !l.Alive && l.NextIn != nil
}

// ceiling is the most slots the lane may have at all.
func (l *look) ceiling() int {
	if l.Suspect {
		return 1
	}
	return max(1, min(l.Limit, l.Concurrency))
}

// startSlots are asked for even when less is due: the next events often follow at once, and asking again costs a transaction.
const startSlots = 4

// coldSlots is what an endpoint starts with when no attempt has succeeded in the last minute.
const coldSlots = 2

// claimSlots says how many slots a lane that starts gets, or 0: blocked.
//
// A lane takes no more than a quarter of what its tenant's cap leaves (at least one), and only two while the endpoint has not answered well
// lately, so that endpoints that hang reserve little before they are known to hang. Suspects together never hold more than half of the cap.
func claimSlots(l *look, t *tenant) int {
	left := t.Cap - t.Slots
	if left < 1 || (l.Suspect && !t.suspectsMay()) {
		return 0
	}
	due := l.sendable()
	if due > l.Tests {
		due = max(due, startSlots)
	}
	want := min(l.ceiling(), max(1, due), max(1, left/4))
	if !l.Warm {
		want = min(want, coldSlots)
	}
	return want
}

// adjustSlots says how many slots a running lane has from now on, given how many it could use and how many requests it has on the wire.
//
// A fifth of the cap is kept for lanes that are just starting. While others of the tenant are blocked, a lane goes back to an equal share.
func adjustSlots(l *look, t *tenant, want, onWire int) int {
	want = max(1, min(want, l.ceiling()))
	others := t.Slots - l.Slots
	most := max(1, t.Cap-others-t.Cap/5)
	if t.Blocked > 0 {
		most = max(1, min(most, t.Cap/(t.Running+t.Blocked)))
	}
	target := min(want, most)
	if target > l.Slots {
		return max(l.Slots, min(target, t.Cap-others))
	}
	// Requests on the wire keep their slots until they are answered, whatever the share.
	return max(target, onWire)
}

// move is a decision: the row a lane's row becomes.
type move struct {
	State   string
	Gen     int64
	Owner   string // empty unless running
	Slots   int
	WakeIn  *time.Duration // sleeping only
	Suspect bool
	OK      bool // an attempt has succeeded since the row was last written
}

// rest says what a lane becomes whose owner gives its right back: queued again while there is something to do, asleep until
// something is due and the door is open, or idle.
func rest(l *look) move {
	m := move{State: stateIdle, Gen: l.Gen + 1, Suspect: l.Suspect}
	switch {
	case l.sendable() > 0 || l.housekeeping():
		m.State = stateQueued
	case l.NextIn != nil:
		wake := max(*l.NextIn, l.ShutFor, 0)
		m.State, m.WakeIn = stateSleeping, &wake
	}
	return m
}
