package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/queries"
)

// EventFilter narrows a list of events. Zero fields ask for everything; all that are given must hold.
type EventFilter struct {
	Types        []string // any of these: types, or prefixes as "order.*"; at most 50
	ResourceType string
	ResourceID   string
	Since, Until time.Time // dispatched at Since or later, and before Until
	Delivery     DeliveryFilter
}

// DeliveryFilter asks what became of an event, as things are when the list is read. The zero value does not.
type DeliveryFilter struct {
	EndpointID string // ep_…: at this endpoint; empty: at any
	Status     string // pending, delivered, undelivered, held, cancelled; "none": there is no delivery; empty: there is one
}

// EventPage is one page of events.
type EventPage struct {
	Events []Event
	// Next is the cursor to go on from. A list of the oldest first always has one: at the end of the catalog it leads to what is yet to
	// happen. A list of the newest first ends with an empty one.
	Next string
	// More says that the list is not known to end here. A page may be short of its limit, or empty, and have More: so many events had to be
	// passed over that the search stopped.
	More bool
}

// The sizes of pages.
const (
	DefaultLimit = 50
	MaxLimit     = 200
	maxTypes     = 50
)

// bounds are what one call may look at.
type bounds struct {
	scanned int // events
	bytes   int // of bodies that are returned; the event that goes beyond is the last
}

var usual = bounds{scanned: 10_000, bytes: 8 << 20}

// looked is how many events a page of the newest looks at.
const looked = 5_000

func (b bounds) orUsual() bounds {
	if b == (bounds{}) {
		return usual
	}
	return b
}

var (
	sqlForward            = queries.SQL("EventsForward")
	sqlForwardOfResource  = queries.SQL("EventsForwardOfResource")
	sqlBackward           = queries.SQL("EventsBackward")
	sqlBackwardOfResource = queries.SQL("EventsBackwardOfResource")
	sqlEventPlace         = queries.SQL("EventPlace")
	sqlEventLast          = queries.SQL("EventLast")
)

var farDay = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// List is a page of at most limit (1 to 200; 0: 50) events of the caller's tenant, the oldest first, with their bodies, behind the cursor after;
// an empty one is the beginning of what is kept. Test events are no part of it. Whoever follows Next sees every event that matches exactly once,
// also while events are being published: positions are given by one dispatcher after the publisher's commit, so an event never appears behind
// a cursor. A bad filter is Invalid, a bad cursor Malformed, and one from before what is kept is CursorExpired, unless its reader had read
// everything since. It needs catalog:read.
func (c *Events) List(ctx context.Context, caller account.Caller, f EventFilter, after string, limit int) (EventPage, error) {
	limit, err := checkList(caller, f, limit)
	if err != nil {
		return EventPage{}, err
	}
	page, _, err := c.page(ctx, caller.Tenant(), f, after, limit)
	return page, err
}

// page is a page of List with any limit, and the position at which its Next stands.
func (c *Events) page(ctx context.Context, tenant string, f EventFilter, after string, limit int) (EventPage, int64, error) {
	from, err := c.placeOf(ctx, tenant, after)
	if err != nil {
		return EventPage{}, 0, err
	}
	last := from.mark
	if f.filters() {
		// Before the list is read, so that the list has looked at it.
		if last, err = c.last(ctx, tenant, from); err != nil {
			return EventPage{}, 0, err
		}
	}
	out, err := c.walk(ctx, tenant, f, from, limit, true)
	if err != nil {
		return EventPage{}, 0, err
	}
	page := EventPage{Events: out.events, More: out.more}
	if out.reached.position > last.position || out.more {
		last = out.reached
	}
	checked := last.day
	if !out.more {
		checked = from.today
	}
	page.Next = cursorOf(last, checked)
	return page, last.position, nil
}

// Newest is a page of at most limit (1 to 200; 0: 50) events of the caller's tenant, the newest first, without their bodies, behind the cursor
// after; an empty one is the first page. Test events are no part of it. It needs catalog:read.
func (c *Events) Newest(ctx context.Context, caller account.Caller, f EventFilter, after string, limit int) (EventPage, error) {
	limit, err := checkList(caller, f, limit)
	if err != nil {
		return EventPage{}, err
	}
	from := place{mark: mark{position: math.MaxInt64}, back: true}
	if after != "" {
		keys, err := cursor.Decode(cursorOfNewest, after, 2)
		if err != nil {
			return EventPage{}, err
		}
		if from.day, err = time.Parse(time.DateOnly, keys[0]); err != nil || !id.ValidEvent(keys[1]) {
			return EventPage{}, cursor.ErrForeign()
		}
		stood, err := c.stands(ctx, caller.Tenant(), mark{day: from.day, id: keys[1]}, from.day)
		if err != nil {
			return EventPage{}, err
		}
		switch {
		case stood.position > 0:
			from.position = stood.position
		case !stood.dayKept:
			return EventPage{}, nil // it has become the end of the list
		default:
			return EventPage{}, cursor.ErrForeign()
		}
	} else {
		from.day = dayOf(time.Now()).AddDate(0, 0, 1) // the days are the database's, whose clock may be ahead of ours
	}
	out, err := c.walk(ctx, caller.Tenant(), f, from, limit, false)
	if err != nil {
		return EventPage{}, err
	}
	page := EventPage{Events: out.events, More: out.more}
	if out.more {
		page.Next = cursor.Encode(cursorOfNewest, out.reached.day.Format(time.DateOnly), out.reached.id)
	}
	return page, nil
}

