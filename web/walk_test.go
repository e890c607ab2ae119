package web_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/inbox"
	"waybill/app/policy"
	"waybill/db"
	"waybill/db/dbtest"
	"waybill/web/dashboard"
	"waybill/web/path"
)

// names are the ids that a tenant's routes are filled with, by the wildcards of their patterns.
type names map[string]string

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// fill puts names into a route's pattern. {id} is an endpoint, a delivery or an event, as its path begins.
func (n names) fill(t *testing.T, pattern string) string {
	t.Helper()
	pattern = strings.TrimSuffix(pattern, "{$}")
	noun, _, _ := strings.Cut(strings.TrimPrefix(pattern, "/"), "/")
	return wildcard.ReplaceAllStringFunc(pattern, func(w string) string {
		name := strings.Trim(w, "{}")
		if name == "id" {
			name = noun
		}
		value, ok := n[name]
		if !ok {
			t.Fatalf("the walk does not know what to put into %s of %s: a new route needs a name here", w, pattern)
		}
		return value
	})
}

// settle makes a tenant with one of everything, and names it.
func settle(t *testing.T, b *bench, tenant dbtest.Tenant) names {
	t.Helper()
	made, err := b.endpoints.Create(t.Context(), account.Waybill("tests", tenant.ID), endpoint.Input{URL: "https://seller.example/hooks", Types: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	paired, err := b.endpoints.Create(t.Context(), account.Waybill("tests", tenant.ID), endpoint.Input{URL: "https://seller.example/pair", Types: []string{"none"}, Scheme: "v1a"})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := b.endpoints.Secrets(t.Context(), account.Waybill("tests", tenant.ID), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := b.accounts.KeyCreate(t.Context(), account.Waybill("tests", tenant.ID), account.KeyInput{Name: "secret name of " + tenant.ID})
	if err != nil {
		t.Fatal(err)
	}
	e := dbtest.Endpoint{ID: made.ID, TenantID: tenant.ID, URL: made.URL, Payload: "full"}
	d := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Endpoint: e, Status: "undelivered", Reason: "schedule_exhausted", Attempts: 1})
	a := dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: d, Class: "status", Code: 500, ResponseBody: []byte("secret answer")})
	// A member with a confirmed address and a session, an open invitation, and a link of each kind that a mail can hold.
	anna := "secret-member-" + strings.ToLower(tenant.ID) + "@example.com"
	b.join(t, tenant, anna, account.Owner)
	var memberID, sessionID string
	if err := b.pool.QueryRow(t.Context(), `select m.id, s.id from members m join sessions s on s.member_id = m.id where m.email = $1`, anna).Scan(&memberID, &sessionID); err != nil {
		t.Fatal(err)
	}
	if err := b.accounts.ResetAsk(t.Context(), anna, account.Client{}); err != nil {
		t.Fatal(err)
	}
	asked, err := b.accounts.InvitationCreate(t.Context(), platform(tenant), account.InvitationInput{Email: "secret-guest-" + strings.ToLower(tenant.ID) + "@example.com", Role: account.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	mails, err := b.mails.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	deliveries := &delivery.Service{DB: b.pool, Policies: policy.Builtin(), Lanes: lanes{b.pool}, Audit: b.accounts, Recoveries: recoveries{}, Files: exports{}}
	caught, err := deliveries.Recover(t.Context(), account.Waybill("tests", tenant.ID), made.ID, delivery.RecoverInput{Since: time.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	box, err := b.inboxes.Create(t.Context(), account.Waybill("tests", tenant.ID), inbox.DefaultReply)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.inboxes.Receive(t.Context(), box.URL[strings.LastIndexByte(box.URL, '/')+1:], nil, []byte("secret answer"), 13); err != nil {
		t.Fatal(err)
	}
	file, err := deliveries.FileStart(t.Context(), account.Waybill("tests", tenant.ID), delivery.FileOfDeliveries, delivery.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	saved, err := deliveries.Save(t.Context(), account.Caller{Kind: account.Session, TenantID: tenant.ID, MemberID: memberID, Scopes: account.Owner.Scopes()}, "secret filter", "status=held")
	if err != nil {
		t.Fatal(err)
	}
	return names{
		"inboxes": box.ID, "number": "1", "exports": file.ID, "filter": saved.ID,
		"recovery": caught.ID, "endpoints": made.ID, "deliveries": d.ID, "events": d.Event.ID, "attempt": a.ID, "secret": secrets[0].ID, "key": key.ID,
		"public-keys": paired.ID, "language": "go",
		"session": sessionID, "name": "order.paid", "noun": "events", "token": "wbl_none", "member": memberID, "invitation": asked.ID,
		"reset": b.mailed(t, "reset", anna), "verify": b.mailed(t, "verify", anna), "invite": asked.Token.Reveal(), "mail": mails[0].ID,
	}
}

// snapshot is the content of every table of ours, for telling that nothing has changed.
func snapshot(t *testing.T, b *bench) map[string]string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `select tablename from pg_tables where schemaname = 'waybill' and tablename !~ '_[0-9]{8}$' and tablename <> 'sessions' order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	all := map[string]string{}
	for _, table := range tables {
		var sum string
		if err := b.pool.QueryRow(t.Context(), fmt.Sprintf(`select count(*) || ' rows ' || md5(coalesce(string_agg(t::text, '|' order by t::text), '')) from %s t`, table)).Scan(&sum); err != nil {
			t.Fatal(err)
		}
		all[table] = sum
	}
	return all
}

func unchanged(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for table, sum := range before {
		if after[table] != sum {
			t.Errorf("%s: table %s changed from %s to %s", what, table, sum, after[table])
		}
	}
}

// form is a body that most POSTs would accept.
func form(n names) url.Values {
	return url.Values{
		"url": {"https://other.example/"}, "types": {"*"}, "scheme": {"v1"}, "payload": {"full"}, "anyway": {"yes"}, "type": {"order.paid"}, "overlap": {"24h"},
		"name": {"key"}, "scopes": {"catalog:read"}, "answer": {"410"}, "seconds": {"5"}, "role": {"viewer"}, "email": {"x@example.com"}, "zone": {"UTC"}, "password": {"correct horse battery staple"}, "delivery": {n["deliveries"]}, "confirmed": {"yes"},
	}
}

func TestGuestsAreTurnedAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := settle(t, b, b.tenant)
	before := snapshot(t, b)
	guest := b.browser()
	for _, route := range b.Routes() {
		if route.Audience != dashboard.ForMember {
			continue
		}
		address := own.fill(t, route.Pattern)
		var got answer
		if route.Method == http.MethodPost {
			got = guest.post(address, form(own))
		} else {
			got = guest.get(address)
		}
		want := http.StatusSeeOther
		if route.Stream {
			want = http.StatusUnauthorized
		}
		if got.status != want || want == http.StatusSeeOther && !strings.HasPrefix(got.location(), "/sign-in") {
			t.Errorf("%s %s answered a guest %d to %q", route.Method, route.Pattern, got.status, got.location())
		}
		if strings.Contains(got.body, "secret") {
			t.Errorf("%s %s shows a guest something", route.Method, route.Pattern)
		}
	}
	unchanged(t, "as a guest", before, snapshot(t, b))
}

// namesNothing says of a route that nobody's thing stands in its address.
func namesNothing(pattern string) bool {
	return !wildcard.MatchString(strings.TrimSuffix(pattern, "{$}"))
}

func TestAnotherTenantsThingsAreNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := settle(t, b, b.tenant)
	other := dbtest.AddTenant(t, b.pool, dbtest.Tenant{Name: "Kanchi Cottons"})
	foreign := settle(t, b, other)
	who := b.signedIn(b.tenant, account.PortalInput{})
	missing := names{"name": "nothing.here"}
	for wild, value := range foreign {
		if wild != "name" {
			missing[wild] = value[:len(value)-1] + string("0123456789"[len(value)%10])
		}
	}
	missing["events"] = "evt_01J00000000000000000000000"
	before := snapshot(t, b)
	walked := 0
	for _, route := range b.Routes() {
		if route.Audience != dashboard.ForMember || namesNothing(route.Pattern) || strings.HasPrefix(route.Pattern, "/event-types/") {
			continue // the catalog of types is one for all
		}
		walked++
		send := func(n names) answer {
			address := n.fill(t, route.Pattern)
			if route.Method == http.MethodPost {
				return who.post(address, form(n))
			}
			return who.get(address)
		}
		got, absent := send(foreign), send(missing)
		if got.status != http.StatusNotFound {
			t.Errorf("%s %s with another tenant's ids answered %d to %q", route.Method, route.Pattern, got.status, got.location())
		}
		if withoutRequest(got.body) != withoutRequest(absent.body) || absent.status != got.status {
			t.Errorf("%s %s tells another tenant's from what does not exist: %d and %d", route.Method, route.Pattern, got.status, absent.status)
		}
		// An own thing with a foreign one inside it.
		mixed := names{}
		for wild, value := range foreign {
			mixed[wild] = value
		}
		mixed["endpoints"], mixed["deliveries"] = own["endpoints"], own["deliveries"]
		if strings.Count(route.Pattern, "{") > 1 {
			if got := send(mixed); got.status != http.StatusNotFound {
				t.Errorf("%s %s with another tenant's id below an own one answered %d", route.Method, route.Pattern, got.status)
			}
		}
	}
	if walked < 36 {
		t.Errorf("only %d routes were walked", walked)
	}
	unchanged(t, "with foreign ids", before, snapshot(t, b))

	// Ids in queries and bodies, and the cursor of another list.
	for _, address := range []string{
		"/deliveries?endpoint=" + foreign["endpoints"], "/deliveries?q=" + foreign["deliveries"], "/deliveries?q=" + foreign["events"], "/undelivered?endpoint=" + foreign["endpoints"],
		"/endpoints/" + own["endpoints"] + "/test?delivery=" + foreign["deliveries"], "/activity?member=" + foreign["key"], "/deliveries/export?endpoint=" + foreign["endpoints"],
		"/deliveries/export/file?endpoint=" + foreign["endpoints"],
	} {
		got := who.get(address)
		if got.status != http.StatusOK || strings.Contains(got.body, "secret answer") || strings.Contains(got.body, "secret name of "+other.ID) ||
			strings.Contains(got.body, `<tr id="`+foreign["deliveries"]) || strings.Contains(got.body, "Kanchi") {
			t.Errorf("%s answered %d and shows what is another tenant's", address, got.status)
		}
	}
	who.post("/deliveries/resend", url.Values{"delivery": {foreign["deliveries"]}, "confirmed": {"yes"}})
	unchanged(t, "with foreign ids in bodies", before, snapshot(t, b))
}

var requestID = regexp.MustCompile(`req_[0-9a-f]+`)

func withoutRequest(body string) string { return requestID.ReplaceAllString(body, "") }

func TestOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := settle(t, b, b.tenant)
	who := b.signedIn(b.tenant, account.PortalInput{})
	link := b.link(b.tenant, account.PortalInput{})
	own["token"] = strings.TrimPrefix(link, "/sign-in/link/")
	before := snapshot(t, b)
	host := strings.TrimPrefix(b.server.URL, "https://")
	for name, set := range map[string]http.Header{
		"cross-site":           {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.test"}},
		"same-site":            {"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://evil.127.0.0.1"}},
		"another scheme":       {"Origin": {"http://" + host}},
		"null":                 {"Origin": {"null"}},
		"another port":         {"Origin": {"https://127.0.0.1:1"}},
		"an origin alone":      {"Origin": {"https://evil.test"}},
		"nothing":              {},
		"a lie about the site": {"Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://evil.test"}},
	} {
		for _, route := range b.Routes() {
			if route.Method == http.MethodGet {
				continue
			}
			r := who.request(route.Method, own.fill(t, route.Pattern), strings.NewReader(form(own).Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for field, values := range set {
				r.Header[field] = values
			}
			if got := who.do(r); got.status != http.StatusForbidden {
				t.Errorf("%s %s from %s answered %d", route.Method, route.Pattern, name, got.status)
			}
		}
	}
	r := who.request(http.MethodGet, "/deliveries/live", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := who.do(r); got.status != http.StatusForbidden {
		t.Errorf("a stream for another site answered %d", got.status)
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		r := who.request(method, "/endpoints/"+own["endpoints"], nil)
		r.Header.Set("Origin", b.server.URL)
		if got := who.do(r); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s answered %d, Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
	override := who.request(http.MethodGet, "/endpoints/"+own["endpoints"]+"/delete?_method=POST", nil)
	override.Header.Set("X-HTTP-Method-Override", "POST")
	who.do(override)
	unchanged(t, "from other sites", before, snapshot(t, b))
	if got := who.post("/sign-out", nil); got.status != http.StatusSeeOther {
		t.Errorf("our own page is refused, too: %d", got.status)
	}
}

func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := settle(t, b, b.tenant)
	own["token"] = strings.TrimPrefix(b.link(b.tenant, account.PortalInput{}), "/sign-in/link/")
	if _, err := b.pool.Exec(t.Context(), `insert into event_types (name) values ('order.paid')`); err != nil {
		t.Fatal(err)
	}
	who := b.signedIn(b.tenant, account.PortalInput{})
	before := snapshot(t, b)
	for _, route := range b.Routes() {
		if route.Method != http.MethodGet || route.Stream {
			continue
		}
		got := who.get(own.fill(t, route.Pattern))
		if got.status != http.StatusOK && got.status != http.StatusSeeOther && !strings.HasSuffix(route.Pattern, "/end") {
			t.Errorf("%s answered %d: %s", route.Pattern, got.status, got.words())
		}
		if strings.HasSuffix(route.Pattern, "/html") {
			continue // a mail as it is sent: TestMailbox looks at what it may do
		}
		policy := got.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s has the policy %q", route.Pattern, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Strict-Transport-Security": "max-age=31536000"} {
			if value := got.header.Get(name); value != want {
				t.Errorf("%s has %s: %q", route.Pattern, name, value)
			}
		}
		if strings.Contains(got.body, "<script>") || strings.Contains(got.body, " style=") || strings.Contains(got.body, " onclick=") {
			t.Errorf("%s has something inline", route.Pattern)
		}
	}
	unchanged(t, "by looking", before, snapshot(t, b))
}

func TestCookiesMeanNothingToTheAPI(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	if got := who.get("/v1/anything"); got.status != http.StatusTeapot {
		t.Errorf("the API is not asked: %d", got.status)
	}
	// The API's own tests hold that it reads no cookies; here, that nothing of ours stands before it.
	if got := who.get("/v1/anything"); got.header.Get("Content-Security-Policy") != "" {
		t.Error("pages' headers are put on the API's answers")
	}
}

// TestAddressesLeadSomewhere asks for every address that package path makes.
func TestAddressesLeadSomewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	patterns := map[string]bool{}
	mux := http.NewServeMux()
	for _, route := range b.Routes() {
		patterns[route.Pattern] = true
		mux.HandleFunc(route.Method+" "+route.Pattern, func(http.ResponseWriter, *http.Request) {})
	}
	e, d, a := "ep_1", "dlv_1", "att_1"
	f := path.DeliveryFilter{Status: "held"}
	for _, address := range []string{
		path.Overview(), path.OverviewLive(), path.Endpoints(), path.EndpointsAt("c"), path.EndpointNew(), path.EndpointTemplate("a.b"), path.Endpoint(e), path.EndpointLive(e),
		path.EndpointSettings(e), path.EndpointSecrets(e), path.EndpointTest(e), path.EndpointTestAnswer(e, d), path.EndpointActivity(e), path.EndpointPause(e), path.EndpointDisable(e),
		path.EndpointEnable(e), path.EndpointDelete(e), path.EndpointRecover(e), path.SecretReveal(e, "sec_1"), path.SecretEnd(e, "sec_1"), path.Deliveries(f), path.DeliveriesLive(f),
		path.DeliveriesExport(f), path.Delivery(d), path.DeliveryLive(d), path.DeliveryResend(d), path.Attempt(d, a, "raw"), path.AttemptCurl(d, a), path.AttemptHTTP(d, a),
		path.AttemptResponse(d, a), path.Events(), path.EventsOf("a.b", "C-1", "c"), path.Event("evt_1"), path.EventBody("evt_1"), path.Undelivered(), path.EventTypes(), path.EventType("a.b"), path.Keys(), path.KeyRevoke("key_1"), path.Activity(), path.Settings(), path.SignIn(),
		path.SignInLink("wbl_1"), path.Team(), path.MemberRemove("mem_1"), path.MemberTwoFactorReset("mem_1"), path.KeyRotate("key_1"), path.SignInCode("yes", "/"), path.SignInFor("/"), path.TwoFactor(),
		path.TwoFactorCodes(), path.TwoFactorOff(), path.SignIns(), path.SignInsAt("c"), path.PasswordForgot(), path.PasswordReset("wbr_1"), path.Invitation("wbi_1"), path.Verify("wbv_1"),
		path.EndpointSignature(e), path.EndpointSignatureOf(e, d, a), path.PublicKeys(e), path.Docs(), path.DocsConcepts(), path.DocsPromises(), path.DocsVerify(), path.DocsReceiver("go"),
		path.DocsRetries(), path.DocsErrors(), path.DocsLimits(), path.DocsSources(),
		path.Mails(), path.Mail("eml_1"), path.MailHTML("eml_1"), path.Inboxes(), path.Inbox("ibx_1"), path.InboxLive("ibx_1"), path.InboxRequest("ibx_1", "1", "raw"),
		path.DeliveryJSON(d), path.AttemptJSON(d, a), path.DeliveriesFile(f), path.Export("exp_1"), path.ExportLive("exp_1"), path.ExportFile("exp_1"), path.InboxBody("ibx_1", "1"), path.InboxDelete("ibx_1"), path.EndpointNewAt("https://x.test/"),
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			t.Errorf("nothing answers GET %s", address)
		}
	}
	for _, address := range []string{path.EndpointSignature(e), path.SecretRotate(e), path.EndpointCheck(e), path.DeliveriesResend(f), path.SignOut(), path.SettingsProfile(), path.SignInLink("wbl_1"), path.Keys(),
		path.SignIn(), path.PasswordForgot(), path.PasswordReset("wbr_1"), path.Invitation("wbi_1"), path.Verify("wbv_1"), path.Team(), path.MemberRole("mem_1"), path.MemberRemove("mem_1"),
		path.MemberTwoFactorReset("mem_1"), path.KeyRotate("key_1"), path.SignInCode("", ""), path.TwoFactorBegin(), path.TwoFactorConfirm(), path.TwoFactorCodes(), path.TwoFactorOff(), path.TwoFactorRequire(),
		path.InvitationResend("inv_1"), path.InvitationRevoke("inv_1"), path.SettingsTenant(), path.SettingsNotices(), path.SettingsPassword(), path.SessionEnd("ses_1"), path.SessionsEnd(),
		path.TenantSwitch(), path.Inboxes(), path.DeliveriesExport(f), path.FilterSave(f), path.FilterForget("flt_1", f), path.ExportCancel("exp_1"), path.InboxAnswer("ibx_1"), path.InboxExtend("ibx_1"), path.InboxDelete("ibx_1")} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			t.Errorf("nothing answers POST %s", address)
		}
	}
}

