// Package operator is what the people of the platform do in the console: how they sign in, and what they see and do across tenants.
//
// It promises that an operator's session opens nothing of a tenant's pages and API, and a tenant's session or key nothing of the console; that a role is
// read with each request and a session that was ended is over everywhere; that a one-time link works once; that guessing a password is slowed down as
// it is for members; that the last admin stays; that everything an operator changes, or looks at as a tenant, stands in the operators' own log and, where
// it concerns a tenant, in that tenant's, in the transaction that does it; that a suspended tenant loses nothing; and that every read across
// tenants is bounded: by an index and a limit, or by a table that has a row for each tenant or endpoint and no more.
package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// Service performs the operators' operations. All fields are required but Lanes, which only suspending a tenant needs.
type Service struct {
	DB       *pgxpool.Pool // sees all tenants
	Now      func() time.Time
	Accounts *account.Service // on the same pool
	Lanes    Lanes
	Watch    *Watch // what the page on lag draws; nil: it has no past
}

// Lanes are the rights to send, as package lane has them.
type Lanes interface {
	Lock(ctx context.Context, tx pgx.Tx, endpointIDs ...string) error
	Wake(ctx context.Context, tx pgx.Tx, endpointIDs, testIDs []string) error
}

// Role is what an operator may do.
type Role string

// The roles.
const (
	Admin   Role = "admin"   // everything, and who else may
	Support Role = "support" // looks at everything, resends, and looks at tenants' pages
)

// Roles lists the roles, the strongest first.
func Roles() []Role { return []Role{Admin, Support} }

// Scopes are the rights of a role; an unknown role has none. No operator reads a tenant's secrets.
func (r Role) Scopes() []account.Scope {
	support := []account.Scope{account.CatalogRead, account.EndpointsRead, account.DeliveriesRead, account.DeliveriesResend, account.AuditRead, account.TenantsRead}
	switch r {
	case Admin:
		return append(support, account.TenantsWrite, account.TypesWrite, account.KeysWrite, account.OperatorsWrite)
	case Support:
		return support
	}
	return nil
}

// Operator is a person of the platform.
type Operator struct {
	ID          string // opr_…
	Email       string
	Role        Role
	HasPassword bool // or has yet to follow a link
	CreatedBy   string
	CreatedAt   time.Time
	LastSeenAt  *time.Time
}

// caller is the operator as operations know them.
func (o Operator) caller() account.Caller {
	return account.Caller{Kind: account.Operator, ID: o.ID, Name: o.Email, Scopes: o.Role.Scopes()}
}

// The prefixes of ids of ours.
const (
	prefixOperator id.Prefix = "opr"
	prefixSession  id.Prefix = "ops"
)

var (
	operatorPut    = queries.SQL("OperatorPut")
	operatorList   = queries.SQL("OperatorList")
	operatorLock   = queries.SQL("OperatorLock")
	operatorDelete = queries.SQL("OperatorDelete")
)

// may is nil for an operator with the right: no key and no member of a tenant comes in here.
func may(caller account.Caller, scope account.Scope) error {
	if caller.Kind != account.Operator && caller.Kind != account.System {
		return fault.New(fault.Forbidden, "This is for the platform's operators.")
	}
	return caller.Can(scope)
}

func errNoOperator() error { return fault.New(fault.NotFound, "There is no such operator.") }

// Command is the caller of `waybill operator`: whoever may run it on the server may do this.
func Command() account.Caller { return account.Caller{Kind: account.System, Name: "waybill operator"} }

// Add makes an operator, or gives the one that has the address another role, and returns a one-time link's token with which they set a password.
// A link that was made for them before works no more. It needs operators:write.
func (s *Service) Add(ctx context.Context, caller account.Caller, email string, role Role) (Operator, seal.Secret, error) {
	if err := may(caller, account.OperatorsWrite); err != nil {
		return Operator{}, "", err
	}
	email, why := account.Address(email)
	wrong := fault.New(fault.Invalid, "This operator cannot be added.")
	if why != "" {
		wrong.Field("email", why)
	}
	if role.Scopes() == nil {
		wrong.Field("role", "must be admin or support")
	}
	if err := wrong.OrNil(); err != nil {
		return Operator{}, "", err
	}
	var made Operator
	var token seal.Secret
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.keepAdmin(ctx, tx, email, role); err != nil {
			return err
		}
		var created bool
		err := tx.QueryRow(ctx, operatorPut, id.New(prefixOperator, s.Now()), email, role, caller.Name).
			Scan(&made.ID, &made.Email, &made.Role, &made.HasPassword, &made.CreatedBy, &made.CreatedAt, &created)
		if err != nil {
			return fmt.Errorf("put operator: %w", err)
		}
		if token, err = s.link(ctx, tx, made.ID, linkPassword, PasswordLinkLife); err != nil {
			return err
		}
		action := "operator.link_created"
		if created {
			action = "operator.added"
		}
		return s.note(ctx, tx, caller, action, made.ID, map[string]any{"email": email, "role": role})
	})
	if err != nil {
		return Operator{}, "", err
	}
	return made, token, nil
}

