package db_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/dbtest"
)

func TestTheWallShowsOneTenant(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	wall := dbtest.Wall(t, pool, nil)
	one, two := dbtest.AddTenant(t, pool, dbtest.Tenant{}), dbtest.AddTenant(t, pool, dbtest.Tenant{})
	mine, theirs := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: one.ID}), dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: two.ID})
	dbtest.AddDelivery(t, pool, dbtest.Delivery{Endpoint: mine})
	dbtest.AddDelivery(t, pool, dbtest.Delivery{Endpoint: theirs})
	sees := func(ctx context.Context, sql string, want int) {
		t.Helper()
		var n int
		if err := wall.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("%s finds %d rows, want %d", sql, n, want)
		}
	}
	for _, table := range []string{"tenants", "endpoints", "lanes", "deliveries", "events"} {
		all := "select count(*) from " + table
		for range 2 { // connections are used again
			sees(t.Context(), all, 0)
			sees(db.AsTenant(t.Context(), one.ID), all, 1)
			sees(db.AsTenant(t.Context(), two.ID), all, 1)
			sees(db.BeyondTenants(t.Context()), all, 2)
			sees(db.AsTenant(t.Context(), ""), all, 0)
			sees(db.AsTenant(t.Context(), "tnt_nobody"), all, 0)
		}
	}
	sees(db.AsTenant(t.Context(), one.ID), "select count(*) from endpoints where id = '"+theirs.ID+"'", 0)

	ctx := db.AsTenant(t.Context(), one.ID)
	for _, c := range []struct{ sql, want string }{
		{"insert into audit (id, tenant_id, kind, actor, action) values ('aud_1', '" + two.ID + "', 'system', 'x', 'x.y')", "row-level security"},
		{"update endpoints set tenant_id = '" + two.ID + "'", "row-level security"},
		{"select count(*) from deliveries" + time.Now().UTC().Format("_20060102"), "permission denied"},
		{"select password_hash from members", "permission denied"},
		{"select count(*) from migrations", "permission denied"},
		{"select count(*) from workers", "permission denied"},
		{"select raise_wall()", "permission denied"},
		{"update tenants set concurrency = 1000", "permission denied"},
	} {
		if _, err := wall.Exec(ctx, c.sql); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.sql, err, c.want)
		}
	}
	tag, err := wall.Exec(ctx, "update endpoints set description = 'mine'")
	if err != nil || tag.RowsAffected() != 1 {
		t.Errorf("an update without a condition changed %d rows: %v", tag.RowsAffected(), err)
	}

	// A transaction keeps to the tenant that it was begun for.
	err = db.Tx(ctx, wall, func(tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(db.BeyondTenants(ctx), "select count(*) from tenants").Scan(&n); err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("a transaction sees %d tenants", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Every table that has a tenant's rows is behind the wall, and no partition can be read around it.
func TestTheWallHasNoGap(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	var open []string
	err := pool.QueryRow(t.Context(), `
		select coalesce(array_agg(c.relname::text), '{}')
		from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
		where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p')
		  and has_any_column_privilege('waybill_tenant', c.oid, 'select, insert, update')
		  and not (c.relrowsecurity and exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'wall'))`).Scan(&open)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(open, " "); got != "recovery_picks" { // which can be written and not read
		t.Errorf("tenants can get at tables without a policy: %s", got)
	}
	if err := db.WallReady(t.Context(), pool); err != nil {
		t.Error(err)
	}
	if _, err := pool.Exec(t.Context(), `create table shelves (id text, tenant_id text)`); err != nil {
		t.Fatal(err)
	}
	var raised int
	if err := pool.QueryRow(t.Context(), "select raise_wall()").Scan(&raised); err != nil || raised != 1 {
		t.Errorf("a new table: the wall was raised around %d, %v", raised, err)
	}
}

// A role that may not create roles is told what an administrator has to run, and can go on once that is done.
func TestTheWallWithoutTheRightToMakeRoles(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	name := "waybill_plain_" + strings.ToLower(t.Name()[len(t.Name())-6:]) + fmt.Sprint(time.Now().UnixNano())
	if _, err := pool.Exec(t.Context(), "create role "+name+" nologin"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), "drop owned by "+name+"; drop role "+name, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	for _, sql := range []string{"grant usage on schema waybill to " + name, "grant select on all tables in schema waybill to " + name} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	plain := dbtest.Open(t, dbtest.URL(pool), db.Options{Params: map[string]string{"role": name}})
	err := db.WallReady(t.Context(), plain)
	if err == nil || !strings.Contains(err.Error(), "grant waybill_tenant to "+name) {
		t.Errorf("who is no member of the role is told: %v", err)
	}
	dbtest.AddTenant(t, pool, dbtest.Tenant{})
	var n int
	if err := plain.QueryRow(t.Context(), "select count(*) from tenants").Scan(&n); err != nil || n != 1 {
		t.Errorf("another role's grants show it %d of 1 tenants: %v", n, err)
	}
	if _, err := pool.Exec(t.Context(), "grant waybill_tenant to "+name); err != nil {
		t.Fatal(err)
	}
	if err := db.WallReady(t.Context(), plain); err == nil || !strings.Contains(err.Error(), "noinherit") {
		t.Errorf("a member who inherits the role's bounds is told: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "alter role "+name+" noinherit"); err != nil {
		t.Fatal(err)
	}
	// From version 16 on what a role inherits is settled by each grant.
	if _, err := pool.Exec(t.Context(), `do $$ begin
		if current_setting('server_version_num')::integer >= 160000 then
			execute 'grant `+db.TenantRole+` to `+name+` with inherit false';
		end if;
	end $$`); err != nil {
		t.Fatal(err)
	}
	if err := db.WallReady(t.Context(), plain); err != nil {
		t.Errorf("a member of the role: %v", err)
	}
}
