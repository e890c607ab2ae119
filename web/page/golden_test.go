package page_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"waybill/assets"
	"waybill/web/page"
)

var update = flag.Bool("update", false, "write the golden files anew")

// render gives a fixture's document.
func render(t *testing.T, fixture page.Fixture) string {
	t.Helper()
	var buffer bytes.Buffer
	if err := fixture.Page.Page(fixture.Frame).Render(t.Context(), &buffer); err != nil {
		t.Fatalf("%s in state %s: %v", fixture.Name, fixture.State, err)
	}
	return buffer.String()
}

var hash = regexp.MustCompile(regexp.QuoteMeta(assets.Prefix) + `[0-9a-f]{16}/`)

// readable puts each element on a line of its own and takes the asset hash out, so that a golden file changes
// with its page and with nothing else.
func readable(document string) string {
	document = hash.ReplaceAllString(document, assets.Prefix+"HASH/")
	return strings.ReplaceAll(document, "><", ">\n<") + "\n"
}

// TestGolden holds what people see: run with -update after a change that was meant, and read the difference.
func TestGolden(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, fixture := range page.Fixtures() {
		file := fixture.Name + "__" + fixture.State + ".html"
		if known[file] {
			t.Errorf("two fixtures are called %s", file)
		}
		known[file] = true
		t.Run(fixture.Name+"/"+fixture.State, func(t *testing.T) {
			t.Parallel()
			got, name := readable(render(t, fixture)), filepath.Join("testdata", "golden", file)
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("%v (run with -update)", err)
			}
			if got != string(want) {
				t.Errorf("the page is not as in %s: %s", name, difference(string(want), got))
			}
		})
	}
	files, err := filepath.Glob("testdata/golden/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !known[filepath.Base(file)] {
			t.Errorf("%s belongs to no fixture", file)
		}
	}
}

// difference is the first line that differs.
func difference(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			return "line " + strings.Join([]string{wants[i], gots[i]}, "\nis now\n")
		}
	}
	return "one ends before the other"
}
