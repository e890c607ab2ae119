package outbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/id"
	"waybill/db/queries"
)

var (
	sqlTake      = queries.SQL("OutboxTake")
	sqlMatch     = queries.SQL("SubscriptionMatch")
	sqlForm      = queries.SQL("EndpointForm")
	sqlSequence  = queries.SQL("ResourceSequence")
	sqlPosition  = queries.SQL("PositionTake")
	sqlEvent     = queries.SQL("EventInsert")
	sqlRaise     = queries.SQL("ResourceRaise")
	sqlOutDelete = queries.SQL("OutboxDelete")
)

// row is one outbox row on its way, without its data: that goes from table to table and does not come here.
type row struct {
	at                       string // its ctid
	seq                      int64
	tenantID, id, eventType  string
	version                  int32
	resourceType, resourceID string
	given                    *int64 // the publisher's sequence
	occurredAt               time.Time
	endpointID, deliveryID   *string // of a test event
	requestedBy              *string
	publishedAt              time.Time

	position, sequence int64
	head               string
	thin               *string
}

func (r *row) test() bool { return r.endpointID != nil }

// resource names what a sequence counts.
type resource struct{ tenantID, kind, id string }

func (r *row) resource() resource { return resource{r.tenantID, r.resourceType, r.resourceID} }

// subject is what decides who wants an event.
type subject struct{ tenantID, eventType string }

// target is an endpoint that wants an event, and the form it wants.
type target struct{ endpointID, form string }

// formThin is the payload of endpoints that get ids only.
const formThin = "thin"

// dispatched is what one batch moved.
type dispatched struct {
	events, deliveries int
	endpoints, tests   []string
	taken              map[string]int // rows of each tenant
	reached            []Reached
}

// dispatch moves up to each rows of every tenant in three round trips: take the rows; ask who wants them and where numbering stands; write.
func (d *Dispatcher) dispatch(ctx context.Context, tx pgx.Tx, tenants []string, each int) (dispatched, error) {
	rows, err := take(ctx, tx, tenants, each)
	if err != nil || len(rows) == 0 {
		return dispatched{}, err
	}
	targets, err := d.resolve(ctx, tx, rows)
	if err != nil {
		return dispatched{}, err
	}
	// A test's delivery is found by its id, and so on the day that is in it: that of the request, which may have been yesterday's last moment.
	today := d.Now().UTC().Truncate(24 * time.Hour)
	byDay := map[time.Time][]*row{}
	for _, r := range rows {
		day := today
		if r.test() {
			if asked, err := id.Day(*r.deliveryID); err == nil && asked.Equal(today.AddDate(0, 0, -1)) {
				day = asked
			}
		}
		byDay[day] = append(byDay[day], r)
	}
	out := dispatched{taken: map[string]int{}}
	for day, of := range byDay {
		if err := d.write(ctx, tx, day, of, targets, &out); err != nil {
			return dispatched{}, err
		}
	}
	slices.Sort(out.endpoints)
	out.endpoints = slices.Compact(out.endpoints)
	return out, nil
}

func take(ctx context.Context, tx pgx.Tx, tenants []string, each int) ([]*row, error) {
	found, err := tx.Query(ctx, sqlTake, tenants, each)
	if err != nil {
		return nil, fmt.Errorf("take outbox rows: %w", err)
	}
	rows, err := pgx.CollectRows(found, func(from pgx.CollectableRow) (*row, error) {
		r := &row{}
		return r, from.Scan(&r.at, &r.seq, &r.tenantID, &r.id, &r.eventType, &r.version, &r.resourceType, &r.resourceID, &r.given, &r.occurredAt,
			&r.endpointID, &r.deliveryID, &r.requestedBy, &r.publishedAt)
	})
	if err != nil {
		return nil, fmt.Errorf("take outbox rows: %w", err)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.seq, b.seq) })
	return rows, nil
}

