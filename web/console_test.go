package web_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/operator"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/db/dbtest"
	"waybill/web/console"
	"waybill/web/dashboard"
)

// consoleConfig is the console of a bench. River's pages are a page that says so.
func consoleConfig(b *bench, pool *pgxpool.Pool, ring *seal.Ring, log *slog.Logger) *console.Config {
	return &console.Config{URL: "https://waybill.test", Log: log, Now: time.Now, Operators: b.operators, Accounts: b.accounts, Endpoints: b.endpoints,
		Types: &catalog.Types{DB: pool, Accounts: b.accounts}, Events: &catalog.Events{DB: pool}, Policies: policy.Builtin(),
		Deliveries: &delivery.Service{DB: pool, Ring: ring, Policies: policy.Builtin(), Lanes: lanes{pool}, Audit: b.accounts, Recoveries: recoveries{}},
		Jobs:       http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "River's page", r.Method) })}
}

const operatorPassword = "nineteen quiet lighthouses"

// operator is a browser that is signed in to the console.
func (b *bench) operator(email string, role operator.Role) *browser {
	b.t.Helper()
	_, token, err := b.operators.Add(b.t.Context(), operator.Command(), email, role)
	if err != nil {
		b.t.Fatal(err)
	}
	who := b.browser()
	got := who.post("/console/password/"+token.Reveal(), url.Values{"password": {operatorPassword}})
	if got.status != http.StatusSeeOther || got.location() != "/console" {
		b.t.Fatalf("setting a password answered %d to %q: %s", got.status, got.location(), got.words())
	}
	return who
}

// stage is a tenant with one of everything that the console shows.
type stage struct {
	b        *bench
	endpoint dbtest.Endpoint
	event    dbtest.Event
	delivery dbtest.Delivery
	keyID    string
}

