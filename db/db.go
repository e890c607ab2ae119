// Package db is the way to Postgres: connection pools whose every connection has its time-outs, its name and the
// schema waybill set; the migrations; and the few questions one asks of a database error.
//
// It knows no table but its own list of migrations. The statements of the product are in db/queries, the private
// server for machines without one in db/embedded, databases for tests in db/dbtest.
package db

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Schema is the schema that holds all of Waybill's tables and River's. Every connection has it as its search_path, so
// that statements name tables without it.
const Schema = "waybill"

// Time-outs of a connection unless Options say otherwise.
const (
	DefaultStatementTimeout = 30 * time.Second
	DefaultLockTimeout      = 10 * time.Second
	DefaultIdleInTxTimeout  = 60 * time.Second
)

// None, as a time-out in Options, means that there is none.
const None time.Duration = -1

// Options are what pools differ in. The zero value is right for everything that serves a person or an API call.
type Options struct {
	AppName  string // application_name in pg_stat_activity; "waybill" when empty
	MaxConns int32  // most connections; 0: pgx's default, the number of CPUs but at least 4
	MinConns int32  // connections kept open

	StatementTimeout time.Duration // 0: DefaultStatementTimeout, None: unlimited
	LockTimeout      time.Duration // 0: DefaultLockTimeout, None: unlimited
	IdleInTxTimeout  time.Duration // 0: DefaultIdleInTxTimeout, None: unlimited

	// Params are further run-time parameters of the session, such as enable_bitmapscan=off for the pool that fetches
	// due deliveries (ENGINE §2). They win over the ones above.
	Params map[string]string

	Tracer pgx.QueryTracer // is told of every statement; nil: nobody is
}

// Open makes a pool for the database at url and connects once, so that a wrong address or password shows here. An error
// for which IsUnavailable is true may pass by itself; any other needs a changed configuration.
func Open(ctx context.Context, url string, opts Options) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, config)
}

// open connects, and behind a pooler makes sure that it keeps a session's things together.
func open(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := connect(ctx, config)
	if refusesSettings(err) {
		if pool, err = connect(ctx, throughPooler(config)); err == nil {
			if err = keepsSessions(ctx, pool.Config().ConnConfig); err != nil {
				pool.Close()
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return pool, nil
}

// connect makes a pool and one connection, and looks whether that has its settings.
func connect(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	var path string
	err = pool.QueryRow(ctx, "show search_path", pgx.QueryExecModeSimpleProtocol).Scan(&path)
	if err == nil && path != config.ConnConfig.RuntimeParams["search_path"] && path != Schema {
		err = ErrDroppedSettings
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

func poolConfig(url string, opts Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err) // pgx leaves the password out of this error
	}
	if opts.MaxConns > 0 {
		config.MaxConns = opts.MaxConns
	}
	config.MinConns = min(opts.MinConns, config.MaxConns)
	config.MaxConnLifetimeJitter = config.MaxConnLifetime / 5
	config.PingTimeout = 5 * time.Second
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	config.ConnConfig.Tracer = opts.Tracer
	config.ConnConfig.DialFunc = dialer().DialContext
	maps.Copy(config.ConnConfig.RuntimeParams, sessionParams(opts))
	return config, nil
}

// sessionParams are sent with the start of each connection, so that no connection exists for a moment without them.
func sessionParams(opts Options) map[string]string {
	name := opts.AppName
	if name == "" {
		name = "waybill"
	}
	params := map[string]string{
		"search_path":                         Schema,
		"application_name":                    name,
		"timezone":                            "UTC",
		"statement_timeout":                   milliseconds(opts.StatementTimeout, DefaultStatementTimeout),
		"lock_timeout":                        milliseconds(opts.LockTimeout, DefaultLockTimeout),
		"idle_in_transaction_session_timeout": milliseconds(opts.IdleInTxTimeout, DefaultIdleInTxTimeout),
		// The server's half of noticing a dead peer: without it the locks of a vanished machine are held for two hours.
		"tcp_keepalives_idle":     "15",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "3",
		// Compiling a statement takes longer than any of ours may run; the planner would do it because thirty partitions look like much to read.
		"jit": "off",
	}
	maps.Copy(params, opts.Params)
	return params
}

func milliseconds(d, otherwise time.Duration) string {
	switch {
	case d == 0:
		d = otherwise
	case d < 0:
		return "0"
	}
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// dialer notices within half a minute that the network to Postgres is silently gone (CASES B50); a pool would wait for a
// quarter of an hour for an answer otherwise.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         5 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         limitUnacknowledged,
	}
}

// Conn is what a statement runs on: a pool, a connection or a transaction.
type Conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