// resolve gives each row its position and sequence and finds its targets.
func (d *Dispatcher) resolve(ctx context.Context, tx pgx.Tx, rows []*row) (map[subject][]target, error) {
	var tenants, patterns []string
	var subjects []subject
	var tests []string
	asked := map[subject]bool{}
	counted := map[resource]int64{}
	var unknown []resource
	for _, r := range rows {
		if r.test() {
			tests = append(tests, *r.endpointID)
			continue
		}
		if s := (subject{r.tenantID, r.eventType}); !asked[s] {
			asked[s] = true
			subjects = append(subjects, s)
			tenants, patterns = append(tenants, s.tenantID), append(patterns, strings.Join(Patterns(s.eventType), " "))
		}
		if r.given == nil {
			if _, ok := counted[r.resource()]; !ok {
				counted[r.resource()] = 0
				unknown = append(unknown, r.resource())
			}
		}
	}
	targets := make(map[subject][]target, len(subjects))
	b := &pgx.Batch{}
	b.Queue(sqlMatch, tenants, patterns).Query(func(found pgx.Rows) error {
		var n int
		var t target
		_, err := pgx.ForEachRow(found, []any{&n, &t.endpointID, &t.form}, func() error {
			targets[subjects[n-1]] = append(targets[subjects[n-1]], t)
			return nil
		})
		return err
	})
	if len(tests) > 0 {
		b.Queue(sqlForm, tests).Query(func(found pgx.Rows) error {
			var t target
			_, err := pgx.ForEachRow(found, []any{&t.endpointID, &t.form}, func() error {
				targets[testSubject(t.endpointID)] = []target{t}
				return nil
			})
			return err
		})
	}
	if len(unknown) > 0 {
		a, k, i := make([]string, len(unknown)), make([]string, len(unknown)), make([]string, len(unknown))
		for n, u := range unknown {
			a[n], k[n], i[n] = u.tenantID, u.kind, u.id
		}
		b.Queue(sqlSequence, a, k, i).Query(func(found pgx.Rows) error {
			var n int
			var last int64
			_, err := pgx.ForEachRow(found, []any{&n, &last}, func() error {
				counted[unknown[n-1]] = last
				return nil
			})
			return err
		})
	}
	var last int64
	b.Queue(sqlPosition, len(rows)).QueryRow(func(found pgx.Row) error { return found.Scan(&last) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("resolve subscriptions and numbers: %w", err)
	}
	number(rows, last-int64(len(rows)), counted)
	return targets, nil
}

// testSubject keys the one target of a test event; a type never has a space.
func testSubject(endpointID string) subject { return subject{endpointID, "test event"} }

func (r *row) subject() subject {
	if r.test() {
		return testSubject(*r.endpointID)
	}
	return subject{r.tenantID, r.eventType}
}

// number gives rows, in their order, the positions after base and their sequences. counted holds the highest sequence so far of each resource
// that has a row without one; such a row gets the next, given ones in between included. Tests take no part.
func number(rows []*row, base int64, counted map[resource]int64) {
	for i, r := range rows {
		r.position = base + int64(i) + 1
		switch last, counts := counted[r.resource()]; {
		case r.test():
			r.sequence = 1
		case r.given == nil:
			r.sequence = last + 1
			counted[r.resource()] = r.sequence
		default:
			r.sequence = *r.given
			if counts && r.sequence > last {
				counted[r.resource()] = r.sequence
			}
		}
	}
}

// write makes events, deliveries and due of the rows and removes them from the outbox.
func (d *Dispatcher) write(ctx context.Context, tx pgx.Tx, day time.Time, rows []*row, targets map[subject][]target, out *dispatched) error {
	now := d.Now().UTC()
	out.events += len(rows)
	var (
		positions, sequences []int64
		places, heads        []string
		thins                []*string
		made                 []delivery
	)
	woken, tested := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		out.taken[r.tenantID]++
		r.head = head(r)
		for _, t := range targets[r.subject()] {
			if t.form == formThin && r.thin == nil {
				text := thin(r, d.URL)
				r.thin = &text
			}
			deliveryID := ""
			if r.test() {
				deliveryID = *r.deliveryID
				tested[t.endpointID] = true
			} else {
				deliveryID = id.New(id.Delivery, now)
			}
			woken[t.endpointID] = true
			made = append(made, delivery{deliveryID, t, r})
		}
		places, positions, sequences = append(places, r.at), append(positions, r.position), append(sequences, r.sequence)
		heads, thins = append(heads, r.head), append(thins, r.thin)
	}
	out.deliveries += len(made)
	out.endpoints, out.tests = slices.AppendSeq(out.endpoints, maps.Keys(woken)), slices.AppendSeq(out.tests, maps.Keys(tested))

	b := &pgx.Batch{}
	b.Queue(queries.ForDay(sqlEvent, day), day, places, positions, sequences, heads, thins)
	raise(b, rows, day)
	b.Queue(sqlOutDelete, places)
	count(b, rows, out)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	if err := copyRows(ctx, tx, queries.ForDay("deliveries_{day}", day), deliveryColumns, made, func(m *delivery) []any {
		return []any{m.deliveryID, day, m.tenantID, m.target.endpointID, m.position, m.row.id, m.eventType, m.resourceType, m.resourceID, m.form, m.test()}
	}); err != nil {
		return err
	}
	return copyRows(ctx, tx, "due", dueColumns, made, func(m *delivery) []any {
		priority, trigger := int16(1), "first"
		if m.test() {
			priority, trigger = 0, "test"
		}
		return []any{m.deliveryID, day, m.tenantID, m.target.endpointID, m.position, m.row.id, m.form, priority, trigger, m.requestedBy}
	})
}