func setStage(t *testing.T, b *bench) stage {
	t.Helper()
	s := stage{b: b}
	s.endpoint = dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://user:pw@hooks.silk.example/in?token=secret"})
	s.event = dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid", ResourceID: "C-4471", Sequence: 3})
	s.delivery = dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Endpoint: s.endpoint, Event: s.event, Status: "undelivered", Reason: "schedule_exhausted", Attempts: 1})
	dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: s.delivery, Class: "status", Code: 500, ResponseHeaders: "[]", ResponseBody: []byte("out of cloth"), ResponseSize: 12})
	for _, sql := range []string{
		`insert into event_types (name, description, schema) values ('order.paid', 'An order was paid.', '{"type":"object"}')`,
		`insert into endpoint_health (endpoint_id, tenant_id, failing_since, last_at, last_class, last_code, last_delivery, failed)
		 values ('` + s.endpoint.ID + `', '` + b.tenant.ID + `', now() - interval '2 hours', now(), 'status', 500, '` + s.delivery.ID + `', '{1,2,3}')`,
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// fill puts ids into a pattern of the console's.
func (s stage) fill(t *testing.T, pattern, operatorID string) string {
	t.Helper()
	values := map[string]string{"uid": s.b.tenant.UID, "event": s.event.ID, "delivery": s.delivery.ID, "name": "order.paid", "key": s.keyID, "operator": operatorID, "token": "wbo_none"}
	return wildcard.ReplaceAllStringFunc(pattern, func(w string) string {
		value, ok := values[strings.Trim(w, "{}")]
		if !ok {
			t.Fatalf("the walk does not know what to put into %s of %s", w, pattern)
		}
		return value
	})
}

func consoleForm() url.Values {
	return url.Values{"uid": {"new-one"}, "name": {"New One"}, "concurrency": {"20"}, "preset": {"commerce"}, "zone": {"UTC"}, "label": {"Meera"}, "rights": {"owner"}, "why": {"ticket 12"},
		"description": {"Paid."}, "group": {"Orders"}, "scopes": {"events:publish"}, "expires": {"30d"}, "email": {"new@platform.example"}, "role": {"support"}, "password": {operatorPassword}}
}

// TestConsoleIsForOperators walks every route as a guest and with a tenant's session: both are turned away, and nothing changes.
func TestConsoleIsForOperators(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := setStage(t, b)
	s.keyID = "key_01J00000000000000000000000"
	visitors := map[string]*browser{"a guest": b.browser(), "a tenant's owner": b.signedIn(b.tenant, account.PortalInput{})}
	before := snapshot(t, b)
	walked := 0
	for _, route := range b.ConsoleRoutes() {
		if route.Audience != console.ForOperator {
			continue
		}
		walked++
		for name, who := range visitors {
			address := s.fill(t, route.Pattern, "opr_01J00000000000000000000000")
			got := who.get(address)
			if route.Method == http.MethodPost {
				got = who.post(address, consoleForm())
			}
			if route.Stream {
				if got.status != http.StatusUnauthorized {
					t.Errorf("%s answered %s %d", route.Pattern, name, got.status)
				}
				continue
			}
			if got.status != http.StatusSeeOther || !strings.HasPrefix(got.location(), "/console/sign-in") {
				t.Errorf("%s %s answered %s %d to %q", route.Method, route.Pattern, name, got.status, got.location())
			}
			if strings.Contains(got.body, "Meera") || strings.Contains(got.body, "River") {
				t.Errorf("%s shows %s something", route.Pattern, name)
			}
		}
	}
	if walked < 38 {
		t.Errorf("only %d routes were walked", walked)
	}
	unchanged(t, "without an operator's session", before, snapshot(t, b))
	visitors["a guest"].get("/console/nothing").says(t, http.StatusNotFound, "There is nothing here")
}

// TestOperatorsAreNobodyToTenants: an operator's session opens none of a tenant's pages.
func TestOperatorsAreNobodyToTenants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.operator("admin@platform.example", operator.Admin)
	own := settle(t, b, b.tenant)
	for _, route := range b.Routes() {
		if route.Audience != dashboard.ForMember || route.Stream {
			continue
		}
		address := own.fill(t, route.Pattern)
		got := who.get(address)
		if route.Method == http.MethodPost {
			got = who.post(address, form(own))
		}
		if got.status != http.StatusSeeOther || !strings.HasPrefix(got.location(), "/sign-in") {
			t.Errorf("%s %s answered an operator %d to %q", route.Method, route.Pattern, got.status, got.location())
		}
	}
}

// TestConsoleTakesNothingFromOtherSites: every POST, and every request that changes one of River's jobs, is refused without our own origin.
func TestConsoleTakesNothingFromOtherSites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := setStage(t, b)
	s.keyID = "key_01J00000000000000000000000"
	who := b.operator("admin@platform.example", operator.Admin)
	before := snapshot(t, b)
	for _, set := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.test"}}, {}, {"Origin": {"null"}}} {
		for _, route := range b.ConsoleRoutes() {
			if route.Method == http.MethodGet {
				continue
			}
			r := who.request(http.MethodPost, s.fill(t, route.Pattern, "opr_01J00000000000000000000000"), strings.NewReader(consoleForm().Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for name, values := range set {
				r.Header[name] = values
			}
			if got := who.do(r); got.status != http.StatusForbidden {
				t.Errorf("POST %s with %v answered %d", route.Pattern, set, got.status)
			}
		}
	}
	unchanged(t, "from other sites", before, snapshot(t, b))
}

