package db

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsUnavailable says whether err means that the database cannot answer just now: unreachable, starting or stopping, out of
// connections, memory or disk, or too busy to answer within the time-outs. The same call may succeed a little later;
// whoever speaks HTTP answers 503 with Retry-After, never anything about rights or absence (CASES B61). A context
// cancelled by its owner is no such error.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if code := Code(err); code != "" {
		return unavailableCode(code)
	}
	var connecting *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connecting) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// unavailableCode takes codes from https://www.postgresql.org/docs/current/errcodes-appendix.html.
func unavailableCode(code string) bool {
	switch code {
	case "57P01", "57P02", "57P03", "57P05", // admin shutdown, crash shutdown, cannot connect now, idle session time-out
		"57014", // statement time-out (or a cancel by the administrator)
		"55P03", // lock time-out
		"25P03", // idle in transaction for too long
		"25006": // read only: a standby, before its promotion
		return true
	}
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") // connection; resources
}

// IsRetryable says whether Postgres chose this transaction as the victim of a deadlock (40P01) or a serialisation
// conflict (40001): nothing of it happened, and the same again will most likely succeed. Tx does so by itself.
func IsRetryable(err error) bool {
	code := Code(err)
	return code == "40P01" || code == "40001"
}

// Constraint is the name of the constraint or unique index that err says was violated, or empty. Constraints are named for
// what they promise, and operations translate them by this name.
func Constraint(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.ConstraintName
	}
	return ""
}

// Code is the five characters of Postgres' SQLSTATE in err, or empty if err does not come from Postgres.
func Code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// NoPartition says that a statement has addressed a day's partition that is not there, or a row whose day has none: the maintenance job is late.
func NoPartition(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "23514" && strings.Contains(pg.Message, "no partition of relation"))
}