// The columns that a dispatch writes; the times are the table's default, the start of the transaction by the database's clock.
var (
	deliveryColumns = []string{"id", "day", "tenant_id", "endpoint_id", "position", "event_id", "type", "resource_type", "resource_id", "form", "test"}
	dueColumns      = []string{"delivery_id", "day", "tenant_id", "endpoint_id", "position", "event_id", "form", "priority", "trigger", "requested_by"}
)

// delivery is one that a batch makes.
type delivery struct {
	deliveryID string
	target
	*row
}

// copyRows writes what a batch makes into one table by COPY, which costs less than an insert of as many rows.
func copyRows(ctx context.Context, tx pgx.Tx, table string, columns []string, made []delivery, values func(*delivery) []any) error {
	if len(made) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromSlice(len(made), func(i int) ([]any, error) { return values(&made[i]), nil }))
	if err != nil {
		return fmt.Errorf("write %s: %w", table, err)
	}
	return nil
}

// raise keeps the highest sequence of each resource.
func raise(b *pgx.Batch, rows []*row, day time.Time) {
	tops := make(map[resource]*row, len(rows))
	for _, r := range rows {
		if top := tops[r.resource()]; !r.test() && (top == nil || r.sequence >= top.sequence) {
			tops[r.resource()] = r
		}
	}
	if len(tops) == 0 {
		return
	}
	// In one order, so that no two batches could ever wait for each other.
	ordered := slices.SortedFunc(maps.Values(tops), func(a, b *row) int {
		return cmp.Or(strings.Compare(a.tenantID, b.tenantID), strings.Compare(a.resourceType, b.resourceType), strings.Compare(a.resourceID, b.resourceID))
	})
	var tenants, kinds, ids []string
	var sequences, positions []int64
	for _, r := range ordered {
		tenants, kinds, ids = append(tenants, r.tenantID), append(kinds, r.resourceType), append(ids, r.resourceID)
		sequences, positions = append(sequences, r.sequence), append(positions, r.position)
	}
	b.Queue(sqlRaise, tenants, kinds, ids, sequences, positions, day)
}
