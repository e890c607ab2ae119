package outbox_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waybill/app/fault"
	"waybill/app/outbox"
	"waybill/db/dbtest"
)

func nested(levels int) []byte {
	return []byte(strings.Repeat("[", levels) + strings.Repeat("]", levels))
}

func sized(bytes int) []byte { return []byte(`"` + strings.Repeat("x", bytes-2) + `"`) }

func sequence(n int64) *int64 { return &n }

func at(year int) *time.Time {
	tm := time.Date(year, 6, 1, 12, 0, 0, 0, time.UTC)
	return &tm
}

// refusals are events that are not taken, each with the field that is at fault.
var refusals = map[string]struct {
	change func(*outbox.Event)
	field  string
	kind   fault.Kind
}{
	"unknown tenant":            {func(e *outbox.Event) { e.Tenant = "nobody" }, "tenant", fault.Invalid},
	"no tenant":                 {func(e *outbox.Event) { e.Tenant = "" }, "tenant", fault.Invalid},
	"a tenant with a quote":     {func(e *outbox.Event) { e.Tenant = "o'brien" }, "tenant", fault.Invalid},
	"a tenant with a NUL":       {func(e *outbox.Event) { e.Tenant = "a\x00" }, "tenant", fault.Invalid},
	"a tenant of another case":  {func(e *outbox.Event) { e.Tenant = strings.ToUpper(e.Tenant) }, "tenant", fault.Invalid},
	"no type":                   {func(e *outbox.Event) { e.Type = "" }, "type", fault.Invalid},
	"type ends with a dot":      {func(e *outbox.Event) { e.Type = "user." }, "type", fault.Invalid},
	"type is a pattern":         {func(e *outbox.Event) { e.Type = "user.*" }, "type", fault.Invalid},
	"type with a space":         {func(e *outbox.Event) { e.Type = "user created" }, "type", fault.Invalid},
	"type with a line end":      {func(e *outbox.Event) { e.Type = "user.created\n" }, "type", fault.Invalid},
	"type of 129 characters":    {func(e *outbox.Event) { e.Type = strings.Repeat("t", 129) }, "type", fault.Invalid},
	"type with a NUL":           {func(e *outbox.Event) { e.Type = "a\x00b" }, "type", fault.Invalid},
	"type not UTF-8":            {func(e *outbox.Event) { e.Type = "a\xff" }, "type", fault.Invalid},
	"no resource type":          {func(e *outbox.Event) { e.ResourceType = "" }, "resource.type", fault.Invalid},
	"resource type with slash":  {func(e *outbox.Event) { e.ResourceType = "a/b" }, "resource.type", fault.Invalid},
	"resource type of 65":       {func(e *outbox.Event) { e.ResourceType = strings.Repeat("r", 65) }, "resource.type", fault.Invalid},
	"no resource id":            {func(e *outbox.Event) { e.ResourceID = "" }, "resource.id", fault.Invalid},
	"resource id of 201":        {func(e *outbox.Event) { e.ResourceID = strings.Repeat("é", 201) }, "resource.id", fault.Invalid},
	"resource id with a tab":    {func(e *outbox.Event) { e.ResourceID = "a\tb" }, "resource.id", fault.Invalid},
	"resource id with DEL":      {func(e *outbox.Event) { e.ResourceID = "a\x7f" }, "resource.id", fault.Invalid},
	"resource id with a NUL":    {func(e *outbox.Event) { e.ResourceID = "\x00" }, "resource.id", fault.Invalid},
	"a negative sequence":       {func(e *outbox.Event) { e.Sequence = sequence(-1) }, "sequence", fault.Invalid},
	"a sequence of 2^53":        {func(e *outbox.Event) { e.Sequence = sequence(1 << 53) }, "sequence", fault.Invalid},
	"a negative version":        {func(e *outbox.Event) { e.Version = -1 }, "version", fault.Invalid},
	"version 1000001":           {func(e *outbox.Event) { e.Version = 1_000_001 }, "version", fault.Invalid},
	"version 2^32 + 1":          {func(e *outbox.Event) { e.Version = 1<<32 + 1 }, "version", fault.Invalid},
	"the year 0":                {func(e *outbox.Event) { e.OccurredAt = at(0) }, "occurred_at", fault.Invalid},
	"the year 10000":            {func(e *outbox.Event) { e.OccurredAt = at(10_000) }, "occurred_at", fault.Invalid},
	"id with full stops":        {func(e *outbox.Event) { e.ID = `a.1700000000.{"x":1}` }, "id", fault.Invalid},
	"id with a space":           {func(e *outbox.Event) { e.ID = "a b" }, "id", fault.Invalid},
	"id with a header in it":    {func(e *outbox.Event) { e.ID = "a\r\nX: y" }, "id", fault.Invalid},
	"id with a line end":        {func(e *outbox.Event) { e.ID = "abc\n" }, "id", fault.Invalid},
	"id not ASCII":              {func(e *outbox.Event) { e.ID = "é" }, "id", fault.Invalid},
	"id percent-encoded":        {func(e *outbox.Event) { e.ID = "%2e" }, "id", fault.Invalid},
	"id with a zero-width":      {func(e *outbox.Event) { e.ID = "a\u200bb" }, "id", fault.Invalid},
	"id of 65 characters":       {func(e *outbox.Event) { e.ID = strings.Repeat("i", 65) }, "id", fault.Invalid},
	"no data":                   {func(e *outbox.Event) { e.Data = nil }, "data", fault.Invalid},
	"data is no JSON":           {func(e *outbox.Event) { e.Data = []byte(`{"a":`) }, "data", fault.Invalid},
	"data is two values":        {func(e *outbox.Event) { e.Data = []byte(`1 2`) }, "data", fault.Invalid},
	"data with a NUL":           {func(e *outbox.Event) { e.Data = []byte("\"\x00\"") }, "data", fault.Invalid},
	"data not UTF-8":            {func(e *outbox.Event) { e.Data = []byte("\"\xff\"") }, "data", fault.Invalid},
	"data 65 levels deep":       {func(e *outbox.Event) { e.Data = nested(65) }, "data", fault.Invalid},
	"data 60,000 levels deep":   {func(e *outbox.Event) { e.Data = nested(60_000) }, "data", fault.Invalid},
	"data of 256 KiB and a bit": {func(e *outbox.Event) { e.Data = sized(outbox.MaxData + 1) }, "data", fault.TooLarge},
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	for name, c := range refusals {
		bad := event(tenant.UID, c.change)
		_, err := outbox.Publish(t.Context(), pool, bad)
		refusedAs(t, name, err, c.kind, c.field)
		_, err = outbox.Publish(t.Context(), pool, event(tenant.UID), event(tenant.UID), bad, event(tenant.UID))
		refusedAs(t, name+", third of four", err, c.kind, "events[2]."+c.field)
	}
	for _, n := range []int{0, outbox.MaxBatch + 1} {
		_, err := outbox.Publish(t.Context(), pool, make([]outbox.Event, n)...)
		refusedAs(t, "a batch of the wrong size", err, fault.Invalid, "events")
	}
	stored(t, pool, 0, 0)
}

