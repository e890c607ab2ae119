package api

import (
	"cmp"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/fault"
	"waybill/web/reference"
)

// Reference is what a reader is told of the API. It is made from the table of routes and from the types of their bodies, as the OpenAPI document is.
func (a *API) Reference() reference.API {
	all := reference.API{URL: a.URL, SpecPath: "/v1/openapi.json", About: strings.Split(strings.ReplaceAll(apiDescription, "\n", " "), "  ")}
	problems := map[string]reference.Problem{}
	for _, p := range a.problemTypes() {
		shown := reference.Problem{Slug: path.Base(p.Type), Status: p.Status, Title: p.Title, Meaning: p.Meaning, Retry: p.Retry}
		all.Problems, problems[shown.Slug] = append(all.Problems, shown), shown
	}
	slices.SortStableFunc(all.Problems, func(x, y reference.Problem) int { return cmp.Compare(x.Status, y.Status) })
	for _, route := range a.Routes() {
		if route.Audience == ForTenant && route.inTenant() {
			continue // said beside the route itself
		}
		name := group(route)
		if route.Audience == ForPublic && route.Name != "PublicKeyRead" {
			name = "documents"
		}
		i := slices.IndexFunc(all.Nouns, func(n reference.Noun) bool { return n.Name == name })
		if i < 0 {
			i = len(all.Nouns)
			all.Nouns = append(all.Nouns, reference.Noun{Name: name, Slug: strings.ReplaceAll(name, " ", "-")})
		}
		op := a.operation(route)
		for _, kind := range route.faults() {
			op.Problems = append(op.Problems, problems[kind.Slug()])
		}
		all.Nouns[i].Operations = append(all.Nouns[i].Operations, op)
	}
	slices.SortFunc(all.Nouns, func(x, y reference.Noun) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

var audienceWords = map[Audience]string{
	ForPublic:   "Everybody, without a key",
	ForPlatform: "The platform's keys",
	ForTenant:   "A tenant's keys, and the platform's below a tenant's address",
	ForAnyone:   "Every key",
}

func (a *API) operation(route Route) reference.Operation {
	op := reference.Operation{
		Name: route.Name, Method: route.Method, Path: route.Pattern, Summary: route.Summary, Detail: route.Detail,
		Who: audienceWords[route.Audience], Scope: string(route.Scope), HasBody: route.Body != nil, Optional: route.Optional, Example: a.curl(route),
	}
	if route.Audience == ForTenant {
		op.Also = route.belowTenant().Pattern
	}
	for _, match := range wildcard.FindAllStringSubmatch(route.Pattern, -1) {
		op.Parameters = append(op.Parameters, reference.Field{Name: match[1], In: "path", Kind: "text", Required: true, About: pathParameters[match[1]]})
	}
	if route.Query != nil {
		for _, field := range fieldsOf(reflect.TypeOf(route.Query), "query", "", 0) {
			field.In = "query"
			op.Parameters = append(op.Parameters, field)
		}
	}
	if route.keyed() {
		for _, field := range fieldsOf(reflect.TypeFor[repeatable](), "header", "", 0) {
			field.In = "header"
			op.Parameters = append(op.Parameters, field)
		}
	} else if route.NoKey != "" {
		op.Detail = strings.TrimSpace(op.Detail + " An Idempotency-Key is not looked at. " + route.NoKey)
	}
	if route.Body != nil {
		op.Body, op.MaxBody = fieldsOf(reflect.TypeOf(route.Body), "json", "", 0), route.maxBody()
	}
	for _, answer := range route.Answers {
		shown := reference.Answer{Status: answer.Status, Title: http.StatusText(answer.Status), Stream: route.Stream}
		if answer.Body != nil && !route.Stream {
			shown.Fields = fieldsOf(reflect.TypeOf(answer.Body), "json", "", 0)
		}
		op.Answers = append(op.Answers, shown)
	}
	return op
}

// deepest is how many levels of a body are told.
const deepest = 4

// fieldsOf are the members of a struct as its tags describe them, with what lies inside them, in the order of the program.
func fieldsOf(t reflect.Type, by, before string, depth int) []reference.Field {
	var all []reference.Field
	if t.Kind() != reflect.Struct || depth > deepest {
		return nil
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get(by), ",")
		if field.Anonymous && name == "" {
			all = append(all, fieldsOf(field.Type, by, before, depth)...)
			continue
		}
		if name == "" || !field.IsExported() {
			continue
		}
		shown := reference.Field{Name: before + name, Required: field.Tag.Get("required") == "true", About: field.Tag.Get("description"), Rules: rules(field.Tag)}
		kind, inner, mark := kindOf(field.Type)
		if field.Type.Kind() == reflect.Pointer && shown.Required && !strings.Contains(options, "omit") {
			kind += " or null"
		}
		shown.Kind = kind
		all = append(all, shown)
		if inner != nil {
			all = append(all, fieldsOf(inner, by, before+name+mark+".", depth+1)...)
		}
	}
	return all
}

// kindOf says what a value of a type is, and which struct lies in it, behind which mark.
func kindOf(t reflect.Type) (kind string, inner reflect.Type, mark string) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return "time", nil, ""
	case reflect.TypeFor[jsontext.Value]():
		return "any JSON", nil, ""
	case reflect.TypeFor[MaybeLimit]():
		return "whole number or null", nil, ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.String:
		return "text", nil, ""
	case reflect.Bool:
		return "true or false", nil, ""
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "whole number", nil, ""
	case reflect.Slice:
		kind, inner, mark = kindOf(t.Elem())
		return "list of " + kind, inner, "[]" + mark
	case reflect.Map:
		kind, _, _ = kindOf(t.Elem())
		return "object of " + kind, nil, ""
	case reflect.Struct:
		return "object", t, ""
	}
	return "any JSON", nil, ""
}

