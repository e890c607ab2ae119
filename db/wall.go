package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/db/queries"
)

// TenantRole is the role as which is done what is done for a tenant (migration 0012). It sees the rows of the tenant that its connection was told of.
const TenantRole = "waybill_tenant"

var (
	wallState  = queries.SQL("WallState")
	wallTenant = queries.SQL("WallTenant")
	wallRaise  = queries.SQL("WallRaise")
)

// Pool is what operations run on: a *pgxpool.Pool, which sees everything, or a *Wall.
type Pool interface {
	Conn
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

// Wall is the database as what serves tenants sees it: each statement runs as TenantRole and finds the rows of the tenant that its context was made
// for with AsTenant, even if it forgets to ask for them. Under a context that was made for nobody it finds no rows of tenants at all; under one of
// BeyondTenants it sees everything.
type Wall struct {
	All     *pgxpool.Pool // with the program's own rights
	Tenants *pgxpool.Pool // of OpenTenants; nil while the schema is older than the wall: then All serves
}

type whoseKey struct{}

type whose struct {
	tenantID string
	beyond   bool
}

// AsTenant is a context under which a Wall shows the rows of one tenant.
func AsTenant(ctx context.Context, tenantID string) context.Context {
	return context.WithValue(ctx, whoseKey{}, whose{tenantID: tenantID})
}

// BeyondTenants is a context under which a Wall shows everything. It is for what cannot be one tenant's: who asks, which is found out before a tenant is
// known; a person's own sign-in, which is one for all of their tenants; the platform.
func BeyondTenants(ctx context.Context) context.Context {
	return context.WithValue(ctx, whoseKey{}, whose{beyond: true})
}

func whoseOf(ctx context.Context) whose {
	who, _ := ctx.Value(whoseKey{}).(whose)
	return who
}

func (w *Wall) pool(ctx context.Context) *pgxpool.Pool {
	if w.Tenants == nil || whoseOf(ctx).beyond {
		return w.All
	}
	return w.Tenants
}

// Query is pgxpool.Pool's.
func (w *Wall) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return w.pool(ctx).Query(ctx, sql, args...)
}

// QueryRow is pgxpool.Pool's.
func (w *Wall) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return w.pool(ctx).QueryRow(ctx, sql, args...)
}

// Exec is pgxpool.Pool's.
func (w *Wall) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return w.pool(ctx).Exec(ctx, sql, args...)
}

// BeginTx is pgxpool.Pool's.
func (w *Wall) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	return w.pool(ctx).BeginTx(ctx, opts)
}

// Acquire is pgxpool.Pool's.
func (w *Wall) Acquire(ctx context.Context) (*pgxpool.Conn, error) { return w.pool(ctx).Acquire(ctx) }

// Why the wall cannot stand.
var (
	ErrNoWall   = errors.New("the schema is older than the second wall between tenants")
	ErrNoRole   = errors.New("the role " + TenantRole + " is missing. As an administrator of the database server run: create role " + TenantRole + " nologin; then `waybill migrate`")
	errBound    = errors.New("our own role has the rights of " + TenantRole + " and not those of the tables' owner: it would see no tenant. Connect as the owner, or have an administrator make it noinherit (from PostgreSQL 16 on: grant the role to it with inherit false)")
	errNoMember = errors.New("may not become the role " + TenantRole)
)

// WallReady is nil when OpenTenants can succeed for the role that conn is signed in as. ErrNoWall means that the schema has yet to be migrated; any other
// error says what an administrator has to run.
func WallReady(ctx context.Context, conn Conn) error {
	var policies, role, member, bound bool
	var user string
	if err := conn.QueryRow(ctx, wallState, Schema, TenantRole).Scan(&policies, &role, &member, &bound); err != nil {
		return fmt.Errorf("look at the wall between tenants: %w", err)
	}
	switch {
	case !policies:
		return ErrNoWall
	case !role:
		return ErrNoRole
	case !member:
		if err := conn.QueryRow(ctx, "select quote_ident(current_user)").Scan(&user); err != nil {
			return fmt.Errorf("look at the wall between tenants: %w", err)
		}
		return fmt.Errorf("%s %w. As an administrator of the database server run: grant %s to %s", user, errNoMember, TenantRole, user)
	case bound:
		return errBound
	}
	return nil
}

// tenantOf is where a connection of OpenTenants notes whose rows it shows.
const tenantOf = "waybill.tenant"

// OpenTenants is Open for a Wall's Tenants: its connections have the rights of TenantRole, and show the rows of the tenant of the context they are
// acquired with. What a connection shows is told to the server when it changes, and costs nothing otherwise.
func OpenTenants(ctx context.Context, url string, opts Options) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, opts)
	if err != nil {
		return nil, err
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "set role "+TenantRole); err != nil {
			return fmt.Errorf("become the role %s: %w", TenantRole, err)
		}
		return nil
	}
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		want := whoseOf(ctx).tenantID
		noted := conn.PgConn().CustomData()
		if shows, _ := noted[tenantOf].(string); shows == want {
			return true, nil
		}
		delete(noted, tenantOf)
		noted[tenantOf] = nil // whatever the server makes of it, it is told anew
		if _, err := conn.Exec(ctx, wallTenant, want); err != nil {
			return false, fmt.Errorf("tell a connection its tenant: %w", err)
		}
		noted[tenantOf] = want
		return true, nil
	}
	return open(ctx, config)
}