// TestConsolePages looks at every page as an admin and as support: all are whole, none changes anything but when somebody was seen.
func TestConsolePages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := setStage(t, b)
	admin := b.operator("admin@platform.example", operator.Admin)
	support := b.operator("help@platform.example", operator.Support)
	var operatorID string
	if err := b.pool.QueryRow(t.Context(), `select id from operators where email = 'help@platform.example'`).Scan(&operatorID); err != nil {
		t.Fatal(err)
	}
	key := admin.follow("/console/keys", url.Values{"name": {"order system"}, "scopes": {"events:publish"}, "expires": {"30d"}})
	key.says(t, http.StatusOK, "The key “order system” is ready", "wbp_", "events:publish")
	admin.get("/console/keys").says(t, http.StatusOK, "order system")
	if again := admin.get("/console/keys"); strings.Contains(again.body, "is ready") {
		t.Error("a key is shown twice")
	}
	if err := b.pool.QueryRow(t.Context(), `select id from api_keys where name = 'order system'`).Scan(&s.keyID); err != nil {
		t.Fatal(err)
	}
	adminsOnly := []string{"/new-tenant", "/settings", "/suspend", "/resume", "/link", "/keys", "/revoke", "/operators", "/remove"}
	before := snapshot(t, b)
	for _, route := range b.ConsoleRoutes() {
		if route.Method != http.MethodGet || route.Stream || route.Audience == console.ForGuest {
			continue
		}
		address := s.fill(t, route.Pattern, operatorID)
		got := admin.get(address)
		if got.status != http.StatusOK {
			t.Errorf("%s answered an admin %d: %s", route.Pattern, got.status, got.words())
		}
		want := http.StatusOK
		if slices.ContainsFunc(adminsOnly, func(end string) bool { return strings.HasSuffix(route.Pattern, end) }) {
			want = http.StatusForbidden
		}
		if got := support.get(address); got.status != want {
			t.Errorf("%s answered support %d, want %d: %s", route.Pattern, got.status, want, got.words())
		}
		if policy := got.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s has the policy %q", route.Pattern, policy)
		}
		if strings.Contains(got.body, "token=secret") || strings.Contains(got.body, "user:pw") {
			t.Errorf("%s shows the secret parts of an address", route.Pattern)
		}
	}
	after := snapshot(t, b)
	delete(before, "operator_sessions") // when they were seen
	unchanged(t, "by looking", before, after)

	admin.get("/console").says(t, http.StatusOK, "Failing", "hooks.silk.example", "Meera Silk House", "3 deliveries failed")
	admin.get("/console/incidents").says(t, http.StatusOK, "By verdict", "500")
	admin.get("/console/tenants?q=silk").says(t, http.StatusOK, "Meera Silk House", "1 tenant")
	admin.get("/console/tenants?q=%25").says(t, http.StatusOK, "No tenant matches")
	for text, want := range map[string]string{"C-4471": "in every catalog: 1 pair", s.event.ID: "order.paid", s.delivery.ID: "undelivered", s.endpoint.ID: "hooks.silk.example", b.tenant.UID: "Meera Silk House",
		b.tenant.ID: "Meera Silk House", "nothing-at-all": "Nothing found"} {
		admin.get("/console/find?q="+url.QueryEscape(text)).says(t, http.StatusOK, want)
	}
	admin.get("/console/find?q=C-4471&tenant="+b.tenant.UID).says(t, http.StatusOK, "Objects", "alone")
	admin.get(s.fill(t, "/console/tenants/{uid}/deliveries/{delivery}", "")).says(t, http.StatusOK, "out of cloth", "Resend…")
	admin.get(s.fill(t, "/console/tenants/{uid}/events/{event}", "")).says(t, http.StatusOK, "C-4471", "Did it arrive?", "Undelivered")
	admin.get("/console/policy").says(t, http.StatusOK, "waits_between_attempts", "commerce")
	admin.get("/console/lag").says(t, http.StatusOK, "Outbox lag", "Lanes by state", "idle")
}

func TestOperatorsSignIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.operator("admin@platform.example", operator.Admin)
	who := b.browser()
	who.post("/console/sign-in", url.Values{"email": {"admin@platform.example"}, "password": {"wrong password here"}}).says(t, http.StatusUnprocessableEntity, "do not match")
	got := who.post("/console/sign-in", url.Values{"email": {"Admin@platform.example"}, "password": {operatorPassword}, "next": {"/console/lag"}})
	if got.status != http.StatusSeeOther || got.location() != "/console/lag" {
		t.Fatalf("answered %d to %q", got.status, got.location())
	}
	cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
	if err != nil || cookie.Name != "__Host-console-waybill" || !cookie.Secure || !cookie.HttpOnly || !strings.HasPrefix(cookie.Value, "wbc_") {
		t.Errorf("the cookie is %v, %v", cookie, err)
	}
	for _, elsewhere := range []string{"//evil.test", "https://evil.test/console", "/deliveries", "/console/../deliveries", `/console\evil`} {
		next := b.browser().post("/console/sign-in", url.Values{"email": {"admin@platform.example"}, "password": {operatorPassword}, "next": {elsewhere}})
		if next.location() != "/console" && next.location() != "/console/../deliveries" {
			t.Errorf("next %q leads to %q", elsewhere, next.location())
		}
	}
	base, _ := url.Parse(b.server.URL)
	kept := who.client.Jar.Cookies(base)
	who.follow("/console/sign-out", nil).says(t, http.StatusOK, "You are signed out")
	thief := b.browser()
	thief.client.Jar.SetCookies(base, kept)
	if got := thief.get("/console/tenants"); got.status != http.StatusSeeOther {
		t.Errorf("a session that was ended still opens the console: %d", got.status)
	}
	first.get("/console/log").says(t, http.StatusOK, "signed in", "signed out", "set a new password", "waybill operator")

	// Guessing is slowed down, for an account that exists and for one that does not.
	for _, email := range []string{"admin@platform.example", "nobody@platform.example"} {
		limited := false
		for range 8 {
			got := b.browser().post("/console/sign-in", url.Values{"email": {email}, "password": {"a guess of some length"}})
			limited = limited || got.status == http.StatusTooManyRequests
		}
		if !limited {
			t.Errorf("guessing at %s is not slowed down", email)
		}
	}
}

func TestOperatorLinksWorkOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, token, err := b.operators.Add(t.Context(), operator.Command(), "admin@platform.example", operator.Admin)
	if err != nil {
		t.Fatal(err)
	}
	link := "/console/password/" + token.Reveal()
	for range 2 {
		b.browser().get(link).says(t, http.StatusOK, "admin@platform.example", "New password")
	}
	b.browser().post(link, url.Values{"password": {"short"}}).says(t, http.StatusUnprocessableEntity, "12 characters")
	if got := b.browser().post(link, url.Values{"password": {operatorPassword}}); got.status != http.StatusSeeOther {
		t.Fatalf("answered %d", got.status)
	}
	b.browser().get(link).says(t, http.StatusGone, "This link does not work")
	b.browser().post(link, url.Values{"password": {"another long password"}}).says(t, http.StatusGone, "This link does not work")
	b.browser().get("/console/link/"+token.Reveal()).says(t, http.StatusGone, "This link does not work")
	sign, err := b.operators.DemoLink(t.Context(), "demo@platform.example")
	if err != nil {
		t.Fatal(err)
	}
	who := b.browser()
	who.follow("/console/link/"+sign.Reveal(), nil).says(t, http.StatusOK, "Attention")
	b.browser().post("/console/link/"+sign.Reveal(), nil).says(t, http.StatusGone, "This link does not work")
	if strings.Contains(b.logs.String(), "wbo_") || strings.Contains(b.logs.String(), "wbc_") {
		t.Error("a token stands in the log")
	}
}

