package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"waybill/app/fault"
	"waybill/app/inbox"
	"waybill/app/logline"
)

// The bounds of what inboxes may take of a process.
const (
	maxInboxBody   = 2 << 20 // bytes that are read at all; of them inbox.MaxBody are kept
	inboxBodyTime  = 20 * time.Second
	maxInboxWrites = 8   // requests at the database at once
	maxInboxWaits  = 200 // slow answers of the process at once
	maxInboxWait   = 20  // and of one inbox
)

// receiver answers what is sent to inboxes. It asks for no session and tells nobody anything: whoever posts gets a status and a word.
type receiver struct {
	inboxes *inbox.Service
	log     *slog.Logger
	observe func(method, pattern string, status int, took time.Duration)
	writes  chan struct{}
	within  time.Duration // inboxBodyTime

	ending context.Context
	end    context.CancelFunc

	mu    sync.Mutex
	waits map[string]int // slow answers that are on their way, by token
	all   int
}

func newReceiver(inboxes *inbox.Service, log *slog.Logger, observe func(string, string, int, time.Duration)) *receiver {
	r := &receiver{inboxes: inboxes, log: log, observe: observe, writes: make(chan struct{}, maxInboxWrites), within: inboxBodyTime, waits: map[string]int{}}
	r.ending, r.end = context.WithCancel(context.Background())
	return r
}

// InboxPattern is the route of inboxes, without a method: what is no POST is told so.
const InboxPattern = inbox.Prefix + "{token}"

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started, id := time.Now(), newRequestID()
	status, retry, err := rc.receive(w, r)
	header := w.Header()
	header.Set("X-Request-Id", id)
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
	if retry > 0 {
		header.Set("Retry-After", strconv.Itoa(retry))
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, inboxWords[status]+"\n") // an error is the sender's going away
	}
	took := time.Since(started)
	line := logline.Request{ID: id, Method: r.Method, Route: InboxPattern, Status: status, Took: took}
	if err != nil {
		line.Error = fault.From(err).Error()
	}
	line.Write(r.Context(), rc.log, logline.Inbox)
	if rc.observe != nil {
		rc.observe(r.Method, InboxPattern, status, took)
	}
}

var inboxWords = map[int]string{
	http.StatusOK: "received", http.StatusInternalServerError: "this inbox is set to fail", http.StatusGone: "this inbox is set to be gone",
	http.StatusTooManyRequests: "too many requests", http.StatusNotFound: "there is no such inbox", http.StatusMethodNotAllowed: "an inbox takes a POST",
	http.StatusRequestEntityTooLarge: "the body is too large for an inbox", http.StatusServiceUnavailable: "try again", http.StatusBadRequest: "the body did not come",
}

// receive keeps the request and says what to answer, and after how many seconds to come back, where that is said.
func (rc *receiver) receive(w http.ResponseWriter, r *http.Request) (status, retry int, err error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, 0, nil
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(rc.within)) // a recorder in a test has none
	body, size, err := readInboxBody(w, r)
	_ = connection.SetReadDeadline(time.Time{}) // else a slow answer would end with it
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, 0, nil
	case err != nil:
		return http.StatusBadRequest, 0, nil
	}
	token := r.PathValue("token")
	got, err := rc.keep(r, token, body, size)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return http.StatusNotFound, 0, nil
	case err != nil:
		return http.StatusServiceUnavailable, 1, err
	case got.TooFast:
		return http.StatusTooManyRequests, 1, nil
	case got.Answer == inbox.TooMany:
		return http.StatusTooManyRequests, got.Seconds, nil
	case got.Answer == inbox.Failing:
		return http.StatusInternalServerError, 0, nil
	case got.Answer == inbox.Gone:
		return http.StatusGone, 0, nil
	case got.Answer == inbox.Slow:
		return rc.linger(r, token, time.Duration(got.Seconds)*time.Second)
	}
	return http.StatusOK, 0, nil
}

// keep stores a request; not too many at once, so that a flood at inboxes leaves the database to the others.
func (rc *receiver) keep(r *http.Request, token string, body []byte, size int64) (inbox.Received, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	select {
	case rc.writes <- struct{}{}:
		defer func() { <-rc.writes }()
	case <-ctx.Done():
		return inbox.Received{}, fault.New(fault.Unavailable, "Too many requests to inboxes wait.")
	}
	return rc.inboxes.Receive(ctx, token, withHost(r), body, size)
}

// linger answers after a while, unless the sender leaves or the program ends before; not for too many at once, since each holds a connection.
func (rc *receiver) linger(r *http.Request, token string, wait time.Duration) (status, retry int, err error) {
	rc.mu.Lock()
	if rc.all >= maxInboxWaits || rc.waits[token] >= maxInboxWait {
		rc.mu.Unlock()
		return http.StatusTooManyRequests, 1, nil
	}
	rc.all++
	rc.waits[token]++
	rc.mu.Unlock()
	defer func() {
		rc.mu.Lock()
		defer rc.mu.Unlock()
		rc.all--
		if rc.waits[token]--; rc.waits[token] == 0 {
			delete(rc.waits, token)
		}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return http.StatusOK, 0, nil
	case <-r.Context().Done():
		return http.StatusOK, 0, nil // nobody reads it
	case <-rc.ending.Done():
		return http.StatusServiceUnavailable, 1, nil
	}
}

// readInboxBody reads a body to its end and keeps the beginning.
func readInboxBody(w http.ResponseWriter, r *http.Request) (kept []byte, size int64, err error) {
	from := http.MaxBytesReader(w, r.Body, maxInboxBody)
	if kept, err = io.ReadAll(io.LimitReader(from, inbox.MaxBody)); err != nil {
		return nil, 0, err
	}
	rest, err := io.Copy(io.Discard, from)
	return kept, int64(len(kept)) + rest, err
}

// withHost is the request's headers with the one that net/http takes out.
func withHost(r *http.Request) http.Header {
	header := r.Header.Clone()
	header.Set("Host", r.Host)
	return header
}
