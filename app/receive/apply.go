package receive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Execer runs one statement: a pgx.Tx, pool or connection.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// State is the row that an event would write: the receiver's copy of a resource, with the version it is at.
type State struct {
	// Table is its name, with its schema if need be.
	Table pgx.Identifier
	// Key is the column that names the resource; it has a unique constraint.
	Key string
	// ID is the value of Key.
	ID any
	// VersionColumn is the column of the version; empty is "version".
	VersionColumn string
	// Version is the event's sequence.
	Version int64
	// Set is the other columns with their values.
	Set map[string]any
}

// ApplyIfNewer writes s if there is no row of its key or one of a lower version, and reports whether it did: false is
// stale news or a repeat, and nothing has changed. It is one statement (first seed: a read followed by a write lets two
// workers overwrite newer with older).
func ApplyIfNewer(ctx context.Context, db Execer, s State) (bool, error) {
	sql, args := s.upsert()
	tag, err := db.Exec(ctx, sql, args...)
	if err != nil {
		return false, fmt.Errorf("receive: apply %s: %w", s.Table.Sanitize(), err)
	}
	return tag.RowsAffected() == 1, nil
}

// upsert is the statement with its arguments. The columns are sorted, so that one State gives one statement to prepare.
func (s State) upsert() (string, []any) {
	version := s.VersionColumn
	if version == "" {
		version = "version"
	}
	columns := []string{s.Key, version}
	args := []any{s.ID, s.Version}
	for _, c := range slices.Sorted(maps.Keys(s.Set)) {
		columns = append(columns, c)
		args = append(args, s.Set[c])
	}
	places := make([]string, len(columns))
	var updates []string
	for i, c := range columns {
		columns[i] = pgx.Identifier{c}.Sanitize()
		places[i] = "$" + strconv.Itoa(i+1)
		if i > 0 {
			updates = append(updates, columns[i]+" = excluded."+columns[i])
		}
	}
	return "insert into " + s.Table.Sanitize() + " as stored (" + strings.Join(columns, ", ") + ")" +
		"\nvalues (" + strings.Join(places, ", ") + ")" +
		"\non conflict (" + columns[0] + ") do update" +
		"\nset " + strings.Join(updates, ", ") +
		"\nwhere stored." + columns[1] + " < excluded." + columns[1], args
}
