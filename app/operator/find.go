package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/id"
	"waybill/db/queries"
)

// What a search looks at, at most.
const (
	maxHits  = 20
	maxPairs = 2000 // tenants times the types of their objects: some 40 ms
)

// Found is what one search found. What was looked for is what the text can be: an id of ours is looked up as that alone.
type Found struct {
	Tenants    []TenantRow
	Events     []FoundEvent
	Deliveries []FoundDelivery
	Endpoints  []FoundEndpoint
	Resources  []FoundResource

	Looked []string // what it was taken for, in words: "an event's id"
	// Pairs is in how many catalogs (a tenant and a type of its objects) the text was looked for as an object's id; Rest, unless it is empty, is the cursor of
	// a search that goes on behind them: they were not all.
	Pairs int
	Rest  string
}

// FoundEvent is an event by its id.
type FoundEvent struct {
	TenantUID, TenantName              string
	ID, Type, ResourceType, ResourceID string
	Sequence                           int64
	CreatedAt                          time.Time
	Test                               bool
}

// FoundDelivery is a delivery by its id.
type FoundDelivery struct {
	TenantUID, TenantName                 string
	ID, EventID, Type, ResourceID, Status string
	CreatedAt                             time.Time
}

// FoundEndpoint is an endpoint by its id.
type FoundEndpoint struct {
	TenantUID, TenantName string
	ID, URL, State        string
	Deleted               bool
}

// FoundResource is an object of a tenant's events.
type FoundResource struct {
	TenantUID, TenantName string
	Type, ID              string
	Sequence              int64 // the highest
}

// Nothing says that nothing was found.
func (f Found) Nothing() bool {
	return len(f.Tenants)+len(f.Events)+len(f.Deliveries)+len(f.Endpoints)+len(f.Resources) == 0
}

var (
	consoleFindEvent        = queries.SQL("ConsoleFindEvent")
	consoleFindDelivery     = queries.SQL("ConsoleFindDelivery")
	consoleFindEndpoint     = queries.SQL("ConsoleFindEndpoint")
	consoleFindResource     = queries.SQL("ConsoleFindResource")
	consoleResourceOfTenant = queries.SQL("ConsoleResourceOfTenant")
)

const findCursor = "console-find"

// farDay is after every partition.
var farDay = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Find looks for a text in all tenants: as the id of a tenant, event, delivery or endpoint, as part of a tenant's uid or name, and as an object's id
// ("C-4471"). uid, if given, keeps events and objects to that tenant. after goes on with a search for an object that did not look everywhere.
func (s *Service) Find(ctx context.Context, caller account.Caller, text, uid, after string) (Found, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return Found{}, err
	}
	var found Found
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 200 {
		return found, nil
	}
	var err error
	switch {
	case id.Valid(id.Delivery, text):
		found.Looked = []string{"a delivery’s id"}
		found.Deliveries, err = s.findDelivery(ctx, text)
		return found, err
	case id.Valid(id.Endpoint, text):
		found.Looked = []string{"an endpoint’s id"}
		found.Endpoints, err = s.findEndpoint(ctx, text)
		return found, err
	case id.Valid(id.Event, text):
		found.Looked = []string{"an event’s id"}
		found.Events, err = s.findEvent(ctx, text, uid)
		return found, err
	case id.Valid(id.Tenant, text):
		found.Looked = []string{"a tenant’s id"}
		found.Tenants, _, err = s.Tenants(ctx, caller, text, "", maxHits)
		return found, err
	}
	if after == "" {
		found.Looked = append(found.Looked, "part of a tenant’s uid or name")
		if found.Tenants, _, err = s.Tenants(ctx, caller, text, "", maxHits); err != nil {
			return Found{}, err
		}
		if id.ValidEvent(text) {
			found.Looked = append(found.Looked, "an event’s id that the platform chose")
			if found.Events, err = s.findEvent(ctx, text, uid); err != nil {
				return Found{}, err
			}
		}
	}
	found.Looked = append(found.Looked, "an object’s id")
	return found, s.findResource(ctx, caller, text, uid, after, &found)
}

