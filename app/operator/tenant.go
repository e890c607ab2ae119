package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/db"
	"waybill/db/queries"
)

// MaxCount is how far what stands beside a tenant or an endpoint is counted.
const MaxCount = 100

// TenantRow is a tenant in the operators' list.
type TenantRow struct {
	account.Tenant
	Endpoints, Undelivered, Held int // up to MaxCount
}

var (
	consoleTenants         = queries.SQL("ConsoleTenants")
	consoleTenantEndpoints = queries.SQL("ConsoleTenantEndpoints")
	consoleTenantSuspend   = queries.SQL("ConsoleTenantSuspend")
	consoleTenantTouch     = queries.SQL("ConsoleTenantTouch")
	consoleTenantSettled   = queries.SQL("ConsoleTenantSettled")
	consoleUsage           = queries.SQL("ConsoleUsage")
	consoleEventsOfDay     = queries.SQL("ConsoleEventsOfDay")
	consolePresets         = queries.SQL("ConsolePresets")
	tenantLock             = queries.SQL("TenantLock")
)

const tenantsCursor = "console-tenants"

// Tenants is a page of at most limit tenants by uid: all, or those whose uid or name holds the words, or whose id they are; and the cursor of the next page or "".
func (s *Service) Tenants(ctx context.Context, caller account.Caller, words, after string, limit int) ([]TenantRow, string, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return nil, "", err
	}
	from := ""
	if after != "" {
		keys, err := cursor.Decode(tenantsCursor, after, 1)
		if err != nil {
			return nil, "", err
		}
		from = keys[0]
	}
	like := ""
	if words = strings.TrimSpace(words); words != "" {
		like = "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(words) + "%"
	}
	rows, err := s.DB.Query(ctx, consoleTenants, pgx.NamedArgs{"after": from, "words": like, "id": words, "limit": limit + 1, "most": MaxCount})
	if err != nil {
		return nil, "", fmt.Errorf("list tenants: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (TenantRow, error) {
		var t TenantRow
		err := row.Scan(&t.ID, &t.UID, &t.Name, &t.Concurrency, &t.Preset, &t.TimeZone, &t.SuspendedAt, &t.CreatedAt, &t.UpdatedAt,
			&t.Endpoints, &t.Undelivered, &t.Held)
		return t, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list tenants: %w", err)
	}
	if len(found) <= limit {
		return found, "", nil
	}
	return found[:limit], cursor.Encode(tenantsCursor, found[limit-1].UID), nil
}

// Enter is the operator's caller at work in one tenant, and that tenant.
func (s *Service) Enter(ctx context.Context, caller account.Caller, uid string) (account.Caller, account.Tenant, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return account.Caller{}, account.Tenant{}, err
	}
	tenant, err := s.Accounts.TenantOf(ctx, caller, uid)
	if err != nil {
		return account.Caller{}, account.Tenant{}, err
	}
	return caller.In(tenant), tenant, nil
}

// settleTries and settlePoll bound the wait for running lanes: 2 s in all, twice the time within which each reads its endpoint again.
const (
	settleTries = 100
	settlePoll  = 20 * time.Millisecond
)

