package receive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMaskBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"an event", seedBody,
			`{"id":"evt_9f2c","type":"consignment.delivered","version":1,"timestamp":"2026-11-17T09:41:05.123Z",` +
				`"occurred_at":"2026-11-17T09:41:05.123Z","resource":{"type":"consignment","id":"C-4471"},"sequence":4,` +
				`"data":{"status":"***","driver":{"name":"***","phone":"***"},"boxes":0,"signed":true}}`},
		{"nothing", "", ""},
		{"no JSON", "name=Asha&phone=1", "(not JSON)"},
		{"JSON that ends early", `{"id":"evt_1","data":{"a":"b"`, "(not JSON)"},
		{"spaces", "  ", "(not JSON)"},
		{"two values", `{"id":"a"}{"id":"b"}`, `{"id":"a"}?{"id":"b"}`},
		{"a text", `"Asha Rao"`, `"***"`},
		{"a number", `123456789`, `0`},
		{"a list", `["Asha",1,null,true,[{"a":"b"}]]`, `["***",0,null,true,[{"a":"***"}]]`},
		{"unknown members", `{"name":"Asha","age":42}`, `{"name":"***","age":0}`},
		{"personal data in the envelope", `{"id":"asha@example.test","type":"two words","sequence":123456789012345678901}`,
			`{"id":"***","type":"***","sequence":0}`},
		{"an envelope's names further down", `{"data":{"id":"X-1","resource":{"id":"X-2"}}}`, `{"data":{"id":"***","resource":{"id":"***"}}}`},
		{"personal data as a name", `{"data":{"asha@example.test":1,"Asha Rao":2,"ok":3}}`, `{"data":{"***":0,"***":0,"ok":0}}`},
		{"names twice", `{"id":"a","id":"b"}`, `{"id":"a","id":"b"}`},
		{"terminal codes", "{\"id\":\"\\u001b[31m\",\"\\u001b\":\"\x1b\"}", "(not JSON)"},
		{"escaped terminal codes", `{"id":"\u001b[31m","\u001b":1}`, `{"id":"***","***":0}`},
		{"broken UTF-8", "{\"data\":\"\xff\"}", `{"data":"***"}`},
		{"a long id", `{"id":"` + strings.Repeat("a", 65) + `"}`, `{"id":"***"}`},
	} {
		if got := maskBody([]byte(c.body)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestMaskBodyIsBounded(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a long list":   "[" + strings.TrimSuffix(strings.Repeat(`"a",`, 300_000), ",") + "]",
		"a long object": `{"data":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 200_000), ",") + "}}",
		"deep":          strings.Repeat(`{"a":[`, 4500) + strings.Repeat(`]}`, 4500),
		"long names":    "{" + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("n", 64)+`":{"x":1},`, 10_000), ",") + "}",
	} {
		start := time.Now()
		got := maskBody([]byte(body))
		if len(got) > 4<<10+len("…") || !strings.HasSuffix(got, "…") {
			t.Errorf("%s: %d bytes, %.100q", name, len(got), got)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func FuzzMaskBody(f *testing.F) {
	f.Add(seedBody)
	f.Add(`{"id":"a b","data":{"x":"y"}}`)
	f.Add("[[[[1.5e300,\"\\ud800\"")
	f.Fuzz(func(t *testing.T, body string) {
		got := maskBody([]byte(body))
		if len(got) > 4<<10+len("…") {
			t.Errorf("%d bytes", len(got))
		}
		for _, r := range strings.TrimSuffix(got, "…") {
			if r < ' ' || r > '~' {
				t.Errorf("%q holds %U", got, r)
			}
		}
		if json.Valid([]byte(body)) && !json.Valid([]byte(got)) && !strings.HasSuffix(got, "…") {
			t.Errorf("%q became %q", body, got)
		}
	})
}

func TestMaskHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "Waybill/1\x1b[31m é")
	h.Set("webhook-id", "evt_1")
	h["webhook-timestamp"] = []string{"1700000000"}
	h.Set("webhook-signature", "v1,SECRET v1a,SECRET v1=SECRET,v1=SECRET SECRET")
	h.Set("Authorization", "Bearer SECRET")
	h.Add("Cookie", "a=SECRET")
	h.Add("Cookie", "b=SECRET")
	h.Set("X-Long", strings.Repeat("SECRET", 100))
	want := []string{
		"authorization: ***", "content-type: application/json", "cookie: ***", "cookie: ***", "user-agent: Waybill/1?[31m ?",
		"webhook-id: evt_1", "webhook-signature: v1,*** v1a,*** v1=*** ***", "webhook-timestamp: 1700000000", "x-long: ***",
	}
	if got := maskHeaders(h); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	many := http.Header{"Webhook-Signature": {strings.Repeat("v1,x ", 1000)}, "User-Agent": {strings.Repeat("u", 1000)}}
	for i := range 1000 {
		many.Set(strings.Repeat("x", 100)+string(rune('a'+i%26))+strings.Repeat("y", i/26), "v")
	}
	got := maskHeaders(many)
	if len(got) != 51 || got[50] != "…" {
		t.Errorf("%d headers", len(got))
	}
	for _, line := range got {
		if len(line) > 300 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

func TestLogTo(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	log := LogTo(slog.New(slog.NewJSONHandler(&buf, nil)))
	req := httptest.NewRequest(http.MethodPost, "/", nil)
	req.Header.Set("Authorization", "Bearer SECRET")
	log(context.Background(), arrival(noon, req, []byte(seedBody), answer{status: 200, outcome: Stored, id: "evt_9f2c"}))
	log(context.Background(), arrival(noon, req, []byte(seedBody), answer{status: 503, outcome: Failed, id: "evt_9f2c", reason: "r", err: errors.New("away")}))
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), buf.String())
	}
	for i, want := range []map[string]any{
		{"level": "INFO", "outcome": "stored", "status": 200.0, "event_id": "evt_9f2c", "size": float64(len(seedBody))},
		{"level": "ERROR", "outcome": "failed", "status": 503.0, "event_id": "evt_9f2c", "reason": "r", "error": "away"},
	} {
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("line %d: %s is %v, want %v", i, k, got[k], v)
			}
		}
	}
	for _, secret := range []string{"SECRET", "Asha", "98450"} {
		if strings.Contains(buf.String(), secret) {
			t.Errorf("%q is in the log: %s", secret, buf.String())
		}
	}
}
