package ui_test

import (
	"os"
	"regexp"
	"testing"
)

// TestGeneratorIsTheLibrarysVersion: the templates are compiled by the same version of templ that runs them.
func TestGeneratorIsTheLibrarysVersion(t *testing.T) {
	t.Parallel()
	find := func(file, pattern string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(pattern).FindSubmatch(text)
		if match == nil {
			t.Fatalf("%s names no version", file)
		}
		return string(match[1])
	}
	library := find("../../go.mod", `github\.com/a-h/templ (v\S+)`)
	generator := find("ui.go", `//go:generate go run github\.com/a-h/templ/cmd/templ@(v\S+)`)
	if library != generator {
		t.Errorf("go.mod has templ %s, the templates are compiled by %s", library, generator)
	}
}
