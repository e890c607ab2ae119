package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/queries"
)

// Gap says of a range of time what was published to a tenant and what reached it. What is counted is as of the moment of counting.
type Gap struct {
	Since, Until time.Time
	Published    int64 // dispatched in the range, without test events
	Pushed       int64 // delivered to an endpoint at least
	Pulled       int64 // acknowledged by a consumer at least
	Neither      int64
	Complete     bool // false: there were so many that counting stopped; the numbers are of the oldest
}

// GapPage is a page of the events that reached nobody, the oldest first, without their bodies.
type GapPage struct {
	Events []Event
	Next   string // empty: this is the last
}

// Bounds of a report.
const (
	MaxGapRange = 92 * 24 * time.Hour

	gapChunk  = 10_000
	gapMost   = 500_000 // events that are counted
	gapWithin = 8 * time.Second
)

var (
	sqlGapCount = queries.SQL("GapCount")
	sqlGapList  = queries.SQL("GapList")
)

// checkGap needs both rights: what was published, and what became of it.
func checkGap(caller account.Caller, since, until time.Time) error {
	if err := caller.Can(account.CatalogRead); err != nil {
		return err
	}
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return err
	}
	wrong := fault.New(fault.Invalid, "This range cannot be reported on.")
	switch {
	case since.IsZero() || until.IsZero() || !since.Before(until):
		wrong.Field("until", "must be after since")
	case until.Sub(since) > MaxGapRange:
		wrong.Field("since", "must be at most 92 days before until")
	}
	return wrong.OrNil()
}

func gapArgs(tenant string, since, until time.Time, position int64) pgx.NamedArgs {
	return pgx.NamedArgs{"tenant": tenant, "position": position, "since": since, "until": until, "chunk": gapChunk,
		// The clock that gives days may differ from the one that gives times, around midnight.
		"from_day": dayOf(since).AddDate(0, 0, -1), "to_day": dayOf(until).AddDate(0, 0, 1)}
}

// Gap counts what was published to the caller's tenant in [since, until) and what of it was delivered, acknowledged, or neither. It needs catalog:read
// and deliveries:read.
func (c *Events) Gap(ctx context.Context, caller account.Caller, since, until time.Time) (Gap, error) {
	if err := checkGap(caller, since, until); err != nil {
		return Gap{}, err
	}
	report := Gap{Since: since, Until: until}
	var position int64
	for end := time.Now().Add(gapWithin); report.Published < gapMost && time.Now().Before(end); {
		var published, pushed, pulled, neither int64
		err := c.DB.QueryRow(ctx, sqlGapCount, gapArgs(caller.Tenant(), since, until, position)).Scan(&published, &pushed, &pulled, &neither, &position)
		if err != nil {
			return Gap{}, fmt.Errorf("count a gap: %w", err)
		}
		report.Published, report.Pushed, report.Pulled, report.Neither =
			report.Published+published, report.Pushed+pushed, report.Pulled+pulled, report.Neither+neither
		if published < gapChunk {
			report.Complete = true
			break
		}
	}
	return report, nil
}

const cursorOfGap = "gap"

// GapList is a page of at most limit (1 to 200; 0: 50) events of [since, until) that no endpoint took and no consumer acknowledged, behind the cursor
// after. A page may be short, or empty, and have a Next: so many were passed over that the search stopped. It needs catalog:read and deliveries:read.
func (c *Events) GapList(ctx context.Context, caller account.Caller, since, until time.Time, after string, limit int) (GapPage, error) {
	if err := checkGap(caller, since, until); err != nil {
		return GapPage{}, err
	}
	limit, err := checkList(caller, EventFilter{}, limit)
	if err != nil {
		return GapPage{}, err
	}
	var at mark
	if after != "" {
		if at, err = c.gapMark(ctx, caller.Tenant(), after); err != nil {
			return GapPage{}, err
		}
	}
	var page GapPage
	for end := time.Now().Add(gapWithin); ; {
		args := gapArgs(caller.Tenant(), since, until, at.position)
		args["limit"] = limit + 1 - len(page.Events)
		rows, err := c.DB.Query(ctx, sqlGapList, args)
		if err != nil {
			return GapPage{}, fmt.Errorf("list a gap: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanEvent)
		if err != nil {
			return GapPage{}, fmt.Errorf("list a gap: %w", err)
		}
		edge := false
		for _, l := range found {
			if l.matches && len(page.Events) == limit {
				page.Next = gapCursor(at)
				return page, nil
			}
			if l.matches {
				page.Events = append(page.Events, l.Event)
			}
			at, edge = mark{day: l.Day, id: l.ID, position: l.position}, l.edge
		}
		if !edge {
			return page, nil
		}
		if time.Now().After(end) {
			page.Next = gapCursor(at)
			return page, nil
		}
	}
}

func gapCursor(at mark) string {
	return cursor.Encode(cursorOfGap, at.day.Format(time.DateOnly), at.id)
}

func (c *Events) gapMark(ctx context.Context, tenant, after string) (mark, error) {
	keys, err := cursor.Decode(cursorOfGap, after, 2)
	if err != nil {
		return mark{}, err
	}
	at := mark{id: keys[1]}
	if at.day, err = time.Parse(time.DateOnly, keys[0]); err != nil || !id.ValidEvent(at.id) {
		return mark{}, cursor.ErrForeign()
	}
	s, err := c.stands(ctx, tenant, at, at.day)
	switch {
	case err != nil:
		return mark{}, err
	case s.position == 0 && !s.dayKept:
		return mark{}, fault.New(fault.CursorExpired, "This cursor is older than what is kept. Start again without it.")
	case s.position == 0:
		return mark{}, cursor.ErrForeign()
	}
	at.position = s.position
	return at, nil
}