// rules are the limits of a field in words.
func rules(tag reflect.StructTag) string {
	var words []string
	add := func(text string) { words = append(words, text) }
	if of := tag.Get("enum"); of != "" {
		add("one of " + strings.ReplaceAll(of, ",", ", "))
	}
	switch least, most := tag.Get("minimum"), tag.Get("maximum"); {
	case least != "" && most != "":
		add(least + " to " + most)
	case least != "":
		add(least + " or more")
	}
	switch least, most := tag.Get("minItems"), tag.Get("maxItems"); {
	case least != "" && most != "":
		add(least + " to " + most + " items")
	case most != "":
		add("at most " + most + " items")
	}
	if most := tag.Get("maxLength"); most != "" {
		add("at most " + most + " characters")
	}
	if form := tag.Get("pattern"); form != "" {
		add("must match " + form)
	}
	if usual := tag.Get("default"); usual != "" {
		add(usual + " unless told otherwise")
	}
	return strings.Join(words, "; ")
}

// examples are bodies that the routes take, by the routes' names. Every route that cannot do without a body has one.
var examples = map[string]string{
	"EndpointCreate":   `{"url": "https://shop.example.com/hooks", "types": ["consignment.*"], "description": "Order system"}`,
	"EndpointPut":      `{"url": "https://shop.example.com/hooks", "types": ["*"]}`,
	"EndpointPatch":    `{"types": ["consignment.delivered"], "limits": {"per_second": 20}}`,
	"EndpointTest":     `{"type": "consignment.delivered"}`,
	"EndpointRecover":  `{"since": "2026-11-17T00:00:00Z", "statuses": ["held"], "newest_per_resource": true, "dry_run": true}`,
	"EventPublish":     `{"tenant": "meenakshi-sarees", "type": "consignment.delivered", "resource": {"type": "consignment", "id": "C-4471"}, "data": {"status": "delivered"}}`,
	"EventTypePut":     `{"description": "The goods were handed over.", "schema": {"type": "object", "required": ["status"]}, "example": {"status": "delivered"}, "enforced": true}`,
	"EventTypeImport":  `{"event_types": [{"name": "consignment.delivered", "description": "The goods were handed over."}]}`,
	"ConsumerPut":      `{"types": ["consignment.*"], "from": {"at": "start"}}`,
	"ConsumerNext":     `{"limit": 100, "wait_seconds": 30}`,
	"ConsumerAck":      `{"cursor": "…"}`,
	"ConsumerSeek":     `{"time": "2026-11-17T00:00:00Z"}`,
	"InvitationCreate": `{"email": "meera@silkhouse.example", "role": "owner"}`,
	"KeyCreate":        `{"name": "order system", "scopes": ["catalog:read", "deliveries:read"]}`,
	"KeyRotate":        `{"overlap_seconds": 86400}`,
	"PortalLinkCreate": `{"label": "Meera"}`,
	"TenantPut":        `{"name": "Meenakshi Sarees", "time_zone": "Asia/Kolkata"}`,
}

// stands is what stands for a wildcard of a path in an example.
var stands = map[string]string{
	"uid": "meenakshi-sarees", "name": "warehouse", "type": "consignment", "slug": string(fault.CursorExpired), "secret": "sec_…", "endpoint": "ep_…",
}

// nounIDs is what an id of a noun looks like.
var nounIDs = map[string]string{"endpoints": "ep_…", "deliveries": "dlv_…", "events": "evt_…", "recoveries": "rcv_…", "keys": "key_…", "resources": "C-4471"}

// curl is the call of a route as a command.
func (a *API) curl(route Route) string {
	parts := strings.Split(route.Pattern, "/")
	noun := ""
	for i, part := range parts {
		match := wildcard.FindStringSubmatch(part)
		switch {
		case match == nil && part != "tenants" && nounIDs[part] != "":
			noun = part
		case match == nil:
		case match[1] == "id":
			parts[i] = nounIDs[noun]
		case strings.Contains(route.Pattern, "event-types"):
			parts[i] = "consignment.delivered"
		default:
			parts[i] = stands[match[1]]
		}
	}
	var text strings.Builder
	text.WriteString("curl ")
	if route.Stream {
		text.WriteString("-N ")
	}
	if route.Method != http.MethodGet {
		text.WriteString("-X " + route.Method + " ")
	}
	text.WriteString(strconv.Quote(a.URL + strings.Join(parts, "/")))
	if route.Audience != ForPublic {
		text.WriteString(" \\\n  -H \"Authorization: Bearer $WAYBILL_KEY\"")
	}
	if body := examples[route.Name]; body != "" {
		text.WriteString(" \\\n  -H \"Content-Type: application/json\" \\\n  -d '" + body + "'")
	}
	return text.String()
}
