package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
)

// NamedType is an event type as an import brings it.
type NamedType struct {
	Name string
	EventTypeInput
}

// ImportOutcome says what was done with a type.
type ImportOutcome string

// The outcomes.
const (
	ImportCreated   ImportOutcome = "created"
	ImportChanged   ImportOutcome = "changed"
	ImportUnchanged ImportOutcome = "unchanged"
)

// Imported is a type that was imported.
type Imported struct {
	Name    string
	Outcome ImportOutcome
}

// MaxImport is how many types one import may bring.
const MaxImport = 500

// Import brings types into the catalog, all or none; those that it does not name stay as they are. It needs types:write.
func (c *Types) Import(ctx context.Context, caller account.Caller, types []NamedType) ([]Imported, error) {
	if err := caller.Can(account.TypesWrite); err != nil {
		return nil, err
	}
	if len(types) == 0 || len(types) > MaxImport {
		return nil, fault.New(fault.Invalid, "Nothing was imported.").Field("event_types", fmt.Sprintf("must have 1 to %d items", MaxImport))
	}
	wrong, seen := fault.New(fault.Invalid, "Nothing was imported."), map[string]bool{}
	for i := range types {
		t := &types[i]
		if t.SchemaVersion == 0 {
			t.SchemaVersion = 1
		}
		at := fmt.Sprintf("event_types[%d].", i)
		var found *fault.Error
		if errors.As(checkEventType(t.Name, t.EventTypeInput), &found) {
			for _, field := range found.Fields {
				wrong.Field(at+field.Name, field.Detail)
			}
		}
		if seen[t.Name] {
			wrong.Field(at+"name", "is given twice")
		}
		seen[t.Name] = true
	}
	if err := wrong.OrNil(); err != nil {
		return nil, err
	}
	// In one order, so that two imports at once wait for each other and do not lock each other out.
	ordered := slices.SortedFunc(slices.Values(types), func(x, y NamedType) int { return strings.Compare(x.Name, y.Name) })
	var done []Imported
	err := db.Tx(ctx, c.DB, func(tx pgx.Tx) error {
		done = nil
		for _, t := range ordered {
			outcome, err := c.importOne(ctx, tx, caller, t)
			if err != nil {
				return err
			}
			done = append(done, Imported{t.Name, outcome})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func (c *Types) importOne(ctx context.Context, tx pgx.Tx, caller account.Caller, t NamedType) (ImportOutcome, error) {
	rows, err := tx.Query(ctx, eventTypeRead, t.Name)
	if err != nil {
		return "", fmt.Errorf("read event type: %w", err)
	}
	now, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (EventType, error) { return scanEventType(row) })
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return "", fmt.Errorf("read event type: %w", err)
	case now.Description == t.Description && now.Group == t.Group && bytes.Equal(now.Schema, t.Schema) && bytes.Equal(now.Example, t.Example) &&
		now.SchemaVersion == t.SchemaVersion && (now.DeprecatedAt != nil) == t.Deprecated && now.Enforced == t.Enforced:
		return ImportUnchanged, nil
	}
	_, created, err := c.put(ctx, tx, caller, t.Name, t.EventTypeInput)
	if created {
		return ImportCreated, err
	}
	return ImportChanged, err
}

// FromOpenAPI are the event types that an OpenAPI 3.1 document describes in its section webhooks: each name with its operation's description, first tag,
// schema and example of the JSON body. A body that is our envelope (data beside id or type) stands for the schema of its data. Schemas of the
// document's components go along as $defs. Faults name what cannot be used.
func FromOpenAPI(document []byte) ([]NamedType, error) {
	var root struct {
		Webhooks   map[string]jsontext.Value            `json:"webhooks"`
		Components map[string]map[string]jsontext.Value `json:"components"`
	}
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, fault.Wrap(fault.Invalid, "The OpenAPI document cannot be read.", err).Field("webhooks", "must be an object of path items")
	}
	d := &openDocument{components: root.Components}
	wrong := fault.New(fault.Invalid, "The OpenAPI document cannot be used.")
	names := make([]string, 0, len(root.Webhooks))
	for name := range root.Webhooks {
		names = append(names, name)
	}
	slices.Sort(names)
	var types []NamedType
	for _, name := range names {
		t, err := d.webhook(name, root.Webhooks[name])
		if err != nil {
			wrong.Field("webhooks."+short(name, 100), short(err.Error(), 300))
			continue
		}
		types = append(types, t)
	}
	if len(names) == 0 {
		wrong.Field("webhooks", "has none")
	}
	return types, wrong.OrNil()
}

// openDocument is what references are looked up in.
type openDocument struct {
	components map[string]map[string]jsontext.Value
}

// maxHops is how many references are followed one after the other.
const maxHops = 20

// lookUp follows an object that only refers to a component of a kind.
func (d *openDocument) lookUp(value jsontext.Value, kind string) (jsontext.Value, error) {
	for range maxHops {
		var object map[string]jsontext.Value
		if value.Kind() != '{' || json.Unmarshal(value, &object, jsontext.AllowDuplicateNames(true)) != nil || object["$ref"] == nil {
			return value, nil
		}
		var ref string
		if err := json.Unmarshal(object["$ref"], &ref); err != nil {
			return nil, errors.New("has a $ref that is no text")
		}
		name, is := strings.CutPrefix(ref, "#/components/"+kind+"/")
		if value = d.components[kind][pointerToken(name)]; !is || value == nil {
			return nil, fmt.Errorf("refers to %q, which is not among the document's components", short(ref, 100))
		}
	}
	return nil, errors.New("refers in a circle")
}

// pointerToken is one token of a JSON Pointer, unescaped (RFC 6901).
func pointerToken(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "~1", "/"), "~0", "~")
}

