// Package queries holds the SQL of Waybill: files *.sql whose statements are each headed by a line
//
//	-- name: NounVerb
//
// followed by a comment line that says why the statement is as it is, or what it costs. A statement ends where the next
// heading begins; text before the first heading is the file's own comment. Parameters are $1, $2, … Names of tables have no
// schema: every connection's search_path is waybill.
//
// Each statement names tenant_id, or has a line "-- all tenants: " and the reason. A test in package db holds that, and
// prepares every statement against a migrated database.
package queries

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed *.sql
var files embed.FS

// Query is one named statement.
type Query struct {
	Name string // NounVerb, unique over all files
	File string // where it stands
	SQL  string // its text with its comments, without the heading
}

var byName = mustParse(files)

// SQL is the text of the statement called name. It panics when there is none: names are constants, looked up into
// package-level variables when the program starts.
func SQL(name string) string {
	query, ok := byName[name]
	if !ok {
		panic("queries: no statement is called " + name)
	}
	return query.SQL
}

// ForDay addresses the daily partition that sql names with _{day}, and with _{before} and _{after} those beside it. A statement that goes through the
// parent opens and locks every partition there is, however few rows it touches: with a month of them that costs more than its work. With the zero
// time the parents are addressed.
func ForDay(sql string, day time.Time) string {
	if day.IsZero() {
		return strings.NewReplacer("_{day}", "", "_{before}", "", "_{after}", "").Replace(sql)
	}
	name := func(days int) string { return day.AddDate(0, 0, days).Format("_20060102") }
	return strings.NewReplacer("_{day}", name(0), "_{before}", name(-1), "_{after}", name(1)).Replace(sql)
}

// All lists every statement, by file and then by name.
func All() []Query {
	all := make([]Query, 0, len(byName))
	for _, query := range byName {
		all = append(all, query)
	}
	slices.SortFunc(all, func(a, b Query) int {
		if order := strings.Compare(a.File, b.File); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

func mustParse(fsys fs.FS) map[string]Query {
	queries, err := parse(fsys)
	if err != nil {
		panic("queries: " + err.Error())
	}
	return queries
}

const heading = "-- name:"

var properName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)

// parse reads the statements of all *.sql files of fsys and refuses a name used twice, a name that is not in
// CamelCase, and a heading with nothing under it.
func parse(fsys fs.FS) (map[string]Query, error) {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, err
	}
	queries := map[string]Query{}
	for _, file := range names {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		for _, query := range split(file, string(text)) {
			if !properName.MatchString(query.Name) {
				return nil, fmt.Errorf("%s: the name %q is not in CamelCase", file, query.Name)
			}
			if !hasStatement(query.SQL) {
				return nil, fmt.Errorf("%s: %s has no statement", file, query.Name)
			}
			if other, taken := queries[query.Name]; taken {
				return nil, fmt.Errorf("%s stands in %s and in %s", query.Name, other.File, file)
			}
			queries[query.Name] = query
		}
	}
	return queries, nil
}

func split(file, text string) []Query {
	var queries []Query
	var body []string
	finish := func() {
		if len(queries) > 0 {
			last := &queries[len(queries)-1]
			last.SQL = strings.TrimSuffix(strings.TrimSpace(strings.Join(body, "\n")), ";")
		}
		body = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if name, ok := strings.CutPrefix(line, heading); ok {
			finish()
			queries = append(queries, Query{Name: strings.TrimSpace(name), File: file})
			continue
		}
		body = append(body, line)
	}
	finish()
	return queries
}

func hasStatement(sql string) bool {
	for line := range strings.Lines(sql) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--") {
			return true
		}
	}
	return false
}
