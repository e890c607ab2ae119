package lane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlFetch  = queries.SQL("LaneFetch")
	sqlBodies = queries.SQL("EventBodies")
)

// item is one delivery handed to a lane: what to send, and what its row in table due said.
type item struct {
	DeliveryID  string
	Day         time.Time // the partition of the delivery and its event
	Position    int64
	EventID     string
	Trigger     string
	Failures    int
	Unknowns    int
	Resumes     bool // a manual resend that interrupted a schedule
	RequestedBy *string
	Form        string
	Body        []byte
	waited      time.Duration // from due to fetched, by the database's clock
	next        time.Time     // when it was due
	priority    int16
}

// fetch asks for the next due deliveries of one lane. Its answer has found false when the row no longer names us.
type fetch struct {
	endpointID string
	gen        int64
	n          int
	held       []string // ids handed out before and not yet committed
	from       *mark    // where the last fetch ended; nil: from the start
	applied    int64    // the revision of the endpoint the lane works with
	asked      time.Time

	found  bool
	rev    int64
	preset string // of the endpoint or its tenant, whose change does not touch the revision
	sends  bool   // the endpoint is active
	open   bool   // its door (not_before) is open
	limit  int    // requests at once, by its health
	ailing bool   // its successes matter to its health
	// waiters: other lanes of the tenant are blocked by its cap.
	waiters bool
	cap     int // the tenant's
	items   []item
	end     *mark // where the next one may begin
	full    bool  // there is likely to be more behind it
}

// mark is a place in the order of what an endpoint has due of first and repeated attempts.
type mark struct {
	at         time.Time
	deliveryID string
}

// fetchAll serves a batch of lanes in one statement.
func (e *Engine) fetchAll(ctx context.Context, batch []*fetch) error {
	endpoints := make([]string, len(batch))
	gens := make([]int64, len(batch))
	counts := make([]int32, len(batch))
	helds := make([]string, len(batch))
	applied := make([]int64, len(batch))
	fromAt, fromID := make([]*time.Time, len(batch)), make([]*string, len(batch))
	byID := make(map[string]*fetch, len(batch))
	for i, f := range batch {
		f.found, f.items = false, nil
		endpoints[i], gens[i], counts[i], helds[i] = f.endpointID, f.gen, int32(f.n), strings.Join(f.held, ",")
		applied[i] = f.applied
		if f.from != nil {
			fromAt[i], fromID[i] = &f.from.at, &f.from.deliveryID
		}
		byID[f.endpointID] = f
	}
	// The day of an event is that of the dispatcher's clock, so tomorrow's partition is looked into as well.
	today := e.Now().UTC().Truncate(24 * time.Hour)
	rows, err := e.pool.Query(ctx, queries.ForDay(sqlFetch, today), endpoints, gens, counts, helds, e.WorkerID(), applied, fromAt, fromID)
	older := map[time.Time][]*item{}
	if err == nil {
		err = scanFetch(rows, byID)
	}
	if db.NoPartition(err) {
		_, _ = e.pool.Exec(ctx, sqlPartitions, partitionsAhead) // the maintenance job is late; the next fetch finds them
	}
	if err != nil {
		return fmt.Errorf("fetch due deliveries: %w", err)
	}
	for _, f := range batch {
		// Tests first, then what has been due longest.
		slices.SortStableFunc(f.items, func(a, b item) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), a.next.Compare(b.next), strings.Compare(a.DeliveryID, b.DeliveryID))
		})
		f.settleMark()
		for i := range f.items {
			if it := &f.items[i]; it.Body == nil {
				older[it.Day] = append(older[it.Day], it)
			}
		}
	}
	for day, items := range older {
		if err := e.readBodies(ctx, day, items); err != nil {
			return err
		}
	}
	return nil
}

// settleMark notes where this fetch has ended and leaves out what the lane held when it asked.
func (f *fetch) settleMark() {
	f.end, f.full = f.from, len(f.items) >= f.n
	if f.from == nil {
		f.full = len(f.items) >= f.n+len(f.held)
	}
	for i := len(f.items) - 1; i >= 0; i-- {
		if it := &f.items[i]; it.priority == 1 {
			f.end = &mark{it.next, it.DeliveryID}
			break
		}
	}
	if len(f.held) == 0 {
		return
	}
	held := make(map[string]bool, len(f.held))
	for _, id := range f.held {
		held[id] = true
	}
	f.items = slices.DeleteFunc(f.items, func(it item) bool { return held[it.DeliveryID] })
}

func scanFetch(rows pgx.Rows, byID map[string]*fetch) error {
	var (
		endpointID           string
		rev                  *int64
		preset               *string
		sends, open, waiters *bool
		ailing               *bool
		tenantCap, limit     *int32
		delivery, eventID    *string
		trigger, form        *string
		day                  *time.Time
		position             *int64
		failures, unknowns   *int32
		resumes              *bool
		requestedBy          *string
		body                 []byte
		waited               *float64
		next                 *time.Time
		priority             *int16
	)
	_, err := pgx.ForEachRow(rows, []any{&endpointID, &rev, &preset, &sends, &open, &waiters, &tenantCap, &limit, &ailing, &delivery, &day, &position, &eventID, &trigger, &failures,
		&unknowns, &resumes, &requestedBy, &form, &body, &next, &waited, &priority}, func() error {
		f := byID[endpointID]
		if delivery == nil {
			f.found, f.rev, f.preset, f.sends, f.open, f.waiters, f.cap = true, *rev, *preset, *sends, *open, *waiters, int(*tenantCap)
			f.limit, f.ailing = int(*limit), *ailing
			return nil
		}
		it := item{DeliveryID: *delivery, Day: *day, Position: *position, EventID: *eventID, Trigger: *trigger, Failures: int(*failures),
			Unknowns: int(*unknowns), Resumes: *resumes, Form: *form, Body: body,
			waited: time.Duration(*waited * float64(time.Second)), next: *next, priority: *priority}
		if requestedBy != nil {
			by := *requestedBy
			it.RequestedBy = &by
		}
		body = nil // the next row gets a slice of its own
		f.items = append(f.items, it)
		return nil
	})
	return err
}

// readBodies fills in the bodies of items whose events are of one day.
func (e *Engine) readBodies(ctx context.Context, day time.Time, items []*item) error {
	positions := make([]int64, len(items))
	for i, it := range items {
		positions[i] = it.Position
	}
	rows, err := e.pool.Query(ctx, sqlBodies, day, positions)
	if err != nil {
		return fmt.Errorf("read bodies of older events: %w", err)
	}
	var position int64
	var full string
	var thin *string
	_, err = pgx.ForEachRow(rows, []any{&position, &full, &thin}, func() error {
		for _, it := range items {
			if it.Position != position {
				continue
			}
			it.Body = []byte(full)
			if it.Form == "thin" && thin != nil {
				it.Body = []byte(*thin)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read bodies of older events: %w", err)
	}
	return nil
}
