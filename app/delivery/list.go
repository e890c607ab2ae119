package delivery

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/queries"
)

var (
	sqlDeliveryDay = queries.SQL("DeliveryDay")
	sqlEventExists = queries.SQL("DeliveryEventExists")
)

// The sizes of pages.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// Page is one page of a list, newest first.
type Page struct {
	Deliveries []Delivery
	// Next is the cursor of the page after this one; empty: this is the last.
	Next string
	// SearchedTo is set on a page that has fewer deliveries than were asked for although there may be more: so many had to be passed over that
	// the search stopped. They were made after SearchedTo; Next goes on from there.
	SearchedTo *time.Time
}

// List is a page of at most limit (1 to 200; 0: 50) deliveries of the caller's tenant that match the filter, newest first, behind the cursor
// after; an empty one is the first page. It needs deliveries:read. A bad value is Invalid, with the field's name in the API; a bad cursor is Malformed.
// It looks at no more than 20,000 keys and 2,000 rows: see Page.SearchedTo.
func (s *Service) List(ctx context.Context, caller account.Caller, f Filter, after string, limit int) (Page, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Page{}, err
	}
	limit, err := pageLimit(limit)
	if err != nil {
		return Page{}, err
	}
	if err := f.check(); err != nil {
		return Page{}, err
	}
	only, f, err := s.resolve(ctx, caller.Tenant(), f)
	if err != nil {
		return Page{}, err
	}
	if only != nil {
		return s.one(ctx, caller.Tenant(), f, *only)
	}
	src, err := s.choose(ctx, caller.Tenant(), f)
	if err != nil {
		return Page{}, err
	}
	from, err := src.from(f, after)
	if err != nil {
		return Page{}, err
	}
	deliveries, next, err := s.find(ctx, src, caller.Tenant(), from, limit)
	if err != nil {
		return Page{}, err
	}
	page := Page{Deliveries: deliveries}
	if next != nil {
		page.Next = src.cursor(*next)
		if len(deliveries) < limit {
			page.SearchedTo = s.searchedTo(src, *next)
		}
	}
	return page, nil
}

func pageLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return DefaultLimit, nil
	case limit < 0 || limit > MaxLimit:
		return 0, fault.New(fault.Invalid, "The limit is not valid.").Field("limit", "must be 1 to 200")
	}
	return limit, nil
}

// resolve says what the filter's Search means: one delivery, an event or a resource.
func (s *Service) resolve(ctx context.Context, tenant string, f Filter) (*string, Filter, error) {
	search := strings.TrimSpace(f.Search)
	f.Search = ""
	if search == "" {
		return nil, f, nil
	}
	if id.Valid(id.Delivery, search) {
		return &search, f, nil
	}
	if id.ValidEvent(search) && f.EventID == "" {
		var exists bool
		if err := s.DB.QueryRow(ctx, sqlEventExists, tenant, search).Scan(&exists); err != nil {
			return nil, f, fmt.Errorf("search event: %w", err)
		}
		if exists {
			f.EventID = search
			return nil, f, nil
		}
	}
	if f.ResourceID != "" && f.ResourceID != search {
		search = "" // both cannot be
	}
	f.ResourceID = search
	return nil, f, nil
}

// one is a page of one delivery, if it matches the filter.
func (s *Service) one(ctx context.Context, tenant string, f Filter, deliveryID string) (Page, error) {
	made, err := id.Day(deliveryID)
	if err != nil {
		return Page{}, nil
	}
	src := f.source(tenant, false, usual)
	conditions, args := f.conditions()
	conditions = append(conditions, onTime)
	args["from_id"], args["until_id"] = src.args["from_id"], src.args["until_id"]
	if f.byAttempt() {
		conditions = append(conditions, onAttempt)
		for name, value := range f.attemptArgs() {
			args[name] = value
		}
	}
	found, err := s.read(ctx, source{rest: strings.Join(conditions, " and "), rows: args}, tenant, []place{{day: made, id: deliveryID}})
	return Page{Deliveries: found}, err
}

// choose finds the filter's source. Pending deliveries are read from table due while it holds few of the tenant.
func (s *Service) choose(ctx context.Context, tenant string, f Filter) (source, error) {
	most := s.bounds.orUsual()
	src := f.source(tenant, true, most)
	if src.name != "due" {
		return src, nil
	}
	var n int
	args := pgx.NamedArgs{"tenant": tenant, "endpoint": f.EndpointID, "limit": most.due + 1}
	if err := s.DB.QueryRow(ctx, sqlDueCount, args).Scan(&n); err != nil {
		return source{}, fmt.Errorf("count due: %w", err)
	}
	if n > most.due {
		return f.source(tenant, false, most), nil
	}
	return src, nil
}

