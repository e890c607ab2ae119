package api

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"waybill/app/logline"
)

// logRequest writes the one line of a request. Paths and bodies are not in it: the pattern says which route it was, the caller who.
func (a *API) logRequest(r *http.Request, pattern string, took time.Duration) {
	it := requestOf(r)
	pattern = pattern[strings.IndexByte(pattern, ' ')+1:]
	if a.Observe != nil {
		a.Observe(r.Method, pattern, it.status, took)
	}
	line := logline.Request{ID: it.id, Method: r.Method, Route: pattern, Status: it.status, Bytes: it.bytes, Took: took}
	if it.caller.Kind != "" {
		line.Caller, line.Tenant = it.caller.ID, it.caller.Tenant()
	}
	switch {
	case it.err == nil:
	case left(r, it.err):
		line.Error = "the client left"
	default:
		shown := problemOf(it.err)
		line.Error = shown.Error()
		if shown.Kind.Status() >= http.StatusInternalServerError {
			line.Level = slog.LevelError
		}
	}
	line.Write(r.Context(), a.Log, logline.API)
}
