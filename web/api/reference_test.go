package api

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// The reference says of every route what the table says, and every example is a body that its route reads.
func TestReferenceIsWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	said := map[string]bool{}
	for _, noun := range b.Reference().Nouns {
		if noun.Slug == "" || strings.Contains(noun.Slug, " ") {
			t.Errorf("%q is no address", noun.Slug)
		}
		for _, op := range noun.Operations {
			if said[op.Method+" "+op.Path] = true; op.Also != "" {
				said[op.Method+" "+op.Also] = true
			}
			if op.Summary == "" || op.Who == "" || len(op.Answers) == 0 || len(op.Problems) < 3 {
				t.Errorf("%s: something is missing: %+v", op.Name, op)
			}
			for _, p := range op.Problems {
				if p.Slug == "" || p.Meaning == "" {
					t.Errorf("%s: a problem is not explained: %+v", op.Name, p)
				}
			}
			if command, _, _ := strings.Cut(op.Example, "\n"); strings.ContainsAny(command, "{}") || strings.Contains(command, "//\"") || strings.HasSuffix(strings.Trim(command, `" \`), "/") {
				t.Errorf("%s: the example is not filled in: %s", op.Name, op.Example)
			}
		}
	}
	known := map[string]bool{}
	for _, route := range b.Routes() {
		known[route.Name] = true
		if !said[route.Method+" "+route.Pattern] {
			t.Errorf("%s %s is not in the reference", route.Method, route.Pattern)
		}
		if strings.HasPrefix(route.Name, "Tenant") && route.inTenant() {
			continue
		}
		example := examples[route.Name]
		if route.Body != nil && !route.Optional && example == "" {
			t.Errorf("%s has no example", route.Name)
		}
		if example == "" {
			continue
		}
		into := reflect.New(reflect.TypeOf(route.Body))
		if err := json.Unmarshal([]byte(example), into.Interface(), json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: the example is not taken: %v", route.Name, err)
		}
		if strings.Contains(example, "'") {
			t.Errorf("%s: a shell would end the example at its apostrophe", route.Name)
		}
	}
	for name := range examples {
		if !known[name] {
			t.Errorf("there is an example of %s, which is no route", name)
		}
	}
}

func TestReferenceTellsOfFields(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, noun := range b.Reference().Nouns {
		for _, op := range noun.Operations {
			if op.Name != "ConsumerNext" {
				continue
			}
			var names []string
			for _, field := range slices.Concat(op.Parameters, op.Body, op.Answers[0].Fields) {
				names = append(names, field.Name)
			}
			want := "name limit lease_seconds wait_seconds data data[].cursor data[].event data[].event.id"
			if got := strings.Join(names, " "); !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
			if limit := op.Body[0]; limit.Rules != "1 to 1000; 50 unless told otherwise" || limit.Kind != "whole number" || limit.Required {
				t.Errorf("%+v", limit)
			}
			return
		}
	}
	t.Error("there is no ConsumerNext")
}
