package queries

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	queries, err := parse(fstest.MapFS{"due.sql": {Data: []byte(
		"-- What is due.\n\n-- name: DueInsert\n-- why\ninsert into due\nvalues ($1);\n\n-- name: DueDelete\ndelete from due\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := queries["DueInsert"].SQL, "-- why\ninsert into due\nvalues ($1)"; got != want {
		t.Errorf("DueInsert is %q, want %q", got, want)
	}
	if got, want := queries["DueDelete"].SQL, "delete from due"; got != want {
		t.Errorf("DueDelete is %q, want %q", got, want)
	}
	if len(queries) != 2 {
		t.Errorf("%d statements, want 2", len(queries))
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]fstest.MapFS{
		"stands in a.sql and in b.sql": {
			"a.sql": {Data: []byte("-- name: DueInsert\nselect 1")}, "b.sql": {Data: []byte("-- name: DueInsert\nselect 2")}},
		"stands in c.sql and in c.sql": {"c.sql": {Data: []byte("-- name: Due\nselect 1;\n-- name: Due\nselect 1;")}},
		"no statement":                 {"a.sql": {Data: []byte("-- name: DueInsert\n-- only a comment\n")}},
		"not in CamelCase":             {"a.sql": {Data: []byte("-- name: due_insert\nselect 1")}},
	} {
		_, err := parse(files)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestSQL(t *testing.T) {
	t.Parallel()
	all := All()
	if len(all) == 0 {
		t.Fatal("there are no statements")
	}
	for _, query := range all {
		if SQL(query.Name) != query.SQL {
			t.Errorf("SQL(%q) is another text than All has", query.Name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown name does not panic")
		}
	}()
	SQL("NoSuchStatement")
}
