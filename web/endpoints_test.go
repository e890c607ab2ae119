package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

func TestAddEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.pool.Exec(t.Context(), `insert into event_types (name, description) values ('consignment.loaded', 'On the truck.'), ('consignment.delivered', 'Signed for.')`); err != nil {
		t.Fatal(err)
	}
	who := b.signedIn(b.tenant, account.PortalInput{Label: "meera"})
	who.get("/endpoints").says(t, http.StatusOK, "Three steps to your first event")
	who.get("/endpoints/new").says(t, http.StatusOK, "consignment.loaded", "On the truck.")

	// Everything that is wrong is said at its field, and what was typed is still there.
	wrong := url.Values{"url": {"http://seller.example/<b>"}, "types": {"consignment.loaded"}, "concurrency": {"1000"}, "scheme": {"v1"}, "payload": {"full"},
		"header_name": {"Host", ""}, "header_value": {"x", ""}, "anyway": {"yes"}}
	got := who.post("/endpoints/new", wrong)
	got.says(t, http.StatusUnprocessableEntity, "things to correct", "It must start with https://.", "It must be 1 to 100.", "reserved")
	for _, want := range []string{`value="http://seller.example/&lt;b&gt;"`, `value="1000"`, `value="consignment.loaded" checked`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the form lost %s", want)
		}
	}
	none := url.Values{"url": {"https://seller.example/hooks"}, "scheme": {"v1"}, "payload": {"full"}}
	who.post("/endpoints/new", none).says(t, http.StatusUnprocessableEntity, "Choose at least one, or every type.")

	// A connection that does not work is shown line by line, and can be overruled.
	form := url.Values{"url": {"https://seller.example/hooks?token=t0ps3cret"}, "description": {"Order <system>"}, "types": {"consignment.*"}, "scheme": {"v1"}, "payload": {"full"},
		"concurrency": {"5"}, "header_name": {"X-Shop", ""}, "header_value": {"s3cret", ""}}
	b.steps = []sender.Step{
		{Name: sender.StepName, OK: true, Detail: "the name resolves"}, {Name: sender.StepConnect, OK: true, Detail: "connected to 203.0.113.24:443", Took: 18 * time.Millisecond},
		{Name: sender.StepTLS, Class: sender.TLS, Cause: sender.Expired, Detail: "the certificate has expired"},
	}
	who.post("/endpoints/new", form).says(t, http.StatusUnprocessableEntity, "The connection does not work yet", "connected to 203.0.113.24:443, 18 ms",
		"Your server's certificate has expired", "Answer to a request not checked", "Add endpoint unverified")
	form.Set("anyway", "yes")
	test := who.follow("/endpoints/new", form)
	test.says(t, http.StatusOK, "Endpoint added.", "Order <system>", "Unverified")

	list := who.get("/endpoints")
	list.says(t, http.StatusOK, "Order <system>", "seller.example/hooks?…", "Unverified")
	if strings.Contains(list.body, "<system>") {
		t.Error("a description is markup")
	}
	if strings.Contains(list.body, "t0ps3cret") || strings.Contains(test.body, "t0ps3cret") {
		t.Error("the query of a URL, which may be a secret, stands where it is not asked for")
	}
	if strings.Contains(b.logs.String(), "t0ps3cret") {
		t.Error("a URL stands in the log")
	}
}

// idOf is the first id of a kind in a page.
func idOf(t *testing.T, prefix string, a answer) string {
	t.Helper()
	found := regexp.MustCompile(prefix + `_[0-9A-Z]{26}`).FindString(a.body)
	if found == "" {
		t.Fatalf("no %s_ in: %s", prefix, a.words())
	}
	return found
}

func TestEndpointSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{Label: "meera"})
	form := url.Values{"url": {"https://seller.example/hooks"}, "types": {"order.paid", "order.refunds.*"}, "scheme": {"v1"}, "payload": {"full"},
		"concurrency": {"5"}, "header_name": {"X-Shop", "X-Key"}, "header_value": {"silk", "s3cret"}, "anyway": {"yes"}}
	id := idOf(t, "ep", who.follow("/endpoints/new", form))
	settings := "/endpoints/" + id + "/settings"

	page := who.get(settings)
	page.says(t, http.StatusOK, "order.paid", "order.refunds.*", "Not in the catalog.")
	if strings.Contains(page.body, "s3cret") || !strings.Contains(page.body, `value="X-Key"`) {
		t.Error("static headers are to be shown by name, without their values")
	}

	// Saved as it stands, nothing changes.
	form.Del("anyway")
	form["header_value"] = []string{"", ""}
	who.follow(settings, form).says(t, http.StatusOK, "Changes saved.")
	headers := func() string {
		t.Helper()
		revealed, err := b.endpoints.HeadersReveal(t.Context(), b.owner(), id)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, h := range revealed {
			all = append(all, h.Name+"="+h.Value)
		}
		return strings.Join(all, " ")
	}
	if got := headers(); got != "X-Shop=silk X-Key=s3cret" {
		t.Errorf("headers are %q after a form that left them alone", got)
	}
	// One is typed anew, one kept, one added.
	form["header_name"], form["header_value"] = []string{"X-Shop", "X-Key", "X-New"}, []string{"cotton", "", "n"}
	form.Set("payload", "thin")
	who.follow(settings, form).says(t, http.StatusOK, "Changes saved.")
	if got := headers(); got != "X-Shop=cotton X-Key=s3cret X-New=n" {
		t.Errorf("headers are %q", got)
	}
	form["header_name"], form["header_value"] = []string{"", "X-Key", ""}, []string{"", "", ""}
	who.follow(settings, form)
	if got := headers(); got != "X-Key=s3cret" {
		t.Errorf("headers are %q after two were removed", got)
	}
	form.Set("url", "https://")
	who.post(settings, form).says(t, http.StatusUnprocessableEntity, "1 thing to correct")
	who.post("/endpoints/"+id+"/check", nil).says(t, http.StatusOK, "The connection works")
	who.get("/endpoints/"+id+"/activity").says(t, http.StatusOK, "meera", "changed", "payload: full → thin", "added the endpoint")
}

