package receive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"waybill/app/signing"
)

// signed is a request as Waybill sends it.
func signed(t testing.TB, scheme signing.Scheme, keys []signing.Key, id, body string, at time.Time) *http.Request {
	t.Helper()
	list, err := signing.Headers(scheme, keys, id, at.Unix(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for _, h := range list {
		req.Header.Set(h.Name, h.Value)
	}
	return req
}

func answerOf(r *Receiver, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func TestReceiverAnswers(t *testing.T) {
	t.Parallel()
	key, old, pair, stranger := signing.NewSecret(), signing.NewSecret(), signing.NewKeyPair(), signing.NewSecret()
	good := func() *http.Request { return signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", seedBody, noon) }
	with := func(change func(*http.Request)) *http.Request {
		req := good()
		change(req)
		return req
	}
	for _, c := range []struct {
		name    string
		req     *http.Request
		status  int
		outcome Outcome
		says    string
	}{
		{"v1", good(), 200, Stored, ""},
		{"the old secret of a rotation", signed(t, signing.V1, []signing.Key{old}, "evt_9f2c", seedBody, noon), 200, Stored, ""},
		{"both of a rotation", signed(t, signing.V1, []signing.Key{stranger, old}, "evt_9f2c", seedBody, noon), 200, Stored, ""},
		{"v1a", signed(t, signing.V1a, []signing.Key{pair}, "evt_9f2c", seedBody, noon), 200, Stored, ""},
		{"hex", signed(t, signing.Hex, []signing.Key{key}, "evt_9f2c", seedBody, noon), 200, Stored, ""},
		{"five minutes late", signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", seedBody, noon.Add(-5*time.Minute)), 200, Stored, ""},
		{"a body that is no JSON", signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", "\x00\xff", noon), 200, Stored, ""},
		{"an empty body", signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", "", noon), 200, Stored, ""},
		{"a body of exactly the limit", signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", strings.Repeat("x", 2000), noon), 200, Stored, ""},

		{"a stranger's key", signed(t, signing.V1, []signing.Key{stranger}, "evt_9f2c", seedBody, noon), 401, Refused, "no matching signature"},
		{"another body", with(func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(seedBody + "\n")) }), 401, Refused, "no matching signature"},
		{"too old", signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", seedBody, noon.Add(-301*time.Second)), 401, Refused, "timestamp too old"},
		{"too new", signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", seedBody, noon.Add(time.Hour)), 401, Refused, "timestamp too new"},
		{"no id", with(func(r *http.Request) { r.Header.Del("webhook-id") }), 400, Refused, "webhook-id is not there"},
		{"no timestamp", with(func(r *http.Request) { r.Header.Del("webhook-timestamp") }), 400, Refused, "webhook-timestamp is not there"},
		{"no signature", with(func(r *http.Request) { r.Header.Del("webhook-signature") }), 400, Refused, "webhook-signature is not there"},
		{"two ids", with(func(r *http.Request) { r.Header.Add("webhook-id", "evt_2") }), 400, Refused, "more than once"},
		{"timestamp in words", with(func(r *http.Request) { r.Header.Set("webhook-timestamp", "noon") }), 400, Refused, "digits only"},
		{"nothing at all", httptest.NewRequest(http.MethodPost, "/", nil), 400, Refused, "missing header"},
		{"GET", with(func(r *http.Request) { r.Method = http.MethodGet }), 405, Refused, "POST"},
		{"HEAD", with(func(r *http.Request) { r.Method = http.MethodHead }), 405, Refused, "POST"},
		{"over the limit", signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", strings.Repeat("x", 2001), noon), 413, Refused, "too large"},
		{"a body that breaks off", with(func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(seedBody[:50]), &failingReader{}))
		}), 400, Refused, "did not arrive whole"},
		{"hex without an id in the body", signed(t, signing.Hex, []signing.Key{key}, "evt_9f2c", `{"type":"a.b"}`, noon), 400, Refused, "no event id"},
		{"hex with an impossible id", signed(t, signing.Hex, []signing.Key{key}, "evt_9f2c", `{"id":"a.b"}`, noon), 400, Refused, "no event id"},
		{"hex without JSON", signed(t, signing.Hex, []signing.Key{key}, "evt_9f2c", `x`, noon), 400, Refused, "no event id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inbox := newFakeInbox()
			woken := 0
			var seen []Arrival
			r := &Receiver{
				Keys: keysOf(key, pair.Public(), old), Inbox: inbox, Stored: func() { woken++ }, MaxBody: 2000,
				Now: func() time.Time { return noon }, Log: func(_ context.Context, a Arrival) { seen = append(seen, a) },
			}
			w := answerOf(r, c.req)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || c.says == "" && w.Body.Len() != 0 {
				t.Errorf("answered %d %q, want %d %q", w.Code, w.Body, c.status, c.says)
			}
			want := map[bool]int{true: 1, false: 0}[c.status == 200]
			if len(inbox.stored()) != want || woken != want {
				t.Errorf("%d stored, woken %d times, want %d", len(inbox.stored()), woken, want)
			}
			if len(seen) != 1 || seen[0].Outcome != c.outcome || seen[0].Status != c.status || !seen[0].At.Equal(noon) {
				t.Fatalf("logged %+v", seen)
			}
			if wantID := map[bool]string{true: "evt_9f2c", false: ""}[c.status == 200]; seen[0].EventID != wantID {
				t.Errorf("logged the id %q, want %q", seen[0].EventID, wantID)
			}
			if c.status == 405 && w.Header().Get("Allow") != "POST" {
				t.Errorf("Allow: %q", w.Header().Get("Allow"))
			}
		})
	}
}

type failingReader struct{}

func (*failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func TestARepeatIsAnsweredAlike(t *testing.T) {
	t.Parallel()
	key := signing.NewSecret()
	inbox := newFakeInbox()
	woken := 0
	var outcomes []Outcome
	r := &Receiver{Keys: keysOf(key), Inbox: inbox, Now: func() time.Time { return noon }, Stored: func() { woken++ },
		Log: func(_ context.Context, a Arrival) { outcomes = append(outcomes, a.Outcome) }}
	for range 3 {
		if w := answerOf(r, signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", seedBody, noon)); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("answered %d %q", w.Code, w.Body)
		}
	}
	if !slices.Equal(outcomes, []Outcome{Stored, Repeat, Repeat}) || woken != 1 {
		t.Errorf("outcomes %v, woken %d times", outcomes, woken)
	}
	got := inbox.stored()
	if len(got) != 1 || got[0].ID != "evt_9f2c" || string(got[0].Body) != seedBody || !got[0].ReceivedAt.Equal(noon) {
		t.Errorf("stored %+v", got)
	}
}

// The hex scheme does not sign the header's id: whoever catches a request could send it again under many ids.
func TestHexTakesTheIDFromTheBody(t *testing.T) {
	t.Parallel()
	key := signing.NewSecret()
	inbox := newFakeInbox()
	r := &Receiver{Keys: keysOf(key), Inbox: inbox, Now: func() time.Time { return noon }}
	for i := range 3 {
		req := signed(t, signing.Hex, []signing.Key{key}, "evt_9f2c", seedBody, noon)
		req.Header.Set("Webhook-Id", fmt.Sprint("evt_replayed_", i))
		if w := answerOf(r, req); w.Code != 200 {
			t.Errorf("answered %d %q", w.Code, w.Body)
		}
	}
	if got := inbox.stored(); len(got) != 1 || got[0].ID != "evt_9f2c" {
		t.Errorf("stored %+v", got)
	}
}

func TestAnInboxThatFailsAsksForARetry(t *testing.T) {
	t.Parallel()
	key := signing.NewSecret()
	inbox := newFakeInbox()
	inbox.breakWith(errBroken)
	var seen []Arrival
	r := &Receiver{Keys: keysOf(key), Inbox: inbox, Now: func() time.Time { return noon },
		Stored: func() { t.Error("woken for nothing") }, Log: func(_ context.Context, a Arrival) { seen = append(seen, a) }}
	req := func() *http.Request { return signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", seedBody, noon) }
	w := answerOf(r, req())
	if w.Code != 503 || strings.Contains(w.Body.String(), "database") {
		t.Errorf("answered %d %q", w.Code, w.Body)
	}
	if len(seen) != 1 || seen[0].Outcome != Failed || !errors.Is(seen[0].Err, errBroken) || seen[0].EventID != "evt_9f2c" {
		t.Errorf("logged %+v", seen)
	}
	inbox.breakWith(nil)
	r.Stored = nil
	if w := answerOf(r, req()); w.Code != 200 || len(inbox.stored()) != 1 {
		t.Errorf("the retry is answered %d", w.Code)
	}
}

func TestKeysAreAskedForEachRequest(t *testing.T) {
	t.Parallel()
	key := signing.NewSecret()
	keys := []signing.Key{}
	r := &Receiver{Keys: func() []signing.Key { return keys }, Inbox: newFakeInbox(), Now: func() time.Time { return noon }}
	req := func() *http.Request { return signed(t, signing.V1, []signing.Key{key}, "evt_9f2c", seedBody, noon) }
	if w := answerOf(r, req()); w.Code != 401 {
		t.Errorf("without a key: %d", w.Code)
	}
	keys = []signing.Key{key}
	if w := answerOf(r, req()); w.Code != 200 {
		t.Errorf("with the key: %d", w.Code)
	}
}

// Over a real connection, with what another implementation signs, by the real clock.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	key := signing.NewSecret()
	library, err := standardwebhooks.NewWebhook(key.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	inbox := newFakeInbox()
	server := httptest.NewServer(&Receiver{Keys: keysOf(key), Inbox: inbox})
	t.Cleanup(server.Close)
	post := func(id, signature string, at time.Time, body []byte) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header["webhook-id"] = []string{id}
		req.Header["webhook-timestamp"] = []string{fmt.Sprint(at.Unix())}
		req.Header["webhook-signature"] = []string{signature}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	now := time.Now()
	signature, err := library.Sign("evt_1", now, []byte(seedBody))
	if err != nil {
		t.Fatal(err)
	}
	for want, got := range map[int]int{
		200: post("evt_1", signature, now, []byte(seedBody)),
		401: post("evt_2", signature, now, []byte(seedBody)),
		413: post("evt_3", signature, now, make([]byte, DefaultMaxBody+1)),
	} {
		if got != want {
			t.Errorf("answered %d, want %d", got, want)
		}
	}
	if got := inbox.stored(); len(got) != 1 || got[0].ID != "evt_1" || string(got[0].Body) != seedBody {
		t.Errorf("stored %+v", got)
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	e, err := Message{Body: []byte(seedBody)}.Event()
	if err != nil {
		t.Fatal(err)
	}
	if e.ID != "evt_9f2c" || e.Type != "consignment.delivered" || e.Version != 1 || e.Sequence != 4 || e.Test ||
		e.Resource != (Resource{Type: "consignment", ID: "C-4471"}) ||
		!e.OccurredAt.Equal(time.Date(2026, 11, 17, 9, 41, 5, 123_000_000, time.UTC)) {
		t.Errorf("%+v", e)
	}
	// Numbers, spacing, order and repeated names of data stay as they were published.
	const data = `{ "b":1, "a":"<b>&é😀", "n":9007199254740993, "f":1.0, "z":null, "a":2 , "u":"\u0000"}`
	e, err = Message{Body: []byte(`{"id":"evt_1","TYPE":"admin.x","type":"invoice.paid","test":true,"sequence":9223372036854775807,"new":[1],"resource":{"type":"a","id":"b","url":"https://x.test/v1"},"data":` + data + `}`)}.Event()
	if err != nil || string(e.Data) != data || e.Type != "invoice.paid" || !e.Test || e.Sequence != 1<<63-1 || e.Resource.URL != "https://x.test/v1" {
		t.Errorf("%+v, %v", e, err)
	}
	for _, body := range []string{"", "x", "[]", `"a"`, `{"id":1}`, `{"sequence":"4"}`, `{"sequence":1.5}`, `{"id":"a"} {}`, "{\"id\":\"\xff\"}"} {
		if e, err := (Message{Body: []byte(body)}).Event(); err == nil || !strings.HasPrefix(err.Error(), "receive: ") {
			t.Errorf("%q is read as %+v, %v", body, e, err)
		}
	}
}
