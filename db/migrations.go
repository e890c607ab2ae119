package db

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
)

// migration is one file, read.
type migration struct {
	name     string // the file's name without .sql
	sql      string
	checksum string // hex SHA-256 of the file

	outside    bool             // it runs outside of a transaction
	statements []indexStatement // what it then holds
}

// indexStatement is one `create index concurrently` or `drop index concurrently`.
type indexStatement struct {
	sql    string
	index  string
	create bool
}

const outsideMark = "-- no transaction"

var (
	migrationName = regexp.MustCompile(`^[0-9]{4}_[a-z0-9_]+\.sql$`)
	createIndex   = regexp.MustCompile(`(?is)^create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?([a-z_][a-z0-9_]*)\s+on\s`)
	dropIndex     = regexp.MustCompile(`(?is)^drop\s+index\s+concurrently\s+(?:if\s+exists\s+)?([a-z_][a-z0-9_]*)$`)
)

// readMigrations reads the *.sql files of fsys in the order of their names.
func readMigrations(fsys fs.FS) ([]migration, error) {
	names, err := fs.Glob(fsys, "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var migrations []migration
	for _, name := range names {
		if !migrationName.MatchString(name) {
			return nil, fmt.Errorf("migration %s: its name is not like 0001_what_it_does.sql", name)
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		next, err := readMigration(strings.TrimSuffix(name, ".sql"), string(text))
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		if last := len(migrations) - 1; last >= 0 && migrations[last].name[:4] == next.name[:4] {
			return nil, fmt.Errorf("migrations %s and %s have the same number", migrations[last].name, next.name)
		}
		migrations = append(migrations, next)
	}
	return migrations, nil
}

func readMigration(name, text string) (migration, error) {
	sum := sha256.Sum256([]byte(text))
	next := migration{name: name, sql: text, checksum: hex.EncodeToString(sum[:])}
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimSpace(first) != outsideMark {
		return next, nil
	}
	next.outside = true
	for statement := range strings.SplitSeq(withoutComments(rest), ";") {
		statement = strings.TrimSpace(statement)
		if statement == "" {
			continue
		}
		if match := createIndex.FindStringSubmatch(statement); match != nil {
			next.statements = append(next.statements, indexStatement{statement, strings.ToLower(match[1]), true})
		} else if match := dropIndex.FindStringSubmatch(statement); match != nil {
			next.statements = append(next.statements, indexStatement{statement, strings.ToLower(match[1]), false})
		} else {
			return migration{}, fmt.Errorf("outside of a transaction only named indexes may be created and dropped concurrently, not %q", statement)
		}
	}
	return next, nil
}

func withoutComments(sql string) string {
	var kept strings.Builder
	for line := range strings.Lines(sql) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// SchemaHash names the schema that Migrate makes: it changes with any of our migrations and with River's. Tests name
// their template databases by it.
func SchemaHash() string {
	hash := sha256.New()
	migrations, err := readMigrations(ownMigrations())
	if err != nil {
		panic("db: " + err.Error()) // the files are part of the program, and a test reads them
	}
	for _, m := range migrations {
		fmt.Fprintf(hash, "%s %s\n", m.name, m.checksum)
	}
	river, err := riverMigrator(nil, slog.New(slog.DiscardHandler))
	if err != nil {
		panic("db: " + err.Error())
	}
	for _, version := range river.AllVersions() {
		fmt.Fprintf(hash, "river %d %s\n", version.Version, version.SQLUp)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}
