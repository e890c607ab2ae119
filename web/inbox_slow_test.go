package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/inbox"
	"waybill/app/seal"
	"waybill/db/dbtest"
)

// A slow answer takes as long as it is set to, however soon the body has to be there.
func TestSlowAnswerOutlastsTheBody(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	boxes := &inbox.Service{DB: pool, Ring: ring, Audit: &account.Service{DB: pool, Now: time.Now}, Now: time.Now}
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	made, err := boxes.Create(t.Context(), account.Waybill("tests", tenant.ID), inbox.Reply{Answer: inbox.Slow, Seconds: 2})
	if err != nil {
		t.Fatal(err)
	}
	rc := newReceiver(boxes, slog.New(slog.DiscardHandler), nil)
	rc.within = time.Second
	mux := http.NewServeMux()
	mux.Handle(InboxPattern, rc)
	server := httptest.NewServer(mux)
	defer server.Close()
	begun := time.Now()
	got, err := http.Post(server.URL+made.URL, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if took := time.Since(begun); got.StatusCode != http.StatusOK || took < 2*time.Second {
		t.Errorf("it answered %d after %s", got.StatusCode, took)
	}

	// The program's end does not wait for it.
	rc.end()
	again, err := http.Post(server.URL+made.URL, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	again.Body.Close()
	if again.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("at the end it answered %d", again.StatusCode)
	}
}
