package db

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"waybill/db/queries"
)

// State says how a database's schema stands to the one this program was built with.
type State string

// The states. A program may run on a schema that is Behind (the migration is being rolled out) and on a Current one; it
// must not run on one that is Newer, which may no longer have what it needs.
const (
	Current State = "current"
	Behind  State = "behind"
	Newer   State = "newer"
)

var (
	tableExistsSQL = queries.SQL("TableExists")
	riverVersion   = queries.SQL("RiverVersion")
)

// SchemaState compares the database's schema, River's included, with this program's. A migration file that was changed
// after it had been applied is an error.
func SchemaState(ctx context.Context, conn Conn) (State, error) {
	migrations, err := readMigrations(ownMigrations())
	if err != nil {
		return "", err
	}
	state, _, err := compare(ctx, conn, migrations)
	if err != nil {
		return "", fmt.Errorf("schema state: %w", err)
	}
	return state, nil
}

// compare also returns the migrations that are yet to be applied.
func compare(ctx context.Context, conn Conn, migrations []migration) (State, []migration, error) {
	recorded, err := recordedMigrations(ctx, conn)
	if err != nil {
		return "", nil, err
	}
	var pending []migration
	known := map[string]bool{}
	for _, m := range migrations {
		known[m.name] = true
		checksum, applied := recorded[m.name]
		if !applied {
			pending = append(pending, m)
		} else if checksum != m.checksum {
			return "", nil, fmt.Errorf("migration %s was changed after it had been applied to this database", m.name)
		}
	}
	for name := range recorded {
		if !known[name] {
			return Newer, nil, nil
		}
	}
	river, err := compareRiver(ctx, conn)
	if err != nil {
		return "", nil, err
	}
	if river == Current && len(pending) > 0 {
		return Behind, pending, nil
	}
	return river, pending, nil
}

// recordedMigrations maps the names of the applied migrations to their checksums.
func recordedMigrations(ctx context.Context, conn Conn) (map[string]string, error) {
	exists, err := tableExists(ctx, conn, "migrations")
	if err != nil || !exists {
		return nil, err
	}
	rows, err := conn.Query(ctx, migrationList)
	if err != nil {
		return nil, err
	}
	recorded := map[string]string{}
	var name, checksum string
	_, err = pgx.ForEachRow(rows, []any{&name, &checksum}, func() error {
		recorded[name] = checksum
		return nil
	})
	return recorded, err
}

func compareRiver(ctx context.Context, conn Conn) (State, error) {
	exists, err := tableExists(ctx, conn, "river_migration")
	if err != nil {
		return "", err
	}
	if !exists {
		return Behind, nil
	}
	var has int
	if err := conn.QueryRow(ctx, riverVersion).Scan(&has); err != nil {
		return "", err
	}
	river, err := riverMigrator(nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	versions := river.AllVersions()
	switch wants := versions[len(versions)-1].Version; {
	case has < wants:
		return Behind, nil
	case has > wants:
		return Newer, nil
	}
	return Current, nil
}

func tableExists(ctx context.Context, conn Conn, table string) (bool, error) {
	var exists bool
	err := conn.QueryRow(ctx, tableExistsSQL, Schema+"."+table).Scan(&exists)
	return exists, err
}
