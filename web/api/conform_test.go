package api

import (
	"bytes"
	"flag"
	"fmt"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// conformity holds what the server really answers against the document: every call of every test goes through it.
var conformity struct {
	once     sync.Once
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
	seen    map[string]bool // route and status
}

const documentName = "waybill:openapi"

// conform fails the test when an answer is not as the document says: its status, its content type, its body.
func (b *bench) conform(t *testing.T, r *http.Request, got answer) {
	t.Helper()
	probe := r.Clone(r.Context())
	_, pattern := b.mux.Handler(probe)
	method, path, found := strings.Cut(pattern, " ")
	if !found || method != r.Method {
		return // no route of ours, or HEAD of one
	}
	conformity.once.Do(func() {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(document("https://waybill.test", (&API{}).Routes())))
		if err != nil {
			t.Fatal(err)
		}
		conformity.compiler = jsonschema.NewCompiler()
		conformity.compiler.DefaultDraft(jsonschema.Draft2020)
		conformity.compiler.AssertFormat()
		if err := conformity.compiler.AddResource(documentName, document); err != nil {
			t.Fatal(err)
		}
		conformity.schemas, conformity.seen = map[string]*jsonschema.Schema{}, map[string]bool{}
	})
	conformity.mu.Lock()
	defer conformity.mu.Unlock()
	conformity.seen[fmt.Sprintf("%s %d", pattern, got.status)] = true
	at := fmt.Sprintf("%s#/paths/%s/%s/responses/%d", documentName, strings.ReplaceAll(path, "/", "~1"), strings.ToLower(method), got.status)
	if got.body == "" {
		return
	}
	media, _, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil {
		t.Errorf("%s answers %d as %q", pattern, got.status, got.header.Get("Content-Type"))
		return
	}
	at += "/content/" + strings.ReplaceAll(media, "/", "~1") + "/schema"
	schema := conformity.schemas[at]
	if schema == nil {
		if schema, err = conformity.compiler.Compile(at); err != nil {
			t.Errorf("%s answers %d as %s, which the document does not say: %v", pattern, got.status, media, err)
			return
		}
		conformity.schemas[at] = schema
	}
	body, err := jsonschema.UnmarshalJSON(strings.NewReader(got.body))
	if err != nil {
		t.Errorf("%s answers %d with %q: %v", pattern, got.status, got.body, err)
		return
	}
	if err := schema.Validate(body); err != nil {
		t.Errorf("%s answers %d not as the document says: %v\n%s", pattern, got.status, err, got.body)
	}
}

// unseen are successful answers that no test gets by bench.call, with the reason.
var unseen = map[string]string{
	"GET /v1/events/stream 200":               "its body has no end: TestEventStream reads it",
	"GET /v1/tenants/{uid}/events/stream 200": "its body has no end: TestEventStream reads it",
}

// TestMain checks, after a run of all tests, that each successful answer of each route was really given, and so held against the document.
func TestMain(m *testing.M) {
	code := m.Run()
	if all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""; code == 0 && all && conformity.seen != nil {
		var missing []string
		for _, route := range (&API{}).Routes() {
			if strings.HasPrefix(route.Name, "Tenant") && route.Audience == ForTenant {
				continue // the same handler at the platform's address
			}
			for _, a := range route.Answers {
				if key := fmt.Sprintf("%s %s %d", route.Method, route.Pattern, a.Status); !conformity.seen[key] && unseen[key] == "" {
					missing = append(missing, key)
				}
			}
		}
		if slices.Sort(missing); len(missing) > 0 {
			fmt.Fprintf(os.Stderr, "no test gets these answers, so nobody knows whether the document is right about them:\n%s\n", strings.Join(missing, "\n"))
			code = 1
		}
	}
	os.Exit(code)
}
