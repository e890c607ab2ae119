// Package limit bounds what one tenant may ask of the platform: events a second and a day, endpoints, the size of a payload, how long things are kept.
//
// It promises that a limit is shown to its tenant before it bites, that the soft one of a day is announced and refuses nothing, and that no limit costs the tenants
// that have none. Limits are for the API: what is published in SQL shares the commit of the platform's own transaction, which a limit must not break; it is counted and
// announced like the rest. Each process of the API looks at the counts every two seconds, so that a tenant may go beyond a limit by what it publishes in that
// time.
package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
	"waybill/db/queries"
)

// Limits are those of one tenant; 0: none.
type Limits struct {
	EventsPerSecond  int
	EventsPerDaySoft int64 // from here on it is announced
	EventsPerDay     int64 // beyond it the API refuses until the next day (UTC)
	Endpoints        int
	PayloadBytes     int
	RetentionDays    int // events and their history are deleted after so many days, instead of by the policy
}

// Change is what to change: nil stays, 0 takes a limit away.
type Change struct {
	EventsPerSecond  *int
	EventsPerDaySoft *int64
	EventsPerDay     *int64
	Endpoints        *int
	PayloadBytes     *int
	RetentionDays    *int
}

// Usage is a tenant's limits and how much of them it uses.
type Usage struct {
	Limits
	EventsToday   int64 // dispatched since midnight UTC
	EndpointsUsed int64
}

// The most of each limit.
const (
	MaxPerSecond = 1_000_000
	MaxPerDay    = 1_000_000_000_000
	MaxEndpoints = 100_000
	MaxPayload   = 256 << 10
)

// Audit records what was done, in the transaction that does it. *account.Service is one.
type Audit interface {
	Record(ctx context.Context, tx pgx.Tx, caller account.Caller, action, object string, detail map[string]any) error
}

// Service keeps limits. All fields are required.
type Service struct {
	DB    db.Pool
	Audit Audit
	// MinDays and MaxDays bound how long a tenant's things may be kept: the resend window, and how long the policy keeps events.
	MinDays, MaxDays int
	Now              func() time.Time

	mu     sync.Mutex
	known  map[string]*standing // by uid: tenants that have limits
	readAt time.Time
}

// standing is a tenant's limits, and what it has used, as this process knows it.
type standing struct {
	Limits
	used   int64 // today, at the last look and since then in this process
	bucket *rate.Limiter
	day    time.Time
}

var (
	sqlPut     = queries.SQL("LimitsPut")
	sqlRead    = queries.SQL("LimitsRead")
	sqlUsed    = queries.SQL("LimitsUsed")
	sqlInForce = queries.SQL("LimitsInForce")
	sqlPrune   = queries.SQL("TenantDayPrune")
	sqlLock    = queries.SQL("TenantLock")
)

// Check says what is wrong with a change.
func (s *Service) Check(c Change) error {
	wrong := fault.New(fault.Invalid, "These limits cannot be saved.")
	within := func(name string, given *int64, least, most int64) {
		if given != nil && *given != 0 && (*given < least || *given > most) {
			wrong.Field("limits."+name, fmt.Sprintf("must be %d to %d, or 0 for none", least, most))
		}
	}
	within("events_per_second", wide(c.EventsPerSecond), 1, MaxPerSecond)
	within("events_per_day_soft", c.EventsPerDaySoft, 1, MaxPerDay)
	within("events_per_day", c.EventsPerDay, 1, MaxPerDay)
	within("endpoints", wide(c.Endpoints), 1, MaxEndpoints)
	within("payload_bytes", wide(c.PayloadBytes), 1, MaxPayload)
	within("retention_days", wide(c.RetentionDays), int64(s.MinDays), int64(s.MaxDays))
	return wrong.OrNil()
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}

