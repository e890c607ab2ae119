package api

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/swaggest/jsonschema-go"
	openapi "github.com/swaggest/openapi-go"
	"github.com/swaggest/openapi-go/openapi31"

	"waybill/app/account"
	"waybill/app/fault"
)

// apiVersion is the version in the document. The 1 is that of the addresses; the rest grows with what is added.
const apiVersion = "1.0"

const apiDescription = `Waybill delivers a platform's events to its tenants' endpoints, signed, and shows what happened.

Send an API key as a bearer token. A platform key calls a tenant's routes below ` + "`/v1/tenants/{uid}`" + `, where uid is your own id of the tenant.
Bodies are JSON in UTF-8; members and parameters that are not known are refused. Lists answer a page and the cursor of the next one.
Every error is a problem (RFC 9457); its type is an address that explains it. Keys are limited in how often they may ask: see the RateLimit
headers. An answer of 503 changed nothing and can be tried again after the seconds of Retry-After.`

// document makes the OpenAPI 3.1 document of the routes. It panics when a route cannot be described: a mistake in the program, which
// every test of this package would find.
func document(address string, routes []Route) []byte {
	r := openapi31.NewReflector()
	r.Spec.Info.WithTitle("Waybill").WithVersion(apiVersion).WithDescription(apiDescription + problemTable(address))
	r.Spec.WithServers(openapi31.Server{URL: address})
	r.SpecSchema().SetHTTPBearerTokenSecurity("key", "", "An API key: wbp_… of the platform, wbt_… of a tenant.")
	r.DefaultOptions = append(r.DefaultOptions, jsonschema.InterceptDefName(schemaName), jsonschema.InterceptNullability(nullability))
	r.AddTypeMapping(time.Time{}, timestamp(""))
	r.AddTypeMapping(jsontext.Value{}, anyJSON{})
	for _, route := range routes {
		if err := describe(r, route); err != nil {
			panic(fmt.Sprintf("api: %s %s cannot be described: %v", route.Method, route.Pattern, err))
		}
	}
	allowNull(r.Spec, routes)
	text, err := r.Spec.MarshalJSON()
	if err != nil {
		panic("api: " + err.Error())
	}
	return append(text, '\n')
}

// problemTable lists every type of problem, for a reader of the document.
func problemTable(address string) string {
	var text strings.Builder
	text.WriteString("\n\n| type of problem | status | meaning | the same request again |\n|---|---|---|---|\n")
	for _, p := range (&API{Config: Config{URL: address}}).problemTypes() {
		fmt.Fprintf(&text, "| `%s` | %d | %s | %s |\n", p.Type, p.Status, p.Meaning, p.Retry)
	}
	return text.String()
}

func describe(r *openapi31.Reflector, route Route) error {
	op, err := r.NewOperationContext(route.Method, route.Pattern)
	if err != nil {
		return err
	}
	op.SetID(route.Name)
	op.SetSummary(route.Summary)
	op.SetDescription(description(route))
	op.SetTags(group(route))
	if route.Audience != ForPublic {
		op.AddSecurity("key")
	}
	if path := pathStruct(route.Pattern); path != nil {
		op.AddReqStructure(path)
	}
	if route.Query != nil {
		op.AddReqStructure(route.Query)
	}
	if route.Body != nil {
		op.AddReqStructure(route.Body)
	}
	for _, answer := range route.Answers {
		options := []openapi.ContentOption{openapi.WithHTTPStatus(answer.Status)}
		if route.Stream {
			options = append(options, openapi.WithContentType("text/event-stream"))
		}
		op.AddRespStructure(answer.Body, options...)
	}
	if route.keyed() {
		op.AddReqStructure(new(repeatable))
	}
	described := 0 // kinds are in the order of their statuses
	for _, kind := range route.faults() {
		if kind.Status() == described {
			continue
		}
		described = kind.Status()
		op.AddRespStructure(new(Problem), openapi.WithHTTPStatus(kind.Status()), openapi.WithContentType("application/problem+json"))
	}
	return r.AddOperation(op)
}

// repeatable is the header of calls that can be sent twice.
type repeatable struct {
	Key string `header:"Idempotency-Key" maxLength:"255" description:"Of your own making, new for each call. The same call again with the same key within 24 hours is not carried out again: it is answered as the first was, with Idempotency-Replayed: true. A call that was refused leaves the key free."`
}