// findEvent looks in the days around an id that holds its time first: almost all are there.
func (s *Service) findEvent(ctx context.Context, eventID, uid string) ([]FoundEvent, error) {
	from, until := time.Time{}, farDay
	if day, err := id.Day(eventID); err == nil {
		from, until = day.AddDate(0, 0, -1), day.AddDate(0, 0, 3)
	}
	for {
		rows, err := s.DB.Query(ctx, consoleFindEvent, pgx.NamedArgs{"id": eventID, "from_day": from, "until_day": until, "limit": maxHits})
		if err != nil {
			return nil, fmt.Errorf("find an event: %w", err)
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (FoundEvent, error) {
			var e FoundEvent
			err := row.Scan(&e.TenantUID, &e.TenantName, &e.ID, &e.Type, &e.ResourceType, &e.ResourceID, &e.Sequence, &e.CreatedAt, &e.Test)
			return e, err
		})
		if err != nil {
			return nil, fmt.Errorf("find an event: %w", err)
		}
		var kept []FoundEvent
		for _, e := range all {
			if uid == "" || e.TenantUID == uid {
				kept = append(kept, e)
			}
		}
		if len(kept) > 0 || from.IsZero() {
			return kept, nil
		}
		from, until = time.Time{}, farDay
	}
}

// findDelivery looks on the day of the id and the one after; a test's may be dispatched later, and then every day is asked.
func (s *Service) findDelivery(ctx context.Context, deliveryID string) ([]FoundDelivery, error) {
	day, err := id.Day(deliveryID)
	if err != nil {
		return nil, nil
	}
	for _, until := range []time.Time{day.AddDate(0, 0, 1), farDay} {
		rows, err := s.DB.Query(ctx, consoleFindDelivery, pgx.NamedArgs{"id": deliveryID, "from_day": day, "until_day": until})
		if err != nil {
			return nil, fmt.Errorf("find a delivery: %w", err)
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (FoundDelivery, error) {
			var d FoundDelivery
			err := row.Scan(&d.TenantUID, &d.TenantName, &d.ID, &d.EventID, &d.Type, &d.ResourceID, &d.Status, &d.CreatedAt)
			return d, err
		})
		if err != nil {
			return nil, fmt.Errorf("find a delivery: %w", err)
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

func (s *Service) findEndpoint(ctx context.Context, endpointID string) ([]FoundEndpoint, error) {
	rows, err := s.DB.Query(ctx, consoleFindEndpoint, endpointID)
	if err != nil {
		return nil, fmt.Errorf("find an endpoint: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (FoundEndpoint, error) {
		var e FoundEndpoint
		err := row.Scan(&e.TenantUID, &e.TenantName, &e.ID, &e.URL, &e.State, &e.Deleted)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("find an endpoint: %w", err)
	}
	return found, nil
}

func (s *Service) findResource(ctx context.Context, caller account.Caller, text, uid, after string, found *Found) error {
	if uid != "" {
		in, tenant, err := s.Enter(ctx, caller, uid)
		if err != nil {
			return err
		}
		rows, err := s.DB.Query(ctx, consoleResourceOfTenant, pgx.NamedArgs{"tenant": in.Tenant(), "id": text, "limit": maxHits})
		if err != nil {
			return fmt.Errorf("find an object of a tenant: %w", err)
		}
		r := FoundResource{TenantUID: tenant.UID, TenantName: tenant.Name}
		_, err = pgx.ForEachRow(rows, []any{&r.Type, &r.ID, &r.Sequence}, func() error {
			found.Resources = append(found.Resources, r)
			return nil
		})
		if err != nil {
			return fmt.Errorf("find an object of a tenant: %w", err)
		}
		return nil
	}
	args := pgx.NamedArgs{"id": text, "tenant": "", "type": "", "most": maxPairs, "limit": maxHits}
	if after != "" {
		keys, err := cursor.Decode(findCursor, after, 2)
		if err != nil {
			return err
		}
		args["tenant"], args["type"] = keys[0], keys[1]
	}
	rows, err := s.DB.Query(ctx, consoleFindResource, args)
	if err != nil {
		return fmt.Errorf("find an object: %w", err)
	}
	var r FoundResource
	var looked int
	var lastTenant, lastType string
	_, err = pgx.ForEachRow(rows, []any{&r.TenantUID, &r.TenantName, &r.Type, &r.ID, &r.Sequence, &looked, &lastTenant, &lastType}, func() error {
		if looked == 0 {
			found.Resources = append(found.Resources, r)
			return nil
		}
		if found.Pairs = looked; looked >= maxPairs {
			found.Rest = cursor.Encode(findCursor, lastTenant, lastType)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("find an object: %w", err)
	}
	return nil
}
