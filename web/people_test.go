package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/limit"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/db/dbtest"
	"waybill/web"
	"waybill/web/dashboard"
)

const goodPassword = "correct horse battery staple"

var mailedToken = regexp.MustCompile(`wb[irv]_[0-9a-z]{40}`)

// mailed is the token in the newest mail of a kind to an address.
func (b *bench) mailed(t *testing.T, kind, to string) string {
	t.Helper()
	mails, err := b.mails.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mails {
		if m.Kind == kind && m.To == to {
			full, err := b.mails.Read(t.Context(), m.ID)
			if err != nil {
				t.Fatal(err)
			}
			return mailedToken.FindString(full.Text)
		}
	}
	t.Fatalf("no mail %s to %s", kind, to)
	return ""
}

// join makes a person with goodPassword a member of a tenant.
func (b *bench) join(t *testing.T, tenant dbtest.Tenant, email string, role account.Role) {
	t.Helper()
	made, err := b.accounts.InvitationCreate(t.Context(), platform(tenant), account.InvitationInput{Email: email, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	answer := account.InvitationAnswer{Name: "Person " + email, Password: goodPassword}
	if _, err := b.accounts.InvitationAccept(t.Context(), made.Token.Reveal(), answer, account.Client{}); err != nil {
		t.Fatal(err)
	}
}

// as is a browser in which a member has signed in with goodPassword.
func (b *bench) as(t *testing.T, email string) *browser {
	t.Helper()
	who := b.browser()
	if got := who.post("/sign-in", url.Values{"email": {email}, "password": {goodPassword}}); got.status != http.StatusSeeOther {
		t.Fatalf("signing in answered %d: %s", got.status, got.words())
	}
	return who
}

// A seller's first owner: invited, in, the team, the colleague, out again. Nobody of them runs a script.
func TestFromTheInvitationToTheTeam(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made, err := b.accounts.InvitationCreate(t.Context(), platform(b.tenant), account.InvitationInput{Email: "meera@example.com", Role: account.Owner})
	if err != nil {
		t.Fatal(err)
	}
	link := "/invitation/" + made.Token.Reveal()
	for range 3 { // mail scanners and previews
		b.browser().get(link).says(t, http.StatusOK, "Join Meera Silk House", "Your platform invites you (meera@example.com) as Owner", "Choose a password")
	}
	meera := b.browser()
	wrong := meera.post(link, url.Values{"name": {"Meera <b>Iyer"}, "password": {"password1234"}})
	wrong.says(t, http.StatusUnprocessableEntity, "guessed first")
	if !strings.Contains(wrong.body, `value="Meera &lt;b&gt;Iyer"`) || strings.Contains(wrong.body, "password1234") {
		t.Error("the form does not come back with the name as typed, or with the password")
	}
	meera.follow(link, url.Values{"name": {"Meera Iyer"}, "password": {goodPassword}}).says(t, http.StatusOK, "Meera Silk House", "Owner", "meera@example.com")
	b.browser().get(link).says(t, http.StatusGone, "This link has been used", "Ask whoever invited you")
	b.browser().post(link, url.Values{"name": {"x"}, "password": {goodPassword}}).says(t, http.StatusGone)

	meera.get("/team").says(t, http.StatusOK, "Meera Iyer", "the only owner", "Invite someone")
	meera.post("/team", url.Values{"email": {"nonsense"}, "role": {"viewer"}}).says(t, http.StatusUnprocessableEntity, "mail address such as")
	meera.post("/team", url.Values{"email": {"meera@example.com"}, "role": {"viewer"}}).says(t, http.StatusUnprocessableEntity, "a member already")
	meera.follow("/team", url.Values{"email": {"anu@example.com"}, "role": {"developer"}}).says(t, http.StatusOK, "An invitation goes to anu@example.com", "by Meera Iyer", "Withdraw")
	first := b.mailed(t, "invitation", "anu@example.com")
	var invitationID string
	if err := b.pool.QueryRow(t.Context(), `select id from invitations where email = 'anu@example.com'`).Scan(&invitationID); err != nil {
		t.Fatal(err)
	}
	meera.follow("/team/invitations/"+invitationID+"/resend", nil).says(t, http.StatusOK, "goes out again")
	b.browser().get("/invitation/"+first).says(t, http.StatusNotFound, "does not work")
	anu := b.browser()
	anu.follow("/invitation/"+b.mailed(t, "invitation", "anu@example.com"), url.Values{"name": {"Anu"}, "password": {goodPassword}}).says(t, http.StatusOK, "Developer")
	anu.get("/team").says(t, http.StatusOK, "Meera Iyer", "Anu")
	if strings.Contains(anu.get("/team").body, "Invite someone") {
		t.Error("a developer is offered to invite")
	}
	anu.post("/team", url.Values{"email": {"x@example.com"}, "role": {"viewer"}}).says(t, http.StatusForbidden)

	var anuID, meeraID string
	if err := b.pool.QueryRow(t.Context(), `select (select id from members where email = 'anu@example.com'), (select id from members where email = 'meera@example.com')`).Scan(&anuID, &meeraID); err != nil {
		t.Fatal(err)
	}
	meera.post("/team/"+meeraID+"/role", url.Values{"role": {"viewer"}}).says(t, http.StatusConflict, "only owner")
	meera.post("/team/"+meeraID+"/remove", nil).says(t, http.StatusConflict, "only owner")
	meera.post("/team/"+anuID+"/role", url.Values{"role": {"king"}}).says(t, http.StatusUnprocessableEntity)
	meera.follow("/team/"+anuID+"/role", url.Values{"role": {"viewer"}}).says(t, http.StatusOK, "role is changed")
	anu.get("/").says(t, http.StatusOK, "Viewer", "You can look, but not change anything")
	meera.get("/team/"+anuID+"/remove").says(t, http.StatusOK, "Remove member", "anu@example.com", "sessions end at once")
	meera.follow("/team/"+anuID+"/remove", nil).says(t, http.StatusOK, "is removed")
	if got := anu.get("/"); got.status != http.StatusSeeOther {
		t.Errorf("who was removed still sees %d", got.status)
	}
	meera.follow("/team", url.Values{"email": {"later@example.com"}, "role": {"viewer"}})
	if err := b.pool.QueryRow(t.Context(), `select id from invitations where email = 'later@example.com'`).Scan(&invitationID); err != nil {
		t.Fatal(err)
	}
	meera.follow("/team/invitations/"+invitationID+"/revoke", nil).says(t, http.StatusOK, "is withdrawn")
	b.browser().get("/invitation/"+b.mailed(t, "invitation", "later@example.com")).says(t, http.StatusNotFound)
	meera.get("/activity").says(t, http.StatusOK, "invited", "anu@example.com", "changed the role of", "developer → viewer", "removed", "joined", "as owner", "by an invitation")
}

func TestSigningInWithAPassword(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	who := b.browser()
	who.get("/sign-in?next=/keys").says(t, http.StatusOK, "Mail address", "Password", "Forgot your password?")
	for _, email := range []string{"meera@example.com", "nobody@example.com", "nonsense"} {
		got := who.post("/sign-in", url.Values{"email": {email}, "password": {"wrong wrong wrong"}, "next": {"/keys"}})
		got.says(t, http.StatusUnprocessableEntity, "Mail address and password do not match.")
		if !strings.Contains(got.body, `value="`+email+`"`) || !strings.Contains(got.body, `value="/keys"`) || strings.Contains(got.body, "wrong wrong") {
			t.Errorf("the form of %s does not come back as it was typed", email)
		}
	}
	got := who.post("/sign-in", url.Values{"email": {" Meera@example.com "}, "password": {goodPassword}, "next": {"/keys"}})
	if got.status != http.StatusSeeOther || got.location() != "/keys" || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=1209600") {
		t.Fatalf("answered %d to %q with %q", got.status, got.location(), got.header.Get("Set-Cookie"))
	}
	who.get("/keys").says(t, http.StatusOK, "meera@example.com", "Owner")
	if got := b.as(t, "meera@example.com").post("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {goodPassword}, "next": {"https://evil.test/"}}); got.location() != "/" {
		t.Errorf("led to %q", got.location())
	}
	for range 5 {
		who.post("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {"wrong wrong wrong"}})
	}
	who.post("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {goodPassword}}).says(t, http.StatusTooManyRequests, "Too many attempts. Try again in")
	if strings.Contains(b.logs.String(), goodPassword) {
		t.Error("a password stands in the log")
	}
}

func TestForgottenPasswords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	before := b.as(t, "meera@example.com")
	who := b.browser()
	who.get("/password").says(t, http.StatusOK, "Send the link")
	who.post("/password", url.Values{"email": {"nonsense"}}).says(t, http.StatusUnprocessableEntity, "mail address such as")
	known := who.follow("/password", url.Values{"email": {"meera@example.com"}})
	unknown := who.follow("/password", url.Values{"email": {"nobody@example.com"}})
	known.says(t, http.StatusOK, "If meera@example.com has an account")
	if strings.ReplaceAll(known.words(), "meera@", "nobody@") != unknown.words() {
		t.Error("the answer tells whether there is such an account")
	}
	link := "/password/" + b.mailed(t, "reset", "meera@example.com")
	for range 3 {
		who.get(link).says(t, http.StatusOK, "Set a new password", "meera@example.com")
	}
	who.post(link, url.Values{"password": {"short"}}).says(t, http.StatusUnprocessableEntity, "12 characters or more")
	who.follow(link, url.Values{"password": {"rote Fahrräder im Regen"}}).says(t, http.StatusOK, "Your new password is set")
	who.get(link).says(t, http.StatusGone, "This link has been used", "Send a new link")
	who.post(link, url.Values{"password": {"rote Fahrräder im Regen"}}).says(t, http.StatusGone)
	who.get("/password/wbr_nonsense").says(t, http.StatusNotFound)
	if got := before.get("/"); got.status != http.StatusSeeOther {
		t.Errorf("a session of before still opens %d", got.status)
	}
	who.post("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {goodPassword}}).says(t, http.StatusUnprocessableEntity)
	who.follow("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {"rote Fahrräder im Regen"}}).says(t, http.StatusOK, "Meera Silk House")
}

func TestTheProfile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := dbtest.AddTenant(t, b.pool, dbtest.Tenant{Name: "Kanchi Cottons"})
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	invited, err := b.accounts.InvitationCreate(t.Context(), platform(other), account.InvitationInput{Email: "meera@example.com", Role: account.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	meera, elsewhere := b.as(t, "meera@example.com"), b.as(t, "meera@example.com")

	// Joining another tenant with a click, and back.
	link := "/invitation/" + invited.Token.Reveal()
	b.browser().get(link).says(t, http.StatusOK, "You have an account already")
	b.browser().post(link, url.Values{"password": {"wrong wrong wrong"}}).says(t, http.StatusUnprocessableEntity, "not the password of this account")
	meera.get(link).says(t, http.StatusOK, "You are signed in with this address")
	meera.follow(link, nil).says(t, http.StatusOK, "Kanchi Cottons", "Viewer", "Meera Silk House")
	meera.post("/tenant", url.Values{"tenant": {"no such"}}).says(t, http.StatusNotFound)
	meera.follow("/tenant", url.Values{"tenant": {b.tenant.UID}}).says(t, http.StatusOK, "Meera Silk House", "Owner")

	meera.get("/settings").says(t, http.StatusOK, "Not confirmed", "A browser", "This one", "What we mail you")
	meera.post("/settings/profile", url.Values{"member_name": {""}}).says(t, http.StatusUnprocessableEntity, "Your name")
	meera.follow("/settings/profile", url.Values{"member_name": {"Meera <i>Iyer"}, "theme": {"dark"}}).says(t, http.StatusOK, "Saved")
	if got := meera.get("/settings"); !strings.Contains(got.body, `value="Meera &lt;i&gt;Iyer"`) || !strings.Contains(got.body, `data-theme="dark"`) {
		t.Error("name or theme are not kept")
	}
	meera.follow("/settings/profile", url.Values{"confirm": {"yes"}}).says(t, http.StatusOK, "A mail with a link goes to meera@example.com")
	verify := "/verify/" + b.mailed(t, "verify", "meera@example.com")
	b.browser().get(verify).says(t, http.StatusOK, "Is meera@example.com yours?")
	meera.get("/settings").says(t, http.StatusOK, "Not confirmed") // looking is not confirming
	meera.follow(verify, nil).says(t, http.StatusOK, "Your address is confirmed", "Confirmed")
	b.browser().post(verify, nil).says(t, http.StatusGone, "This link has been used")
	b.browser().get("/verify/wbv_nonsense").says(t, http.StatusNotFound)

	meera.follow("/settings/notices", url.Values{"notices": {"disabled"}}).says(t, http.StatusOK, "Saved")
	if got := meera.get("/settings").body; strings.Count(got, `name="notices"`) != 4 || strings.Count(got, " checked") != 2 { // the theme's radio, too
		t.Errorf("notices: %d boxes, %d checked", strings.Count(got, `name="notices"`), strings.Count(got, " checked"))
	}
	meera.post("/settings/notices", url.Values{"notices": {"everything"}}).says(t, http.StatusUnprocessableEntity)
	back := meera.post("/settings/tenant", url.Values{"name": {""}, "zone": {"Mars/Olympus"}})
	back.says(t, http.StatusUnprocessableEntity, "2 things to correct")
	if !strings.Contains(back.body, `value="Mars/Olympus"`) {
		t.Error("the form does not come back as it was typed")
	}
	meera.follow("/settings/tenant", url.Values{"name": {"Meera & Co"}, "zone": {"Europe/Berlin"}}).says(t, http.StatusOK, "Meera & Co", "Saved")

	meera.post("/settings/password", url.Values{"current": {"wrong wrong wrong"}, "password": {"rote Fahrräder im Regen"}}).says(t, http.StatusUnprocessableEntity, "not your password")
	meera.follow("/settings/password", url.Values{"current": {goodPassword}, "password": {"rote Fahrräder im Regen"}}).says(t, http.StatusOK, "Your password is changed")
	if got := elsewhere.get("/"); got.status != http.StatusSeeOther {
		t.Errorf("another session goes on: %d", got.status)
	}
	again := b.browser()
	again.follow("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {"rote Fahrräder im Regen"}})
	var sessionID string
	if err := b.pool.QueryRow(t.Context(), `select id from sessions where member_id is not null order by id desc limit 1`).Scan(&sessionID); err != nil {
		t.Fatal(err)
	}
	meera.follow("/settings/sessions/"+sessionID+"/end", nil).says(t, http.StatusOK, "That session has ended")
	if got := again.get("/"); got.status != http.StatusSeeOther {
		t.Errorf("a session that was ended goes on: %d", got.status)
	}
	again.follow("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {"rote Fahrräder im Regen"}})
	meera.follow("/settings/sessions/end", nil).says(t, http.StatusOK, "1 session has ended")

	// Who came by a link has no profile, and may change the account with every right.
	seller := b.signedIn(b.tenant, account.PortalInput{})
	seller.post("/settings/password", url.Values{"current": {goodPassword}, "password": {goodPassword}}).says(t, http.StatusForbidden)
	seller.post("/settings/notices", nil).says(t, http.StatusForbidden)
	seller.post("/tenant", url.Values{"tenant": {other.UID}}).says(t, http.StatusForbidden)
	seller.follow("/settings/tenant", url.Values{"name": {"By link"}, "zone": {"UTC"}}).says(t, http.StatusOK, "By link")
	b.signedIn(b.tenant, account.PortalInput{ReadOnly: true}).post("/settings/tenant", url.Values{"name": {"x"}, "zone": {"UTC"}}).says(t, http.StatusForbidden)
}

func TestRevealingAsksForThePassword(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := settle(t, b, b.tenant)
	b.join(t, b.tenant, "meera@example.com", account.Developer)
	meera := b.as(t, "meera@example.com")
	address := "/endpoints/" + own["endpoints"] + "/secrets/" + own["secret"] + "/reveal"
	meera.get(address).says(t, http.StatusOK, "Your password")
	meera.post(address, nil).says(t, http.StatusUnprocessableEntity, "not your password")
	meera.post(address, url.Values{"password": {"wrong wrong wrong"}}).says(t, http.StatusUnprocessableEntity, "not your password")
	got := meera.follow(address, url.Values{"password": {goodPassword}})
	got.says(t, http.StatusOK, "whsec_")
}

func TestMailbox(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	guest := b.browser()
	guest.get("/dev/mail").says(t, http.StatusOK, "No mail yet")
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	guest.get("/dev/mail").says(t, http.StatusOK, "Your platform invites you to Meera Silk House", "meera@example.com", "Kept here", "None has left it")
	mails, err := b.mails.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address := "/dev/mail/" + mails[len(mails)-1].ID
	one := b.as(t, "meera@example.com").get(address)
	one.says(t, http.StatusOK, "Accept the invitation", "Meera Silk House")
	if policy := one.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-src 'self'") || !strings.Contains(one.body, `sandbox="`) {
		t.Errorf("the page has the policy %q", policy)
	}
	shown := guest.get(address + "/html")
	shown.says(t, http.StatusOK, "Accept the invitation")
	policy := shown.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'self'", "sandbox allow-popups", "form-action 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the mail has the policy %q, without %s", policy, want)
		}
	}
	if strings.Contains(policy, "script-src") || strings.Contains(policy, "allow-scripts") || strings.Contains(policy, "allow-same-origin") || shown.header.Get("X-Frame-Options") != "SAMEORIGIN" {
		t.Errorf("the mail may do too much: %q", policy)
	}
	guest.get("/dev/mail/eml_nonsense").says(t, http.StatusNotFound)
}

func TestWhereASignInComesFrom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	for _, c := range []struct {
		name, fly, forwarded, want string
	}{
		{"none", "", "", "127.0.0.1"}, {"one", "", "203.0.113.7", "203.0.113.7"}, {"a lie before it", "", "198.51.100.1, 203.0.113.8", "203.0.113.8"},
		{"nonsense", "", "x", "127.0.0.1"}, {"Fly's", "2001:db8::1", "198.51.100.1, 66.51.122.1", "2001:db8::1"},
	} {
		who := b.browser()
		r := who.request(http.MethodPost, "/sign-in", strings.NewReader(url.Values{"email": {"meera@example.com"}, "password": {goodPassword}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", who.base)
		if c.fly != "" {
			r.Header.Set("Fly-Client-IP", c.fly)
		}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		who.do(r)
		var address string
		if err := b.pool.QueryRow(t.Context(), `select address from sessions order by id desc limit 1`).Scan(&address); err != nil || address != c.want {
			t.Errorf("%s: from %q, %v, want %q", c.name, address, err, c.want)
		}
	}
}

// A member, too, meets nothing of another tenant's: every route with foreign ids, as an owner with a password.
func TestAMemberMeetsNothingOfAnotherTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	foreign := settle(t, b, dbtest.AddTenant(t, b.pool, dbtest.Tenant{Name: "Kanchi Cottons"}))
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	b.join(t, b.tenant, "second@example.com", account.Owner) // so that no refusal is for want of another owner
	meera := b.as(t, "meera@example.com")
	before := snapshot(t, b)
	walked := 0
	for _, route := range b.Routes() {
		if route.Audience != dashboard.ForMember || namesNothing(route.Pattern) || strings.HasPrefix(route.Pattern, "/event-types/") {
			continue
		}
		walked++
		got := meera.get
		if route.Method == http.MethodPost {
			got = func(address string) answer { return meera.post(address, form(foreign)) }
		}
		if got := got(foreign.fill(t, route.Pattern)); got.status != http.StatusNotFound || strings.Contains(got.body, "secret") {
			t.Errorf("%s %s with another tenant's ids answered %d to %q", route.Method, route.Pattern, got.status, got.location())
		}
	}
	if walked < 36 {
		t.Errorf("only %d routes were walked", walked)
	}
	after := snapshot(t, b)
	delete(before, "throttles") // a password was typed, and counted
	unchanged(t, "as a member with foreign ids", before, after)
	var sessions int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from sessions where id = $1`, foreign["session"]).Scan(&sessions); err != nil || sessions != 1 {
		t.Errorf("the other tenant's session is gone: %v", err)
	}
}

// Where there is no mail server, nothing promises a mail; the platform hands the links out.
func TestWithoutMail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	mute, err := web.New(web.Config{API: http.NotFoundHandler(), Ring: ring, Dashboard: dashboard.Config{
		URL: "https://waybill.test", Log: slog.New(slog.DiscardHandler), Now: time.Now, Accounts: b.accounts, NoMail: true,
		Endpoints: b.endpoints, Types: &catalog.Types{DB: b.pool}, Events: &catalog.Events{DB: b.pool}, Deliveries: &delivery.Service{DB: b.pool}, Policies: policy.Builtin(),
		Limits: &limit.Service{DB: b.pool, Audit: b.accounts, Now: time.Now},
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(mute)
	t.Cleanup(func() { mute.Close(); server.Close() })
	who := b.browser()
	who.base, who.client.Transport = server.URL, server.Client().Transport
	before, err := b.mails.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	who.get("/password").says(t, http.StatusOK, "No mail is sent from here")
	who.post("/password", url.Values{"email": {"meera@example.com"}}).says(t, http.StatusConflict, "No mail is sent from here")
	who.follow("/sign-in", url.Values{"email": {"meera@example.com"}, "password": {goodPassword}, "next": {"/team"}}).says(t, http.StatusOK, "Ask your platform to invite people")
	who.post("/team", url.Values{"email": {"x@example.com"}, "role": {"viewer"}}).says(t, http.StatusConflict, "No mail is sent from here")
	who.post("/settings/profile", url.Values{"confirm": {"yes"}}).says(t, http.StatusConflict)
	who.get("/dev/mail").says(t, http.StatusNotFound)
	who.get("/dev/mail/"+before[0].ID+"/html").says(t, http.StatusNotFound)
	if after, err := b.mails.List(t.Context()); err != nil || len(after) != len(before) {
		t.Errorf("%d mails were written, %v", len(after)-len(before), err)
	}
}

// What the platform allows stands on the settings page before it bites; what is reached stands above every page.
func TestLimitsAreShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/settings").says(t, http.StatusOK, "Endpoints 0, no limit", "Events today (UTC) 0, no limit", "Data of an event up to 262,144 bytes", "Events are kept for 90 days")
	for _, sql := range []string{
		`insert into tenant_limits (tenant_id, events_per_second, events_per_day_soft, events_per_day, endpoints, payload_bytes, retention_days) values ($1, 100, 800, 1000, 5, 2048, 40)`,
		`insert into tenant_days (tenant_id, day, events) values ($1, (now() at time zone 'UTC')::date, 850)`,
	} {
		if _, err := b.pool.Exec(t.Context(), sql, b.tenant.ID); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if strings.Contains(who.get("/settings").body, "Many events today: 850") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no banner in 15 s")
		}
	}
	who.get("/settings").says(t, http.StatusOK, "More than 1,000 are refused by the API.", "Endpoints 0 of 5", "Events today (UTC) 850 of 1,000, announced from 800 on", "up to 2,048 bytes", "40 days", "Events a second up to 100")
}
