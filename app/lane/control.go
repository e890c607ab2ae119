package lane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlTenantLock  = queries.SQL("TenantLock")
	sqlLook        = queries.SQL("LaneLook")
	sqlTenantSlots = queries.SQL("TenantSlots")
	sqlMove        = queries.SQL("LaneMove")
	sqlUnblock     = queries.SQL("LaneUnblock")
	sqlVerified    = queries.SQL("EndpointVerified")
	sqlWorkerAlive = queries.SQL("WorkerAlive")
)

// What a lane asks of the control loop.
type verb int

const (
	claim  verb = iota // take the lane of a ticket
	adjust             // more slots, or give some back
	finish             // give the lane back, or be told that there is more to do
)

// control is one request to the control loop, and its answer.
type control struct {
	verb       verb
	endpointID string
	tenantID   string
	gen        int64
	want       int    // adjust: slots it could use
	onWire     int    // adjust: requests on the wire
	suspect    bool   // adjust, finish: the last attempts timed out
	ok         bool   // adjust, finish: an attempt has succeeded
	verified   string // adjust, finish: the address of an unverified endpoint that has answered well for the first time
	yield      bool   // finish: others wait, do not keep it

	// The answer.
	mine      bool // claim: taken; adjust, finish: the lane is still held
	noLease   bool // claim: this process may take nothing, because others count it as dead
	slots     int
	blocked   bool // claim: it must wait for its tenant's cap
	warm      bool // claim: an attempt has succeeded in the last minute
	waiters   bool // others of the tenant are blocked
	housekeep bool // there are rows to hold or cancel
}

// steer carries out a batch of requests in one transaction: lock tenants, lock lanes, look in a statement of its own, decide, write.
func (e *Engine) steer(ctx context.Context, batch []*control) error {
	return db.Tx(ctx, e.pool, func(tx pgx.Tx) error { return e.steerTx(ctx, tx, batch) })
}

func (e *Engine) steerTx(ctx context.Context, tx pgx.Tx, batch []*control) error {
	var tenantIDs, endpointIDs []string
	verified := map[string]string{}
	for _, c := range batch {
		// A transaction that is tried again after a deadlock starts from a clean answer.
		c.mine, c.noLease, c.blocked, c.slots, c.waiters, c.housekeep = false, false, false, 0, false, false
		tenantIDs = append(tenantIDs, c.tenantID)
		endpointIDs = append(endpointIDs, c.endpointID)
		if c.verified != "" {
			verified[c.endpointID] = c.verified
		}
	}
	tenantIDs = sorted(tenantIDs)
	endpointIDs = sorted(endpointIDs)

	worker := e.WorkerID()
	looks, tenants, alive, err := readForControl(ctx, tx, tenantIDs, endpointIDs, worker)
	if err != nil {
		return err
	}
	moves := map[string]move{}
	freed := map[string]int{}
	for _, c := range batch {
		l, t := looks[c.endpointID], tenants[c.tenantID]
		if l == nil || t == nil {
			continue // the endpoint or its tenant is gone for good: the ticket is stale
		}
		if c.verb == claim && !alive {
			c.noLease = true
			continue
		}
		before := l.Slots
		if m, ok := e.decide(c, l, t, worker); ok {
			moves[c.endpointID] = m
			// What later requests of the same batch see.
			t.Slots += m.Slots - before
			if l.Suspect {
				t.Suspects += m.Slots - before
			}
			if l.State == stateRunning && m.State != stateRunning {
				t.Running--
			} else if l.State != stateRunning && m.State == stateRunning {
				t.Running++
			}
			l.State, l.Gen, l.Owner, l.Slots = m.State, m.Gen, m.Owner, m.Slots
			if m.Slots < before {
				freed[c.tenantID] += before - m.Slots
			}
		}
	}
	tickets, err := writeMoves(ctx, tx, looks, moves)
	if err != nil {
		return err
	}
	for id := range freed {
		t := tenants[id]
		if t.Blocked == 0 || t.Cap <= t.Slots {
			continue
		}
		unblocked, err := queryTickets(ctx, tx, sqlUnblock, id, t.Cap-t.Slots, t.suspectsMay())
		if err != nil {
			return fmt.Errorf("unblock lanes: %w", err)
		}
		tickets = append(tickets, unblocked...)
	}
	for id, url := range verified {
		if _, err := tx.Exec(ctx, sqlVerified, id, url); err != nil {
			return fmt.Errorf("mark endpoint verified: %w", err)
		}
	}
	if len(tickets) > 0 {
		if err := e.waker.Tickets.InsertTickets(ctx, tx, tickets); err != nil {
			return fmt.Errorf("insert lane tickets: %w", err)
		}
	}
	return nil
}