// TestViewAsTheTenant: the look is marked on each page, changes nothing, stands in both logs, and ends by its button and with the operator's session.
func TestViewAsTheTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := setStage(t, b)
	who := b.operator("help@platform.example", operator.Support)
	view := s.fill(t, "/console/tenants/{uid}/view", "")
	who.follow(view, url.Values{"why": {"ticket 4471"}}).says(t, http.StatusOK, "You look at this as support, read-only", "Meera Silk House")
	own := names{"endpoints": s.endpoint.ID, "deliveries": s.delivery.ID, "events": s.event.ID}
	for _, address := range []string{"/deliveries", "/endpoints", "/undelivered", "/events", "/deliveries/" + s.delivery.ID, "/activity", "/settings"} {
		who.get(address).says(t, http.StatusOK, "You look at this as support, read-only", "Stop looking")
	}
	before := snapshot(t, b)
	for _, address := range []string{"/endpoints/new", "/endpoints/" + s.endpoint.ID + "/pause", "/endpoints/" + s.endpoint.ID + "/disable", "/endpoints/" + s.endpoint.ID + "/delete",
		"/endpoints/" + s.endpoint.ID + "/secrets/rotate", "/deliveries/" + s.delivery.ID + "/resend", "/keys", "/settings/tenant", "/team"} {
		if got := who.post(address, form(own)); got.status != http.StatusForbidden {
			t.Errorf("POST %s answered a look %d: %s", address, got.status, got.words())
		}
	}
	unchanged(t, "by a look", before, snapshot(t, b))
	owner := b.signedIn(b.tenant, account.PortalInput{Label: "Meera"})
	log := owner.get("/activity")
	log.says(t, http.StatusOK, "platform support", "looked at this account, read-only", "ticket 4471")
	if strings.Contains(log.body, "help@platform.example") {
		t.Error("a tenant reads who of the platform it was")
	}
	who.get("/console/log").says(t, http.StatusOK, "help@platform.example", "looked at the tenant’s pages, read-only", "Meera Silk House")
	if got := who.post("/sign-out", nil); got.location() != "/console/tenants/"+b.tenant.UID {
		t.Errorf("ending a look leads to %q", got.location())
	}
	if got := who.get("/deliveries"); got.status != http.StatusSeeOther {
		t.Errorf("a look that was ended goes on: %d", got.status)
	}
	who.get("/console/tenants").says(t, http.StatusOK, "Meera Silk House")

	// Signing out of the console ends looks too, and so does their time.
	who.follow(view, nil).says(t, http.StatusOK, "You look at this as support")
	who.post("/console/sign-out", nil)
	if got := who.get("/deliveries"); got.status != http.StatusSeeOther {
		t.Errorf("a look outlives its operator's session: %d", got.status)
	}
	who = b.operator("help@platform.example", operator.Support)
	who.follow(view, nil).says(t, http.StatusOK, "You look at this as support")
	if _, err := b.pool.Exec(t.Context(), `update sessions set expires_at = now() - interval '1 second' where operator_id is not null`); err != nil {
		t.Fatal(err)
	}
	if got := who.get("/deliveries"); got.status != http.StatusSeeOther {
		t.Errorf("a look goes on after its time: %d", got.status)
	}
}