func TestEndpointStates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{Label: "meera"})
	e := dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://seller.example/hooks"})
	dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Endpoint: e})
	at := "/endpoints/" + e.ID
	who.get(at+"/pause").says(t, http.StatusOK, "Pause endpoint", "seller.example/hooks", "1 pending delivery becomes held.", "30 days")
	who.follow(at+"/pause", nil).says(t, http.StatusOK, "The endpoint is paused.", "Paused", "by meera since")
	who.get(at+"/enable").says(t, http.StatusOK, "Enable endpoint")
	who.follow(at+"/enable", nil).says(t, http.StatusOK, "The endpoint is active.")
	who.follow(at+"/disable", nil).says(t, http.StatusOK, "The endpoint is disabled.", "Disabled")
	who.post(at+"/pause", nil).says(t, http.StatusConflict)
	who.get(at+"/delete").says(t, http.StatusOK, "Its signing secrets are destroyed.")
	who.follow(at+"/delete", nil).says(t, http.StatusOK, "The endpoint is deleted.")
	who.get(at+"/settings").says(t, http.StatusNotFound)
	who.post(at+"/delete", nil).says(t, http.StatusNotFound)
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{Label: "meera"})
	form := url.Values{"url": {"https://seller.example/hooks"}, "types": {"*"}, "scheme": {"v1"}, "payload": {"full"}, "anyway": {"yes"}}
	id := idOf(t, "ep", who.follow("/endpoints/new", form))
	at := "/endpoints/" + id + "/secrets"
	first := idOf(t, "sec", who.get(at))

	ask := who.get(at + "/" + first + "/reveal")
	ask.says(t, http.StatusOK, "Reveal signing secret", "written to the activity log")
	shown := who.follow(at+"/"+first+"/reveal", nil)
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`).FindString(shown.body)
	if secret == "" {
		t.Fatalf("no secret is shown: %s", shown.words())
	}
	if again := who.get(at); strings.Contains(again.body, secret) {
		t.Error("the secret is shown again by a reload")
	}
	if strings.Contains(b.logs.String(), secret) {
		t.Error("the secret stands in the log")
	}

	who.follow(at+"/rotate", url.Values{"overlap": {"24h"}}).says(t, http.StatusOK, "A new secret signs beside the old one, which ends in 24 hours", "Ending", "Signing")
	who.get("/endpoints/"+id+"/settings").says(t, http.StatusOK, "Secrets 2")
	who.post(at+"/rotate", url.Values{"overlap": {"999h"}}).says(t, http.StatusUnprocessableEntity, "0 to 604800")
	who.post(at+"/rotate", url.Values{"overlap": {"soon"}}).says(t, http.StatusUnprocessableEntity, "Choose how long")
	who.get(at+"/"+first+"/end").says(t, http.StatusOK, "End secret now")
	who.follow(at+"/"+first+"/end", nil).says(t, http.StatusOK, "The secret has ended.")
	who.get(at+"/"+first+"/end").says(t, http.StatusNotFound)
	second := idOf(t, "sec", who.get(at))
	who.post(at+"/"+second+"/end", nil).says(t, http.StatusConflict, "the secret in force")

	// A link that was used long ago signs in, but reveals nothing: whoever sits there now may be somebody else.
	if _, err := b.pool.Exec(t.Context(), `update sessions set id = 'ses_01J00000000000000000000000'`); err != nil {
		t.Fatal(err)
	}
	who.post(at+"/"+second+"/reveal", nil).says(t, http.StatusForbidden, "within 10 minutes")
	who.get("/activity?action=secret").says(t, http.StatusOK, "rotated the secret of", "revealed a secret of", "ended a secret of")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{Label: "meera"})
	who.get("/keys").says(t, http.StatusOK, "No keys yet", "198.51.100.7")
	who.post("/keys", url.Values{"name": {""}, "scopes": {"catalog:read"}}).says(t, http.StatusUnprocessableEntity, "It must not be empty.")
	who.post("/keys", url.Values{"name": {"x"}}).says(t, http.StatusUnprocessableEntity, "It must name at least one scope")
	who.post("/keys", url.Values{"name": {"x"}, "scopes": {"catalog:read"}, "expires": {"tomorrow"}}).says(t, http.StatusUnprocessableEntity, "It must lie in the future.")
	made := who.follow("/keys", url.Values{"name": {"warehouse"}, "scopes": {"catalog:read"}, "expires": {"30d"}})
	key := regexp.MustCompile(`wbt_[0-9a-z]{40}`).FindString(made.body)
	caller, err := b.accounts.Authenticate(t.Context(), key)
	if err != nil || caller.TenantID != b.tenant.ID || len(caller.Scopes) != 1 {
		t.Fatalf("the key that is shown does not work: %v %+v", err, caller)
	}
	again := who.get("/keys")
	again.says(t, http.StatusOK, "warehouse", "catalog:read")
	if strings.Contains(again.body, key) {
		t.Error("the key is shown again by a reload")
	}
	at := "/keys/" + idOf(t, "key", again) + "/revoke"
	who.get(at).says(t, http.StatusOK, "Revoke API key", "warehouse")
	who.follow(at, nil).says(t, http.StatusOK, "The key is revoked.")
	if _, err := b.accounts.Authenticate(t.Context(), key); err == nil {
		t.Error("the key still works")
	}
	who.get(at).says(t, http.StatusNotFound)
}

func TestThemeIsKeptInTheBrowser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	if got := who.follow("/settings/profile", url.Values{"theme": {"dark"}}); !strings.Contains(got.body, `data-theme="dark"`) {
		t.Error("the theme that was chosen is not used")
	}
	if got := who.follow("/settings/profile", url.Values{"theme": {`"><script>`}}); strings.Contains(got.body, "data-theme") || strings.Contains(got.body, "<script>") {
		t.Error("a theme that there is not is used")
	}
}