// Suspend stops a tenant or, with off, lets it go on. Nothing is lost either way. While a tenant is suspended its events are published as before and stand in
// its catalog, their deliveries are held with that reason, as is what was due; its people and keys read and change nothing. When it goes on, what comes from
// then on is sent; what was held waits in each endpoint's catch-up. When it returns, no new request of the tenant starts. It is a Conflict if that is how
// the tenant is already, and needs tenants:write.
func (s *Service) Suspend(ctx context.Context, caller account.Caller, uid string, off bool) error {
	if err := may(caller, account.TenantsWrite); err != nil {
		return err
	}
	in, tenant, err := s.Enter(ctx, caller, uid)
	if err != nil {
		return err
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, tenantLock, []string{tenant.ID}); err != nil {
			return fmt.Errorf("lock tenant: %w", err)
		}
		rows, err := tx.Query(ctx, consoleTenantEndpoints, tenant.ID)
		if err != nil {
			return fmt.Errorf("list a tenant's endpoints: %w", err)
		}
		endpoints, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("list a tenant's endpoints: %w", err)
		}
		if err := s.Lanes.Lock(ctx, tx, endpoints...); err != nil {
			return err
		}
		var since *time.Time
		if err := tx.QueryRow(ctx, consoleTenantSuspend, tenant.ID, !off).Scan(&since); errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Conflict, map[bool]string{true: "This tenant is not suspended.", false: "This tenant is suspended already."}[off])
		} else if err != nil {
			return fmt.Errorf("suspend tenant: %w", err)
		}
		if _, err := tx.Exec(ctx, consoleTenantTouch, tenant.ID); err != nil {
			return fmt.Errorf("touch a tenant's endpoints: %w", err)
		}
		if err := s.Lanes.Wake(ctx, tx, endpoints, nil); err != nil {
			return err
		}
		return s.Accounts.Record(ctx, tx, in, map[bool]string{true: "tenant.resumed", false: "tenant.suspended"}[off], tenant.ID, nil)
	})
	if err != nil {
		return err
	}
	return s.settle(ctx, tenant.ID)
}

// settle waits until no running lane of the tenant works under the old state. A lane that does not answer in time is stalled, and its lease will end: the
// change is made, whatever comes of waiting.
func (s *Service) settle(ctx context.Context, tenantID string) error {
	for range settleTries {
		var settled bool
		if err := s.DB.QueryRow(ctx, consoleTenantSettled, tenantID).Scan(&settled); err != nil {
			return fmt.Errorf("look whether a tenant's lanes have settled: %w", err)
		}
		if settled {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePoll):
		}
	}
	return nil
}

// UsageDay is what was done for a tenant on one UTC day.
type UsageDay struct {
	Day                  time.Time
	Delivered, Attempted int64
}

// Usage is what a tenant uses.
type Usage struct {
	EventsToday int        // up to MaxEvents
	EventsMore  bool       // there are more
	Days        []UsageDay // the oldest first, today at the end
	Since       time.Time
}

// MaxEvents is how far a tenant's events of a day are counted.
const MaxEvents = 10_000

// UsageDays is how many whole days the rollups are kept for, with today.
const UsageDays = 8

// Usage is what the tenant that the caller works in uses, today and on the days before, by UTC.
func (s *Service) Usage(ctx context.Context, caller account.Caller) (Usage, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return Usage{}, err
	}
	today := s.Now().UTC().Truncate(24 * time.Hour)
	usage := Usage{Since: today.AddDate(0, 0, 1-UsageDays)}
	err := s.DB.QueryRow(ctx, consoleEventsOfDay, pgx.NamedArgs{"tenant": caller.Tenant(), "day": today, "most": MaxEvents + 1}).Scan(&usage.EventsToday)
	if err != nil {
		return Usage{}, fmt.Errorf("count a tenant's events: %w", err)
	}
	if usage.EventsToday > MaxEvents {
		usage.EventsToday, usage.EventsMore = MaxEvents, true
	}
	rows, err := s.DB.Query(ctx, consoleUsage, pgx.NamedArgs{"tenant": caller.Tenant(), "from": usage.Since})
	if err != nil {
		return Usage{}, fmt.Errorf("read a tenant's usage: %w", err)
	}
	known := map[time.Time]UsageDay{}
	var d UsageDay
	if _, err := pgx.ForEachRow(rows, []any{&d.Day, &d.Delivered, &d.Attempted}, func() error {
		known[d.Day.UTC()] = d
		return nil
	}); err != nil {
		return Usage{}, fmt.Errorf("read a tenant's usage: %w", err)
	}
	for day := usage.Since; !day.After(today); day = day.AddDate(0, 0, 1) {
		found := known[day]
		found.Day = day
		usage.Days = append(usage.Days, found)
	}
	return usage, nil
}

// Presets is how many tenants have each preset; the empty name is the standard policy.
func (s *Service) Presets(ctx context.Context, caller account.Caller) (map[string]int, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, consolePresets)
	if err != nil {
		return nil, fmt.Errorf("count presets: %w", err)
	}
	counts := map[string]int{}
	var name string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { counts[name] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count presets: %w", err)
	}
	return counts, nil
}
