package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says which of our packages each may import, by the last words of their paths. Data flows one way, and so do imports: a package that is
// not in the table, or imports what its row does not name, fails the test.
var layers = map[string][]string{
	// Pure: they know nobody, or only each other's smallest.
	"app/fault":       {},
	"app/id":          {},
	"app/plain":       {},
	"app/logline":     {},
	"app/cursor":      {"app/fault"},
	"app/verdict":     {},
	"app/seal":        {},
	"app/signing":     {},
	"app/signing/lab": {"app/signing"},
	"app/policy":      {},
	"app/egress":      {"app/fault"},
	"app/sender":      {"app/fault"},
	"app/receive":     {"app/signing"},
	"app/listen":      {"app/signing"}, // the developer's machine; see its package comment

	"db":          {"db/queries"},
	"db/queries":  {},
	"db/embedded": {"db"},
	"db/dbtest":   {"db", "db/embedded", "app/id"},
}

func init() {
	storage := []string{"db", "db/queries", "app/id", "app/fault", "app/cursor", "app/plain", "app/logline"}
	pure := []string{"app/verdict", "app/seal", "app/signing", "app/signing/lab", "app/policy", "app/egress", "app/sender"}
	layers["app/notice"] = slices.Concat(storage, []string{"app/seal", "web/path"})
	layers["app/account"] = slices.Concat(storage, []string{"app/seal", "app/notice"})
	layers["app/lane"] = slices.Concat(storage, pure)
	layers["app/outbox"] = slices.Concat(storage, []string{"app/lane"})
	layers["app/endpoint"] = slices.Concat(storage, pure, []string{"app/account", "app/outbox"})
	layers["app/alert"] = slices.Concat(storage, pure, []string{"app/account", "app/notice", "app/outbox", "app/lane"})
	layers["app/catalog"] = slices.Concat(storage, pure, []string{"app/account"})
	layers["app/inbox"] = slices.Concat(storage, []string{"app/account", "app/seal", "app/signing"})
	layers["app/delivery"] = slices.Concat(storage, pure, []string{"app/account", "app/catalog", "app/inbox"})
	layers["app/operator"] = slices.Concat(storage, []string{"app/account", "app/seal"})
	layers["app/limit"] = slices.Concat(storage, []string{"app/account"})
	layers["app/idempotency"] = slices.Concat(storage, []string{"app/seal"})
	layers["app/reseal"] = slices.Concat(storage, pure, []string{"app/account", "app/lane", "app/notice"})
	layers["app/doctor"] = slices.Concat(storage, pure, []string{"app/lane", "app/reseal"})
	operations := []string{"app/account", "app/notice", "app/idempotency", "app/endpoint", "app/catalog", "app/delivery", "app/outbox", "app/lane", "app/inbox", "app/limit"}
	layers["jobs"] = slices.Concat(storage, pure, operations)

	view := []string{"app/verdict", "assets", "web/path", "web/ui", "web/reference", "web/page/snippets"}
	layers["assets"] = nil
	layers["web/path"] = nil
	layers["web/reference"] = nil
	layers["web/page/snippets"] = nil
	layers["web/ui"] = []string{"web/path", "assets"}
	layers["web/page"] = view
	layers["web/page/gallery"] = slices.Concat(view, []string{"web/page"})
	layers["web/api"] = slices.Concat(storage, pure, operations, []string{"web/path", "web/reference"})
	layers["web/dashboard"] = slices.Concat(storage, pure, operations, view, []string{"web/page"})
	layers["web/console"] = slices.Concat(storage, pure, operations, view, []string{"app/operator", "web/page", "web/dashboard"}) // what both do in the same way is dashboard/share.go
	layers["web"] = slices.Concat(storage, pure, operations, view, []string{"app/operator", "web/page", "web/page/gallery", "web/api", "web/dashboard", "web/console"})
	layers["app/server"] = slices.Concat(storage, pure, operations, []string{"app/reseal", "app/alert", "db/embedded", "app/operator", "jobs", "web", "web/api", "web/dashboard", "web/console", "web/page/gallery", "web/path", "assets"})
	layers["app/demo"] = slices.Concat(layers["app/server"], []string{"app/server", "app/receive", "web/path"})
	layers["app"] = slices.Concat(storage, pure, operations, []string{"app/server", "app/demo", "app/doctor", "app/listen", "app/operator", "db/embedded", "web/path"})
}

func TestImportsFollowTheLayout(t *testing.T) {
	t.Parallel()
	root := ".."
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && rel != "." || rel == "e2e" || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		allowed, known := layers[pkg]
		if !known {
			if !seen[pkg] {
				t.Errorf("package %s is not in the table of layers", pkg)
			}
			seen[pkg] = true
			return nil
		}
		seen[pkg] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			ours, is := strings.CutPrefix(name, "waybill/")
			if is && !slices.Contains(allowed, ours) {
				t.Errorf("%s: %s may not import %s", rel, pkg, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"app/lane", "app/outbox", "app/sender", "db", "jobs", "web/api"} {
		if !seen[pkg] {
			t.Errorf("the walk did not find package %s", pkg)
		}
	}
}

// TestTopLevelIsFixed holds the top level of the repository to what was agreed.
func TestTopLevelIsFixed(t *testing.T) {
	t.Parallel()
	allowed := []string{"app", "web", "jobs", "db", "assets", "e2e", "Dockerfile", "fly.toml", "go.mod", "go.sum", "README.md"}
	entries, err := filepath.Glob("../[^.]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(allowed, filepath.Base(e)) {
			t.Errorf("%s is not part of the agreed top level", filepath.Base(e))
		}
	}
}
