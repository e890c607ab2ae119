package api

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waybill/app/fault"
)

// PageQuery are the parameters of every list. Embed it.
type PageQuery struct {
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50" description:"How many at most."`
	After string `query:"after" pattern:"^[A-Za-z0-9_-]+$" maxLength:"512" description:"The next of the page before; left out: the first page."`
}

// DecodeQuery reads the parameters of a request into a T, a struct whose fields have tags: query (the name) and, checked here and shown in the
// OpenAPI document alike, minimum, maximum, default, enum (separated by commas) and maxLength. Fields are string, bool, int, *int, *time.Time
// (RFC 3339) or []string (the parameter may be repeated). Everything wrong is reported at once, as Invalid with fields; a cursor
// (after) that is none is left to the operation.
func DecodeQuery[T any](r *http.Request) (T, error) {
	var into T
	values, err := parseQuery(r)
	if err != nil {
		return into, err
	}
	wrong := fault.New(fault.Invalid, "A parameter is not valid.")
	decodeStruct(values, reflect.ValueOf(&into).Elem(), wrong)
	return into, wrong.OrNil()
}

func parseQuery(r *http.Request) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.Wrap(fault.Malformed, "The query string cannot be read.", err)
	}
	return values, nil
}

// checkQuery refuses parameters that the route does not know: a mistyped filter must not show everything.
func checkQuery(r *http.Request, route Route) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := parseQuery(r)
	if err != nil {
		return err
	}
	var known []string
	if route.Query != nil {
		known = queryNames(reflect.TypeOf(route.Query))
	}
	wrong := fault.New(fault.Invalid, "A parameter is not known here.")
	for name := range values {
		if !slices.Contains(known, name) {
			wrong.Field(strings.ToValidUTF8(name[:min(len(name), 100)], "?"), "is not known here; known are: "+strings.Join(known, ", "))
		}
	}
	slices.SortFunc(wrong.Fields, func(x, y fault.Field) int { return strings.Compare(x.Name, y.Name) })
	return wrong.OrNil()
}

func queryNames(of reflect.Type) []string {
	var names []string
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Anonymous {
			names = append(names, queryNames(field.Type)...)
		} else {
			names = append(names, field.Tag.Get("query"))
		}
	}
	return names
}

func decodeStruct(values url.Values, into reflect.Value, wrong *fault.Error) {
	for i := range into.NumField() {
		field := into.Type().Field(i)
		if field.Anonymous {
			decodeStruct(values, into.Field(i), wrong)
			continue
		}
		name := field.Tag.Get("query")
		given := values[name]
		if len(given) == 0 {
			if usual := field.Tag.Get("default"); usual != "" {
				given = []string{usual}
			} else {
				continue
			}
		}
		if why := decodeField(given, into.Field(i), field.Tag); why != "" {
			wrong.Field(name, why)
		}
	}
}

func decodeField(given []string, into reflect.Value, tag reflect.StructTag) (why string) {
	if into.Kind() != reflect.Slice && len(given) > 1 {
		return "is given more than once"
	}
	for _, text := range given {
		if why := checkParameter(text, tag); why != "" {
			return why
		}
	}
	switch target := into.Addr().Interface().(type) {
	case *string:
		*target = given[0]
	case *[]string:
		*target = given
	case *bool:
		return decodeBool(given[0], target)
	case *int:
		return decodeInt(given[0], target, tag)
	case **int:
		*target = new(int)
		return decodeInt(given[0], *target, tag)
	case **time.Time:
		return decodeTime(given[0], target)
	default:
		panic("api: parameters cannot be of type " + into.Type().String())
	}
	return ""
}

func checkParameter(text string, tag reflect.StructTag) string {
	longest := 200
	if tagged, err := strconv.Atoi(tag.Get("maxLength")); err == nil {
		longest = tagged
	}
	allowed := tag.Get("enum")
	switch {
	case tag.Get("query") == "after":
		return "" // a bad cursor is Malformed, and the one who decodes it says so
	case len(text) > longest:
		return "must have at most " + strconv.Itoa(longest) + " characters"
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "must not contain control characters"
	case allowed != "" && !slices.Contains(strings.Split(allowed, ","), text):
		return "must be one of " + strings.ReplaceAll(allowed, ",", ", ")
	}
	return ""
}

func decodeBool(text string, into *bool) string {
	switch text {
	case "true":
		*into = true
	case "false":
		*into = false
	default:
		return "must be true or false"
	}
	return ""
}

func decodeInt(text string, into *int, tag reflect.StructTag) string {
	least, errLeast := strconv.Atoi(tag.Get("minimum"))
	most, errMost := strconv.Atoi(tag.Get("maximum"))
	n, err := strconv.Atoi(text)
	switch {
	case errLeast != nil || errMost != nil:
		panic("api: a number needs the tags minimum and maximum")
	case err != nil || n < least || n > most:
		return "must be a whole number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most)
	}
	*into = n
	return ""
}

func decodeTime(text string, into **time.Time) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		// A plus sign that was not escaped arrives as a space (CASES B53).
		return "must be a time such as 2026-11-17T09:41:05Z or 2026-11-17T15:11:05%2B05:30"
	}
	*into = &at
	return ""
}