func refusedAs(t *testing.T, name string, err error, kind fault.Kind, field string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Errorf("%s: error %v, want one that people may see", name, err)
		return
	}
	if f.Kind != kind || len(f.Fields) != 1 || f.Fields[0].Name != field || f.Fields[0].Detail == "" {
		t.Errorf("%s: %s about %v, want %s about %s", name, f.Kind, f.Fields, kind, field)
	}
}

// What SQL refuses is what the API refuses: publish and Publish stand on the same function.
func TestPublishInSQLRefusesTheSame(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	for name, c := range refusals {
		ev := event(tenant.UID, c.change)
		if ev.Version == 0 {
			ev.Version = 1
		}
		if ev.Version > 1<<31 {
			continue // no integer of SQL
		}
		var published *string
		err := pool.QueryRow(t.Context(), `select waybill.publish($1, $2, $3, $4, $5::text::json, $6, $7, coalesce($8, now()), $9)`, ev.Tenant, ev.Type,
			ev.ResourceType, ev.ResourceID, orNull(ev.Data), ev.Sequence, ev.Version, ev.OccurredAt, orNullText(ev.ID)).Scan(&published)
		var refused *pgconn.PgError
		switch {
		case !errors.As(err, &refused):
			t.Errorf("%s: %v, %v; want an error of SQL", name, published, err)
		case strings.HasPrefix(refused.Code, "22") || refused.Code == "54001": // not text, or not JSON: the cast has refused
		case !strings.HasPrefix(refused.ConstraintName, "outbox_"+strings.ReplaceAll(c.field, ".", "_")):
			t.Errorf("%s: refused by %q (%s), want a constraint about %s", name, refused.ConstraintName, refused.Message, c.field)
		}
	}
	for _, null := range []string{"tenant", "type", "resource_type", "resource_id", "data", "version"} {
		args := map[string]string{"tenant": "'" + tenant.UID + "'", "type": "'a.b'", "resource_type": "'r'", "resource_id": "'1'", "data": "'{}'", "version": "1"}
		args[null] = "null"
		var given []string
		for name, value := range args {
			given = append(given, name+" => "+value)
		}
		_, err := pool.Exec(t.Context(), "select waybill.publish("+strings.Join(given, ", ")+")")
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.ConstraintName, "outbox_"+null) {
			t.Errorf("%s is null: %v, want a constraint about it", null, err)
		}
	}
	stored(t, pool, 0, 0)
}

