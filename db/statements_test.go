package db_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db/dbtest"
	"waybill/db/queries"
)

// Every statement is one that the migrated schema knows, under the search_path that the program sets.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	conn, err := dbtest.New(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, query := range queries.All() {
		sql, _, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), conn.Conn(), queries.ForDay(query.SQL, time.Now().UTC()), nil)
		if err != nil {
			t.Errorf("%s, %s: %v", query.File, query.Name, err)
			continue
		}
		if _, err := conn.Conn().Prepare(t.Context(), query.Name, sql); err != nil {
			t.Errorf("%s, %s: %v", query.File, query.Name, err)
		}
	}
}

// Every statement keeps to one tenant, or says why it does not.
func TestStatementsNameTheTenant(t *testing.T) {
	t.Parallel()
	for _, query := range queries.All() {
		if !keepsToTenant(query.SQL) {
			t.Errorf("%s, %s: names no tenant_id and has no line `-- all tenants: why`", query.File, query.Name)
		}
	}
}

func TestKeepsToTenant(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"select 1 from due where tenant_id = $1":                       true,
		"-- tenant_id is not needed\nselect 1 from due":                false,
		"-- all tenants: the sweeper serves them all\nselect from due": true,
		"-- all tenants:\nselect 1 from due":                           false,
		"select 1 from due -- tenant_id":                               false,
	} {
		if got := keepsToTenant(sql); got != want {
			t.Errorf("keepsToTenant(%q) = %v", sql, got)
		}
	}
}

func keepsToTenant(sql string) bool {
	for line := range strings.Lines(sql) {
		if why, ok := strings.CutPrefix(strings.TrimSpace(line), "-- all tenants:"); ok && strings.TrimSpace(why) != "" {
			return true
		}
		if code, _, _ := strings.Cut(line, "--"); strings.Contains(code, "tenant_id") {
			return true
		}
	}
	return false
}
