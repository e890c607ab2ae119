// Package logline holds the words of the program's log: the name of every attribute (names.go), and the two lines in which its work stands: one for each
// request that was answered, one for each batch of attempts that was recorded.
//
// It promises that neither line has a payload, a header, an address, a secret, or a text that a client, a tenant or a receiver chose: what such people have
// named appears by our ids, the route by its pattern, and an error as package fault writes it, escaped, in one line and bounded.
package logline

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Request is a request that was answered.
type Request struct {
	ID     string
	Method string
	Route  string // its pattern without the method; empty: no route takes it
	Status int
	Bytes  int64 // of the answer's body
	Took   time.Duration
	Caller string // id of the key or person; empty: nobody was known
	Tenant string // id
	Error  string // as package fault writes it
	Level  slog.Level
}

// Who answers requests: the first word of their line.
const (
	API   = "api request"
	Page  = "page request"
	Inbox = "inbox request"
)

// Write writes the one line of a request.
func (q Request) Write(ctx context.Context, log *slog.Logger, who string) {
	if !log.Enabled(ctx, q.Level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs, slog.String(RequestID, q.ID), slog.String(Method, method(q.Method)), slog.String(Route, q.Route), slog.Int(Status, q.Status),
		slog.Int64(Bytes, q.Bytes), Took(q.Took))
	if q.Caller != "" {
		attrs = append(attrs, slog.String(Caller, q.Caller), slog.String(TenantID, q.Tenant))
	}
	if q.Error != "" {
		attrs = append(attrs, slog.String(Error, q.Error))
	}
	log.LogAttrs(ctx, q.Level, who, attrs...)
}

// method is one that somebody has a use for: any other was made up by the client, at any length.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

// Batch is a batch of attempts whose record was committed.
type Batch struct {
	Attempts    int
	Delivered   int // deliveries that ended well
	Undelivered int // and those that did not
	Retried     int // those that go on
	Classes     map[string]int
	Endpoints   int           // how many they went to
	Endpoint    string        // id, when there is but one
	Tenant      string        // id, when there is but one
	Slowest     time.Duration // of the attempts
	Took        time.Duration // to record them
	Worker      string
}

// Attempts is the message of a batch's line.
const Attempts = "attempts recorded"

// Write writes the one line of a batch.
func (b Batch) Write(ctx context.Context, log *slog.Logger) {
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.Int(AttemptCount, b.Attempts), slog.Int(Delivered, b.Delivered), slog.Int(Undelivered, b.Undelivered), slog.Int(Retried, b.Retried))
	classes := make([]any, 0, len(b.Classes))
	for _, class := range slices.Sorted(maps.Keys(b.Classes)) {
		classes = append(classes, slog.Int(class, b.Classes[class]))
	}
	attrs = append(attrs, slog.Group(Classes, classes...), slog.Int(Endpoints, b.Endpoints))
	if b.Endpoint != "" {
		attrs = append(attrs, slog.String(EndpointID, b.Endpoint))
	}
	if b.Tenant != "" {
		attrs = append(attrs, slog.String(TenantID, b.Tenant))
	}
	attrs = append(attrs, slog.Float64(SlowestMS, milliseconds(b.Slowest)), Took(b.Took), slog.String(WorkerID, b.Worker))
	log.LogAttrs(ctx, slog.LevelInfo, Attempts, attrs...)
}

// Took is how long something took, in milliseconds with three decimals.
func Took(d time.Duration) slog.Attr { return slog.Float64(TookMS, milliseconds(d)) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
