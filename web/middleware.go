package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"waybill/app/fault"
	"waybill/app/logline"
	"waybill/db"
	"waybill/web/dashboard"
)

// policy is the content security policy of every page: our own files and forms, nothing inline, no frame around us.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// headers sets what every answer to a browser says about how it may be used. A handler may say it more strictly.
func headers(secure bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// Not no-referrer: with that, a form of our own would be sent with Origin: null.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
		h.Set("Cache-Control", "no-store")
		if secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses what another site makes a browser send (CASES B57). http.CrossOriginProtection does the work; beyond it, a
// request that changes something must show where it comes from, and by Origin it must be this scheme, too: our forms always do.
func sameOrigin(base *url.URL, fail func(http.ResponseWriter, *http.Request, error), next http.Handler) http.Handler {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, fault.New(fault.Forbidden, "This was sent from another site, or by a program that does not say from where. Nothing was changed."))
	})
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(refuse)
	strict := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch safe := r.Method == http.MethodGet || r.Method == http.MethodHead; {
		case safe:
		case origin == "" && site == "":
			refuse(w, r)
			return
		case origin != "" && origin != base.Scheme+"://"+r.Host:
			refuse(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
	return protection.Handler(strict)
}

// surface is a set of pages: what a request is recorded and failed by.
type surface interface {
	Pattern(r *http.Request) string
	Fail(w http.ResponseWriter, r *http.Request, err error)
}

// record gives every request an id and a line in the log, and every panic an answer.
func record(log *slog.Logger, now func() time.Time, observe func(method, pattern string, status int, took time.Duration),
	pages surface, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := now()
		it := &dashboard.Record{ID: newRequestID()}
		r = r.WithContext(dashboard.WithRecord(r.Context(), it))
		out := &recorder{ResponseWriter: w}
		w.Header().Set("X-Request-Id", it.ID)
		defer func() {
			if caught := recover(); caught != nil {
				if caught == http.ErrAbortHandler {
					panic(caught)
				}
				err := fmt.Errorf("panic: %v\n%s", caught, debug.Stack())
				if out.status == 0 {
					pages.Fail(out, r, err)
				}
				it.Err = err
			}
			pattern, took := pages.Pattern(r), now().Sub(started)
			logRequest(log, r, it, out, pattern, took)
			if observe != nil {
				observe(r.Method, pattern, out.status, took)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

func newRequestID() string {
	random := make([]byte, 12)
	rand.Read(random) // never fails
	return "req_" + hex.EncodeToString(random)
}

// logRequest writes the one line of a request. Its address is not in it, for it may hold a token: the pattern says which page it was.
func logRequest(log *slog.Logger, r *http.Request, it *dashboard.Record, out *recorder, pattern string, took time.Duration) {
	line := logline.Request{ID: it.ID, Method: r.Method, Route: pattern, Status: out.status, Bytes: out.bytes, Took: took}
	if it.Caller.Kind != "" {
		line.Caller, line.Tenant = it.Caller.ID, it.Caller.Tenant()
	}
	switch {
	case it.Err == nil:
	case errors.Is(it.Err, context.Canceled) && r.Context().Err() != nil:
		line.Error = "the reader left"
	default:
		line.Error = fault.From(it.Err).Error()
		if fault.KindOf(it.Err).Status() >= http.StatusInternalServerError && !db.IsUnavailable(it.Err) {
			line.Level = slog.LevelError
		}
	}
	line.Write(r.Context(), log, logline.Page)
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if status >= 200 && w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection: deadlines, flushing.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// secure says whether browsers reach us over https.
func secure(base string) bool { return strings.HasPrefix(base, "https://") }
