package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/queries"
)

// draft is the only dialect of JSON Schema that the catalog takes.
const draft = "https://json-schema.org/draft/2020-12/schema"

// schemaAddress is what a schema is called while it is compiled; references in it are to itself.
const schemaAddress = "waybill:schema"

// maxMistakes is how many mistakes of one event are told.
const maxMistakes = 20

// noLoader refuses every document beside the schema itself: a schema reads no file of ours and no address.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("must not refer to other documents")
}

// compile makes a schema of JSON Schema 2020-12 that validates. Its error goes on after the name of an input.
func compile(text []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("must be JSON")
	}
	if object, is := document.(map[string]any); is {
		if named, given := object["$schema"]; given && strings.TrimSuffix(fmt.Sprint(named), "#") != draft {
			return nil, errors.New("must be of JSON Schema 2020-12: leave $schema out, or name " + draft)
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(schemaAddress, document); err != nil {
		return nil, errors.New("is no JSON Schema: " + shortWords(err))
	}
	schema, err := compiler.Compile(schemaAddress)
	var wrong *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	var loading *jsonschema.LoadURLError
	switch {
	case errors.As(err, &wrong) && errors.As(wrong.Err, &invalid):
		first := mistakes(invalid)[0]
		return nil, fmt.Errorf("is no JSON Schema: %s %s", strings.TrimPrefix(first.Name, "."), first.Detail)
	case errors.As(err, &loading):
		return nil, errors.New("must not refer to other documents: put what is needed into $defs")
	case err != nil:
		return nil, errors.New("is no JSON Schema: " + shortWords(err))
	}
	return schema, nil
}

// validate says what is wrong with a JSON text by a schema: nothing, or the first mistakes, each named by its place behind the text's own name.
func validate(schema *jsonschema.Schema, text []byte) []fault.Field {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []fault.Field{{Detail: "must be JSON"}}
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &invalid) {
		return mistakes(invalid)
	} else if err != nil {
		return []fault.Field{{Detail: "cannot be checked: " + shortWords(err)}}
	}
	return nil
}

var english = message.NewPrinter(language.English)

// mistakes are the leaves of an error's tree: where, and what.
func mistakes(err *jsonschema.ValidationError) (found []fault.Field) {
	if len(err.Causes) == 0 {
		name := ""
		for _, token := range err.InstanceLocation {
			if strings.Trim(token, "0123456789") == "" && token != "" {
				name += "[" + token + "]"
			} else {
				name += "." + short(token, 100)
			}
		}
		return []fault.Field{{Name: short(name, 300), Detail: short(err.ErrorKind.LocalizedString(english), 300)}}
	}
	for _, cause := range err.Causes {
		if found = append(found, mistakes(cause)...); len(found) >= maxMistakes {
			return found[:maxMistakes]
		}
	}
	return found
}

func shortWords(err error) string { return short(err.Error(), 300) }

// short is text on one line, cut.
func short(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > n {
		return strings.ToValidUTF8(text[:n], "") + "…"
	}
	return text
}

// Payload is what is about to be published of one event.
type Payload struct {
	Type    string
	Version int // of the schema; 0: 1
	Data    []byte
}

var sqlEnforced = queries.SQL("EventTypesEnforced")

// compiled is a schema with the time of the type that it is of.
type compiled struct {
	at     time.Time
	schema *jsonschema.Schema
}

// schemas are compiled schemas, by type.
type schemas struct {
	mu    sync.Mutex
	known map[string]compiled
}

// maxCompiled bounds what is remembered; beyond it, all is forgotten.
const maxCompiled = 1000

// Enforce refuses payloads that break the schema of a type that is enforced: Invalid, with fields named as in the API: data.weight, or events[3].data.weight
// of several. An enforced type takes its present version only. What is published in SQL is not asked.
func (c *Types) Enforce(ctx context.Context, payloads []Payload) error {
	names := map[string]bool{}
	for _, p := range payloads {
		names[p.Type] = true
	}
	var asked []string
	for name := range names {
		if validType(name) {
			asked = append(asked, name)
		}
	}
	rules, err := c.enforced(ctx, asked)
	if err != nil || len(rules) == 0 {
		return err
	}
	wrong := fault.New(fault.Invalid, "The data does not match the schema of its event type.")
	for i, p := range payloads {
		rule, is := rules[p.Type]
		if !is {
			continue
		}
		at := ""
		if len(payloads) > 1 {
			at = fmt.Sprintf("events[%d].", i)
		}
		if max(p.Version, 1) != rule.version {
			wrong.Field(at+"version", fmt.Sprintf("must be %d, the version of %s that is in force", rule.version, p.Type))
			continue
		}
		for _, field := range validate(rule.schema, p.Data) {
			wrong.Field(at+"data"+field.Name, field.Detail)
		}
		if len(wrong.Fields) >= 2*maxMistakes {
			break
		}
	}
	return wrong.OrNil()
}

// Breaks says where an event does not match the schema that is enforced of its type now, with fields named as in the API: data.weight. Nothing for
// an event that matches, for a type that is not enforced, for a test event, for one whose content was taken out, and for an event of an earlier version, whose schema is not known any more. Only
// what was published in SQL, or before the schema was enforced as it is, can break it. It needs catalog:read.
func (c *Types) Breaks(ctx context.Context, caller account.Caller, event Event) ([]fault.Field, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return nil, err
	}
	if event.Test || event.ExpungedAt != nil || !validType(event.Type) {
		return nil, nil
	}
	rules, err := c.enforced(ctx, []string{event.Type})
	rule, is := rules[event.Type]
	switch {
	case err != nil || !is || event.Version < rule.version:
		return nil, err
	case event.Version > rule.version:
		return []fault.Field{{Name: "version", Detail: fmt.Sprintf("must be %d, the version of %s that is in force", rule.version, event.Type)}}, nil
	}
	var envelope struct {
		Data jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(event.Body, &envelope, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("read the data of an event: %w", err)
	}
	wrong := validate(rule.schema, envelope.Data)
	for i := range wrong {
		wrong[i].Name = "data" + wrong[i].Name
	}
	return wrong, nil
}

type rule struct {
	version int
	schema  *jsonschema.Schema
}

// enforced are the rules of those of the types that have any.
func (c *Types) enforced(ctx context.Context, names []string) (map[string]rule, error) {
	rows, err := c.DB.Query(ctx, sqlEnforced, names)
	if err != nil {
		return nil, fmt.Errorf("read enforced types: %w", err)
	}
	rules := map[string]rule{}
	var name, text string
	var version int
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&name, &version, &at, &text}, func() error {
		schema, err := c.schema(name, at, text)
		rules[name] = rule{version, schema}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read enforced types: %w", err)
	}
	return rules, nil
}

// schema is the compiled schema of a type as of a time.
func (c *Types) schema(name string, at time.Time, text string) (*jsonschema.Schema, error) {
	c.schemas.mu.Lock()
	defer c.schemas.mu.Unlock()
	if known := c.schemas.known[name]; known.schema != nil && known.at.Equal(at) {
		return known.schema, nil
	}
	made, err := compile([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the schema of %s, which was checked when it was saved: %w", name, err)
	}
	if len(c.schemas.known) >= maxCompiled || c.schemas.known == nil {
		c.schemas.known = map[string]compiled{}
	}
	c.schemas.known[name] = compiled{at, made}
	return made, nil
}
