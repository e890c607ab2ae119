package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"waybill/app/logline"
)

// Every attribute of every line that the program writes has a name of the one table, and every name of the table is used: a literal, so that this test
// sees it. The receiver kit writes into its owner's log, by its own names.
func TestLogHasFixedNames(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	look := func(path string) error {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		name := func(e ast.Expr) {
			literal, ok := e.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				if sel, ok := e.(*ast.SelectorExpr); !ok || !isName(sel.X, "logline") {
					t.Errorf("%s: the name of an attribute is neither a literal nor one of package logline", set.Position(e.Pos()))
				}
				return
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Error(err)
			}
			used[text] = true
			if logline.Names[text] == "" {
				t.Errorf("%s: %q is not in app/logline/names.go", set.Position(e.Pos()), text)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, isContext := strings.CutSuffix(sel.Sel.Name, "Context")
			switch {
			case isName(sel.X, "slog") && slices.Contains([]string{"String", "Int", "Int64", "Uint64", "Float64", "Bool", "Time", "Duration", "Any", "Group"}, sel.Sel.Name):
				name(call.Args[0])
			case slices.Contains([]string{"Debug", "Info", "Warn", "Error", "With"}, method) && isLogger(sel.X):
				first := 1 // behind the message
				if isContext {
					first++
				}
				if method == "With" {
					first = 0
				}
				for i := first; i < len(call.Args); i += 2 {
					if c, ok := call.Args[i].(*ast.CallExpr); ok && len(call.Args) > i {
						_ = c // a slog.Attr, which is looked at by itself
						i--
						continue
					}
					name(call.Args[i])
				}
			}
			return true
		})
		return nil
	}
	for _, dir := range []string{"../app", "../db", "../jobs", "../web"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"receive", "logline", "testdata"}, d.Name()):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			return look(path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(used) < 20 {
		t.Fatalf("the walk found %d names", len(used))
	}
	canonical := []string{logline.RequestID, logline.Method, logline.Route, logline.Status, logline.Bytes, logline.TookMS, logline.Caller, logline.AttemptCount,
		logline.Delivered, logline.Undelivered, logline.Retried, logline.Classes, logline.Endpoints, logline.SlowestMS}
	for known := range logline.Names {
		if !used[known] && !slices.Contains(canonical, known) {
			t.Errorf("nobody writes %q: take it out of app/logline/names.go", known)
		}
	}
}

func isName(e ast.Expr, want string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == want
}

// isLogger goes by the name: a log, or a logger, of somebody.
func isLogger(e ast.Expr) bool {
	last := ""
	switch x := e.(type) {
	case *ast.Ident:
		last = x.Name
	case *ast.SelectorExpr:
		last = x.Sel.Name
	}
	last = strings.ToLower(last)
	return last == "log" || last == "logger"
}