func checkList(caller account.Caller, f EventFilter, limit int) (int, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return 0, err
	}
	wrong := fault.New(fault.Invalid, "A filter is not valid.")
	for _, text := range f.Types {
		if text != "*" && !validType(strings.TrimSuffix(text, ".*")) {
			wrong.Field("type", "must be event types, or prefixes as order.*")
			break
		}
	}
	if len(f.Types) > maxTypes {
		wrong.Field("type", "must be given 50 times at most")
	}
	for name, text := range map[string]string{"resource_type": f.ResourceType, "resource_id": f.ResourceID} {
		if !storable(text) {
			wrong.Field(name, "must have at most 200 characters")
		}
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && f.Until.Before(f.Since) {
		wrong.Field("until", "must not be before since")
	}
	if f.Delivery.EndpointID != "" && !id.Valid(id.Endpoint, f.Delivery.EndpointID) {
		wrong.Field("endpoint_id", "must be the id of an endpoint: ep_…")
	}
	switch f.Delivery.Status {
	case "", "pending", "delivered", "undelivered", "held", "cancelled", NoDelivery:
	default:
		wrong.Field("delivery_status", "must be pending, delivered, undelivered, held, cancelled or none")
	}
	switch {
	case limit == 0:
		limit = DefaultLimit
	case limit < 0 || limit > MaxLimit:
		wrong.Field("limit", "must be 1 to 200")
	}
	return limit, wrong.OrNil()
}

// storable says whether text can be the name of a resource, as far as the database may be asked.
func storable(text string) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= 200 && strings.IndexByte(text, 0) < 0
}

func (f EventFilter) filters() bool {
	return len(f.Types) > 0 || f.ResourceType != "" || f.ResourceID != "" || !f.Since.IsZero() || !f.Until.IsZero() ||
		f.Delivery != DeliveryFilter{}
}

// NoDelivery is the status of an event that was not for an endpoint.
const NoDelivery = "none"

// The conditions of a filter on a row of events called v. Statements are made of these texts and numbers, and no others.
const (
	onResourceType = `v.resource_type = @resource_type`
	onResourceID   = `v.resource_id = @resource`
	onSince        = `v.created_at >= @since`
	onUntil        = `v.created_at < @until`

	// Deliveries are made with their event, on its day: index deliveries_by_event of one partition.
	onDelivery = `exists (
            select from deliveries d
            where d.tenant_id = @tenant and d.event_id = v.id and d.day = v.day
              and (@endpoint::text = '' or d.endpoint_id = @endpoint) and (@status::text = '' or d.status = @status))`
)

// conditions are those of the filter, and their arguments.
func (f EventFilter) conditions() (string, pgx.NamedArgs) {
	var on []string
	args := pgx.NamedArgs{}
	var types []string
	for i, text := range f.Types {
		if text == "*" {
			types = nil
			break
		}
		name := "type_" + strconv.Itoa(i)
		if prefix, ok := strings.CutSuffix(text, "*"); ok {
			types = append(types, "starts_with(v.type, @"+name+")")
			args[name] = prefix
		} else {
			types = append(types, "v.type = @"+name)
			args[name] = text
		}
	}
	if len(types) > 0 {
		on = append(on, "("+strings.Join(types, " or ")+")")
	}
	if f.ResourceType != "" {
		on = append(on, onResourceType)
		args["resource_type"] = f.ResourceType
	}
	if f.ResourceID != "" {
		on = append(on, onResourceID)
		args["resource"] = f.ResourceID
	}
	if !f.Since.IsZero() {
		on = append(on, onSince)
		args["since"] = f.Since
	}
	if !f.Until.IsZero() {
		on = append(on, onUntil)
		args["until"] = f.Until
	}
	if d := f.Delivery; d != (DeliveryFilter{}) {
		args["endpoint"], args["status"] = d.EndpointID, d.Status
		if d.Status == NoDelivery {
			on = append(on, "not "+onDelivery)
			args["status"] = ""
		} else {
			on = append(on, onDelivery)
		}
	}
	return strings.Join(on, " and "), args
}

