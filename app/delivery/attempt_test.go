package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/dbtest"
)

// The parts of an endpoint that must not be seen by whoever may not reveal them (CASES B39).
const secretURL = "https://user:pw%40@h.test/hook/SECRETPATH?token=SECRETTOKEN"

var secretParts = []string{"user", "pw@", "pw%40", "SECRETPATH", "SECRETTOKEN", "SECRETVALUE"}

// evidence puts a delivery with two attempts in: one that got an answer, with static headers, and one that did not.
func (h *house) evidence() dbtest.Delivery {
	h.t.Helper()
	setID := "hdr_1"
	pairs, err := json.Marshal([][2]string{{"Authorization", "Bearer SECRETVALUE"}, {"X-Empty", ""}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.exec(`insert into header_sets (id, tenant_id, names, sealed) values ($1, $2, $3, $4)`, setID, h.tenant.ID,
		[]string{"Authorization", "X-Empty"}, h.Ring.Seal(pairs, []byte("headers:"+setID)))
	d := dbtest.AddDelivery(h.t, h.pool, dbtest.Delivery{
		Endpoint: dbtest.AddEndpoint(h.t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, URL: secretURL, HeaderSetID: setID}),
		Attempts: 2, Failures: 2, LastClass: "refused",
	})
	dbtest.AddAttempt(h.t, h.pool, dbtest.Attempt{
		Delivery: d, HeaderSetID: setID, Class: "status", Code: 500, Detail: "the answer's status is not 2xx",
		RequestHeaders:  `[["Content-Type","application/json"],["webhook-id","` + d.Event.ID + `"]]`,
		ResponseHeaders: `[["Content-Type","text/html"],["X-A","caf�"]]`, ResponseBody: []byte("\xff\xfe\x00\x01"), ResponseSize: 70_000,
		ResponseNote: "only the beginning was read", Proto: "HTTP/1.1", Remote: "203.0.113.10:443",
		TLS:       `{"version":"TLS 1.3","server_name":"h.test","not_after":"2027-01-02T03:04:05Z"}`,
		ConnectUS: 1000, TLSUS: 2000, WaitUS: 30_000, ReadUS: 4000, TotalUS: 37_000,
	})
	dbtest.AddAttempt(h.t, h.pool, dbtest.Attempt{
		Delivery: d, Number: 2, Trigger: "manual", RequestedBy: "anna@example.com", Class: "refused", Detail: "no HTTP answer",
		Remote: "203.0.113.10:443", ConnectUS: 900, TotalUS: 950,
	})
	return d
}

func TestAttemptsShowTheEvidence(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.evidence()
	page, err := h.Attempts(t.Context(), h.caller, d.ID, "", 0)
	if err != nil || len(page.Attempts) != 2 || page.Next != "" {
		t.Fatalf("%d attempts, next %q, %v", len(page.Attempts), page.Next, err)
	}
	second, first := page.Attempts[0], page.Attempts[1]
	if first.Number != 1 || first.Trigger != "first" || first.Class != "status" || first.Code != 500 || first.Proto != "HTTP/1.1" ||
		first.Remote != "203.0.113.10:443" || first.Connect != time.Millisecond || first.Handshake != 2*time.Millisecond ||
		first.Wait != 30*time.Millisecond || first.Read != 4*time.Millisecond || first.Total != 37*time.Millisecond {
		t.Errorf("%+v", first)
	}
	if first.TLS == nil || first.TLS.Version != "TLS 1.3" || !first.TLS.NotAfter.Equal(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("TLS %+v", first.TLS)
	}
	wantSent := []Header{{Name: "Content-Type", Value: "application/json"}, {Name: "webhook-id", Value: d.Event.ID},
		{Name: "Authorization", Value: "Bearer SECRETVALUE"}, {Name: "X-Empty"}}
	if !slices.Equal(first.Request.Headers, wantSent) || first.Request.URL != secretURL || first.Request.Hidden || first.Request.BodySize != len(d.Event.Body) {
		t.Errorf("request %+v", first.Request)
	}
	if r := first.Response; r == nil || string(r.Body) != "\xff\xfe\x00\x01" || r.Size != 70_000 || r.Note == "" ||
		!slices.Equal(r.Headers, []Header{{Name: "Content-Type", Value: "text/html"}, {Name: "X-A", Value: "caf�"}}) {
		t.Errorf("response %+v", r)
	}
	// What could serve a port scanner is told alike (CASES B43).
	if second.Class != "no_answer" || second.Connect != 0 || second.Remote != "" || second.Total != 950*time.Microsecond || second.Response != nil ||
		second.TLS != nil || second.RequestedBy != "anna@example.com" || second.Trigger != "manual" {
		t.Errorf("%+v", second)
	}
	got, err := h.Read(t.Context(), h.caller, d.ID)
	if err != nil || got.LastClass != "no_answer" {
		t.Errorf("last class %q, %v", got.LastClass, err)
	}
}

func TestEvidenceIsHidden(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.evidence()
	viewer := keyOf(h.tenant, account.DeliveriesRead, account.CatalogRead)
	page, err := h.Attempts(t.Context(), viewer, d.ID, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	first := page.Attempts[1]
	if want := []Header{{Name: "Authorization", Hidden: true}, {Name: "X-Empty", Hidden: true}}; !slices.Equal(first.Request.Headers[2:], want) {
		t.Errorf("headers %+v", first.Request.Headers)
	}
	if first.Request.URL != "https://h.test" || !first.Request.Hidden {
		t.Errorf("URL %q", first.Request.URL)
	}
	body := []byte(d.Event.Body)
	for _, text := range []string{first.Request.Curl(body), first.Request.HTTP(body)} {
		for _, part := range secretParts {
			if strings.Contains(text, part) {
				t.Errorf("%q stands in\n%s", part, text)
			}
		}
		if !strings.Contains(text, "h.test") || !strings.Contains(text, d.Event.Body) {
			t.Errorf("not the request:\n%s", text)
		}
	}
	// A header set that no longer opens hides itself and nothing else.
	h.exec(`update header_sets set sealed = '\x00'`)
	page, err = h.Attempts(t.Context(), h.caller, d.ID, "", 0)
	if err != nil || !page.Attempts[1].Request.Headers[2].Hidden || page.Attempts[1].Request.Headers[0].Hidden {
		t.Errorf("%+v, %v", page.Attempts[1].Request.Headers, err)
	}
}

func TestAttemptsPages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	old := time.Now().AddDate(0, 0, -20)
	d := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: dbtest.Event{TenantID: h.tenant.ID}, CreatedAt: old, Attempts: 23})
	for n := range 23 {
		// A worker's clock may be before the database's.
		dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: d, Number: n + 1, StartedAt: old.AddDate(0, 0, n-1), Class: "status", Code: 500})
	}
	var numbers []int
	after := ""
	for {
		page, err := h.Attempts(t.Context(), h.caller, d.ID, after, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Attempts {
			numbers = append(numbers, a.Number)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for i, n := range numbers {
		if n != 23-i {
			t.Fatalf("attempts %v", numbers)
		}
	}
	if len(numbers) != 23 {
		t.Errorf("attempts %v", numbers)
	}
	for _, text := range []string{"x", cursor.Encode("attempts", "0"), cursor.Encode("attempts", "a"), cursor.Encode("attempts", "99999999999"), cursor.Encode("deliveries", "5")} {
		_, err := h.Attempts(t.Context(), h.caller, d.ID, text, 5)
		wantKind(t, err, fault.Malformed)
	}
	_, err := h.Attempts(t.Context(), h.caller, d.ID, "", 500)
	wantKind(t, err, fault.Invalid)
	_, err = h.Attempts(t.Context(), h.stranger, d.ID, "", 0)
	wantKind(t, err, fault.NotFound)
	_, err = h.Attempts(t.Context(), h.caller, id.New(id.Delivery, time.Now()), "", 0)
	wantKind(t, err, fault.NotFound)
	_, err = h.Attempts(t.Context(), keyOf(h.tenant, account.CatalogRead), d.ID, "", 0)
	wantKind(t, err, fault.Forbidden)
}

// CASES B26: what is shown is what is sent, byte for byte.
func TestBody(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	full, thin := `{ "b":1, "a":"<b>&é😀", "n":9007199254740993, "f":1.0, "z":null, "a":2 }`, `{"id":"C-1"}`
	event := dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID, Body: full, Thin: thin})
	for form, want := range map[string]string{"full": full, "thin": thin} {
		made := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: event, Form: form})
		d, err := h.Read(t.Context(), h.caller, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		body, digest, err := h.Body(t.Context(), h.caller, d)
		sum := sha256.Sum256([]byte(want))
		if err != nil || string(body) != want || digest != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %q, %s, %v", form, body, digest, err)
		}
		if body, _, err := h.Body(t.Context(), h.stranger, d); err != nil || body != nil {
			t.Errorf("a stranger sees %q, %v", body, err)
		}
		_, _, err = h.Body(t.Context(), keyOf(h.tenant, account.DeliveriesRead), d)
		wantKind(t, err, fault.Forbidden)
		_, _, err = h.Body(t.Context(), keyOf(h.tenant, account.CatalogRead), d)
		wantKind(t, err, fault.Forbidden)
	}
	d, err := h.Read(t.Context(), h.caller, dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: event}).ID)
	if err != nil {
		t.Fatal(err)
	}
	h.exec(`delete from events`)
	if body, digest, err := h.Body(t.Context(), h.caller, d); err != nil || body != nil || digest != "" {
		t.Errorf("a body that is gone: %q, %q, %v", body, digest, err)
	}
}