func (d *openDocument) webhook(name string, item jsontext.Value) (NamedType, error) {
	item, err := d.lookUp(item, "pathItems")
	if err != nil {
		return NamedType{}, err
	}
	type operation struct {
		Summary     string         `json:"summary"`
		Description string         `json:"description"`
		Tags        []string       `json:"tags"`
		Deprecated  bool           `json:"deprecated"`
		RequestBody jsontext.Value `json:"requestBody"`
	}
	var methods struct {
		Post *operation `json:"post"`
		Put  *operation `json:"put"`
	}
	if err := json.Unmarshal(item, &methods); err != nil {
		return NamedType{}, errors.New("must be a path item")
	}
	op := methods.Post
	if op == nil {
		op = methods.Put
	}
	if op == nil {
		return NamedType{}, errors.New("has no operation post")
	}
	t := NamedType{Name: name, EventTypeInput: EventTypeInput{Description: op.Description, Deprecated: op.Deprecated}}
	if t.Description == "" {
		t.Description = op.Summary
	}
	t.Description = strings.TrimSpace(strings.ReplaceAll(t.Description, "\n", " "))
	if len(op.Tags) > 0 {
		t.Group = op.Tags[0]
	}
	if op.RequestBody == nil {
		return t, nil
	}
	return t, d.body(&t, op.RequestBody)
}

