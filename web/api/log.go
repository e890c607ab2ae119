package api

import (
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// logRequest writes the one line of a request. Paths and bodies are not in it: the pattern says which route it was, the caller who.
func (a *API) logRequest(r *http.Request, pattern string, took time.Duration) {
	it, level := requestOf(r), slog.LevelInfo
	pattern = pattern[strings.IndexByte(pattern, ' ')+1:]
	if a.Observe != nil {
		a.Observe(r.Method, pattern, it.status, took)
	}
	attrs := []slog.Attr{
		slog.String("request_id", it.id),
		slog.String("method", r.Method),
		slog.String("route", pattern),
		slog.Int("status", it.status),
		slog.Int64("bytes", it.bytes),
		slog.Duration("took", took),
	}
	if it.caller.Kind != "" {
		attrs = append(attrs, slog.String("caller", it.caller.ID), slog.String("tenant_id", it.caller.Tenant()))
	}
	switch {
	case it.err == nil:
	case left(r, it.err):
		attrs = append(attrs, slog.String("error", "the client left"))
	default:
		shown := problemOf(it.err)
		attrs = append(attrs, slog.String("error", shown.Error()))
		if shown.Kind.Status() >= http.StatusInternalServerError {
			level = slog.LevelError
		}
	}
	a.Log.LogAttrs(r.Context(), level, "api request", attrs...)
}