func TestHTTPText(t *testing.T) {
	t.Parallel()
	r := Request{URL: "https://us%20er:p%3Aw@h.test:8443//a%2Fb;c?d={e}", Headers: []Header{{Name: "webhook-id", Value: "evt_1"}, {Name: "X-Key", Hidden: true}}}
	want := "POST //a%2Fb;c?d={e} HTTP/1.1\r\nHost: h.test:8443\r\nwebhook-id: evt_1\r\nX-Key: <hidden>\r\n" +
		"Authorization: Basic dXMgZXI6cDp3\r\nContent-Length: 2\r\n\r\n{}"
	if got := r.HTTP([]byte("{}")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r = Request{URL: "http://h.test", Headers: []Header{{Name: "authorization", Value: "Bearer x"}}}
	if got := r.HTTP(nil); got != "POST / HTTP/1.1\r\nHost: h.test\r\nauthorization: Bearer x\r\nContent-Length: 0\r\n\r\n" {
		t.Errorf("%q", got)
	}
	r = Request{URL: "http://h.test?x=1"}
	if got := r.HTTP(nil); !strings.HasPrefix(got, "POST /?x=1 HTTP/1.1\r\n") {
		t.Errorf("%q", got)
	}
}

// The command is one command, whatever a tenant or a publisher wrote: a shell gives curl exactly our words.
func TestCurlIsOneCommand(t *testing.T) {
	t.Parallel()
	body := "{\"a\":\"it's $(touch /tmp/x) `id` \\ \\n %s\",\n\"b\":\"é😀\"}"
	r := Request{URL: "https://h.test/?q='$(id)'&x=1", Headers: []Header{
		{Name: "X-A", Value: `'; rm -rf "$HOME"; '`}, {Name: "X-Empty"}, {Name: "X-Hidden", Hidden: true},
	}}
	want := []string{"--request", "POST", r.URL, "--header", `X-A: '; rm -rf "$HOME"; '`, "--header", "X-Empty;", "--header", "X-Hidden: <hidden>",
		"--data-raw", body}
	// The shell runs a function of curl's name, which prints what it is given, each behind a byte that cannot be in it.
	out, err := exec.Command("sh", "-c", "curl() { for word; do printf '%s\\001' \"$word\"; done; }\n"+r.Curl([]byte(body))).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x01"), "\x01"); !slices.Equal(got, want) {
		t.Errorf("the shell gives %q, want %q", got, want)
	}
}