func TestEventTypesAreDocumented(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.pool.Exec(t.Context(), `insert into event_types (name, description, schema, example) values ('consignment.loaded', 'On <the> truck.',
		'{"type":"object","required":["id"],"properties":{"zeta":{"type":["string","null"],"description":"Last letter first."},"id":{"type":"string","format":"uuid"},
		  "lines":{"type":"array","items":{"type":"object","properties":{"sku":{"enum":["a","b"]}}}}}}', '{"id":"C-1"}')`)
	if err != nil {
		t.Fatal(err)
	}
	dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://seller.example/hooks", Types: []string{"consignment.*"}})
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/event-types").says(t, http.StatusOK, "consignment.loaded", "On <the> truck.", "1 endpoint")
	one := who.get("/event-types/consignment.loaded")
	one.says(t, http.StatusOK, "zeta string or null may be absent Last letter first. id string, uuid", "lines[].sku one of a, b", "seller.example", `"id"`)
	who.get("/event-types/nothing.here").says(t, http.StatusNotFound)
}

func TestRetryScheduleIsChosen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	e := dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://seller.example/in"})
	address := "/endpoints/" + e.ID + "/settings"
	page := who.get(address)
	page.says(t, http.StatusOK, "Retry schedule", "As this account: standard", "10 attempts over 3 d 3 h: at once, then after 5 s, 5 min, 30 min, 2 h,",
		"8 attempts over 3 d 14 h", "After 401, 403 or 404 nothing is tried again.")
	if !strings.Contains(page.body, `name="preset" value="" checked`) {
		t.Error("the account's own is not chosen")
	}
	form := url.Values{"url": {"https://seller.example/in"}, "types": {"*"}, "scheme": {"v1"}, "payload": {"full"}, "concurrency": {"10"}, "preset": {"nonsense"}}
	who.post(address, form).says(t, http.StatusUnprocessableEntity, "is not the name of a delivery policy")
	form.Set("preset", "commerce")
	saved := who.follow(address, form)
	saved.says(t, http.StatusOK, "Changes saved.")
	if !strings.Contains(saved.body, `name="preset" value="commerce" checked`) {
		t.Error("what was chosen is not chosen")
	}
	form.Del("preset")
	who.follow(address, form).says(t, http.StatusOK)
	var preset string
	if err := b.pool.QueryRow(t.Context(), `select preset from endpoints where id = $1`, e.ID).Scan(&preset); err != nil || preset != "commerce" {
		t.Errorf("a form without the choice left %q, %v", preset, err)
	}
	if _, err := b.pool.Exec(t.Context(), `update endpoints set preset = 'vip' where id = $1`, e.ID); err != nil {
		t.Fatal(err)
	}
	who.get(address).says(t, http.StatusOK, "Not offered any more: standard is in force instead.")
}