// Put changes the limits of a tenant and returns them. It needs tenants:write and is recorded in the tenant's log.
func (s *Service) Put(ctx context.Context, caller account.Caller, tenant account.Tenant, c Change) (Limits, error) {
	if err := caller.Can(account.TenantsWrite); err != nil {
		return Limits{}, err
	}
	if err := s.Check(c); err != nil {
		return Limits{}, err
	}
	ctx = db.BeyondTenants(ctx)
	var after Limits
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlLock, []string{tenant.ID}); err != nil {
			return fmt.Errorf("lock tenant: %w", err)
		}
		before, err := read(ctx, tx, tenant.ID)
		if err != nil || c == (Change{}) {
			after = before[tenant.ID]
			return err
		}
		if _, err := tx.Exec(ctx, sqlPut, tenant.ID, c.EventsPerSecond, c.EventsPerDaySoft, c.EventsPerDay, c.Endpoints, c.PayloadBytes, c.RetentionDays); err != nil {
			return fmt.Errorf("put limits: %w", err)
		}
		now, err := read(ctx, tx, tenant.ID)
		if err != nil {
			return err
		}
		after = now[tenant.ID]
		detail := differences(before[tenant.ID], after)
		if len(detail) == 0 {
			return nil
		}
		return s.Audit.Record(ctx, tx, caller.In(tenant), "tenant.limits_changed", tenant.ID, detail)
	})
	if err != nil {
		return Limits{}, err
	}
	s.forget()
	return after, nil
}

func differences(before, after Limits) map[string]any {
	changes := map[string]any{}
	note := func(name string, from, to int64) {
		if from != to {
			changes[name] = [2]any{from, to}
		}
	}
	note("events_per_second", int64(before.EventsPerSecond), int64(after.EventsPerSecond))
	note("events_per_day_soft", before.EventsPerDaySoft, after.EventsPerDaySoft)
	note("events_per_day", before.EventsPerDay, after.EventsPerDay)
	note("endpoints", int64(before.Endpoints), int64(after.Endpoints))
	note("payload_bytes", int64(before.PayloadBytes), int64(after.PayloadBytes))
	note("retention_days", int64(before.RetentionDays), int64(after.RetentionDays))
	return changes
}

// Of is the limits of some tenants by their ids; those without any are missing. It needs tenants:read.
func (s *Service) Of(ctx context.Context, caller account.Caller, tenantIDs ...string) (map[string]Limits, error) {
	if err := caller.Can(account.TenantsRead); err != nil {
		return nil, err
	}
	return read(db.BeyondTenants(ctx), s.DB, tenantIDs...)
}

func read(ctx context.Context, on db.Conn, tenantIDs ...string) (map[string]Limits, error) {
	rows, err := on.Query(ctx, sqlRead, tenantIDs)
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	all := map[string]Limits{}
	var id string
	var l Limits
	if _, err := pgx.ForEachRow(rows, append([]any{&id}, l.into()...), func() error { all[id] = l; return nil }); err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	return all, nil
}

func (l *Limits) into() []any {
	return []any{&l.EventsPerSecond, &l.EventsPerDaySoft, &l.EventsPerDay, &l.Endpoints, &l.PayloadBytes, &l.RetentionDays}
}

// Usage is what the caller's tenant may, and what it uses. Whoever may look at the tenant at all is told.
func (s *Service) Usage(ctx context.Context, caller account.Caller) (Usage, error) {
	if caller.Tenant() == "" {
		return Usage{}, fault.New(fault.Forbidden, "This is about one tenant.")
	}
	limits, err := read(ctx, s.DB, caller.Tenant())
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Limits: limits[caller.Tenant()]}
	if err := s.DB.QueryRow(ctx, sqlUsed, caller.Tenant()).Scan(&u.EventsToday, &u.EndpointsUsed); err != nil {
		return Usage{}, fmt.Errorf("read what is used: %w", err)
	}
	return u, nil
}

// Prune forgets the counts of days long over.
func (s *Service) Prune(ctx context.Context) (int, error) {
	tag, err := s.DB.Exec(ctx, sqlPrune)
	if err != nil {
		return 0, fmt.Errorf("forget counts of days: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
