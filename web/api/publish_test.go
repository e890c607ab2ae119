package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"waybill/app/fault"
	"waybill/app/outbox"
)

// event is the body of one event with this data.
func event(id, data string) string {
	if id != "" {
		id = `"id":"` + id + `",`
	}
	return `{` + id + `"tenant":"one","type":"consignment.booked","resource":{"type":"consignment","id":"C-4471"},"data":` + data + `}`
}

func (b *bench) publish(t *testing.T, body string) answer {
	t.Helper()
	return b.call(t, platformKey, "POST", "/v1/events", body)
}

func (b *bench) outbox(t *testing.T) int {
	t.Helper()
	var n int
	if err := b.DB.QueryRow(t.Context(), "select count(*) from outbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// CASES B02, B26, B28: what can be carried is carried byte for byte.
func TestDataIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tenantKey(t, "one", "")
	for i, data := range []string{
		`{ "b":1, "a":"<b>&é😀", "n":9007199254740993, "f":1.0, "z":null, "a":2 }`,
		`{"x":"\u0000"}`, `{"x":"\ud800"}`, `{"\ud800":1,"\ud800":2}`, "{\n\t\"a\" :\r\n [ ] }", `{}`, `7`, `null`, `"a"`, `[]`, `1e400`, `-0.0`, `123456789012345678901234567890`,
		`{"events":[{"id":"x"}],"type":"admin"}`, `"` + strings.Repeat("a", outbox.MaxData-2) + `"`, strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"{\"\u2028\":\"\u2029 \ufeff\ufffd\"}",
	} {
		id := fmt.Sprintf("e-%d", i)
		for _, body := range []string{event(id, data), `{"events":[ ` + event(id+"-2", " "+data+" ") + ` ]}`} {
			if got := b.publish(t, body); got.status != 202 {
				t.Errorf("%.60s: %d %s", data, got.status, got.body)
			}
		}
		var stored [2]string
		err := b.DB.QueryRow(t.Context(), `select a.data::text, b.data::text from outbox a, outbox b where a.id = $1 and b.id = $2`, id, id+"-2").Scan(&stored[0], &stored[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range stored {
			if sha256.Sum256([]byte(text)) != sha256.Sum256([]byte(data)) {
				t.Errorf("%.60s is stored as %.60s", data, text)
			}
		}
	}
}

func TestWhatCannotBePublished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tenantKey(t, "one", "")
	with := func(name, value string) string {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(event("", "{}")), &members); err != nil {
			t.Fatal(err)
		}
		if value == "" {
			delete(members, name)
		} else {
			members[name] = json.RawMessage(value)
		}
		text := "{"
		for name, value := range members {
			text += fmt.Sprintf("%q:%s,", name, value)
		}
		return strings.TrimSuffix(text, ",") + "}"
	}
	good := event("", "{}")
	many := make([]string, 10_001)
	for i := range many {
		many[i] = good
	}
	for name, c := range map[string]struct {
		body   string
		kind   fault.Kind
		fields []string
	}{
		"nothing":                   {``, fault.Malformed, nil},
		"no JSON":                   {`{"tenant"`, fault.Malformed, nil},
		"broken UTF-8":              {event("", "\"\xff\""), fault.Malformed, nil},
		"two values":                {good + good, fault.Malformed, nil},
		"an array":                  {`[` + good + `]`, fault.Invalid, []string{"body"}},
		"null":                      {`null`, fault.Invalid, []string{"body"}},
		"an unknown member":         {with("typ", `"a"`), fault.Invalid, []string{"typ"}},
		"another case":              {with("TYPE", `"admin.x"`), fault.Invalid, []string{"TYPE"}},
		"a member twice":            {strings.Replace(good, `{`, `{"type":"admin.x",`, 1), fault.Invalid, []string{"type"}},
		"a member twice, escaped":   {strings.Replace(good, `{`, `{"typ\u0065":"admin.x",`, 1), fault.Invalid, []string{"type"}},
		"no tenant":                 {with("tenant", ""), fault.Invalid, []string{"tenant"}},
		"no type":                   {with("type", ""), fault.Invalid, []string{"type"}},
		"no resource":               {with("resource", ""), fault.Invalid, []string{"resource"}},
		"no data":                   {with("data", ""), fault.Invalid, []string{"data"}},
		"half a resource":           {with("resource", `{"type":"a"}`), fault.Invalid, []string{"resource.id"}},
		"resource is a string":      {with("resource", `"a"`), fault.Invalid, []string{"resource"}},
		"more than a resource":      {with("resource", `{"type":"a","id":"1","version":2}`), fault.Invalid, []string{"resource.version"}},
		"resource id twice":         {with("resource", `{"type":"a","id":"1","id":"2"}`), fault.Invalid, []string{"resource.id"}},
		"resource id is a number":   {with("resource", `{"type":"a","id":1}`), fault.Invalid, []string{"resource.id"}},
		"resource id with a NUL":    {with("resource", `{"type":"a","id":"\u0000"}`), fault.Invalid, []string{"resource.id"}},
		"resource id, surrogate":    {with("resource", `{"type":"a","id":"\ud800"}`), fault.Invalid, []string{"resource.id"}},
		"an unknown tenant":         {with("tenant", `"nobody"`), fault.Invalid, []string{"tenant"}},
		"tenant with a NUL":         {with("tenant", `"a\u0000"`), fault.Invalid, []string{"tenant"}},
		"a type with a space":       {with("type", `"a b"`), fault.Invalid, []string{"type"}},
		"a long type":               {with("type", `"`+strings.Repeat("a", 300)+`"`), fault.Invalid, []string{"type"}},
		"type with a NUL":           {with("type", `"a\u0000"`), fault.Invalid, []string{"type"}},
		"an id with a full stop":    {with("id", `"a.1700000000.{}"`), fault.Invalid, []string{"id"}},
		"an id with a line end":     {with("id", `"a\r\nX: y"`), fault.Invalid, []string{"id"}},
		"an id with a hidden space": {with("id", `"a\u200b"`), fault.Invalid, []string{"id"}},
		"a long id":                 {with("id", `"`+strings.Repeat("a", 65)+`"`), fault.Invalid, []string{"id"}},
		"an id that is a number":    {with("id", `7`), fault.Invalid, []string{"id"}},
		"a negative sequence":       {with("sequence", `-1`), fault.Invalid, []string{"sequence"}},
		"a huge sequence":           {with("sequence", `9007199254740992`), fault.Invalid, []string{"sequence"}},
		"beyond all numbers":        {with("sequence", `1e30`), fault.Invalid, []string{"sequence"}},
		"half a sequence":           {with("sequence", `1.5`), fault.Invalid, []string{"sequence"}},
		"version 0":                 {with("version", `0`), fault.Invalid, []string{"version"}},
		"a huge version":            {with("version", `4294967297`), fault.Invalid, []string{"version"}},
		"no time":                   {with("occurred_at", `"yesterday"`), fault.Invalid, []string{"occurred_at"}},
		"a time in seconds":         {with("occurred_at", `1700000000`), fault.Invalid, []string{"occurred_at"}},
		"data too deep":             {event("", strings.Repeat("[", 65)+strings.Repeat("]", 65)), fault.Invalid, []string{"data"}},
		"data much too deep":        {event("", strings.Repeat("[", 9000)+strings.Repeat("]", 9000)), fault.Invalid, []string{"data"}},
		"data beyond all depth":     {event("", strings.Repeat("[", 60_000)), fault.Invalid, []string{"data"}},
		"data too large":            {event("", `"`+strings.Repeat("a", outbox.MaxData-1)+`"`), fault.TooLarge, []string{"data"}},
		"no events":                 {`{"events":[]}`, fault.Invalid, []string{"events"}},
		"events is an event":        {`{"events":` + good + `}`, fault.Invalid, []string{"events"}},
		"events and more":           {`{"events":[` + good + `],"tenant":"one"}`, fault.Invalid, []string{"tenant"}},
		"an item that is none":      {`{"events":[` + good + `,null]}`, fault.Invalid, []string{"events[1]"}},
		"an item without data":      {`{"events":[` + good + `,` + with("data", "") + `]}`, fault.Invalid, []string{"events[1].data"}},
		"an item with a bad type":   {`{"events":[` + good + `,` + with("version", `-7`) + `]}`, fault.Invalid, []string{"events[1].version"}},
		"too many events":           {`{"events":[` + strings.Join(many[:1001], ",") + `]}`, fault.Invalid, []string{"events"}},
		"far too many events":       {`{"events":[` + strings.Join(many, ",") + `]}`, fault.Invalid, []string{"events"}},
		"a large item in between": {`{"events":[` + good + `,` + event("", `"`+strings.Repeat("a", outbox.MaxData)+`"`) + `,` + good + `]}`,
			fault.TooLarge, []string{"events[1].data"}},
		"one id, two contents": {`{"events":[` + event("same", "1") + `,` + event("same", "2") + `]}`, fault.Conflict, []string{"events[1].id"}},
	} {
		t.Run(name, func(t *testing.T) {
			problem := wantProblem(t, b.publish(t, c.body), c.kind)
			var names []string
			for _, field := range problem.Errors {
				names = append(names, field.Field)
			}
			if !slices.Equal(names, c.fields) {
				t.Errorf("fields %q, want %q: %s", names, c.fields, problem.Detail)
			}
		})
	}
	if n := b.outbox(t); n != 0 {
		t.Errorf("%d events were published", n)
	}
}

// CASES B22: the id is the idempotency key, also for calls at the same time.
func TestPublishingTheSameAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tenantKey(t, "one", "")
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 50 {
		all.Go(func() {
			got := b.publish(t, event("same", `{"n":1}`))
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
			if !strings.Contains(got.body, `"id":"same"`) {
				t.Errorf("answer %d %s", got.status, got.body)
			}
		})
	}
	all.Wait()
	if statuses[202] != 1 || statuses[200] != 49 || b.outbox(t) != 1 {
		t.Errorf("answers %v, %d events", statuses, b.outbox(t))
	}
	// CASES B55: a repeat inside a call, and both copies inside it.
	got := b.publish(t, `{"events":[`+event("same", `{"n":1}`)+`,`+event("new", `{}`)+`,`+event("new", `{}`)+`]}`)
	if want := `{"events":[{"id":"same","repeated":true},{"id":"new","repeated":false},{"id":"new","repeated":true}]}`; got.status != 202 || strings.TrimSpace(got.body) != want {
		t.Errorf("answer %d %s", got.status, got.body)
	}
	if n := b.outbox(t); n != 2 {
		t.Errorf("%d events", n)
	}
	// The same id in another tenant is another event.
	b.tenantKey(t, "two", "")
	if got := b.publish(t, strings.Replace(event("same", `{"n":2}`), `"one"`, `"two"`, 1)); got.status != 202 {
		t.Errorf("answer %d %s", got.status, got.body)
	}
}

func TestThousandEventsAtTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tenantKey(t, "one", "")
	items := make([]string, outbox.MaxBatch)
	for i := range items {
		items[i] = event(fmt.Sprintf("e-%d", i), `{"a":"`+strings.Repeat("x", 8000)+`"}`)
	}
	body := `{"events":[` + strings.Join(items, ",") + `]}`
	body += strings.Repeat(" ", PublishMaxBody-len(body)) // exactly at the limit
	got := b.publish(t, body)
	if got.status != 202 || b.outbox(t) != outbox.MaxBatch {
		t.Errorf("answer %d %.200s, %d events", got.status, got.body, b.outbox(t))
	}
	var published Published
	if err := json.Unmarshal([]byte(got.body), &published); err != nil || len(published.Events) != outbox.MaxBatch || published.Events[999].ID != "e-999" {
		t.Errorf("%v", err)
	}
	wantProblem(t, b.publish(t, body+" "), fault.TooLarge)
}

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(event("a", `{"a":[1,2,{"b":"\ud800"}]}`)))
	f.Add([]byte(`{"events":[` + event("a", `1`) + `,` + event("", `""`) + `]}`))
	f.Add([]byte(`{"resource":{"type":1},"sequence":1e9,"version":null,"occurred_at":"2026-11-17T09:41:05Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		events, err := readEvents(text)
		if !bytes.Equal(text, before) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Malformed && kind != fault.Invalid {
				t.Errorf("%v", err)
			}
			return
		}
		for _, event := range events {
			if !bytes.Contains(text, event.Data) || !json.Valid(event.Data) {
				t.Errorf("data %q is not in %q", event.Data, text)
			}
		}
	})
}