// find reads up to limit deliveries behind from. next is where the list goes on, nil at its end.
func (s *Service) find(ctx context.Context, src source, tenant string, from place, limit int) (deliveries []Delivery, next *place, err error) {
	budget := s.bounds.orUsual().read
	for _, part := range src.windows(from) {
		found, stop, err := s.fill(ctx, part, tenant, from, limit+1-len(deliveries), &budget)
		if err != nil {
			return nil, nil, err
		}
		if deliveries = append(deliveries, found...); len(deliveries) > limit {
			last := deliveries[limit-1]
			return deliveries[:limit], &place{day: last.day, position: last.position, id: last.ID}, nil
		}
		if stop != nil {
			return deliveries, stop, nil
		}
		from = part.before()
	}
	return deliveries, nil, nil
}

// fill reads n deliveries behind from, or as many as there are. stop is where it had to give up, having looked at enough.
func (s *Service) fill(ctx context.Context, src source, tenant string, from place, n int, budget *int) (deliveries []Delivery, stop *place, err error) {
	for first := true; *budget > 0; first = false {
		want := n - len(deliveries)
		switch {
		case src.rest != "" && first:
			want = min(max(4*want, 200), *budget)
		case src.rest != "":
			want = *budget
		}
		step, err := s.step(ctx, src, from, want)
		if err != nil {
			return nil, nil, err
		}
		*budget -= len(step.keys)
		found, err := s.read(ctx, src, tenant, step.keys)
		if err != nil {
			return nil, nil, err
		}
		if deliveries = append(deliveries, found...); len(deliveries) >= n || step.end {
			return deliveries, nil, nil
		}
		if from = step.last; step.bound {
			break
		}
	}
	return deliveries, &from, nil
}

// searchedTo is the time of a place, for a reader.
func (s *Service) searchedTo(src source, at place) *time.Time {
	made, err := id.Time(at.id)
	if err != nil {
		made = at.day // an event of the resource without deliveries
	}
	return &made
}

// The kinds of cursors: by day and id, and by position and id.
const (
	cursorByDay      = "deliveries"
	cursorByPosition = "resource-deliveries"
)

func (src source) cursor(at place) string {
	if src.byPosition {
		return cursor.Encode(cursorByPosition, strconv.FormatInt(at.position, 10), at.id)
	}
	return cursor.Encode(cursorByDay, at.day.Format(time.DateOnly), at.id)
}

// from is where the page behind the cursor begins.
func (src source) from(f Filter, after string) (place, error) {
	from := f.start()
	if after == "" {
		return from, nil
	}
	kind := cursorByDay
	if src.byPosition {
		kind = cursorByPosition
	}
	keys, err := cursor.Decode(kind, after, 2)
	if err != nil {
		return place{}, err
	}
	if !id.Valid(id.Delivery, keys[1]) && keys[1] != beforeAll {
		return place{}, cursor.ErrForeign()
	}
	at := place{day: from.day, position: from.position, id: keys[1]}
	if src.byPosition {
		if at.position, err = strconv.ParseInt(keys[0], 10, 64); err != nil || at.position < 0 {
			return place{}, cursor.ErrForeign()
		}
		return at, nil
	}
	if at.day, err = time.Parse(time.DateOnly, keys[0]); err != nil {
		return place{}, cursor.ErrForeign()
	}
	if at.day.After(from.day) || at.day.Equal(from.day) && at.id > from.id {
		return from, nil // the cursor of a list with a later end
	}
	return at, nil
}

// Read is one delivery of the caller's tenant. It needs deliveries:read.
func (s *Service) Read(ctx context.Context, caller account.Caller, deliveryID string) (Delivery, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Delivery{}, err
	}
	return s.byID(ctx, caller.Tenant(), deliveryID)
}

func errNoDelivery() error { return fault.New(fault.NotFound, "There is no such delivery.") }

func (s *Service) byID(ctx context.Context, tenant, deliveryID string) (Delivery, error) {
	made, err := id.Day(deliveryID)
	if err != nil || !id.Valid(id.Delivery, deliveryID) {
		return Delivery{}, errNoDelivery()
	}
	found, err := s.read(ctx, source{}, tenant, []place{{day: made, id: deliveryID}})
	if err != nil {
		return Delivery{}, err
	}
	if len(found) == 0 {
		// A test event's delivery has its id before it is dispatched, which may be days later.
		err := s.DB.QueryRow(ctx, sqlDeliveryDay, pgx.NamedArgs{"tenant": tenant, "id": deliveryID}).Scan(&made)
		if errors.Is(err, pgx.ErrNoRows) {
			return Delivery{}, errNoDelivery()
		}
		if err != nil {
			return Delivery{}, fmt.Errorf("read delivery: %w", err)
		}
		if found, err = s.read(ctx, source{}, tenant, []place{{day: made, id: deliveryID}}); err != nil {
			return Delivery{}, err
		}
	}
	if len(found) == 0 {
		return Delivery{}, errNoDelivery()
	}
	return found[0], nil
}
