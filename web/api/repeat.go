package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/idempotency"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
)

// keyed says whether the route looks at an Idempotency-Key: all that change something do, but those that say why not.
func (r Route) keyed() bool {
	return r.Audience != ForPublic && r.NoKey == "" && slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method)
}

// once carries a call with an Idempotency-Key out once, and answers a repeat with what the first was answered (draft-ietf-httpapi-idempotency-key-header).
// Only what was done is kept: a call that was refused can be changed and sent again under its key. Answers are kept whole before they are sent,
// so that a client that left has only to ask again.
func (a *API) once(w http.ResponseWriter, r *http.Request, caller account.Caller, handle Handler) error {
	given := r.Header.Values(idempotencyHeader)
	key := given[0]
	if len(given) > 1 || !idempotency.Valid(key) {
		return fault.New(fault.Malformed, "Idempotency-Key must be given once, with 1 to 255 printable ASCII characters without spaces.")
	}
	body, err := ReadBody(w, r)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call, reply, err := a.calls.Claim(r.Context(), caller.ID, key, fingerprint(r, body))
	if err != nil {
		return err
	}
	if reply != nil {
		w.Header().Set(replayedHeader, "true")
		return writeReply(w, *reply)
	}
	out := &held{header: w.Header()}
	defer func() {
		if out.status == 0 { // refused, or a panic
			if err := call.Release(withoutEnd(r)); err != nil {
				a.Log.Error("an idempotency key stays taken", "error", err)
			}
		}
	}()
	if err := handle(out, r.WithContext(call.Bind(r.Context())), caller); err != nil {
		out.status = 0
		return err
	}
	made := idempotency.Reply{Status: max(out.status, http.StatusOK), ContentType: out.header.Get("Content-Type"), Body: out.body.Bytes()}
	if err := call.Answer(withoutEnd(r), made); err != nil {
		a.Log.Error("the answer to a call with an idempotency key is not kept", "error", err)
	}
	return writeReply(w, made)
}

// withoutEnd is for what must be written down although the client has left or the time is over.
func withoutEnd(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

func fingerprint(r *http.Request, body []byte) []byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	sum.Write(body)
	return sum.Sum(nil)
}

func writeReply(w http.ResponseWriter, reply idempotency.Reply) error {
	if reply.ContentType != "" {
		w.Header().Set("Content-Type", reply.ContentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // a client that has left is no fault of ours
	return nil
}

// held is an answer that is kept before it is sent.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header { return h.header }

func (h *held) WriteHeader(status int) { h.status = status }

func (h *held) Write(p []byte) (int, error) {
	h.status = max(h.status, http.StatusOK)
	return h.body.Write(p)
}
