package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/plain"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlSavedList   = queries.SQL("SavedFilterList")
	sqlSavedInsert = queries.SQL("SavedFilterInsert")
	sqlSavedDelete = queries.SQL("SavedFilterDelete")
)

// The limits of saved filters.
const (
	MaxSaved      = 20 // of a member in a tenant
	maxSavedName  = 60
	maxSavedQuery = 2000
)

// Saved is a filter of the history that a member has given a name. It is the member's own, in one tenant.
type Saved struct {
	ID    string // flt_…
	Name  string
	Query string // of the list's address; a filter is read from it as from any address, and checked then
}

// ownFilters says why a caller can have no filters of their own.
func ownFilters(caller account.Caller) error {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return err
	}
	if caller.MemberID == "" {
		return fault.New(fault.Forbidden, "Filters are saved for members who sign in with a password.")
	}
	return nil
}

// SavedList is the caller's own filters, by name; none for who is no member. It needs deliveries:read.
func (s *Service) SavedList(ctx context.Context, caller account.Caller) ([]Saved, error) {
	if caller.MemberID == "" {
		return nil, caller.Can(account.DeliveriesRead)
	}
	if err := ownFilters(caller); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, sqlSavedList, pgx.NamedArgs{"tenant": caller.Tenant(), "member": caller.MemberID})
	if err != nil {
		return nil, fmt.Errorf("list saved filters: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Saved])
	if err != nil {
		return nil, fmt.Errorf("list saved filters: %w", err)
	}
	return found, nil
}

// Save keeps a filter for the caller under a name. It needs deliveries:read, and a member.
func (s *Service) Save(ctx context.Context, caller account.Caller, name, query string) (Saved, error) {
	if err := ownFilters(caller); err != nil {
		return Saved{}, err
	}
	wrong := fault.New(fault.Invalid, "This filter cannot be saved.")
	if why := plain.Line(name, 1, maxSavedName); why != "" {
		wrong.Field("name", why)
	}
	if query == "" || len(query) > maxSavedQuery {
		wrong.Field("query", "must be a filter that leaves something out")
	}
	if err := wrong.OrNil(); err != nil {
		return Saved{}, err
	}
	saved := Saved{ID: id.New(id.Filter, time.Now()), Name: name, Query: query}
	var err error
	for range MaxSaved { // two that take the same slot at once: the second finds the next
		err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sqlSavedInsert, pgx.NamedArgs{"id": saved.ID, "tenant": caller.Tenant(), "member": caller.MemberID, "name": name, "query": query})
			return err
		})
		if db.Constraint(err) != "saved_filters_few" {
			break
		}
	}
	switch {
	case db.Constraint(err) == "saved_filters_name_unique":
		return Saved{}, fault.New(fault.Invalid, "This filter cannot be saved.").Field("name", "is that of another filter of yours")
	case db.Code(err) == "23502":
		return Saved{}, fault.Newf(fault.Conflict, "You have %d saved filters, which is the most. Delete one first.", MaxSaved)
	case err != nil:
		return Saved{}, fmt.Errorf("save filter: %w", err)
	}
	return saved, nil
}

// Unsave forgets one of the caller's own filters. It needs deliveries:read.
func (s *Service) Unsave(ctx context.Context, caller account.Caller, filterID string) error {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return err
	}
	missing := fault.New(fault.NotFound, "There is no such filter.")
	if !id.Valid(id.Filter, filterID) || caller.MemberID == "" {
		return missing
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var gone string
		err := tx.QueryRow(ctx, sqlSavedDelete, pgx.NamedArgs{"tenant": caller.Tenant(), "member": caller.MemberID, "id": filterID}).Scan(&gone)
		if errors.Is(err, pgx.ErrNoRows) {
			return missing
		}
		if err != nil {
			return fmt.Errorf("forget filter: %w", err)
		}
		return nil
	})
}