func description(route Route) string {
	parts := []string{}
	if route.Detail != "" {
		parts = append(parts, route.Detail)
	}
	if route.NoKey != "" {
		parts = append(parts, "An Idempotency-Key is not looked at. "+route.NoKey)
	}
	switch route.Audience {
	case ForPlatform:
		parts = append(parts, "For platform keys with the right `"+string(route.Scope)+"`.")
	case ForTenant, ForAnyone:
		parts = append(parts, "Needs the right `"+string(route.Scope)+"`.")
	}
	return strings.Join(parts, "\n\n")
}

// group is the noun a route is listed under: the first part of its address.
func group(route Route) string {
	if route.Audience == ForTenant && route.inTenant() {
		return "For the platform: in a tenant"
	}
	parts := strings.Split(strings.TrimPrefix(route.Pattern, "/v1/"), "/")
	if parts[0] == "tenants" && len(parts) > 2 {
		parts = parts[2:]
	}
	return strings.ReplaceAll(parts[0], "-", " ")
}

var wildcard = regexp.MustCompile(`\{([a-z_]+)(\.\.\.)?\}`)

// pathParameters says what stands in the braces of patterns.
var pathParameters = map[string]string{
	"uid": "Your own id of the tenant.",
}

// pathStruct is a pointer to a struct with the pattern's parameters as fields, which is how the reflector wants them; nil without any.
func pathStruct(pattern string) any {
	var fields []reflect.StructField
	for i, match := range wildcard.FindAllStringSubmatch(pattern, -1) {
		tag := fmt.Sprintf(`path:%q`, match[1])
		if text := pathParameters[match[1]]; text != "" {
			tag += fmt.Sprintf(` description:%q`, text)
		}
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("P%d", i), Type: reflect.TypeFor[string](), Tag: reflect.StructTag(tag),
		})
	}
	if fields == nil {
		return nil
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// timestamp stands for time.Time in schemas.
type timestamp string

func (timestamp) JSONSchemaBytes() ([]byte, error) {
	return []byte(`{"type":"string","format":"date-time","examples":["2026-11-17T09:41:05.123Z"]}`), nil
}

// anyJSON stands for jsontext.Value in schemas.
type anyJSON struct{}

func (anyJSON) JSONSchemaBytes() ([]byte, error) { return []byte(`{}`), nil }

// schemaName names a schema by its Go type, which is written for that: api.Endpoint is Endpoint, List[api.Endpoint] is EndpointList.
func schemaName(t reflect.Type, _ string) string {
	name := t.Name()
	outer, inner, generic := strings.Cut(name, "[")
	if !generic {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	inner = strings.TrimSuffix(inner, "]")
	inner = inner[strings.LastIndexByte(inner, '.')+1:]
	return inner + outer
}

// allowNull says of every member that is a pointer and always written that it may be null, where its schema stands elsewhere: the reflector says so
// only of those that stand in place.
func allowNull(spec *openapi31.Spec, routes []Route) {
	seen := map[reflect.Type]bool{}
	for _, route := range routes {
		for _, answer := range route.Answers {
			if answer.Body != nil {
				allowNullIn(spec, reflect.TypeOf(answer.Body), seen)
			}
		}
	}
}

func allowNullIn(spec *openapi31.Spec, t reflect.Type, seen map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || seen[t] {
		return
	}
	seen[t] = true
	properties, _ := spec.Components.Schemas[schemaName(t, "")]["properties"].(map[string]any)
	for _, field := range reflect.VisibleFields(t) {
		if !field.IsExported() {
			continue
		}
		allowNullIn(spec, field.Type, seen)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property, known := properties[name].(map[string]any)
		if known && property["$ref"] != nil && field.Type.Kind() == reflect.Pointer && field.Tag.Get("required") == "true" {
			property["anyOf"] = []any{map[string]any{"$ref": property["$ref"]}, map[string]any{"type": "null"}}
			delete(property, "$ref")
		}
	}
}

// nullability takes null out of arrays and maps: we always write [] and {}.
func nullability(params jsonschema.InterceptNullabilityParams) {
	if kind := params.Type.Kind(); kind == reflect.Slice || kind == reflect.Map {
		params.Schema.RemoveType(jsonschema.Null)
	}
}

func (a *API) documentRoutes() []Route {
	return []Route{
		{
			Name: "DocumentRead", Method: http.MethodGet, Pattern: "/v1/openapi.json", Audience: ForPublic,
			Summary: "Read this document",
			Answers: []Answer{{http.StatusOK, map[string]any{}}},
			Handle:  a.documentRead,
		},
		{
			Name: "ProblemRead", Method: http.MethodGet, Pattern: "/v1/problems/{slug}", Audience: ForPublic,
			Summary: "Read what a type of problem means",
			Answers: []Answer{{http.StatusOK, ProblemType{}}},
			Handle:  a.problemRead,
		},
	}
}

// ProblemType explains one type of problem.
type ProblemType struct {
	Type    string `json:"type" required:"true" format:"uri"`
	Title   string `json:"title" required:"true"`
	Status  int    `json:"status" required:"true"`
	Meaning string `json:"meaning" required:"true"`
	Retry   string `json:"retry" required:"true" description:"Whether and when the same request can be sent again."`
}

const fixFirst = "The same request will be refused again: change it first."

// problemTypes explains every kind of fault, and the one that only the mux knows.
func (a *API) problemTypes() []ProblemType {
	texts := map[fault.Kind][2]string{
		fault.Malformed:       {"The request cannot be read: its body is not JSON in UTF-8, is missing or was cut off, or a cursor is not one of this list's.", fixFirst},
		fault.Unauthenticated: {"No API key was sent, or one that is not valid, has expired or was revoked.", "With a valid key."},
		fault.Forbidden:       {"The key is valid and may not do this: it lacks a right, or the address is for other keys.", "With a key that has the right."},
		fault.LimitReached:    {"The tenant has as many of this as the platform allows it: its limits are on its settings page and in GET /v1/limits.", "After one has been deleted, or the platform has raised the limit."},
		fault.NotFound:        {"There is no such thing, or it belongs to another tenant.", fixFirst},
		fault.Conflict:        {"The request clashes with what is stored: another content under the same id, or a state in which this cannot be done.", "After looking at the present state."},
		fault.InProgress:      {"Another call with the same Idempotency-Key is being answered, or was carried out while its answer was lost.", "In a moment; the answer of the first is given then. If it stays, read what is there now."},
		fault.LeaseHeld:       {"Another reader of this consumer has been given events that it has not acknowledged yet.", "After the seconds of Retry-After."},
		fault.CursorExpired:   {"The cursor is older than what is kept, so there may be events that its reader has missed.", "Without the cursor, from the oldest event that is kept; the gap report and GET /v1/resources say what else is missing."},
		fault.KeyReused:       {"The Idempotency-Key was used within a day for a call with another address or content.", "With a new key."},
		fault.Gone:            {"It was there, its time is over, and it will not come back.", "No."},
		fault.TooLarge:        {"The body is larger than what is read at this address.", "In smaller parts."},
		fault.Unsupported:     {"The body has a content type or a content encoding that is not read here. Send JSON in UTF-8, uncompressed.", fixFirst},
		fault.Invalid:         {"The request can be read, and a value breaks a rule: errors says which and what is allowed.", fixFirst},
		fault.RateLimited:     {"The key asks more often than it may, or a tenant that something is published to has had as many events as it may, a second or a day.", "After the seconds of Retry-After. Without one, in smaller parts."},
		fault.Internal:        {"We made a mistake. The request id leads us to it.", "Once or twice; then tell us."},
		fault.Unavailable:     {"We cannot answer just now: the database is busy or restarting. Nothing was changed.", "After the seconds of Retry-After."},
	}
	types := []ProblemType{{
		Type: a.problemType(methodNotAllowed), Title: methodTitle, Status: http.StatusMethodNotAllowed,
		Meaning: "The address exists and takes other methods: the header Allow names them.", Retry: fixFirst,
	}}
	for _, kind := range fault.Kinds() {
		types = append(types, ProblemType{
			Type: a.problemType(kind.Slug()), Title: kind.Title(), Status: kind.Status(), Meaning: texts[kind][0], Retry: texts[kind][1],
		})
	}
	return types
}

func (a *API) problemRead(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	asked := a.problemType(r.PathValue("slug"))
	for _, known := range a.problemTypes() {
		if known.Type == asked {
			return WriteJSON(w, http.StatusOK, known)
		}
	}
	return fault.New(fault.NotFound, "There is no such type of problem.")
}

func (a *API) documentRead(w http.ResponseWriter, _ *http.Request, _ account.Caller) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(a.spec())
	return nil
}
