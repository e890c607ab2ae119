package catalog

import (
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
)

func (s *shelf) types() (*Types, account.Caller) {
	return &Types{DB: s.pool, Accounts: &account.Service{DB: s.pool, Now: time.Now}}, account.Waybill("test", "")
}

func TestSchemasAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`: "",
		`true`: "",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array","prefixItems":[{"type":"string"}]}`: "",
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`:                                                       "must be of JSON Schema 2020-12",
		`{"type":"objekt"}`:                         "is no JSON Schema: type ",
		`{"properties":{"a":{"minimum":"1"}}}`:      "is no JSON Schema: properties.a.minimum ",
		`{"$ref":"https://example.com/other.json"}`: "must not refer to other documents",
		`{"$ref":"file:///etc/passwd"}`:             "must not refer to other documents",
		`{"$ref":"#/$defs/none"}`:                   "is no JSON Schema",
		`{"pattern":"(?<!a)b"}`:                     "is no JSON Schema",
	} {
		_, err := compile([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestEnforcement(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	types, platform := s.types()
	put := func(in EventTypeInput) error {
		_, err := types.EventTypePut(t.Context(), platform, "order.paid", in)
		return err
	}
	schema := `{"type":"object","properties":{"n":{"type":"integer"},"items":{"type":"array","items":{"type":"string"}}},"required":["n"],"additionalProperties":false}`
	wantFields(t, put(EventTypeInput{Enforced: true}), "enforced")
	wantFields(t, put(EventTypeInput{Schema: []byte(schema), Example: []byte(`{"n":"1"}`)}), "example.n")
	if err := put(EventTypeInput{Schema: []byte(schema), Example: []byte(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	bad := Payload{Type: "order.paid", Data: []byte(`{"n":1.5,"items":["a",2],"more":true}`)}
	if err := types.Enforce(t.Context(), []Payload{bad}); err != nil {
		t.Errorf("a schema that is not enforced refuses: %v", err)
	}
	if err := put(EventTypeInput{Schema: []byte(schema), Enforced: true, SchemaVersion: 2}); err != nil {
		t.Fatal(err)
	}
	wantFields(t, types.Enforce(t.Context(), []Payload{bad}), "version")
	bad.Version = 2
	wantFields(t, types.Enforce(t.Context(), []Payload{bad}), "data.n", "data.items[1]", "data")
	good := Payload{Type: "order.paid", Version: 2, Data: []byte(`{"n":9007199254740993}`)}
	other := Payload{Type: "order.lost", Data: []byte(`"anything"`)}
	wantFields(t, types.Enforce(t.Context(), []Payload{good, other, bad}), "events[2].data.n", "events[2].data.items[1]", "events[2].data")
	if err := types.Enforce(t.Context(), []Payload{good, other, {Type: "no type\x00"}}); err != nil {
		t.Error(err)
	}
	// The next call knows the next schema.
	if err := put(EventTypeInput{Schema: []byte(`false`), Enforced: true, SchemaVersion: 2}); err != nil {
		t.Fatal(err)
	}
	wantFields(t, types.Enforce(t.Context(), []Payload{good}), "data")
}

// wantFields checks that err is Invalid with exactly these fields, in any order.
func wantFields(t *testing.T, err error, names ...string) {
	t.Helper()
	got := fault.From(err)
	if err == nil || got.Kind != fault.Invalid {
		t.Errorf("%v, want fields %q", err, names)
		return
	}
	want := map[string]bool{}
	for _, name := range names {
		want[name] = true
	}
	for _, field := range got.Fields {
		if !want[field.Name] || field.Detail == "" {
			t.Errorf("field %q: %s", field.Name, field.Detail)
		}
		delete(want, field.Name)
	}
	if len(want) > 0 {
		t.Errorf("%v lacks the fields %v", err, want)
	}
}

const openDoc = `{"openapi":"3.1.0","info":{"title":"Freight","version":"1"},"webhooks":{
 "consignment.delivered":{"post":{"summary":"Arrived","description":"It has\narrived.","tags":["Consignments"],"requestBody":{"$ref":"#/components/requestBodies/Delivered"}}},
 "consignment.lost":{"$ref":"#/components/pathItems/Lost"},
 "consignment.booked":{"post":{"deprecated":true}}},
"components":{
 "pathItems":{"Lost":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"z":{"$ref":"#/components/schemas/Place"},"a":{"type":"integer","maximum":9007199254740993}}}}}}}}},
 "requestBodies":{"Delivered":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Envelope"},"examples":{"one":{"value":{"id":"x","data":{"at":{"city":"Pune"}}}}}}}}},
 "schemas":{
  "Envelope":{"type":"object","properties":{"id":{"type":"string"},"type":{"type":"string"},"data":{"type":"object","properties":{"at":{"$ref":"#/components/schemas/Place"}},"required":["at"]}}},
  "Place":{"type":"object","properties":{"city":{"$ref":"#/components/schemas/City"},"next":{"$ref":"#/components/schemas/Place"}}},
  "City":{"type":"string"}}}}`

func TestImportFromOpenAPI(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	types, platform := s.types()
	found, err := FromOpenAPI([]byte(openDoc))
	if err != nil || len(found) != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	delivered, lost := found[1], found[2]
	if delivered.Description != "It has arrived." || delivered.Group != "Consignments" || string(delivered.Example) != `{"at":{"city":"Pune"}}` || !found[0].Deprecated {
		t.Errorf("%+v", found)
	}
	if want := `{"type":"object","properties":{"z":{"$ref":"#/$defs/Place"},"a":{"type":"integer","maximum":9007199254740993}},"$defs":` +
		`{"Place":{"type":"object","properties":{"city":{"$ref":"#/$defs/City"},"next":{"$ref":"#/$defs/Place"}}},"City":{"type":"string"}}}`; string(lost.Schema) != want {
		t.Errorf("%s\nwant\n%s", lost.Schema, want)
	}
	for round, want := range []string{"created", "unchanged", "changed"} {
		if round == 2 {
			found[2].Description = "It is lost."
			want = "unchanged changed"
		}
		done, err := types.Import(t.Context(), platform, found)
		if err != nil || len(done) != 3 || string(done[2].Outcome) != want && want != "unchanged changed" {
			t.Errorf("%v, %v", done, err)
		}
		if round == 2 && (done[1].Outcome != ImportUnchanged || done[2].Outcome != ImportChanged) {
			t.Errorf("%v", done)
		}
	}
	// All or none, with the place of each mistake.
	wantFields(t, importError(types, t, platform, NamedType{Name: "a.b"}, NamedType{Name: "a-b"}, NamedType{Name: "a.b"}), "event_types[1].name", "event_types[2].name")
	if _, err := types.EventTypeRead(t.Context(), s.caller, "a.b"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if _, err := types.Import(t.Context(), s.caller, found); fault.KindOf(err) != fault.Forbidden {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{"webhooks":{}}`:                          "webhooks",
		`{"webhooks":{"a":{"get":{}}}}`:            "webhooks.a",
		`{"webhooks":{"a":{"$ref":"other.json"}}}`: "webhooks.a",
		`{"webhooks":{"a":{"$ref":"#/components/pathItems/A"}},"components":{"pathItems":{"A":{"$ref":"#/components/pathItems/A"}}}}`:        "webhooks.a",
		`{"webhooks":{"a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"x":{"$ref":"#/components/schemas/None"}}}}}}}}}`: "webhooks.a",
		`{"webhooks":{"a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"x":{"$ref":"https://example.com/x"}}}}}}}}}`:     "webhooks.a",
		`{"webhooks":[]}`: "webhooks",
	} {
		_, err := FromOpenAPI([]byte(text))
		wantFields(t, err, want)
	}
}

