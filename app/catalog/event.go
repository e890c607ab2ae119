package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db"
	"waybill/db/queries"
)

// Events performs the operations on events: the pull side, where a tenant reads what happened to it, delivered or not. The field is
// required.
type Events struct {
	DB   db.Pool
	Feed *Feed // tells streams what is new; nil: there are none

	bounds bounds // of lists; zero: the usual ones
}

// Event is one thing that happened to one resource of a tenant.
type Event struct {
	ID           string
	Type         string
	Version      int // of the schema
	ResourceType string
	ResourceID   string
	Sequence     int64
	OccurredAt   time.Time
	PublishedAt  time.Time
	CreatedAt    time.Time // when it was dispatched, and could be read from then on
	Test         bool
	// Body is the exact JSON that full endpoints are sent. It is nil in lists that leave it out.
	Body []byte
	// ExpungedAt is when its content was taken out, by the actor ExpungedBy: its data is null from then on. nil: it was not. What streams carry says it in the body
	// alone.
	ExpungedAt *time.Time
	ExpungedBy string
	// Day is midnight UTC of the day on which it was dispatched: where it and its deliveries are kept.
	Day time.Time

	position int64
}

// Position is its place in the catalog, which with Day is its key.
func (e Event) Position() int64 { return e.position }

var (
	sqlEventPublished = queries.SQL("EventPublished")
	sqlEventRead      = queries.SQL("EventRead")
	sqlResourceRead   = queries.SQL("ResourceRead")
)

func errNoEvent() error { return fault.New(fault.NotFound, "There is no such event.") }

// Read is one event of the caller's tenant, a test event too. It needs catalog:read.
func (c *Events) Read(ctx context.Context, caller account.Caller, eventID string) (Event, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return Event{}, err
	}
	if !id.ValidEvent(eventID) {
		return Event{}, errNoEvent()
	}
	tenant := caller.Tenant()
	// An id that a publisher chose holds no time; what is remembered of it for idempotency does. Most events are dispatched on the same day.
	var day time.Time
	err := c.DB.QueryRow(ctx, sqlEventPublished, pgx.NamedArgs{"tenant": tenant, "id": eventID}).Scan(&day)
	if errors.Is(err, pgx.ErrNoRows) {
		day, err = id.Day(eventID)
		if err != nil {
			day, err = time.Time{}, nil
		}
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	if !day.IsZero() {
		found, err := c.readWithin(ctx, tenant, eventID, day, day.AddDate(0, 0, 1))
		if fault.KindOf(err) != fault.NotFound {
			return found, err
		}
	}
	return c.readWithin(ctx, tenant, eventID, time.Time{}, farDay)
}

func (c *Events) readWithin(ctx context.Context, tenant, eventID string, from, to time.Time) (Event, error) {
	rows, err := c.DB.Query(ctx, sqlEventRead, pgx.NamedArgs{"tenant": tenant, "id": eventID, "from_day": from, "to_day": to})
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanEvent)
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, errNoEvent()
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return found.Event, nil
}

// Resource is the event of a resource of the caller's tenant with the highest sequence: the state of the resource as far as it was published.
// It is Gone when that event is no longer kept. It needs catalog:read.
func (c *Events) Resource(ctx context.Context, caller account.Caller, resourceType, resourceID string) (Event, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return Event{}, err
	}
	if !storable(resourceType) || !storable(resourceID) {
		return Event{}, errNoResource()
	}
	rows, err := c.DB.Query(ctx, sqlResourceRead, pgx.NamedArgs{"tenant": caller.Tenant(), "type": resourceType, "id": resourceID})
	if err != nil {
		return Event{}, fmt.Errorf("read resource: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (*listed, error) {
		if row.RawValues()[0] == nil {
			return nil, nil // the resource without its event
		}
		l, err := scanEvent(row)
		return &l, err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Event{}, errNoResource()
	case err != nil:
		return Event{}, fmt.Errorf("read resource: %w", err)
	case found == nil:
		return Event{}, fault.New(fault.Gone, "The last event of this resource is older than what is kept.")
	}
	return found.Event, nil
}

func errNoResource() error { return fault.New(fault.NotFound, "There is no such resource.") }

// listed is a row of a list: an event, and whether it matches and whether the search ended there.
type listed struct {
	Event
	edge, matches bool
}

func scanEvent(row pgx.CollectableRow) (listed, error) {
	var l listed
	err := row.Scan(&l.ID, &l.Day, &l.position, &l.Type, &l.Version, &l.ResourceType, &l.ResourceID, &l.Sequence, &l.OccurredAt, &l.PublishedAt,
		&l.CreatedAt, &l.Test, &l.Body, &l.ExpungedAt, &l.ExpungedBy, &l.edge, &l.matches)
	return l, err
}
