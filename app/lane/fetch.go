package lane

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db/queries"
)

var sqlFetch = queries.SQL("LaneFetch")

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
	Body        []byte
	Form        string
	waited      time.Duration // from due to fetched, by the database's clock
}

// fetch asks for the next due deliveries of one lane. Its answer has found false when the row no longer names us.
type fetch struct {
	endpointID string
	gen        int64
	n          int
	held       []string // ids handed out before and not yet committed
	applied    int64    // the revision of the endpoint the lane works with

	found bool
	rev   int64
	sends bool // the endpoint is active
	open  bool // its door (not_before) is open
	// waiters: other lanes of the tenant are blocked by its cap.
	waiters bool
	items   []item
}

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
	rows, err := e.pool.Query(ctx, sqlFetch, endpoints, gens, counts, helds, e.workerID(), applied)
	if err != nil {
		return fmt.Errorf("fetch due deliveries: %w", err)
	}
	var (
		endpointID           string
		rev                  int64
		sends, open, waiters bool
		delivery, eventID    *string
		trigger, form        *string
		day                  *time.Time
		position             *int64
		failures, unknowns   *int32
		resumes              *bool
		requestedBy          *string
		body                 []byte
		waited               *float64
		current              *fetch
		targets              = []any{&endpointID, &rev, &sends, &open, &waiters, &delivery, &day, &position, &eventID, &trigger, &failures, &unknowns, &resumes,
			&requestedBy, &body, &form, &waited}
	)
	_, err = pgx.ForEachRow(rows, targets, func() error {
		if current == nil || current.endpointID != endpointID {
			current = byID[endpointID]
			current.found, current.rev, current.sends, current.open, current.waiters = true, rev, sends, open, waiters
		}
		if delivery != nil {
			it := item{DeliveryID: *delivery, Day: *day, Position: *position, EventID: *eventID, Trigger: *trigger, Failures: int(*failures),
				Unknowns: int(*unknowns), Resumes: *resumes, Body: body, Form: *form, waited: time.Duration(*waited * float64(time.Second))}
			if requestedBy != nil {
				by := *requestedBy
				it.RequestedBy = &by
			}
			body = nil // the next row gets a slice of its own
			current.items = append(current.items, it)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fetch due deliveries: %w", err)
	}
	return nil
}
