package logline

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func written(t *testing.T, write func(log *slog.Logger)) (line string, fields map[string]any) {
	t.Helper()
	var text bytes.Buffer
	write(slog.New(slog.NewJSONHandler(&text, nil)))
	if err := json.Unmarshal(text.Bytes(), &fields); err != nil || strings.Count(text.String(), "\n") != 1 {
		t.Fatalf("not one line of JSON: %q, %v", text.String(), err)
	}
	return text.String(), fields
}

func names(fields map[string]any) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), " ")
}

func TestRequestIsOneLineOfKnownNames(t *testing.T) {
	t.Parallel()
	whole := Request{ID: "req_1", Method: "GET", Route: "/v1/events", Status: 200, Bytes: 12, Took: 1500 * time.Microsecond, Caller: "key_1", Tenant: "tnt_1", Error: "x"}
	line, fields := written(t, func(log *slog.Logger) { whole.Write(t.Context(), log, API) })
	if got := names(fields); got != "bytes caller error level method msg request_id route status tenant_id time took_ms" {
		t.Errorf("%s", got)
	}
	if fields[TookMS] != 1.5 || fields["msg"] != "api request" {
		t.Errorf("%s", line)
	}
	// Nobody is known, and the client has made a method up.
	_, fields = written(t, func(log *slog.Logger) {
		Request{ID: "req_2", Method: strings.Repeat("X", 9000), Status: 405}.Write(t.Context(), log, Page)
	})
	if got := names(fields); got != "bytes level method msg request_id route status time took_ms" || fields[Method] != "other" {
		t.Errorf("%v", fields)
	}
	var text bytes.Buffer
	whole.Write(t.Context(), slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn})), API)
	if text.Len() > 0 {
		t.Errorf("below the level: %s", text.String())
	}
}

func TestBatchIsOneLineOfKnownNames(t *testing.T) {
	t.Parallel()
	b := Batch{Attempts: 3, Delivered: 1, Retried: 2, Classes: map[string]int{"status": 2, "delivered": 1}, Endpoints: 1, Endpoint: "ep_1", Tenant: "tnt_1",
		Slowest: time.Second, Took: 2 * time.Millisecond, Worker: "wrk_1"}
	line, fields := written(t, func(log *slog.Logger) { b.Write(t.Context(), log) })
	if got := names(fields); got != "attempts classes delivered endpoint_id endpoints level msg retried slowest_ms tenant_id time took_ms undelivered worker_id" {
		t.Errorf("%s", got)
	}
	if !strings.Contains(line, `"classes":{"delivered":1,"status":2}`) {
		t.Errorf("%s", line)
	}
	b.Endpoint, b.Tenant, b.Endpoints = "", "", 4
	if _, fields = written(t, func(log *slog.Logger) { b.Write(t.Context(), log) }); fields[EndpointID] != nil || fields[TenantID] != nil {
		t.Errorf("%v", fields)
	}
}

func TestNamesAreExplained(t *testing.T) {
	t.Parallel()
	for name, meaning := range Names {
		if meaning == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%q: %q", name, meaning)
		}
	}
	for _, name := range []string{RequestID, Method, Route, Status, Bytes, TookMS, Caller, TenantID, Error, AttemptCount, Delivered, Undelivered, Retried, Classes,
		Endpoints, EndpointID, SlowestMS, WorkerID} {
		if Names[name] == "" {
			t.Errorf("%s is not explained", name)
		}
	}
}
