package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCanonicalLines reads the whole log of a process: each request to the API and each attempt stands in exactly one line, of fixed names, and nothing that a
// tenant, a receiver or a client wrote is in it.
func TestCanonicalLines(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	program := r.start(Launch{})
	r.tenant("lines", 0)
	place := r.place("lines", "lines", nil)
	var made struct{ ID string }
	const marker = "s3cr3t-m4rk3r"
	in := map[string]any{"url": r.URL("lines") + "?token=" + marker, "types": []string{"e2e.lines"}, "description": "\x1b[31m" + marker + "\n{\"level\":\"ERROR\"}",
		"headers": map[string]string{"X-Token": marker}}
	_ = r.Call(t.Context(), http.MethodPost, "/v1/tenants/lines/endpoints", in, &made) // a refusal is as good
	if err := r.Call(t.Context(), http.MethodGet, "/v1/tenants/"+marker+"?q="+marker, nil, nil); err == nil {
		t.Error("there is a tenant of that name")
	}
	if err := r.Call(t.Context(), "M4RK3R", "/v1/tenants", nil, nil); err == nil {
		t.Error("there is a method of that name")
	}
	events := Events("lines", place.Types[0], "lines", 40)
	for i := range events {
		events[i].Data = `{"text":"` + marker + `"}`
	}
	if err := r.PublishAPI(t.Context(), r.ledger, events...); err != nil {
		t.Fatal(err)
	}
	if made.ID != "" {
		if err := r.Call(t.Context(), http.MethodDelete, "/v1/tenants/lines/endpoints/"+made.ID, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.UntilIdle(t.Context(), 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if code, err := r.Stop(program, 30*time.Second); code != 0 || err != nil {
		t.Fatal(code, err)
	}

	requests, attempts := 0, 0
	ids := map[string]bool{}
	for _, line := range program.Log() {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("a line of the log is no JSON: %q", line)
		}
		for _, secret := range []string{marker, "M4RK3R", "\x1b", place.Secret, r.PlatformKey, r.keys.Reveal(), "webhook-signature"} {
			if strings.Contains(line, secret) {
				t.Errorf("%q is in the log: %s", secret, line)
			}
		}
		var allowed []string
		switch fields["msg"] {
		case "api request":
			requests++
			allowed = strings.Fields("request_id method route status bytes took_ms caller tenant_id error")
			id, _ := fields["request_id"].(string)
			if ids[id] || id == "" {
				t.Errorf("a second line of request %q: %s", id, line)
			}
			ids[id] = true
		case "attempts recorded":
			n, _ := fields["attempts"].(float64)
			attempts += int(n)
			allowed = strings.Fields("attempts delivered undelivered retried classes endpoints endpoint_id tenant_id slowest_ms took_ms worker_id")
		default:
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if !slices.Contains(allowed, name) && !slices.Contains([]string{"time", "level", "msg"}, name) {
				t.Errorf("%s has a field %s", fields["msg"], name)
			}
		}
	}
	want := 6 // the tenant, two endpoints, what does not exist, the method, the events
	if made.ID != "" {
		want++
	}
	if requests != want {
		t.Errorf("%d lines for %d requests", requests, want)
	}
	if n := r.count(`select count(*) from attempts`); attempts != n || n < 40 {
		t.Errorf("the lines tell of %d attempts, the history of %d", attempts, n)
	}
}
