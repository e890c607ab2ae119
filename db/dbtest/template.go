package dbtest

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"waybill/db"
)

// templateLock is the key of the advisory lock, on the maintenance database, under which one program makes the template.
const templateLock = 0x77627465737401

// template is the name of a migrated database that nobody may connect to, made if it is not there yet.
func (s *server) template(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.migrated != "" {
		return s.migrated, nil
	}
	name := "waybill_template_" + db.SchemaHash()
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", templateLock); err != nil {
		return "", err
	}
	var exists bool
	const query = "select exists (select from pg_database where datname = $1)"
	if err := conn.QueryRow(ctx, query, name).Scan(&exists); err != nil {
		return "", err
	}
	if !exists {
		if err := makeTemplate(ctx, conn, s.admin, name); err != nil {
			return "", err
		}
	}
	s.migrated = name
	return name, nil
}

// makeTemplate migrates under a passing name, so that a program that dies in the middle leaves no half template.
func makeTemplate(ctx context.Context, conn *pgx.Conn, admin, name string) error {
	building := name + "_building"
	if _, err := conn.Exec(ctx, fmt.Sprintf("drop database if exists %s with (force)", building)); err != nil {
		return err
	}
	if err := clone(ctx, conn, building, "template0"); err != nil {
		return err
	}
	if _, err := db.Migrate(ctx, withDatabase(admin, building), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	for _, statement := range []string{
		// Connections of the migrator may take a moment to be gone. (PostgreSQL 13 cannot be told to wait for that.)
		fmt.Sprintf("alter database %s with allow_connections false", building),
		fmt.Sprintf(`do $$ begin
			for i in 1..500 loop
				perform pg_terminate_backend(pid) from pg_stat_activity where datname = '%s';
				exit when not found;
				perform pg_sleep(0.01), pg_stat_clear_snapshot();
			end loop;
		end $$`, building),
		fmt.Sprintf("alter database %s rename to %s", building, name),
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