// body reads the schema and the example of a webhook's JSON body.
func (d *openDocument) body(t *NamedType, body jsontext.Value) error {
	body, err := d.lookUp(body, "requestBodies")
	if err != nil {
		return err
	}
	type example struct {
		Value jsontext.Value `json:"value"`
	}
	var request struct {
		Content map[string]struct {
			Schema   jsontext.Value     `json:"schema"`
			Example  jsontext.Value     `json:"example"`
			Examples map[string]example `json:"examples"`
		} `json:"content"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return errors.New("has a requestBody that cannot be read")
	}
	content, is := request.Content["application/json"]
	if !is {
		return nil
	}
	if len(content.Examples) > 0 && content.Example == nil {
		names := make([]string, 0, len(content.Examples))
		for name := range content.Examples {
			names = append(names, name)
		}
		content.Example = content.Examples[slices.Min(names)].Value
	}
	schema, data, err := d.data(content.Schema)
	if err != nil {
		return err
	}
	if t.Example = content.Example; data && t.Example != nil {
		var envelope struct {
			Data jsontext.Value `json:"data"`
		}
		if json.Unmarshal(t.Example, &envelope) != nil || envelope.Data == nil {
			return errors.New("has an example without data, which its schema has")
		}
		t.Example = envelope.Data
	}
	if schema != nil {
		t.Schema, err = d.bundle(schema)
	}
	return err
}

// data is the schema of an event's data: that of the envelope's member, when the schema is of an envelope, else the schema itself.
func (d *openDocument) data(schema jsontext.Value) (of jsontext.Value, enveloped bool, err error) {
	if schema == nil {
		return nil, false, nil
	}
	whole, err := d.lookUp(schema, "schemas")
	if err != nil {
		return nil, false, err
	}
	var envelope struct {
		Properties map[string]jsontext.Value `json:"properties"`
	}
	if whole.Kind() != '{' || json.Unmarshal(whole, &envelope, jsontext.AllowDuplicateNames(true)) != nil {
		return schema, false, nil
	}
	p := envelope.Properties
	if p["data"] != nil && (p["type"] != nil || p["id"] != nil) {
		return p["data"], true, nil
	}
	return schema, false, nil
}

// bundle makes a schema stand alone: what it refers to goes along as $defs.
func (d *openDocument) bundle(schema jsontext.Value) (jsontext.Value, error) {
	wanted := []string{}
	schema, err := rewriteRefs(schema, &wanted)
	if err != nil || len(wanted) == 0 {
		return schema, err
	}
	if schema.Kind() != '{' {
		return schema, nil
	}
	defs := bytes.NewBufferString("{")
	for i := 0; i < len(wanted); i++ {
		component := d.components["schemas"][wanted[i]]
		if component == nil {
			return nil, fmt.Errorf("refers to the schema %q, which is not among the document's components", short(wanted[i], 100))
		}
		text, err := rewriteRefs(component, &wanted)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			defs.WriteByte(',')
		}
		name, err := jsontext.AppendQuote(nil, wanted[i])
		if err != nil {
			return nil, err
		}
		defs.Write(name)
		defs.WriteByte(':')
		defs.Write(text)
		if defs.Len() > 4*MaxDocument {
			return nil, fmt.Errorf("has a schema of more than %d bytes with what it refers to", MaxDocument)
		}
	}
	defs.WriteByte('}')
	text := bytes.TrimSuffix(schema, []byte("}")) // it is compact, and has a $ref at least
	return slices.Concat(text, []byte(`,"$defs":`), defs.Bytes(), []byte("}")), nil
}

// rewriteRefs turns references to the document's schemas into such to $defs, in compact form, and notes which.
func rewriteRefs(schema jsontext.Value, wanted *[]string) (jsontext.Value, error) {
	var out bytes.Buffer
	in := jsontext.NewDecoder(bytes.NewReader(schema))
	to := jsontext.NewEncoder(&out)
	name := ""
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes()), nil
		}
		if err != nil {
			return nil, errors.New("has a schema that cannot be read: " + err.Error())
		}
		if token.Kind() == '"' {
			kind, n := in.StackIndex(in.StackDepth())
			text := token.String()
			switch {
			case kind == '{' && n%2 == 1:
				name = text
			case kind == '{' && name == "$ref":
				if rest, is := strings.CutPrefix(text, "#/components/schemas/"); is {
					first, _, _ := strings.Cut(rest, "/")
					if first = pointerToken(first); !slices.Contains(*wanted, first) {
						*wanted = append(*wanted, first)
					}
					token = jsontext.String("#/$defs/" + rest)
				} else if !strings.HasPrefix(text, "#") {
					return nil, fmt.Errorf("refers to %q, which is another document", short(text, 100))
				}
			}
		}
		if err := to.WriteToken(token); err != nil {
			return nil, err
		}
	}
}
