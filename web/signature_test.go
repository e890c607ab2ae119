package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/id"
	"waybill/app/signing"
	"waybill/db/dbtest"
)

// signed is an endpoint of a tenant with an attempt that was signed with its secret.
func signed(t *testing.T, b *bench, tenant dbtest.Tenant, address string) (e endpoint.Created, d dbtest.Delivery, a dbtest.Attempt, headers string) {
	t.Helper()
	e, err := b.endpoints.Create(t.Context(), account.Waybill("tests", tenant.ID), endpoint.Input{URL: address, Types: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.ParseKey(e.Secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	eventID := id.New(id.Event, time.Now())
	event := dbtest.AddEvent(t, b.pool, dbtest.Event{ID: eventID, TenantID: tenant.ID, ResourceID: "C-4471", Body: `{"id":"` + eventID + `","data":{"to":"₹ Chennai","n":1.50}}`})
	d = dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Endpoint: dbtest.Endpoint{ID: e.ID, TenantID: tenant.ID, URL: e.URL, Payload: "full"}, Status: "undelivered", Reason: "schedule_exhausted",
		Attempts: 1, LastClass: "status", LastCode: 401, LastAt: time.Now()})
	made, err := signing.Headers(signing.V1, []signing.Key{key}, event.ID, time.Now().Unix(), []byte(event.Body))
	if err != nil {
		t.Fatal(err)
	}
	stored := `["content-type","application/json"]`
	for _, h := range made {
		stored += fmt.Sprintf(`,[%q,%q]`, h.Name, h.Value)
		headers += h.Name + ": " + h.Value + "\r\n"
	}
	a = dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: d, Class: "status", Code: 401, RequestHeaders: "[" + stored + "]", StartedAt: time.Now()})
	return e, d, a, headers
}

func TestSignatureLab(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e, d, a, headers := signed(t, b, b.tenant, "https://orders.example/hooks")
	other := dbtest.AddTenant(t, b.pool, dbtest.Tenant{Name: "Kanchi Cottons"})
	foreign, fd, _, theirs := signed(t, b, other, "https://kanchi.example/hooks")
	sibling, sd, _, siblings := signed(t, b, b.tenant, "https://warehouse.example/in?key=t0ps3cret")
	lab := "/endpoints/" + e.ID + "/signature"
	body := d.Event.Body

	who := b.signedIn(b.tenant, account.PortalInput{ReadOnly: true}) // who may only look may use it
	who.get(lab).says(t, http.StatusOK, "Paste a request", "consignment.loaded, C-4471")
	attempt := who.get("/deliveries/" + d.ID)
	attempt.says(t, http.StatusOK, "Open the signature lab", "Signature lab")
	if want := "/signature?attempt=" + a.ID; !strings.Contains(attempt.body, want) {
		t.Errorf("the attempt does not lead to %s", want)
	}

	// As it was sent, everything is right.
	asSent := who.get(lab + "?delivery=" + d.ID + "&attempt=" + a.ID)
	asSent.says(t, http.StatusOK, "It verifies", "attempt 1 of consignment.loaded", "made the signature", "byte for byte")
	if !strings.Contains(asSent.body, "webhook-signature: v1,") || !strings.Contains(asSent.words(), "Chennai") {
		t.Error("the form is not filled")
	}
	secret := strings.TrimPrefix(e.Secret.Reveal(), "whsec_")
	fields := func(change func(url.Values)) url.Values {
		form := url.Values{"headers": {headers}, "body": {body}, "delivery": {d.ID}, "attempt": {a.ID}}
		if change != nil {
			change(form)
		}
		return form
	}
	fingerprint := regexp.MustCompile(`newest secret \(([0-9a-f]{8})\)`).FindStringSubmatch(asSent.words())
	if fingerprint == nil {
		t.Fatalf("no fingerprint: %s", asSent.words())
	}
	for name, test := range map[string]struct {
		change func(url.Values)
		status int
		says   []string
	}{
		"as it was":           {nil, 200, []string{"It verifies", "It is the body that we sent"}},
		"pasted, no attempt":  {func(f url.Values) { f.Del("delivery"); f.Del("attempt") }, 200, []string{"It verifies"}},
		"a line end behind":   {func(f url.Values) { f.Set("body", body+"\r\n") }, 200, []string{"It verifies"}},
		"written again":       {func(f url.Values) { f.Set("body", strings.ReplaceAll(body, `":`, `": `)) }, 200, []string{"It does not verify", "the white space differs", "express.raw()"}},
		"a changed number":    {func(f url.Values) { f.Set("body", strings.Replace(body, "1.50", "1.5", 1)) }, 200, []string{"numbers are written differently"}},
		"cut off":             {func(f url.Values) { f.Set("body", body[:40]) }, 200, []string{"The body was cut off: 40 of"}},
		"another endpoint's":  {func(f url.Values) { f.Set("headers", siblings); f.Set("body", sd.Event.Body) }, 200, []string{"of your endpoint warehouse.example/in.", "belongs to another endpoint"}},
		"another tenant's":    {func(f url.Values) { f.Set("headers", theirs); f.Set("body", fd.Event.Body) }, 200, []string{"None of this endpoint's secrets"}},
		"a missing header":    {func(f url.Values) { f.Set("headers", "webhook-id: evt_1") }, 200, []string{"webhook-timestamp and webhook-signature are missing"}},
		"the code's secret":   {func(f url.Values) { f.Set("fingerprint", fingerprint[1]) }, 200, []string{"Your code holds the newest secret."}},
		"what it computed":    {func(f url.Values) { f.Set("computed", strings.Repeat("0", 64)) }, 200, []string{"Nothing that we know of leads to it", "It verifies"}},
		"markup":              {func(f url.Values) { f.Set("body", "<script>alert(1)</script>") }, 200, []string{"It is another body"}},
		"nothing":             {func(f url.Values) { f.Set("headers", ""); f.Set("body", "") }, 422, []string{"Paste the headers of the request"}},
		"too much":            {func(f url.Values) { f.Set("body", strings.Repeat("a", 600_000)) }, 422, []string{"It has more than 512 KiB."}},
		"far too much":        {func(f url.Values) { f.Set("body", strings.Repeat("a", 2_000_000)) }, 413, nil},
		"another's delivery":  {func(f url.Values) { f.Set("delivery", fd.ID) }, 404, nil},
		"another one's":       {func(f url.Values) { f.Set("attempt", "att_01J00000000000000000000000") }, 404, nil},
		"too many characters": {func(f url.Values) { f.Set("headers", strings.Repeat("a: b\n", 5000)) }, 422, []string{"more than 16 KiB"}},
	} {
		got := who.post(lab, fields(test.change))
		got.says(t, test.status, test.says...)
		if strings.Contains(got.body, secret) || strings.Contains(got.body, "t0ps3cret") || strings.Contains(got.body, sibling.Secret.Reveal()[6:]) || strings.Contains(got.body, foreign.Secret.Reveal()[6:]) {
			t.Errorf("%s: a secret is shown", name)
		}
		if strings.Contains(got.body, "<script>alert") {
			t.Errorf("%s: what was pasted is markup", name)
		}
	}
	for _, address := range []string{"/endpoints/" + foreign.ID + "/signature", lab + "?delivery=" + fd.ID, lab + "?delivery=" + d.ID + "&attempt=att_01J00000000000000000000000", "/endpoints/" + sibling.ID + "/signature?delivery=" + d.ID} {
		who.get(address).says(t, http.StatusNotFound)
	}
	who.post("/endpoints/"+foreign.ID+"/signature", fields(nil)).says(t, http.StatusNotFound)
}

