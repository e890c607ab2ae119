package lane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
	priority    int16
}

// fetch asks for the next due deliveries of one lane. Its answer has found false when the row no longer names us.
type fetch struct {
	endpointID string
	gen        int64
	n          int
	held       []string // ids handed out before and not yet committed
	applied    int64    // the revision of the endpoint the lane works with

	found  bool
	rev    int64
	preset string // of the endpoint or its tenant, whose change does not touch the revision
	sends  bool   // the endpoint is active
	open   bool   // its door (not_before) is open
	// waiters: other lanes of the tenant are blocked by its cap.
	waiters bool
	cap     int // the tenant's
	items   []item
}

// fetchBack is how many days before today a fetch finds bodies in the same statement; the bodies of older events cost another.
const fetchBack = 1

// fetchAll serves a batch of lanes in one statement.
func (e *Engine) fetchAll(ctx context.Context, batch []*fetch) error {
	endpoints := make([]string, len(batch))
	gens := make([]int64, len(batch))
	counts := make([]int32, len(batch))
	helds := make([]string, len(batch))
	applied := make([]int64, len(batch))
	byID := make(map[string]*fetch, len(batch))
	for i, f := range batch {
		f.found, f.items = false, nil
		endpoints[i], gens[i], counts[i], helds[i] = f.endpointID, f.gen, int32(f.n), strings.Join(f.held, ",")
		applied[i] = f.applied
		byID[f.endpointID] = f
	}
	// One day ahead as well: the day of a dispatch is that of the dispatcher's clock.
	today := e.Now().UTC().Truncate(24 * time.Hour)
	rows, err := e.pool.Query(ctx, sqlFetch, endpoints, gens, counts, helds, e.WorkerID(), applied, today.AddDate(0, 0, -fetchBack), today.AddDate(0, 0, 1))
	if err != nil {
		return fmt.Errorf("fetch due deliveries: %w", err)
	}
	older := map[time.Time][]*item{}
	err = scanFetch(rows, byID)
	if err != nil {
		return fmt.Errorf("fetch due deliveries: %w", err)
	}
	for _, f := range batch {
		// Tests first, then what has been due longest.
		slices.SortStableFunc(f.items, func(a, b item) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(b.waited, a.waited))
		})
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

func scanFetch(rows pgx.Rows, byID map[string]*fetch) error {
	var (
		endpointID           string
		rev                  *int64
		preset               *string
		sends, open, waiters *bool
		tenantCap            *int32
		delivery, eventID    *string
		trigger, form        *string
		day                  *time.Time
		position             *int64
		failures, unknowns   *int32
		resumes              *bool
		requestedBy          *string
		body                 []byte
		waited               *float64
		priority             *int16
	)
	_, err := pgx.ForEachRow(rows, []any{&endpointID, &rev, &preset, &sends, &open, &waiters, &tenantCap, &delivery, &day, &position, &eventID, &trigger, &failures,
		&unknowns, &resumes, &requestedBy, &form, &body, &waited, &priority}, func() error {
		f := byID[endpointID]
		if delivery == nil {
			f.found, f.rev, f.preset, f.sends, f.open, f.waiters, f.cap = true, *rev, *preset, *sends, *open, *waiters, int(*tenantCap)
			return nil
		}
		it := item{DeliveryID: *delivery, Day: *day, Position: *position, EventID: *eventID, Trigger: *trigger, Failures: int(*failures),
			Unknowns: int(*unknowns), Resumes: *resumes, Form: *form, Body: body,
			waited: time.Duration(*waited * float64(time.Second)), priority: *priority}
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
