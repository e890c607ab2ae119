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
	consoleUsageDays       = queries.SQL("ConsoleUsageDays")
	usageDue               = queries.SQL("UsageDue")
	usageClaim             = queries.SQL("UsageClaim")
	usageWrite             = queries.SQL("UsageWrite")
	usagePrune             = queries.SQL("UsagePrune")
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
	Day                          time.Time
	Events, Delivered, Attempted int64
}

// Usage is what a tenant uses.
type Usage struct {
	EventsMore bool       // there were more events today than MaxEvents
	Days       []UsageDay // the newest first; today is the first
}

// MaxEvents is how far a tenant's events of today are counted.
const MaxEvents = 10_000

// UsageDays is how many days Usage has, with today.
const UsageDays = 30

// Usage is what the tenant that the caller works in uses, today and on the days before, by UTC. A day that is over is written half an hour later.
func (s *Service) Usage(ctx context.Context, caller account.Caller) (Usage, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return Usage{}, err
	}
	today := s.Now().UTC().Truncate(24 * time.Hour)
	var usage Usage
	known := map[time.Time]UsageDay{}
	read := func(sql string, from time.Time, into ...any) error {
		rows, err := s.DB.Query(ctx, sql, pgx.NamedArgs{"tenant": caller.Tenant(), "from": from})
		if err != nil {
			return fmt.Errorf("read a tenant's usage: %w", err)
		}
		if _, err := pgx.ForEachRow(rows, into, func() error {
			d := UsageDay{Day: into[0].(*time.Time).UTC(), Delivered: *into[len(into)-2].(*int64), Attempted: *into[len(into)-1].(*int64)}
			if len(into) == 4 {
				d.Events = *into[1].(*int64)
			}
			known[d.Day] = d
			return nil
		}); err != nil {
			return fmt.Errorf("read a tenant's usage: %w", err)
		}
		return nil
	}
	if err := read(consoleUsageDays, today.AddDate(0, 0, 1-UsageDays), new(time.Time), new(int64), new(int64), new(int64)); err != nil {
		return Usage{}, err
	}
	if err := read(consoleUsage, today, new(time.Time), new(int64), new(int64)); err != nil {
		return Usage{}, err
	}
	now := known[today]
	err := s.DB.QueryRow(ctx, consoleEventsOfDay, pgx.NamedArgs{"tenant": caller.Tenant(), "day": today, "most": MaxEvents + 1}).Scan(&now.Events)
	if err != nil {
		return Usage{}, fmt.Errorf("count a tenant's events: %w", err)
	}
	if now.Events > MaxEvents {
		now.Events, usage.EventsMore = MaxEvents, true
	}
	known[today] = now
	for i := range UsageDays {
		day := today.AddDate(0, 0, -i)
		found := known[day]
		found.Day = day
		usage.Days = append(usage.Days, found)
	}
	return usage, nil
}

// Roll writes what every tenant used on the days that are over, each day once, and says how many days it wrote. A job calls it now and then.
func (s *Service) Roll(ctx context.Context) (int, error) {
	for written := 0; ; written++ {
		var day time.Time
		err := s.DB.QueryRow(ctx, usageDue).Scan(&day)
		if isNone(err) {
			_, err := s.DB.Exec(ctx, usagePrune)
			return written, err
		}
		if err != nil {
			return written, fmt.Errorf("look for a day whose usage is to be written: %w", err)
		}
		if err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
			claimed, err := tx.Exec(ctx, usageClaim, day)
			if err != nil || claimed.RowsAffected() == 0 {
				return err
			}
			_, err = tx.Exec(ctx, usageWrite, day)
			return err
		}); err != nil {
			return written, fmt.Errorf("write the usage of a day: %w", err)
		}
	}
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
