package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
)

// mark is an event as the order of a list sees it; the zero mark stands before all.
type mark struct {
	day      time.Time
	id       string
	position int64
}

// place is where a list goes on.
type place struct {
	mark            // everything behind it, or with back before it
	back  bool      // the newest first
	from  time.Time // behind mark, no event is of an earlier day
	today time.Time // the database's, when the place was found
}

// The kinds of cursors. One of List holds the last event that was read, if any, and the last day on which everything had been.
const (
	cursorOfEvents = "events"
	cursorOfNewest = "newest-events"
)

const nothing = "-"

func cursorOf(last mark, checked time.Time) string {
	if last.id == "" {
		last.id = nothing
	}
	return cursor.Encode(cursorOfEvents, last.day.Format(time.DateOnly), last.id, checked.Format(time.DateOnly))
}

// stood is what EventPlace says of a cursor.
type stood struct {
	position             int64
	dayKept, checkedKept bool
	today                time.Time
}

func (c *Events) stands(ctx context.Context, tenant string, at mark, checked time.Time) (stood, error) {
	var s stood
	args := pgx.NamedArgs{"tenant": tenant, "id": at.id, "day": at.day, "checked": checked}
	err := c.DB.QueryRow(ctx, sqlEventPlace, args).Scan(&s.position, &s.dayKept, &s.checkedKept, &s.today)
	if err != nil {
		return stood{}, fmt.Errorf("find the place of a cursor: %w", err)
	}
	return s, nil
}

// placeOf is the place behind a cursor of List.
func (c *Events) placeOf(ctx context.Context, tenant, after string) (place, error) {
	at, checked := mark{id: nothing}, time.Time{}
	if after != "" {
		keys, err := cursor.Decode(cursorOfEvents, after, 3)
		if err != nil {
			return place{}, err
		}
		var errDay, errChecked error
		at.day, errDay = time.Parse(time.DateOnly, keys[0])
		checked, errChecked = time.Parse(time.DateOnly, keys[2])
		if at.id = keys[1]; errDay != nil || errChecked != nil || !id.ValidEvent(at.id) {
			return place{}, cursor.ErrForeign()
		}
	}
	s, err := c.stands(ctx, tenant, at, checked)
	if err != nil {
		return place{}, err
	}
	from := place{today: s.today}
	switch {
	case after == "":
	case checked.After(s.today.AddDate(0, 0, 1)):
		return place{}, cursor.ErrForeign() // from days to come
	case s.position > 0:
		at.position = s.position
		from.mark, from.from = at, at.day.AddDate(0, 0, -1)
	case s.checkedKept && (at.id == nothing || !s.dayKept):
		// Everything before that day had been read, and what was read last is gone since.
		from.mark, from.from = at, checked.AddDate(0, 0, -1)
	case at.id != nothing && s.dayKept:
		return place{}, cursor.ErrForeign() // no event of this tenant
	default:
		return place{}, fault.New(fault.CursorExpired,
			"This cursor is older than what is kept, so there may be events that you have missed. Start again without it to read all that there are.")
	}
	if from.id == nothing {
		from.id = ""
	}
	return from, nil
}

// last is the tenant's newest event, or where the list stands when there is none behind.
func (c *Events) last(ctx context.Context, tenant string, from place) (mark, error) {
	var m mark
	err := c.DB.QueryRow(ctx, sqlEventLast, pgx.NamedArgs{"tenant": tenant, "from_day": from.from}).Scan(&m.id, &m.day, &m.position)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && m.position < from.position {
		return from.mark, nil
	}
	if err != nil {
		return mark{}, fmt.Errorf("find the last event: %w", err)
	}
	return m, nil
}