// Who may not see payloads learns nothing of a body by comparing.
func TestSignatureLabWithoutPayloads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e, d, a, headers := signed(t, b, b.tenant, "https://orders.example/hooks")
	who := b.signedIn(b.tenant, account.PortalInput{Scopes: []account.Scope{account.EndpointsRead, account.DeliveriesRead}})
	lab := "/endpoints/" + e.ID + "/signature"
	got := who.get(lab + "?delivery=" + d.ID + "&attempt=" + a.ID)
	got.says(t, http.StatusOK, "Your access does not include payloads")
	if strings.Contains(got.body, "Chennai") {
		t.Error("a payload is shown")
	}
	got = who.post(lab, url.Values{"headers": {headers}, "body": {`{"id":"x"}`}, "delivery": {d.ID}, "attempt": {a.ID}})
	got.says(t, http.StatusOK, "It does not verify", "or may not show you its body")
	if strings.Contains(got.body, "Chennai") || strings.Contains(got.words(), "we sent") && strings.Contains(got.words(), "bytes, and we sent") {
		t.Errorf("a payload is told: %s", got.words())
	}
	// The right body is known to be right by the signature alone.
	who.post(lab, url.Values{"headers": {headers}, "body": {d.Event.Body}}).says(t, http.StatusOK, "It verifies")
}

func TestPublicKeysAreForEverybody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made, err := b.endpoints.Create(t.Context(), b.owner(), endpoint.Input{URL: "https://pair.example/hooks", Types: []string{"*"}, Scheme: signing.V1a})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := b.endpoints.Create(t.Context(), b.owner(), endpoint.Input{URL: "https://plain.example/hooks", Types: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	guest := b.browser()
	guest.get("/public-keys/"+made.ID).says(t, http.StatusOK, "Public keys", made.PublicKey, "Signing")
	overlap := time.Hour
	if _, err := b.endpoints.Rotate(t.Context(), b.owner(), made.ID, endpoint.Rotation{Overlap: &overlap}); err != nil {
		t.Fatal(err)
	}
	both := guest.get("/public-keys/" + made.ID)
	both.says(t, http.StatusOK, made.PublicKey, "Signing", "Ending")
	if n := len(regexp.MustCompile(`whpk_[A-Za-z0-9+/]{43}=</code>`).FindAllString(both.body, -1)); n != 2 || strings.Contains(both.body, "pair.example") || strings.Contains(both.body, "whsec_") || strings.Contains(both.body, "whsk_") {
		t.Errorf("%d keys, or more than keys: %s", n, both.words())
	}
	guest.get("/public-keys/"+plain.ID).says(t, http.StatusNotFound)
	guest.get("/public-keys/ep_none").says(t, http.StatusNotFound)
	b.signedIn(b.tenant, account.PortalInput{}).get("/endpoints/"+made.ID+"/secrets").says(t, http.StatusOK, "Its public page")
}
