package web_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/inbox"
	"waybill/app/sender"
	"waybill/app/signing"
)

// send posts to an inbox as a stranger's program does.
func (b *bench) send(method, inboxURL string, header http.Header, body string) (*http.Response, string) {
	b.t.Helper()
	parsed, err := url.Parse(inboxURL)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+parsed.Path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	got, err := b.server.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return got, string(text)
}

func TestInboxInOneClick(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/endpoints").says(t, http.StatusOK, "No server yet? Make an inbox")
	who.get("/endpoints/new").says(t, http.StatusOK, "No server yet? Make an inbox")
	made := who.post("/inboxes", url.Values{"endpoint": {"yes"}})
	if made.status != http.StatusSeeOther || !strings.HasPrefix(made.location(), "/inboxes/ibx_") {
		t.Fatalf("one click answered %d to %q", made.status, made.location())
	}
	page := who.get(made.location())
	page.says(t, http.StatusOK, "Inbox made, and an endpoint that sends every event to it.", "Nothing has come yet", "Send a test event", "the last 100 requests", "7 days")

	caller := account.Waybill("tests", b.tenant.ID)
	ends, _, err := b.endpoints.List(t.Context(), caller, "", "", 10)
	if err != nil || len(ends) != 1 || ends[0].RatePerSecond == nil {
		t.Fatalf("the endpoint is %+v, %v", ends, err)
	}
	boxes, err := b.inboxes.List(t.Context(), caller)
	if err != nil || len(boxes) != 1 || boxes[0].URL != ends[0].URL {
		t.Fatalf("the endpoint's URL is %q and the inbox's %+v, %v", ends[0].URL, boxes, err)
	}
	secrets, err := b.endpoints.Secrets(t.Context(), caller, ends[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := b.endpoints.SecretReveal(t.Context(), caller, ends[0].ID, secrets[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.ParseKey(plain.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	body := `{"type":"order.paid","note":"</script><b>bold</b>"}`
	pairs, err := signing.Headers(signing.V1, []signing.Key{key}, "evt_abc", time.Now().Unix(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Content-Type": {"text/html"}, "Authorization": {"Bearer topsecret"}}
	for _, pair := range pairs {
		header.Set(pair.Name, pair.Value)
	}
	got, text := b.send(http.MethodPost, boxes[0].URL, header, body)
	if got.StatusCode != http.StatusOK || text != "received\n" || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" || got.Header.Get("X-Content-Type-Options") != "nosniff" ||
		len(got.Header.Values("Set-Cookie")) > 0 {
		t.Errorf("it answered %d %q %v", got.StatusCode, text, got.Header)
	}
	page = who.get(made.location())
	page.says(t, http.StatusOK, "The signature verifies", secrets[0].Fingerprint, "evt_abc", "Answered 200", "Bearer topsecret")
	if strings.Contains(page.body, "<b>bold</b>") {
		t.Error("a body acts on the page")
	}
	raw := who.get(made.location() + "/requests/1/body")
	if raw.body != body || raw.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(raw.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the body as text is %q with %v", raw.body, raw.header)
	}

	// A changed body does not verify, and what is not signed is said to be that.
	b.send(http.MethodPost, boxes[0].URL, header, body+" ")
	who.get(made.location()).says(t, http.StatusOK, "The signature does not verify", "No signature matches a live secret")
	b.send(http.MethodPost, boxes[0].URL, nil, "hello")
	who.get(made.location()).says(t, http.StatusOK, "It has no signature: it was not sent by us.")
	who.get(made.location()+"/requests/1").says(t, http.StatusOK, "The signature verifies")

	// Who may only look sees no static header.
	viewer := b.signedIn(b.tenant, account.PortalInput{Scopes: []account.Scope{account.EndpointsRead, account.DeliveriesRead}})
	seen := viewer.get(made.location() + "/requests/1")
	seen.says(t, http.StatusOK, "Your access does not include payloads.")
	if strings.Contains(seen.body, "topsecret") || strings.Contains(seen.body, "order.paid") {
		t.Error("a viewer sees what is hidden from them")
	}
	if got := viewer.get(made.location() + "/requests/1/body"); got.status != http.StatusForbidden {
		t.Errorf("a viewer reads the body: %d", got.status)
	}
	if got := viewer.post("/inboxes", url.Values{"endpoint": {"yes"}}); got.status != http.StatusForbidden {
		t.Errorf("a viewer makes an inbox: %d", got.status)
	}
	who.post(made.location()+"/delete", nil)
	if got, _ := b.send(http.MethodPost, boxes[0].URL, nil, ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted inbox answers %d", got.StatusCode)
	}
}

func TestInboxAnswersAsItIsSet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	address := who.post("/inboxes", nil).location()
	caller := account.Waybill("tests", b.tenant.ID)
	boxes, err := b.inboxes.List(t.Context(), caller)
	if err != nil || len(boxes) != 1 {
		t.Fatal(err)
	}
	for _, c := range []struct {
		answer, seconds string
		want            int
		retry           string
	}{{"500", "9", 500, ""}, {"410", "9", 410, ""}, {"429", "9", 429, "9"}, {"200", "9", 200, ""}, {"slow", "1", 200, ""}} {
		if got := who.post(address+"/answer", url.Values{"answer": {c.answer}, "seconds": {c.seconds}}); got.status != http.StatusSeeOther {
			t.Fatalf("setting %s answered %d", c.answer, got.status)
		}
		begun := time.Now()
		got, _ := b.send(http.MethodPost, boxes[0].URL, nil, "x")
		if got.StatusCode != c.want || got.Header.Get("Retry-After") != c.retry {
			t.Errorf("set to %s it answers %d, Retry-After %q", c.answer, got.StatusCode, got.Header.Get("Retry-After"))
		}
		if took := time.Since(begun); c.answer == "slow" && took < time.Second {
			t.Errorf("the slow answer took %s", took)
		}
	}
	who.post(address+"/answer", url.Values{"answer": {"slow"}, "seconds": {"many"}}).says(t, http.StatusUnprocessableEntity, "It must be 1 to 60.")

	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodOptions} {
		if got, _ := b.send(method, boxes[0].URL, nil, ""); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
			t.Errorf("%s answered %d", method, got.StatusCode)
		}
	}
	if got, _ := b.send(http.MethodPost, boxes[0].URL, nil, strings.Repeat("x", 3<<20)); got.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("3 MB answered %d", got.StatusCode)
	}
	if got, _ := b.send(http.MethodPost, "https://waybill.test/inbox/"+strings.Repeat("a", 32), nil, "x"); got.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown token answered %d", got.StatusCode)
	}
	// From another site's page, and with somebody's cookies: an inbox is for anybody, and knows nobody.
	cross := http.Header{"Origin": {"https://evil.test"}, "Sec-Fetch-Site": {"cross-site"}, "Cookie": {"x=y"}}
	if got, _ := b.send(http.MethodPost, boxes[0].URL, cross, "x"); got.StatusCode != http.StatusOK || len(got.Header.Values("Set-Cookie")) > 0 {
		// It is set to slow still.
		t.Errorf("from another site it answered %d", got.StatusCode)
	}
	var lines []string
	for line := range strings.Lines(b.logs.String()) {
		if strings.Contains(line, `"inbox request"`) {
			lines = append(lines, line)
		}
	}
	token := boxes[0].URL[strings.LastIndexByte(boxes[0].URL, '/')+1:]
	if len(lines) == 0 || strings.Contains(strings.Join(lines, ""), token) {
		t.Errorf("%d lines in the log; they must not have the token", len(lines))
	}
}

func TestInboxFloodIsTurnedAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made, err := b.inboxes.Create(t.Context(), account.Waybill("tests", b.tenant.ID), inbox.DefaultReply)
	if err != nil {
		t.Fatal(err)
	}
	turned := 0
	for range inbox.Burst * 3 {
		if got, _ := b.send(http.MethodPost, made.URL, nil, "x"); got.StatusCode == http.StatusTooManyRequests {
			if got.Header.Get("Retry-After") == "" {
				t.Error("it does not say when to come back")
			}
			turned++
			break
		}
	}
	if turned == 0 {
		// A machine that sends fewer than so many a second: what is left is to see that the bucket empties at all.
		if _, err := b.pool.Exec(t.Context(), `update inboxes set tokens = 0, counted_at = now() + interval '1 minute'`); err != nil {
			t.Fatal(err)
		}
		if got, _ := b.send(http.MethodPost, made.URL, nil, "x"); got.StatusCode != http.StatusTooManyRequests {
			t.Errorf("an empty bucket answers %d", got.StatusCode)
		}
	}
}

func TestInboxThatCannotBeReached(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	b.steps = []sender.Step{{Name: sender.StepConnect, Class: sender.BlockedAddress, Detail: "the address is not allowed"}}
	address := who.post("/inboxes", nil).location()
	page := who.get(address)
	page.says(t, http.StatusOK, "Our sender cannot reach this inbox", "the address is not allowed", "WAYBILL_EGRESS_ALLOW", "None of yours points here.")
	if !regexp.MustCompile(`/endpoints/new\?url=https%3A%2F%2Fwaybill\.test%2Finbox%2F`).MatchString(page.body) {
		t.Error("there is no way to add an endpoint for it")
	}
	for range inbox.MaxInboxes - 1 {
		who.post("/inboxes", nil)
	}
	if got := who.post("/inboxes", nil); got.location() != "/inboxes" {
		t.Errorf("one more led to %q", got.location())
	}
	who.get("/inboxes").says(t, http.StatusOK, "There are 5 inboxes, which is the most.")
	if _, err := b.endpoints.Create(t.Context(), account.Waybill("tests", b.tenant.ID), endpoint.Input{URL: "https://elsewhere.example/", Types: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
}

func TestInboxIsLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	address := who.post("/inboxes", nil).location()
	boxes, err := b.inboxes.List(t.Context(), account.Waybill("tests", b.tenant.ID))
	if err != nil || len(boxes) != 1 {
		t.Fatal(err)
	}
	page := who.get(address)
	_, live, found := strings.Cut(page.body, `data-live="`)
	if live, _, _ = strings.Cut(live, `"`); !found {
		t.Fatal("the page has no stream")
	}
	next, end := who.events(strings.ReplaceAll(live, "&amp;", "&"))
	defer end()
	if got, _ := b.send(http.MethodPost, boxes[0].URL, nil, "hello"); got.StatusCode != http.StatusOK {
		t.Fatalf("it answered %d", got.StatusCode)
	}
	next("changed")
	who.get(address).says(t, http.StatusOK, "1 request received.", "hello")
}