// decide answers one request and says what the lane's row becomes, if it changes.
func (e *Engine) decide(c *control, l *look, t *tenant, worker string) (move, bool) {
	if c.verb == claim {
		if l.State != stateQueued || l.Gen != c.gen {
			return move{}, false // a stale ticket
		}
		c.housekeep = l.housekeeping()
		if l.sendable() == 0 && !c.housekeep {
			return rest(l), true // what was due has been taken back
		}
		slots := claimSlots(l, t)
		if slots == 0 {
			c.blocked = true
			return move{State: stateBlocked, Gen: l.Gen, Suspect: l.Suspect}, true
		}
		c.mine, c.slots, c.warm, c.waiters = true, slots, l.Warm, t.Blocked > 0
		return move{State: stateRunning, Gen: l.Gen, Owner: worker, Slots: slots, Suspect: l.Suspect}, true
	}

	if l.State != stateRunning || l.Gen != c.gen || l.Owner != worker {
		return move{}, false // taken from us: a lease ran out
	}
	l.Suspect = c.suspect
	c.waiters = t.Blocked > 0
	c.housekeep = l.housekeeping()
	if c.verb == finish && (c.yield || (l.sendable() == 0 && !c.housekeep)) {
		m := rest(l)
		m.OK = c.ok
		return m, true
	}
	want := c.want
	if c.verb == finish {
		want = l.sendable()
	}
	c.mine, c.slots = true, adjustSlots(l, t, want, c.onWire)
	return move{State: stateRunning, Gen: l.Gen, Owner: worker, Slots: c.slots, Suspect: l.Suspect, OK: c.ok}, true
}

// readForControl locks and looks, in one round trip. alive says that the worker's lease is not over.
func readForControl(ctx context.Context, tx pgx.Tx, tenantIDs, endpointIDs []string, worker string) (
	looks map[string]*look, tenants map[string]*tenant, alive bool, err error,
) {
	looks = make(map[string]*look, len(endpointIDs))
	tenants = make(map[string]*tenant, len(tenantIDs))
	b := &pgx.Batch{}
	b.Queue(sqlTenantLock, tenantIDs)
	b.Queue(sqlLock, endpointIDs)
	b.Queue(sqlLook, endpointIDs).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			l := &look{}
			var shut float64
			if err := rows.Scan(&l.EndpointID, &l.TenantID, &l.State, &l.Gen, &l.Owner, &l.Slots, &l.Limit, &l.Suspect, &l.Warm, &shut,
				&l.Sends, &l.Alive, &l.Concurrency, &l.Tests, &l.Ready, &l.NextIn); err != nil {
				return err
			}
			l.ShutFor = time.Duration(shut * float64(time.Second))
			looks[l.EndpointID] = l
		}
		return rows.Err()
	})
	b.Queue(sqlTenantSlots, tenantIDs).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			t := &tenant{}
			var id string
			if err := rows.Scan(&id, &t.Cap, &t.Slots, &t.Suspects, &t.Running, &t.Blocked); err != nil {
				return err
			}
			tenants[id] = t
		}
		return rows.Err()
	})
	b.Queue(sqlWorkerAlive, worker).QueryRow(func(row pgx.Row) error { return row.Scan(&alive) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, false, fmt.Errorf("lock and look at lanes: %w", err)
	}
	return looks, tenants, alive, nil
}

// writeMoves writes the decisions and returns a ticket for each lane that was queued.
func writeMoves(ctx context.Context, tx pgx.Tx, looks map[string]*look, moves map[string]move) ([]Ticket, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	var (
		ids, states []string
		gens        []int64
		owners      []*string
		slots       []int32
		wakes       []*time.Duration
		suspects    []bool
		oks         []bool
		tickets     []Ticket
	)
	for id, m := range moves {
		ids, states, gens, slots = append(ids, id), append(states, m.State), append(gens, m.Gen), append(slots, int32(m.Slots))
		wakes, suspects, oks = append(wakes, m.WakeIn), append(suspects, m.Suspect), append(oks, m.OK)
		owners = append(owners, nil)
		if m.Owner != "" {
			owners[len(owners)-1] = &m.Owner
		}
		if m.State == stateQueued {
			tickets = append(tickets, Ticket{EndpointID: id, TenantID: looks[id].TenantID, Gen: m.Gen, Suspect: m.Suspect})
		}
	}
	if _, err := tx.Exec(ctx, sqlMove, ids, states, gens, owners, slots, wakes, suspects, oks); err != nil {
		return nil, fmt.Errorf("move lanes: %w", err)
	}
	return tickets, nil
}

func queryTickets(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]Ticket, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanTicket)
}

func sorted(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}
