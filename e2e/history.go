package e2e

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// history is what the database says, in one snapshot.
type history struct {
	events       map[string]int // id → rows in the catalog
	tests        map[string]bool
	ids          []string // of table event_ids
	waiting      []string // ids in the outbox
	lastPosition int64
	deliveries   []delivery
	attempts     map[string][]attempt // by delivery, in the order of their numbers
	parked       map[string]string    // delivery → status
	due          map[string]bool
	stuck        map[string]string // endpoint → why its lane will not run although something is due
}

type delivery struct {
	id, endpointID, eventID, status string
	attempts                        int
	test                            bool
}

func (d delivery) String() string {
	return fmt.Sprintf("delivery %s (%s) of event %s for %s", d.id, d.status, d.eventID, d.endpointID)
}

type attempt struct {
	deliveryID string
	number     int
	class      string
	code       int
	trigger    string
	started    time.Time
	worker     string
}

func (a attempt) String() string {
	text := fmt.Sprintf("%s #%d %s (%s)", stamp(a.started), a.number, a.class, a.trigger)
	if a.code != 0 {
		text = fmt.Sprintf("%s #%d %s %d (%s)", stamp(a.started), a.number, a.class, a.code, a.trigger)
	}
	return text + " by " + a.worker[max(0, len(a.worker)-4):]
}

func readHistory(ctx context.Context, db Database) (*history, error) {
	h := &history{events: map[string]int{}, tests: map[string]bool{}, attempts: map[string][]attempt{}, parked: map[string]string{}, due: map[string]bool{}, stuck: map[string]string{}}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, read := range []func(context.Context, pgx.Tx) error{h.readEvents, h.readDeliveries, h.readWork, h.readLanes} {
		if err := read(ctx, tx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *history) readEvents(ctx context.Context, tx pgx.Tx) error {
	var id string
	var test bool
	rows, err := tx.Query(ctx, `select id, test from events`)
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&id, &test}, func() error {
		h.events[id]++
		h.tests[id] = test
		return nil
	}); err != nil {
		return err
	}
	if rows, err = tx.Query(ctx, `select id from event_ids`); err != nil {
		return err
	}
	if h.ids, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	if rows, err = tx.Query(ctx, `select id from outbox`); err != nil {
		return err
	}
	if h.waiting, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	return tx.QueryRow(ctx, `select last from positions`).Scan(&h.lastPosition)
}

func (h *history) readDeliveries(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `select id, endpoint_id, event_id, status, attempts, test from deliveries`)
	if err != nil {
		return err
	}
	if h.deliveries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d delivery, err error) {
		err = row.Scan(&d.id, &d.endpointID, &d.eventID, &d.status, &d.attempts, &d.test)
		return d, err
	}); err != nil {
		return err
	}
	var a attempt
	rows, err = tx.Query(ctx, `select delivery_id, number, class, coalesce(code, 0), trigger, started_at, worker_id from attempts order by delivery_id, number`)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&a.deliveryID, &a.number, &a.class, &a.code, &a.trigger, &a.started, &a.worker}, func() error {
		h.attempts[a.deliveryID] = append(h.attempts[a.deliveryID], a)
		return nil
	})
	return err
}

func (h *history) readWork(ctx context.Context, tx pgx.Tx) error {
	var id, status string
	rows, err := tx.Query(ctx, `select delivery_id, status from parked`)
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error { h.parked[id] = status; return nil }); err != nil {
		return err
	}
	if rows, err = tx.Query(ctx, `select delivery_id from due`); err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { h.due[id] = true; return nil })
	return err
}

// readLanes finds lanes with something due that nothing will ever start: idle ones, and those that sleep beyond what is due first while their door
// is open. The others are in the hands of an owner, of River or of the sweeper, and whether these do their part shows in time.
func (h *history) readLanes(ctx context.Context, tx pgx.Tx) error {
	var id, why string
	rows, err := tx.Query(ctx, `
		select l.endpoint_id,
		       case when l.state = 'idle' then 'it is idle'
		            else format('it sleeps until %s, and something is due at %s', l.wake_at, d.first) end
		from lanes l
		join (select endpoint_id, min(next_at) as first from due group by endpoint_id) d on d.endpoint_id = l.endpoint_id
		where l.state = 'idle'
		   or l.state = 'sleeping' and l.wake_at > greatest(d.first, coalesce(l.not_before, d.first)) + interval '1 second'`)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&id, &why}, func() error { h.stuck[id] = why; return nil })
	return err
}