func orNull(data []byte) *string {
	if data == nil {
		return nil
	}
	s := string(data)
	return &s
}

func orNullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func TestPublishTakesWhatIsJustAllowed(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	allowed := map[string]func(*outbox.Event){
		"type of 128":            func(e *outbox.Event) { e.Type = strings.Repeat("t", 128) },
		"resource type of 64":    func(e *outbox.Event) { e.ResourceType = strings.Repeat("r", 64) },
		"resource id of 200":     func(e *outbox.Event) { e.ResourceID = strings.Repeat("😀", 200) },
		"a quoted resource id":   func(e *outbox.Event) { e.ResourceID = `a "b" \ </script> %_'` },
		"sequence 0":             func(e *outbox.Event) { e.Sequence = sequence(0) },
		"sequence 2^53 - 1":      func(e *outbox.Event) { e.Sequence = sequence(1<<53 - 1) },
		"version 1000000":        func(e *outbox.Event) { e.Version = 1_000_000 },
		"the year 1":             func(e *outbox.Event) { e.OccurredAt = at(1) },
		"the year 9999":          func(e *outbox.Event) { e.OccurredAt = at(9999) },
		"id of 64":               func(e *outbox.Event) { e.ID = strings.Repeat("-_9aZ", 13)[:64] },
		"data of 256 KiB":        func(e *outbox.Event) { e.Data = sized(outbox.MaxData) },
		"data 64 levels deep":    func(e *outbox.Event) { e.Data = nested(64) },
		"brackets in strings":    func(e *outbox.Event) { e.Data = []byte(`"` + strings.Repeat(`[{\"`, 200) + `"`) },
		"many, but not deep":     func(e *outbox.Event) { e.Data = []byte("[" + strings.Repeat("[],", 5_000) + "[]]") },
		"a lone surrogate":       func(e *outbox.Event) { e.Data = []byte(`{"x":"\ud800","y":"\u0000"}`) },
		"a big number":           func(e *outbox.Event) { e.Data = []byte(`123456789012345678901234567890.0e400`) },
		"null":                   func(e *outbox.Event) { e.Data = []byte(`null`) },
		"one character":          func(e *outbox.Event) { e.Data = []byte(`1`) },
		"empty object":           func(e *outbox.Event) { e.Data = []byte(`{}`) },
		"duplicate names":        func(e *outbox.Event) { e.Data = []byte(`{"type":1,"TYPE":2,"type":3}`) },
		"spaces around":          func(e *outbox.Event) { e.Data = []byte(" \t\r\n{ \"a\" :\t1 }\n ") },
		"names of our envelope":  func(e *outbox.Event) { e.Data = []byte(`{"id":"x","data":{"sequence":9}}`) },
		"a type of one word":     func(e *outbox.Event) { e.Type = "ping" },
		"a type of other case":   func(e *outbox.Event) { e.Type = "Order.Paid" },
		"a time with a fraction": func(e *outbox.Event) { tm := time.Date(2026, 1, 2, 3, 4, 5, 678_999_000, time.UTC); e.OccurredAt = &tm },
	}
	var events []outbox.Event
	for _, change := range allowed {
		events = append(events, event(tenant.UID, change))
	}
	for i, published := range publish(t, pool, events...) {
		if events[i].ID != "" && published.ID != events[i].ID || published.ID == "" || published.Repeated {
			t.Errorf("published as %+v, id %q was given", published, events[i].ID)
		}
	}
	if moved := drain(t, dispatcher(t, pool, &tickets{})); moved != len(allowed) {
		t.Errorf("%d events were dispatched, want %d", moved, len(allowed))
	}
	for _, ev := range events {
		if n := count(t, pool, `select count(*) from events where right(body, length($1) + 1) = $1 || '}'`, string(ev.Data)); n == 0 {
			t.Errorf("no event ends with the bytes of %.80q", ev.Data)
		}
	}
}

