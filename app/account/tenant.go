package account

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/plain"
	"waybill/db"
	"waybill/db/queries"
)

// Tenant is a seller's account.
type Tenant struct {
	ID          string // tnt_…
	UID         string // the platform's own id for it
	Name        string
	Concurrency int        // requests on the wire at once, over all its endpoints
	Preset      string     // delivery policy; empty: the standard one
	TimeZone    string     // IANA name
	SuspendedAt *time.Time // null: it is not
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// TenantInput is what the platform says about a tenant. What is nil stays as it is, or takes its default in a new tenant.
type TenantInput struct {
	Name        string
	Concurrency *int    // 1 to 1000
	Preset      *string // a delivery policy's name; empty: the standard one
	TimeZone    *string // IANA name
}

// MaxConcurrency is the most requests of a tenant that may be on the wire at once.
const MaxConcurrency = 1000

var (
	tenantPut  = queries.SQL("TenantPut")
	tenantRead = queries.SQL("TenantRead")
	tenantList = queries.SQL("TenantList")
)

// uidForm is the constraint tenants_uid_is_plain.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

func scanTenant(row pgx.CollectableRow) (Tenant, error) {
	var t Tenant
	err := row.Scan(&t.ID, &t.UID, &t.Name, &t.Concurrency, &t.Preset, &t.TimeZone, &t.SuspendedAt, &t.CreatedAt, &t.UpdatedAt)
	return t, err
}

func errNoTenant() error { return fault.New(fault.NotFound, "There is no such tenant.") }

// TenantPut creates the tenant uid or changes it. It needs tenants:write.
func (s *Service) TenantPut(ctx context.Context, caller Caller, uid string, in TenantInput) (Tenant, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TenantsWrite); err != nil {
		return Tenant{}, err
	}
	if err := s.checkTenant(uid, in); err != nil {
		return Tenant{}, err
	}
	var tenant Tenant
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		before, err := readTenant(ctx, tx, uid)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		var created bool
		t := &tenant
		err = tx.QueryRow(ctx, tenantPut, id.New(id.Tenant, s.Now()), uid, in.Name, in.Concurrency, in.Preset, in.TimeZone).
			Scan(&t.ID, &t.UID, &t.Name, &t.Concurrency, &t.Preset, &t.TimeZone, &t.SuspendedAt, &t.CreatedAt, &t.UpdatedAt, &created)
		if err != nil {
			return fmt.Errorf("put tenant: %w", err)
		}
		action, detail := "tenant.changed", tenantChanges(before, tenant)
		if created {
			action, detail = "tenant.created", map[string]any{"name": tenant.Name}
		}
		if len(detail) == 0 {
			return nil // a platform that repeats its settings every night fills no log
		}
		return s.Record(ctx, tx, caller.In(tenant), action, tenant.ID, detail)
	})
	if err != nil {
		return Tenant{}, err
	}
	return tenant, nil
}

func (s *Service) checkTenant(uid string, in TenantInput) error {
	wrong := fault.New(fault.Invalid, "This tenant cannot be saved.")
	if !uidForm.MatchString(uid) {
		wrong.Field("uid", "must be 1 to 128 characters of A-Z a-z 0-9 _ . : -")
	}
	if why := plain.Line(in.Name, 1, 200); why != "" {
		wrong.Field("name", why)
	}
	if in.Concurrency != nil && (*in.Concurrency < 1 || *in.Concurrency > MaxConcurrency) {
		wrong.Field("limits.concurrency", fmt.Sprintf("must be 1 to %d", MaxConcurrency))
	}
	if in.Preset != nil && *in.Preset != "" && !s.KnowsPreset(*in.Preset) {
		wrong.Field("preset", "is not the name of a delivery policy")
	}
	if in.TimeZone != nil && !ValidTimeZone(*in.TimeZone) {
		wrong.Field("time_zone", `must be an IANA time zone such as "Asia/Kolkata"`)
	}
	return wrong.OrNil()
}

// ValidUID reports whether a tenant may have this uid.
func ValidUID(uid string) bool { return uidForm.MatchString(uid) }

// ValidTimeZone reports whether name is an IANA time zone. "Local" is not: it is the server's, and nobody's.
func ValidTimeZone(name string) bool {
	if name == "" || name == "Local" || len(name) > 64 {
		return false
	}
	_, err := time.LoadLocation(name)
	return err == nil
}

// tenantChanges maps what differs to [before, after].
func tenantChanges(before, after Tenant) map[string]any {
	changes := map[string]any{}
	note := func(name string, from, to any) {
		if from != to {
			changes[name] = []any{from, to}
		}
	}
	note("name", before.Name, after.Name)
	note("concurrency", before.Concurrency, after.Concurrency)
	note("preset", before.Preset, after.Preset)
	note("time_zone", before.TimeZone, after.TimeZone)
	return changes
}

// TenantRead is the tenant uid. It needs tenants:read.
func (s *Service) TenantRead(ctx context.Context, caller Caller, uid string) (Tenant, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TenantsRead); err != nil {
		return Tenant{}, err
	}
	return readTenant(ctx, s.DB, uid)
}

// TenantOf finds the tenant that a platform's caller wants to work in; what it may do there is for the operations to check. To a
// caller that belongs to a tenant no other exists.
func (s *Service) TenantOf(ctx context.Context, caller Caller, uid string) (Tenant, error) {
	if caller.Kind != PlatformKey && caller.Kind != Operator && caller.TenantUID != uid {
		return Tenant{}, errNoTenant()
	}
	if caller.Kind == PlatformKey || caller.Kind == Operator {
		ctx = db.BeyondTenants(ctx)
	}
	return readTenant(ctx, s.DB, uid)
}

func readTenant(ctx context.Context, conn db.Conn, uid string) (Tenant, error) {
	if !uidForm.MatchString(uid) {
		return Tenant{}, errNoTenant()
	}
	rows, err := conn.Query(ctx, tenantRead, uid)
	if err != nil {
		return Tenant{}, fmt.Errorf("read tenant: %w", err)
	}
	tenant, err := pgx.CollectExactlyOneRow(rows, scanTenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, errNoTenant()
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("read tenant: %w", err)
	}
	return tenant, nil
}

const tenantCursor = "tenants"

// TenantList is a page of at most limit tenants by uid, and the cursor of the next page or "". It needs tenants:read.
func (s *Service) TenantList(ctx context.Context, caller Caller, after string, limit int) ([]Tenant, string, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TenantsRead); err != nil {
		return nil, "", err
	}
	from := ""
	if after != "" {
		keys, err := cursor.Decode(tenantCursor, after, 1)
		if err != nil {
			return nil, "", err
		}
		from = keys[0]
	}
	rows, err := s.DB.Query(ctx, tenantList, from, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list tenants: %w", err)
	}
	tenants, err := pgx.CollectRows(rows, scanTenant)
	if err != nil {
		return nil, "", fmt.Errorf("list tenants: %w", err)
	}
	tenants, next := page(tenants, limit, func(t Tenant) string { return cursor.Encode(tenantCursor, t.UID) })
	return tenants, next, nil
}

// page cuts a list that was read with one row more than asked, and makes the cursor of what it cut off.
func page[T any](rows []T, limit int, cursorOf func(T) string) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], cursorOf(rows[limit-1])
}
