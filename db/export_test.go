package db

import (
	"context"
	"io/fs"
	"log/slog"
)

// MigrateFS is Migrate with other files.
func MigrateFS(ctx context.Context, url string, logger *slog.Logger, files fs.FS) ([]string, error) {
	migrations, err := readMigrations(files)
	if err != nil {
		return nil, err
	}
	return migrate(ctx, url, logger, migrations)
}

// CompareFS is SchemaState with other files.
func CompareFS(ctx context.Context, conn Conn, files fs.FS) (State, error) {
	migrations, err := readMigrations(files)
	if err != nil {
		return "", err
	}
	state, _, err := compare(ctx, conn, migrations)
	return state, err
}