// statement is the filter's statement in one direction, without the arguments of a place and of the limits.
func (f EventFilter) statement(tenant string, back bool) (string, pgx.NamedArgs) {
	sql := sqlForward
	switch {
	case back && f.ResourceID != "":
		sql = sqlBackwardOfResource
	case back:
		sql = sqlBackward
	case f.ResourceID != "":
		sql = sqlForwardOfResource
	}
	conditions, args := f.conditions()
	if conditions != "" {
		sql = strings.Replace(sql, "/* filter */ true", conditions, 1)
	}
	args["tenant"] = tenant
	return sql, args
}

// walked is what a walk found.
type walked struct {
	events  []Event
	reached mark // the last event that was looked at, or returned when there is more
	more    bool
}

// windowDays are how many days beyond its place's a list asks for, one number after the other until the page is full, and last all that there
// are: a plan for few partitions is made in a fraction of the time that one for all takes.
var windowDays = []int{2, 10}

// walk reads up to limit events behind a place.
func (c *Events) walk(ctx context.Context, tenant string, f EventFilter, from place, limit int, bodies bool) (walked, error) {
	most := c.bounds.orUsual()
	sql, args := f.statement(tenant, from.back)
	args["position"], args["bodies"], args["limit"], args["scan"] = from.position, bodies, limit+1, most.scanned
	if f.Delivery != (DeliveryFilter{}) {
		args["scan"] = max(1, most.scanned/5) // each costs a look into the deliveries
	}
	if from.back {
		args["scan"] = min(args["scan"].(int), looked) // somebody waits for the page
	}
	for _, w := range f.windows(from) {
		args["from_day"], args["to_day"] = w.from, w.to
		out, err := c.walkWindow(ctx, sql, maps.Clone(args), w, limit, most.bytes)
		if err != nil {
			return walked{}, err
		}
		if out.more || w.all {
			if out.reached.position == 0 {
				out.reached = from.mark
			}
			return out, nil
		}
	}
	return walked{}, errors.New("catalog: no window holds all days") // the last one does
}

// window is a span of days that one statement looks at.
type window struct {
	from, to time.Time
	edge     time.Time // the day at the far end, whose events may be out of order with those of the day beyond
	all      bool
}

func (f EventFilter) windows(from place) []window {
	first, last := from.from, from.today.AddDate(0, 0, 2) // nothing is dispatched in days to come
	if from.back {
		first, last = time.Time{}, from.day.AddDate(0, 0, 1)
	}
	if !f.Since.IsZero() {
		first = later(first, dayOf(f.Since).AddDate(0, 0, -1))
	}
	if !f.Until.IsZero() {
		last = earlier(last, dayOf(f.Until).AddDate(0, 0, 1))
	}
	var windows []window
	for _, days := range windowDays {
		w := window{from: first, to: last}
		switch {
		case from.back:
			w.from = last.AddDate(0, 0, -days-1)
			w.edge = w.from
		case first.IsZero():
			return append(windows, window{from: first, to: last, all: true}) // nobody knows where the catalog begins
		default:
			w.to = first.AddDate(0, 0, days+1)
			w.edge = w.to
		}
		if !w.from.After(first) && !w.to.Before(last) {
			break
		}
		windows = append(windows, w)
	}
	return append(windows, window{from: first, to: last, all: true})
}

// walkWindow reads one window. An event of the day at its far end ends the page: by the clock that gives days, but not by position, it may come
// after one of the day beyond, when the database's clock was set back over midnight.
func (c *Events) walkWindow(ctx context.Context, sql string, args pgx.NamedArgs, w window, limit, bytes int) (walked, error) {
	rows, err := c.DB.Query(ctx, sql, args)
	if err != nil {
		return walked{}, fmt.Errorf("list events: %w", err)
	}
	defer rows.Close()
	var out walked
	size := 0
	for rows.Next() {
		l, err := scanEvent(rows)
		if err != nil {
			return walked{}, fmt.Errorf("list events: %w", err)
		}
		if !w.all && l.Day.Equal(w.edge) {
			return walked{}, nil // the next window has it in its order
		}
		if len(out.events) == limit || size > bytes {
			out.more = true
			return out, nil
		}
		out.reached = mark{day: l.Day, id: l.ID, position: l.position}
		if l.matches {
			out.events = append(out.events, l.Event)
			size += len(l.Body)
		}
		if l.edge {
			out.more = true
			return out, nil
		}
	}
	if err := rows.Err(); err != nil {
		return walked{}, fmt.Errorf("list events: %w", err)
	}
	return out, nil
}

func dayOf(at time.Time) time.Time {
	year, month, day := at.UTC().Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func later(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