// line is a way to Postgres that can be cut.
type line struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listener}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			l.mu.Lock()
			if err != nil || l.cut {
				near.Close()
				l.mu.Unlock()
				continue
			}
			l.conns = append(l.conns, near, far)
			l.mu.Unlock()
			go func() { io.Copy(far, near); far.Close() }()
			go func() { io.Copy(near, far); near.Close() }()
		}
	}()
	t.Cleanup(l.down)
	return l
}

func (l *line) down() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.Listener.Close()
	for _, conn := range l.conns {
		conn.Close()
	}
}

func TestDatabaseAwayIsSaidToBeThat(t *testing.T) {
	t.Parallel()
	direct := dbtest.New(t)
	config := direct.Config().ConnConfig
	if strings.HasPrefix(config.Host, "/") {
		t.Skip("the server of the tests is reached by a socket; there is no line to cut")
	}
	l := newLine(t, net.JoinHostPort(config.Host, fmt.Sprint(config.Port)))
	there, err := url.Parse(dbtest.URL(direct))
	if err != nil {
		t.Fatal(err)
	}
	there.Host = l.Addr().String()
	b := newBenchOn(t, dbtest.Open(t, there.String(), db.Options{}), direct)
	who := b.signedIn(b.tenant, account.PortalInput{})
	link := b.link(b.tenant, account.PortalInput{})
	who.get("/deliveries").says(t, http.StatusOK)
	l.down()
	for _, address := range []string{"/deliveries", "/", "/endpoints", "/sign-in", link, "/nothing/here/at/all/"} {
		got := who.get(address)
		if address == "/nothing/here/at/all/" {
			got.says(t, http.StatusNotFound)
			continue
		}
		got.says(t, http.StatusServiceUnavailable, "Back in a moment")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s does not say when to come back", address)
		}
	}
	who.post("/keys", url.Values{"name": {"x"}, "scopes": {"catalog:read"}}).says(t, http.StatusServiceUnavailable)
	who.post(link, nil).says(t, http.StatusServiceUnavailable)
	base, err := url.Parse(b.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if len(who.client.Jar.Cookies(base)) == 0 {
		t.Error("the session was forgotten because the database was away")
	}
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.post("/keys", url.Values{"name": {strings.Repeat("x", 2<<20)}}).says(t, http.StatusRequestEntityTooLarge)
	who.post("/keys", url.Values{"name": {"a\x00b"}, "scopes": {"catalog:read"}}).says(t, http.StatusBadRequest, "characters that cannot be stored")
	who.post("/keys", url.Values{"name": {"a\xffb"}, "scopes": {"catalog:read"}}).says(t, http.StatusBadRequest)
	r := who.request(http.MethodPost, "/keys", strings.NewReader("name=%zz"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", b.server.URL)
	who.do(r).says(t, http.StatusBadRequest, "could not be read")
	who.get("/nothing").says(t, http.StatusNotFound, "There is nothing here", "Request req_")
	b.browser().get("/nothing").says(t, http.StatusNotFound, "Go to sign in")
}
