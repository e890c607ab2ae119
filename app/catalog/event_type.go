package catalog

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/plain"
	"waybill/db"
	"waybill/db/queries"
)

// Types performs the operations on event types: the platform's words for what happens, the same for all tenants. DB and Accounts are required.
type Types struct {
	DB       db.Pool
	Accounts *account.Service // records what was done
	// Operations is the uid of the tenant that gets operational events, whose catalog has their types as well; empty: none.
	Operations string

	schemas schemas
}

// EventType is one type with its documentation.
type EventType struct {
	Name          string
	Description   string
	Group         string         // a heading to list it under; may be empty
	Schema        jsontext.Value // JSON Schema 2020-12 of the data; nil: none
	Example       jsontext.Value // an example of the data; nil: none
	SchemaVersion int
	Enforced      bool       // the API refuses to publish what does not match the schema
	DeprecatedAt  *time.Time // nil: it is not
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// EventTypeInput is what the platform says about a type. It replaces what was said before.
type EventTypeInput struct {
	Description   string
	Group         string
	Schema        []byte // an object, true or false; nil: none
	Example       []byte // any JSON; nil: none
	SchemaVersion int    // 0: 1
	Enforced      bool   // needs a schema
	Deprecated    bool
}

// MaxDocument is the size of a schema or an example, in bytes.
const MaxDocument = 64 << 10

var (
	eventTypePut  = queries.SQL("EventTypePut")
	eventTypeRead = queries.SQL("EventTypeRead")
	eventTypeList = queries.SQL("EventTypeList")
)

// typeForm is the constraint event_types_name_is_plain, with maxType.
var typeForm = regexp.MustCompile(`^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$`)

const (
	maxType  = 128
	maxDepth = 64
)

func validType(name string) bool { return len(name) <= maxType && typeForm.MatchString(name) }

// EventTypePut creates or replaces a type. It needs types:write.
func (c *Types) EventTypePut(ctx context.Context, caller account.Caller, name string, in EventTypeInput) (EventType, error) {
	if err := caller.Can(account.TypesWrite); err != nil {
		return EventType{}, err
	}
	if in.SchemaVersion == 0 {
		in.SchemaVersion = 1
	}
	if err := checkEventType(name, in); err != nil {
		return EventType{}, err
	}
	var stored EventType
	err := db.Tx(ctx, c.DB, func(tx pgx.Tx) (err error) {
		stored, _, err = c.put(ctx, tx, caller, name, in)
		return err
	})
	if err != nil {
		return EventType{}, err
	}
	return stored, nil
}

// put creates or replaces a type that was checked.
func (c *Types) put(ctx context.Context, tx pgx.Tx, caller account.Caller, name string, in EventTypeInput) (stored EventType, created bool, err error) {
	rows, err := tx.Query(ctx, eventTypePut, name, in.Description, in.Group, orNull(in.Schema), orNull(in.Example), in.SchemaVersion, in.Deprecated, in.Enforced)
	if err != nil {
		return EventType{}, false, fmt.Errorf("put event type: %w", err)
	}
	stored, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (EventType, error) { return scanEventType(row, &created) })
	if err != nil {
		return EventType{}, false, fmt.Errorf("put event type: %w", err)
	}
	action := "event_type.changed"
	if created {
		action = "event_type.created"
	}
	detail := map[string]any{"schema_version": in.SchemaVersion, "deprecated": in.Deprecated, "enforced": in.Enforced}
	return stored, created, c.Accounts.Record(ctx, tx, caller, action, name, detail)
}

