package dashboard

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill/web/page"
)

const (
	maxFields     = 200
	maxFieldDepth = 4
)

// schemaFields lists the fields that a JSON Schema describes, as far as a table can: properties, and those of nested objects and of the items
// of lists. What it does not understand it leaves to the schema itself, which stands below.
func schemaFields(schema jsontext.Value) []page.SchemaField {
	var root map[string]any
	if schema == nil || json.Unmarshal(schema, &root) != nil {
		return nil
	}
	var fields []page.SchemaField
	collectFields(&fields, root, propertyOrder(schema), "", 0)
	return fields
}

func collectFields(fields *[]page.SchemaField, schema map[string]any, order map[string]int, prefix string, depth int) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	names := slices.SortedFunc(maps.Keys(properties), func(a, b string) int {
		return order[prefix+a] - order[prefix+b]
	})
	for _, name := range names {
		if len(*fields) >= maxFields {
			return
		}
		property, _ := properties[name].(map[string]any)
		field := page.SchemaField{Name: prefix + name, Kind: kindWords(property), Description: text(property["description"]), Required: slices.Contains(required, any(name))}
		*fields = append(*fields, field)
		if depth >= maxFieldDepth {
			continue
		}
		if items, ok := property["items"].(map[string]any); ok {
			collectFields(fields, items, order, field.Name+"[].", depth+1)
		}
		collectFields(fields, property, order, field.Name+".", depth+1)
	}
}

// kindWords says a property's type: "string or null", "list of string", "one of a, b".
func kindWords(property map[string]any) string {
	if values, ok := property["enum"].([]any); ok {
		return "one of " + text(values)
	}
	words := ""
	switch kind := property["type"].(type) {
	case string:
		words = kind
	case []any:
		each := make([]string, len(kind))
		for i := range kind {
			each[i] = text(kind[i])
		}
		words = strings.Join(each, " or ")
	}
	if items, ok := property["items"].(map[string]any); ok && words == "array" {
		if of := kindWords(items); of != "any" {
			return "list of " + of
		}
		return "list"
	}
	if format, ok := property["format"].(string); ok && words != "" {
		words += ", " + text(format)
	}
	if words == "" {
		return "any"
	}
	return words
}

// propertyOrder numbers the paths of properties in the order in which the schema has them: a map forgets it.
func propertyOrder(schema jsontext.Value) map[string]int {
	order := map[string]int{}
	decoder := jsontext.NewDecoder(strings.NewReader(string(schema)))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return order
		}
		if token.Kind() != '"' {
			continue
		}
		path := ""
		steps := strings.Split(string(decoder.StackPointer()), "/")
		for i := 1; i < len(steps); i++ {
			switch {
			case steps[i] == "properties" && i+1 < len(steps):
				i++
				path += unescaped(steps[i]) + "."
			case steps[i] == "items":
				path = strings.TrimSuffix(path, ".") + "[]."
			}
		}
		path = strings.TrimSuffix(path, ".")
		if _, known := order[path]; !known {
			order[path] = len(order)
		}
	}
}

// unescaped is a step of a JSON pointer (RFC 6901, section 4).
func unescaped(step string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func secondsOf(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