func TestConsoleManagesTenants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := setStage(t, b)
	admin := b.operator("admin@platform.example", operator.Admin)
	support := b.operator("help@platform.example", operator.Support)
	fields := url.Values{"uid": {"kanchi"}, "name": {"Kanchi Cottons"}, "concurrency": {"30"}, "preset": {"commerce"}, "zone": {"Asia/Kolkata"}}
	admin.follow("/console/new-tenant", fields).says(t, http.StatusOK, "Kanchi Cottons", "commerce", "30")
	admin.post("/console/new-tenant", fields).says(t, http.StatusConflict, "already")
	fields.Set("concurrency", "2000")
	fields.Set("name", "")
	admin.post("/console/tenants/kanchi/settings", fields).says(t, http.StatusUnprocessableEntity, "1 to 1000", "must not be empty")
	fields.Set("concurrency", "40")
	fields.Set("name", "Kanchi Cotton Mills")
	admin.follow("/console/tenants/kanchi/settings", fields).says(t, http.StatusOK, "Kanchi Cotton Mills", "40", "changed the tenant")
	link := admin.follow("/console/tenants/kanchi/link", url.Values{"label": {"Anu"}, "rights": {"viewer"}})
	link.says(t, http.StatusOK, "The sign-in link is ready", "https://waybill.test/sign-in/link/wbl_")
	for _, address := range []string{"/console/new-tenant", "/console/tenants/kanchi/settings", "/console/tenants/kanchi/suspend", "/console/tenants/kanchi/link", "/console/event-types/order.paid",
		"/console/keys", "/console/operators", "/console/tenants/nobody/suspend"} {
		if got := support.post(address, consoleForm()); got.status != http.StatusForbidden {
			t.Errorf("POST %s answered support %d: %s", address, got.status, got.words())
		}
	}
	admin.post("/console/tenants/nobody/suspend", nil).says(t, http.StatusNotFound)

	uid := b.tenant.UID
	owner := b.signedIn(b.tenant, account.PortalInput{})
	admin.follow("/console/tenants/"+uid+"/suspend", nil).says(t, http.StatusOK, "This tenant is suspended", "no new request")
	admin.post("/console/tenants/"+uid+"/suspend", nil).says(t, http.StatusConflict, "suspended already")
	owner.get("/deliveries").says(t, http.StatusOK, "This account is suspended")
	if got := owner.post("/endpoints/"+s.endpoint.ID+"/pause", nil); got.status != http.StatusForbidden {
		t.Errorf("a suspended tenant changes an endpoint: %d", got.status)
	}
	admin.follow("/console/tenants/"+uid+"/resume", nil).says(t, http.StatusOK, "sent to again")
	if got := owner.get("/deliveries"); strings.Contains(got.body, "This account is suspended") {
		t.Error("the banner stays")
	}
	owner.get("/activity").says(t, http.StatusOK, "suspended this account", "ended the suspension", "platform support")

	admin.follow("/console/event-types/order.paid", url.Values{"description": {"The order was paid in full."}, "deprecated": {"yes"}}).says(t, http.StatusOK, "Saved", "object")
	admin.get("/console/event-types").says(t, http.StatusOK, "Deprecated", "paid in full")
	admin.follow("/console/operators", url.Values{"email": {"new@platform.example"}, "role": {"support"}}).says(t, http.StatusOK, "https://waybill.test/console/password/wbo_", "yet to set")
	admin.post("/console/operators", url.Values{"email": {"admin@platform.example"}, "role": {"support"}}).says(t, http.StatusConflict, "last admin")
}

// TestSupportResends: the tenant reads in its log that the platform's support did it.
func TestSupportResends(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := setStage(t, b)
	who := b.operator("help@platform.example", operator.Support)
	address := s.fill(t, "/console/tenants/{uid}/deliveries/{delivery}", "")
	who.get(address+"/resend").says(t, http.StatusOK, "Resend delivery", "C-4471")
	who.follow(address+"/resend", nil).says(t, http.StatusOK, "It is being sent again")
	who.follow(address+"/resend", nil).says(t, http.StatusOK, "cannot be resent")
	b.signedIn(b.tenant, account.PortalInput{}).get("/activity").says(t, http.StatusOK, "platform support", "resent the delivery")
	other := dbtest.AddTenant(t, b.pool, dbtest.Tenant{Name: "Kanchi Cottons"})
	who.get("/console/tenants/"+other.UID+"/deliveries/"+s.delivery.ID).says(t, http.StatusNotFound)
	who.post("/console/tenants/"+other.UID+"/deliveries/"+s.delivery.ID+"/resend", nil).says(t, http.StatusNotFound)
}

// TestJobsStandBehindTheSignIn: everybody who is signed in looks, an admin changes, and that is written down.
func TestJobsStandBehindTheSignIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	admin := b.operator("admin@platform.example", operator.Admin)
	support := b.operator("help@platform.example", operator.Support)
	got := support.get("/console/jobs/api/jobs")
	got.says(t, http.StatusOK, "River's page GET")
	if policy := got.header.Get("Content-Security-Policy"); strings.Contains(policy, "script-src 'self' 'unsafe") || !strings.Contains(policy, "style-src 'self' 'unsafe-inline'") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the policy is %q", policy)
	}
	support.post("/console/jobs/api/jobs/cancel", nil).says(t, http.StatusForbidden, "Only an admin")
	admin.post("/console/jobs/api/jobs/cancel", nil).says(t, http.StatusOK, "River's page POST")
	admin.get("/console/log").says(t, http.StatusOK, "changed jobs", "api/jobs/cancel")
}