// keepAdmin refuses to make the last admin something else.
func (s *Service) keepAdmin(ctx context.Context, tx pgx.Tx, email string, role Role) error {
	if role == Admin {
		return nil
	}
	others, is, err := s.admins(ctx, tx, "", email)
	if err == nil && is && others == 0 {
		err = errLastAdmin()
	}
	return err
}

func errLastAdmin() error {
	return fault.New(fault.Conflict, "This is the last admin: somebody has to be left who can add others.")
}

// admins counts the admins other than the one with the id or address, and says whether that one is an admin. They are locked.
func (s *Service) admins(ctx context.Context, tx pgx.Tx, operatorID, email string) (others int, is bool, err error) {
	rows, err := tx.Query(ctx, operatorLock, operatorID)
	if err != nil {
		return 0, false, fmt.Errorf("lock operators: %w", err)
	}
	var foundID, foundEmail string
	var role Role
	_, err = pgx.ForEachRow(rows, []any{&foundID, &foundEmail, &role}, func() error {
		switch own := foundID == operatorID || foundEmail == email; {
		case role == Admin && own:
			is = true
		case role == Admin:
			others++
		}
		return nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("lock operators: %w", err)
	}
	return others, is, nil
}

// List is all operators by address. It needs operators:write.
func (s *Service) List(ctx context.Context, caller account.Caller) ([]Operator, error) {
	if err := may(caller, account.OperatorsWrite); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, operatorList)
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Operator, error) {
		var o Operator
		err := row.Scan(&o.ID, &o.Email, &o.Role, &o.HasPassword, &o.CreatedBy, &o.CreatedAt, &o.LastSeenAt)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", err)
	}
	return found, nil
}

// Remove ends an operator with all their sessions, links and looks into tenants, at once. The last admin is a Conflict. It needs operators:write.
func (s *Service) Remove(ctx context.Context, caller account.Caller, operatorID string) error {
	if err := may(caller, account.OperatorsWrite); err != nil {
		return err
	}
	if !id.Valid(prefixOperator, operatorID) {
		return errNoOperator()
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, operatorLock, operatorID)
		if err != nil {
			return fmt.Errorf("lock operators: %w", err)
		}
		var gone, email string
		others := 0
		var foundID, foundEmail string
		var role, was Role
		if _, err := pgx.ForEachRow(rows, []any{&foundID, &foundEmail, &role}, func() error {
			switch {
			case foundID == operatorID:
				gone, email, was = foundID, foundEmail, role
			case role == Admin:
				others++
			}
			return nil
		}); err != nil {
			return fmt.Errorf("lock operators: %w", err)
		}
		switch {
		case gone == "":
			return errNoOperator()
		case was == Admin && others == 0:
			return errLastAdmin()
		}
		if _, err := tx.Exec(ctx, operatorDelete, operatorID); err != nil {
			return fmt.Errorf("delete operator: %w", err)
		}
		return s.note(ctx, tx, caller, "operator.removed", operatorID, map[string]any{"email": email, "role": was})
	})
}

// Prune removes sessions and links whose time is over, and says how many rows that were.
func (s *Service) Prune(ctx context.Context) (int, error) {
	removed := 0
	for _, sql := range []string{sessionExpire, linkExpire} {
		tag, err := s.DB.Exec(ctx, sql)
		if err != nil {
			return removed, fmt.Errorf("prune operators: %w", err)
		}
		removed += int(tag.RowsAffected())
	}
	return removed, nil
}

// isNone says that a statement has found no row.
func isNone(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