func TestPublishOfFullBatch(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	events := make([]outbox.Event, outbox.MaxBatch)
	for i := range events {
		events[i] = event(tenant.UID)
	}
	ids := map[string]bool{}
	for _, p := range publish(t, pool, events...) {
		ids[p.ID] = true
	}
	if len(ids) != outbox.MaxBatch {
		t.Errorf("%d ids for %d events", len(ids), outbox.MaxBatch)
	}
	stored(t, pool, outbox.MaxBatch, outbox.MaxBatch)
}

// An event is published if, and only if, the transaction it was published in commits.
func TestPublishSharesTheCommit(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	if _, err := pool.Exec(t.Context(), `create table public.consignment (id text)`); err != nil {
		t.Fatal(err)
	}
	business := func(commit bool) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `insert into public.consignment values ('C-1')`); err != nil {
				return err
			}
			publish(t, tx, event(tenant.UID, func(e *outbox.Event) { e.ID = "loaded-C-1" }))
			if !commit {
				return errBroken
			}
			return nil
		})
	}
	if err := business(false); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	stored(t, pool, 0, 0)
	if err := business(true); err != nil {
		t.Fatal(err)
	}
	stored(t, pool, 1, 1)
	if n := count(t, pool, `select count(*) from public.consignment`); n != 1 {
		t.Errorf("%d business rows, want 1", n)
	}
	if err := business(true); err != nil { // a repeat is no error and publishes nothing
		t.Fatal(err)
	}
	stored(t, pool, 1, 1)
}