func importError(types *Types, t *testing.T, caller account.Caller, in ...NamedType) error {
	_, err := types.Import(t.Context(), caller, in)
	return err
}

func TestWhatBreaksAnEnforcedSchemaIsFlagged(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	types, platform := s.types()
	put := func(name string, enforced bool) {
		t.Helper()
		in := EventTypeInput{Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`), Enforced: enforced, SchemaVersion: 2}
		if _, err := types.EventTypePut(t.Context(), platform, name, in); err != nil {
			t.Fatal(err)
		}
	}
	put("order.paid", true)
	put("order.free", false)
	event := func(change func(*Event)) Event {
		e := Event{Type: "order.paid", Version: 2, Body: []byte(`{"id":"x","data":{"n":"1","n":"2"}}`)}
		change(&e)
		return e
	}
	for name, c := range map[string]struct {
		event Event
		want  string
	}{
		"wrong":              {event(func(e *Event) { e.Body = []byte(`{"id":"x","data":{"n":"1"}}`) }), "data.n"},
		"missing":            {event(func(e *Event) { e.Body = []byte(`{"id":"x","data":{}}`) }), "data"},
		"right":              {event(func(e *Event) { e.Body = []byte(`{"id":"x","data":{"n":1}}`) }), ""},
		"a name twice":       {event(func(*Event) {}), "data.n"},
		"of a later version": {event(func(e *Event) { e.Version = 3 }), "version"},
		"of an earlier one":  {event(func(e *Event) { e.Version = 1 }), ""},
		"a test":             {event(func(e *Event) { e.Test = true }), ""},
		"not enforced":       {event(func(e *Event) { e.Type = "order.free" }), ""},
		"unknown":            {event(func(e *Event) { e.Type = "order.unknown" }), ""},
	} {
		got, err := types.Breaks(t.Context(), s.caller, c.event)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		where := ""
		for _, field := range got {
			where += field.Name
		}
		if where != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
	if _, err := types.Breaks(t.Context(), account.Caller{}, event(func(*Event) {})); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("whoever may not read the catalog is told: %v", err)
	}
}
