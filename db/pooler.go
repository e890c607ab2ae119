package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What a pooler between the program and Postgres may not do: settings, advisory locks, prepared statements, LISTEN and the tenant whose rows a connection
// shows belong to a session, and must stay with it.
var (
	ErrSharedSessions  = errors.New("a pooler in front of Postgres does not keep sessions together (pgbouncer: pool_mode = transaction or statement); set it to session mode, or connect to Postgres itself")
	ErrDroppedSettings = errors.New("a pooler in front of Postgres drops the settings of connections; take them out of its ignore_startup_parameters, and they are made in another way, or connect to Postgres itself")
)

// poolersTake are the parameters that poolers take at the start of a connection.
var poolersTake = []string{"application_name", "timezone"}

// refusesSettings says that whoever answered is a pooler that does not pass settings on.
func refusesSettings(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "08P01" && strings.Contains(pg.Message, "startup parameter")
}

// throughPooler makes connections that are given their settings by a statement once they are open.
func throughPooler(direct *pgxpool.Config) *pgxpool.Config {
	config := direct.Copy()
	settings := maps.Clone(config.ConnConfig.RuntimeParams)
	maps.DeleteFunc(config.ConnConfig.RuntimeParams, func(name, _ string) bool { return !slices.Contains(poolersTake, name) })
	then := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := setAll(ctx, conn, settings); err != nil || then == nil {
			return err
		}
		return then(ctx, conn)
	}
	return config
}

func setAll(ctx context.Context, conn *pgx.Conn, settings map[string]string) error {
	calls := make([]string, 0, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		calls = append(calls, "set_config("+quoted(name)+", "+quoted(settings[name])+", false)")
	}
	if _, err := conn.PgConn().Exec(ctx, "select "+strings.Join(calls, ", ")).ReadAll(); err != nil {
		return fmt.Errorf("make the settings of a connection: %w", err)
	}
	return nil
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// keepsSessions is ErrSharedSessions when a connection is served by another server process while others hold transactions: each of those takes one, and
// the first of them the one that served last.
func keepsSessions(ctx context.Context, config *pgx.ConnConfig) error {
	var conns []*pgx.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close(ctx)
		}
	}()
	serving := func(conn *pgx.Conn) (pid uint32, err error) {
		err = conn.QueryRow(ctx, "select pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
		return pid, err
	}
	var first uint32
	for n := range 4 {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
		if n > 0 {
			if _, err := conn.Exec(ctx, "begin"); err != nil {
				return err
			}
		}
		taken, err := serving(conn)
		if err != nil {
			return err
		}
		if n == 0 {
			first = taken
			continue
		}
		now, err := serving(conns[0])
		if err != nil {
			return err
		}
		if taken == first || now != first {
			return ErrSharedSessions
		}
	}
	return nil
}