// A role that may only connect can publish, and can neither read nor change anything else, nor bend what publish does.
func TestPublishIsOpenAndNothingElse(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	role := "waybill_test_" + strings.ToLower(tenant.ID[len(tenant.ID)-12:])
	admin, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Release()
	run := func(sql string, args ...any) error { _, err := admin.Exec(t.Context(), sql, args...); return err }
	for _, sql := range []string{
		"create role " + role + " nologin",
		"create schema evil authorization " + role,
		"set role " + role,
		// A table and a function of the publisher's own, in front of ours.
		"set search_path = evil, waybill",
		"create table evil.tenants (id text, uid text)", "insert into evil.tenants values ('tnt_evil', 'evil')",
		"create temp table outbox (a text)", "create temp table event_ids (a text)",
		"create function evil.ulid(timestamptz) returns text language sql as $$ select 'bent' $$",
	} {
		if err := run(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	defer func() {
		for _, sql := range []string{"reset role", "drop schema evil cascade", "drop owned by " + role, "drop role " + role} {
			if err := run(sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}()
	const call = `select waybill.publish($1, 'a.b', 'r', '1', '{}')`
	var published string
	if err := admin.QueryRow(t.Context(), call, tenant.UID).Scan(&published); err != nil {
		t.Fatalf("publish as a role without rights: %v", err)
	}
	if !strings.HasPrefix(published, "evt_") || len(published) != 30 {
		t.Errorf("the event's id is %q", published)
	}
	if err := run(call, "evil"); err == nil {
		t.Error("published for a tenant of the publisher's own table")
	}
	for _, sql := range []string{
		"select * from waybill.outbox", "select * from waybill.events", "select * from waybill.tenants", "select * from waybill.signing_secrets",
		"select * from waybill.river_job", "insert into waybill.outbox (tenant_id) values ('x')", "update waybill.tenants set name = ''",
		"delete from waybill.event_ids", "truncate waybill.due", "create table waybill.mine (a text)",
		"select waybill.outbox_add('" + tenant.UID + "', 'a.b', 'r', '1', '{}', null, 1, now(), null)",
		"select waybill.make_partitions(current_date, current_date)", "select waybill.json_depth('[]')", "select waybill.ulid(now())",
	} {
		err := run(sql)
		var denied *pgconn.PgError
		if !errors.As(err, &denied) || denied.Code != "42501" {
			t.Errorf("%s: %v, want permission denied", sql, err)
		}
	}
	if err := run("reset role"); err != nil {
		t.Fatal(err)
	}
	open := `select count(*) from pg_proc p where p.pronamespace = 'waybill'::regnamespace and p.proname not like 'river\_%'
		and has_function_privilege($1, p.oid, 'execute')`
	if n := count(t, pool, open, role); n != 1 {
		t.Errorf("the role may call %d functions, want publish alone", n)
	}
	tables := `select count(*) from pg_class c where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
		and (c.relkind = 'S' and has_sequence_privilege($1, c.oid, 'usage, select, update')
			or c.relkind <> 'S' and has_table_privilege($1, c.oid, 'select, insert, update, delete, truncate, references, trigger'))`
	if n := count(t, pool, tables, role); n != 0 {
		t.Errorf("the role has rights on %d tables", n)
	}
	stored(t, pool, 1, 1)
	drain(t, dispatcher(t, pool, &tickets{}))
	if n := count(t, pool, `select count(*) from due where endpoint_id = $1 and event_id = $2`, ep.ID, published); n != 1 {
		t.Errorf("%d deliveries of the event, want 1", n)
	}
}

// SQL and Go publish the same bytes, whatever the data look like.
func TestPublishInSQLAndGoMakesTheSameBody(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	data := `{ "b":1, "a":"<b>&é😀\u0000\ud800",   "n":9007199254740993, "f":1.0, "z":null, "a":2 }`
	when := time.Date(2026, 11, 17, 9, 41, 5, 123_456_000, time.FixedZone("IST", 19800))
	publish(t, pool, event(tenant.UID, func(e *outbox.Event) {
		e.ID, e.ResourceID, e.Sequence, e.Version, e.OccurredAt, e.Data = "go", `C "4471"`, sequence(4), 3, &when, []byte(data)
	}))
	_, err := pool.Exec(t.Context(), `select waybill.publish(tenant => $1, type => 'consignment.loaded', resource_type => 'consignment', resource_id => 'C "4471"',
		data => $2::text::json, sequence => 4, version => 3, occurred_at => $3, id => 'sql')`, tenant.UID, data, when)
	if err != nil {
		t.Fatal(err)
	}
	drain(t, dispatcher(t, pool, &tickets{}))
	want := `{"id":"ID","type":"consignment.loaded","version":3,"timestamp":"2026-11-17T04:11:05.123Z","occurred_at":"2026-11-17T04:11:05.123Z",` +
		`"resource":{"type":"consignment","id":"C \"4471\""},"sequence":4,"data":` + data + `}`
	for _, id := range []string{"go", "sql"} {
		var body []byte
		if err := pool.QueryRow(t.Context(), `select body from events where id = $1`, id).Scan(&body); err != nil {
			t.Fatal(err)
		}
		if expected := strings.Replace(want, "ID", id, 1); !bytes.Equal(body, []byte(expected)) {
			t.Errorf("published by %s:\n%s\nwant\n%s", id, body, expected)
		}
	}
}