func checkEventType(name string, in EventTypeInput) error {
	wrong := fault.New(fault.Invalid, "This event type cannot be saved.")
	if !validType(name) {
		wrong.Field("name", "must be words of A-Z a-z 0-9 _ joined by full stops, 128 characters at most")
	}
	if why := plain.Line(in.Description, 0, 2000); why != "" {
		wrong.Field("description", why)
	}
	if why := plain.Line(in.Group, 0, 100); why != "" {
		wrong.Field("group", why)
	}
	if in.SchemaVersion < 1 || in.SchemaVersion > 1_000_000 {
		wrong.Field("schema_version", "must be 1 to 1000000")
	}
	if why := checkDocument(in.Schema); why != "" {
		wrong.Field("schema", why)
	} else if kind := jsontext.Value(in.Schema).Kind(); in.Schema != nil && kind != '{' && kind != 't' && kind != 'f' {
		wrong.Field("schema", "must be a JSON Schema: an object, true or false")
	}
	if why := checkDocument(in.Example); why != "" {
		wrong.Field("example", why)
	}
	switch {
	case in.Schema == nil && in.Enforced:
		wrong.Field("enforced", "needs a schema")
	case in.Schema != nil && len(wrong.Fields) == 0:
		schema, err := compile(in.Schema)
		if err != nil {
			wrong.Field("schema", err.Error())
		} else if in.Example != nil {
			for _, field := range validate(schema, in.Example) {
				wrong.Field("example"+field.Name, "does not match the schema: "+field.Detail)
			}
		}
	}
	return wrong.OrNil()
}

func checkDocument(text []byte) string {
	switch {
	case text == nil:
		return ""
	case len(text) > MaxDocument:
		return fmt.Sprintf("must have at most %d bytes", MaxDocument)
	case plain.Depth(text) > maxDepth:
		return fmt.Sprintf("must nest at most %d levels deep", maxDepth)
	case !jsontext.Value(text).IsValid():
		return "must be JSON in UTF-8, with each name once"
	}
	return ""
}

func orNull(text []byte) *string {
	if text == nil {
		return nil
	}
	whole := string(text)
	return &whole
}

func scanEventType(row pgx.CollectableRow, more ...any) (EventType, error) {
	var t EventType
	var schema, example string
	err := row.Scan(append([]any{&t.Name, &t.Description, &t.Group, &schema, &example, &t.SchemaVersion, &t.Enforced, &t.DeprecatedAt, &t.CreatedAt, &t.UpdatedAt},
		more...)...)
	if schema != "" {
		t.Schema = jsontext.Value(schema)
	}
	if example != "" {
		t.Example = jsontext.Value(example)
	}
	return t, err
}

func errNoType() error {
	return fault.New(fault.NotFound, "There is no such event type in the catalog.")
}

// EventTypeRead is one type of the catalog. It needs catalog:read.
func (c *Types) EventTypeRead(ctx context.Context, caller account.Caller, name string) (EventType, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return EventType{}, err
	}
	if !validType(name) {
		return EventType{}, errNoType()
	}
	rows, err := c.DB.Query(ctx, eventTypeRead, name)
	if err != nil {
		return EventType{}, fmt.Errorf("read event type: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (EventType, error) { return scanEventType(row) })
	if errors.Is(err, pgx.ErrNoRows) {
		if own, is := c.ownType(caller, name); is {
			return own, nil
		}
		return EventType{}, errNoType()
	}
	if err != nil {
		return EventType{}, fmt.Errorf("read event type: %w", err)
	}
	return found, nil
}

const typeCursor = "event-types"

// EventTypeList is a page of at most limit types by name, of one group or (empty) all, and the cursor of the next page or "". It needs catalog:read.
func (c *Types) EventTypeList(ctx context.Context, caller account.Caller, group, after string, limit int) ([]EventType, string, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return nil, "", err
	}
	from := ""
	if after != "" {
		keys, err := cursor.Decode(typeCursor, after, 1)
		if err != nil {
			return nil, "", err
		}
		if from = keys[0]; !validType(from) {
			return nil, "", cursor.ErrForeign()
		}
	}
	rows, err := c.DB.Query(ctx, eventTypeList, group, from, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list event types: %w", err)
	}
	types, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (EventType, error) { return scanEventType(row) })
	if err != nil {
		return nil, "", fmt.Errorf("list event types: %w", err)
	}
	types = c.withOwn(caller, types, group, from, limit+1)
	if len(types) <= limit {
		return types, "", nil
	}
	return types[:limit], cursor.Encode(typeCursor, types[limit-1].Name), nil
}
