package web_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/notice"
	"waybill/db/dbtest"
	"waybill/web/path"
)

// phone makes codes, knowing only what a page has told it.
type phone struct{ secret []byte }

var shownSecret = regexp.MustCompile(`<code class="secret break">([A-Z2-7 ]+)</code>`)

func newPhone(t *testing.T, page answer) phone {
	t.Helper()
	shown := shownSecret.FindStringSubmatch(page.body)
	if shown == nil {
		t.Fatalf("no secret is shown: %s", page.words())
	}
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(shown[1], " ", ""))
	if err != nil || len(secret) != 20 {
		t.Fatalf("the secret %q has %d bytes, %v", shown[1], len(secret), err)
	}
	return phone{secret}
}

// code is the one of this moment, as RFC 6238 has it.
func (p phone) code() string {
	mac := hmac.New(sha1.New, p.secret)
	_ = binary.Write(mac, binary.BigEndian, time.Now().Unix()/30)
	sum := mac.Sum(nil)
	at := sum[19] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:at+4])&0x7fffffff%1000000)
}

var shownCode = regexp.MustCompile(`[0-9a-hjkmnp-tv-z]{4}(?:-[0-9a-hjkmnp-tv-z]{4}){3}`)

// secondFactor sets one up on the pages of a member who is signed in.
func (w *browser) secondFactor(t *testing.T) (phone, []string) {
	t.Helper()
	page := w.follow("/settings/two-factor/begin", url.Values{"password": {goodPassword}})
	page.says(t, http.StatusOK, "Scan this, and type the code that appears")
	device := newPhone(t, page)
	done := w.follow("/settings/two-factor/confirm", url.Values{"code": {device.code()}})
	done.says(t, http.StatusOK, "Two-factor sign-in is on.", "Your recovery codes", "10 recovery codes are left.")
	codes := shownCode.FindAllString(done.words(), -1)
	if len(codes) != 10 {
		t.Fatalf("%d recovery codes are shown: %s", len(codes), done.words())
	}
	return device, codes
}

// nextStep lets the code of this moment be used once more, as half a minute later.
func (b *bench) nextStep(t *testing.T) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `update second_factors set last_step = last_step - 3`); err != nil {
		t.Fatal(err)
	}
}

// half is a browser with the password given and the code asked for.
func (b *bench) half(t *testing.T, email, next string) *browser {
	t.Helper()
	who := b.browser()
	got := who.post("/sign-in", url.Values{"email": {email}, "password": {goodPassword}, "next": {next}})
	if want := path.SignInCode("", next); got.status != http.StatusSeeOther || got.location() != want {
		t.Fatalf("the password led with %d to %q, want %q", got.status, got.location(), want)
	}
	return who
}

func TestSignInWithACode(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "anna@example.com", account.Owner)
	anna := b.as(t, "anna@example.com")
	anna.get("/settings").says(t, http.StatusOK, "Two-factor sign-in Off", "Latest sign-ins")
	anna.get("/settings/two-factor").says(t, http.StatusOK, "Your password alone signs you in")
	anna.post("/settings/two-factor/begin", url.Values{"password": {"wrong"}}).says(t, http.StatusUnprocessableEntity, "not your password")
	anna.post("/settings/two-factor/confirm", url.Values{"code": {"123456"}}).says(t, http.StatusConflict, "Begin again")
	setUp := anna.follow("/settings/two-factor/begin", url.Values{"password": {goodPassword}})
	if !strings.Contains(setUp.body, `<svg width="224"`) || strings.Contains(setUp.body, "otpauth:") || strings.Contains(setUp.body, "https://") {
		t.Error("the picture is missing, or the page leads elsewhere")
	}
	anna.post("/settings/two-factor/confirm", url.Values{"code": {"000000"}}).says(t, http.StatusUnprocessableEntity, "not the code of this moment", "Scan this")
	device, codes := anna.secondFactor(t)
	if again := anna.get("/settings/two-factor"); shownCode.MatchString(again.words()) || shownSecret.MatchString(again.body) {
		t.Error("codes or secret are shown once more")
	}

	who := b.half(t, "anna@example.com", "/deliveries?status=held")
	base, err := url.Parse(b.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	cookies := who.client.Jar.Cookies(base)
	if len(cookies) != 1 || cookies[0].Name != "__Host-waybill-half" {
		t.Fatalf("after the password there are the cookies %v", cookies)
	}
	if got := who.get("/deliveries"); got.status != http.StatusSeeOther || !strings.HasPrefix(got.location(), "/sign-in") {
		t.Errorf("half a sign-in opens the pages: %d", got.status)
	}
	thief := b.browser()
	thief.client.Jar.SetCookies(base, []*http.Cookie{{Name: "__Host-waybill", Value: cookies[0].Value, Path: "/", Secure: true}})
	if got := thief.get("/deliveries"); got.status != http.StatusSeeOther {
		t.Errorf("half a sign-in is taken for a session: %d", got.status)
	}

	who.get(path.SignInCode("", "/deliveries?status=held")).says(t, http.StatusOK, "Enter your code", "anna@example.com", "Use a recovery code")
	b.nextStep(t)
	right := url.Values{"code": {device.code()}, "next": {"/deliveries?status=held"}}
	for name, set := range map[string]http.Header{
		"another site": {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.test"}}, "a neighbour": {"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://x.127.0.0.1"}}, "nobody": {},
	} {
		r := who.request(http.MethodPost, "/sign-in/code", strings.NewReader(right.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for field, values := range set {
			r.Header[field] = values
		}
		if got := who.do(r); got.status != http.StatusForbidden || got.header.Get("Set-Cookie") != "" {
			t.Errorf("a code sent by %s answered %d", name, got.status)
		}
	}
	who.post("/sign-in/code", url.Values{"code": {"000000"}}).says(t, http.StatusUnprocessableEntity, "not the code of this moment", "anna@example.com")
	got := who.post("/sign-in/code", right)
	if got.status != http.StatusSeeOther || got.location() != "/deliveries?status=held" {
		t.Fatalf("the right code answered %d to %q: %s", got.status, got.location(), got.words())
	}
	if cookies := who.client.Jar.Cookies(base); len(cookies) != 1 || cookies[0].Name != "__Host-waybill" {
		t.Errorf("after the code there are the cookies %v", cookies)
	}
	who.get("/deliveries").says(t, http.StatusOK, "anna@example.com")

	b.half(t, "anna@example.com", "/").post("/sign-in/code", right).says(t, http.StatusUnprocessableEntity, "used already") // the same code
	lost := b.half(t, "anna@example.com", "/")
	lost.get(path.SignInCode("yes", "/")).says(t, http.StatusOK, "Enter a recovery code")
	lost.post("/sign-in/code", url.Values{"recovery": {"yes"}, "code": {"nonsense"}}).says(t, http.StatusUnprocessableEntity, "Enter a recovery code")
	lost.follow("/sign-in/code", url.Values{"recovery": {"yes"}, "code": {strings.ToUpper(codes[2])}, "next": {"//evil.test"}}).says(t, http.StatusOK, "Overview")
	b.half(t, "anna@example.com", "/").post("/sign-in/code", url.Values{"recovery": {"yes"}, "code": {codes[2]}}).says(t, http.StatusUnprocessableEntity)
	lost.get("/settings/two-factor").says(t, http.StatusOK, "9 recovery codes are left.")
	lost.get("/settings/sign-ins").says(t, http.StatusOK, "Password and recovery code", "Password and code", "Wrong code", "Not finished", "Invitation")

	stranger := b.browser()
	for _, got := range []answer{stranger.get("/sign-in/code"), stranger.post("/sign-in/code", right)} {
		if got.status != http.StatusSeeOther || got.location() != "/sign-in?after=half" {
			t.Errorf("without a password the code answered %d to %q", got.status, got.location())
		}
	}
	stranger.get("/sign-in?after=half").says(t, http.StatusOK, "Sign in again")

	// Codes anew, and off again; both ask.
	lost.get("/settings/two-factor/codes").says(t, http.StatusOK, "Make new recovery codes", "9 old ones work no more.")
	lost.post("/settings/two-factor/codes", url.Values{"password": {"wrong"}}).says(t, http.StatusUnprocessableEntity, "not your password")
	fresh := shownCode.FindAllString(lost.follow("/settings/two-factor/codes", url.Values{"password": {goodPassword}}).words(), -1)
	if len(fresh) != 10 {
		t.Fatalf("%d new codes", len(fresh))
	}
	lost.get("/settings/two-factor/off").says(t, http.StatusOK, "Turn two-factor sign-in off")
	lost.post("/settings/two-factor/off", url.Values{"password": {goodPassword}, "code": {codes[3]}}).says(t, http.StatusUnprocessableEntity, "used already")
	lost.follow("/settings/two-factor/off", url.Values{"password": {goodPassword}, "code": {fresh[0]}}).says(t, http.StatusOK, "Two-factor sign-in is off.")
	b.as(t, "anna@example.com")

	logs := b.logs.String()
	for _, secret := range append(codes, cookies[0].Value, goodPassword) {
		if strings.Contains(logs, secret) {
			t.Errorf("%q stands in the log", secret)
		}
	}
}

// A tenant that requires it leads its members to the set-up when they sign in, and nowhere else; an owner lets in who has lost the device.
func TestTenantRequiresTwoFactors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "anna@example.com", account.Owner)
	b.join(t, b.tenant, "dev@example.com", account.Developer)
	anna := b.as(t, "anna@example.com")
	anna.get("/team").says(t, http.StatusOK, "Everybody's own choice", "2 members sign in with a password alone.")
	anna.post("/team/two-factor", url.Values{"required": {"yes"}}).says(t, http.StatusConflict, "for yourself first")
	anna.secondFactor(t)
	anna.follow("/team/two-factor", url.Values{"required": {"yes"}}).says(t, http.StatusOK, "required from the next sign-in on", "Required")

	dev := b.as(t, "dev@example.com")
	for _, address := range []string{"/", "/deliveries", "/keys", "/settings", "/team"} {
		if got := dev.get(address); got.status != http.StatusSeeOther || got.location() != "/settings/two-factor" {
			t.Errorf("%s answered %d to %q", address, got.status, got.location())
		}
	}
	if got := dev.post("/keys", url.Values{"name": {"sneaked in"}, "scopes": {"catalog:read"}}); got.status != http.StatusSeeOther || got.location() != "/settings/two-factor" {
		t.Errorf("making a key answered %d", got.status)
	}
	if got := dev.get("/live"); got.status != http.StatusForbidden {
		t.Errorf("a stream answered %d", got.status)
	}
	var keys int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from api_keys where name = 'sneaked in'`).Scan(&keys); err != nil || keys != 0 {
		t.Errorf("%d keys were made, %v", keys, err)
	}
	dev.get("/settings/two-factor").says(t, http.StatusOK, "Meera Silk House requires it", "Sign out")
	dev.secondFactor(t)
	dev.get("/deliveries").says(t, http.StatusOK, "dev@example.com", "Developer")

	var devID string
	if err := b.pool.QueryRow(t.Context(), `select id from members where email = 'dev@example.com'`).Scan(&devID); err != nil {
		t.Fatal(err)
	}
	anna.get("/team").says(t, http.StatusOK, "Reset…", "Who signs in with a password needs a code as well")
	anna.get("/team/"+devID+"/two-factor").says(t, http.StatusOK, "Reset two-factor sign-in", "dev@example.com")
	dev.post("/team/"+devID+"/two-factor", nil).says(t, http.StatusForbidden)
	anna.follow("/team/"+devID+"/two-factor", nil).says(t, http.StatusOK, "a mail tells them")
	anna.get("/activity").says(t, http.StatusOK, "reset the two-factor sign-in of dev@example.com", "required two-factor sign-in of everybody")
	if got := b.as(t, "dev@example.com").get("/deliveries"); got.location() != "/settings/two-factor" {
		t.Errorf("after the reset the password leads to %q", got.location())
	}
	// A link of the platform is not concerned, and has no second factor to look at.
	portal := b.signedIn(b.tenant, account.PortalInput{Label: "Meera at the warehouse"})
	portal.get("/deliveries").says(t, http.StatusOK, "Meera Silk House")
	portal.get("/settings/sign-ins").says(t, http.StatusOK, "Link of the platform", "Meera at the warehouse")
	portal.post("/settings/two-factor/begin", url.Values{"password": {goodPassword}}).says(t, http.StatusForbidden)
}

// Who has a second factor joins another tenant only after signing in with it, and comes back to the invitation.
func TestInvitationAsksForTheCodeFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "anna@example.com", account.Owner)
	device, _ := b.as(t, "anna@example.com").secondFactor(t)
	other := dbtest.AddTenant(t, b.pool, dbtest.Tenant{Name: "Kanchi Cottons"})
	made, err := b.accounts.InvitationCreate(t.Context(), platform(other), account.InvitationInput{Email: "anna@example.com", Role: account.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	link := path.Invitation(made.Token.Reveal())
	guest := b.browser()
	page := guest.get(link)
	page.says(t, http.StatusOK, "Sign in to join", "signs in with a code")
	if strings.Contains(page.body, `name="password"`) || !strings.Contains(page.body, `href="`+path.SignInFor(link)+`"`) {
		t.Error("the page asks for a password, or does not lead back")
	}
	guest.post(link, url.Values{"password": {goodPassword}}).says(t, http.StatusConflict, "Sign in first")
	b.nextStep(t)
	who := b.half(t, "anna@example.com", link)
	who.follow("/sign-in/code", url.Values{"code": {device.code()}, "next": {link}}).says(t, http.StatusOK, "You are signed in with this address")
	who.follow(link, nil).says(t, http.StatusOK, "Kanchi Cottons", "Viewer")
}

func TestKeysAreRotatedOnThePage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, _, err := b.accounts.KeyCreate(t.Context(), b.owner(), account.KeyInput{Name: "order system", Scopes: []account.Scope{account.CatalogRead}})
	if err != nil {
		t.Fatal(err)
	}
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/keys").says(t, http.StatusOK, "order system", "Rotate…")
	who.get("/keys/"+key.ID+"/rotate").says(t, http.StatusOK, "Rotate API key", "order system", "24 hours")
	for _, overlap := range []string{"", "x", "-1h", "9000h"} {
		who.post("/keys/"+key.ID+"/rotate", url.Values{"overlap": {overlap}}).says(t, http.StatusUnprocessableEntity, "Rotate API key")
	}
	page := who.follow("/keys/"+key.ID+"/rotate", url.Values{"overlap": {"24h"}})
	page.says(t, http.StatusOK, "“order system” is ready", "Active ends in 2")
	fresh := regexp.MustCompile(`wbt_[0-9a-z]{40}`).FindString(page.words())
	if caller, err := b.accounts.Authenticate(t.Context(), fresh); err != nil || caller.Can(account.CatalogRead) != nil {
		t.Errorf("the new key is %+v, %v", caller, err)
	}
	if again := who.get("/keys"); strings.Contains(again.body, fresh) {
		t.Error("the new key is shown once more")
	}
	who.get("/activity").says(t, http.StatusOK, "rotated an API key order system")
}

func TestWhatMembersAreMailedAboutTheirSignIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "anna@example.com", account.Owner)
	anna := b.as(t, "anna@example.com")
	checked := func() bool {
		return regexp.MustCompile(`name="own"[^>]* checked`).MatchString(anna.get("/settings").body)
	}
	if !checked() {
		t.Error("the mail about a new browser is not chosen at first")
	}
	anna.follow("/settings/notices", url.Values{"notices": {"failing"}}).says(t, http.StatusOK, "Saved.")
	if checked() {
		t.Error("it is chosen still")
	}
	anna.follow("/settings/notices", url.Values{"own": {"new-browser"}}).says(t, http.StatusOK, "Saved.")
	if !checked() {
		t.Error("it is not chosen again")
	}
}

// Every kind of mail is there to be looked at, in a frame that can do nothing, with and without its styles.
func TestMailSamples(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	guest := b.browser()
	list := guest.get("/dev/mails/")
	for kind, sample := range notice.Samples() {
		list.says(t, http.StatusOK, kind)
		page := guest.get(path.MailSample(kind))
		page.says(t, http.StatusOK, sample.Subject, "HTML without styles")
		if policy := page.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", kind, policy)
		}
		styled, bare := guest.get(path.MailSampleHTML(kind, "")), guest.get(path.MailSampleHTML(kind, "yes"))
		for _, got := range []answer{styled, bare} {
			got.says(t, http.StatusOK, sample.Paragraphs[0][:20])
			policy := got.header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "sandbox allow-popups") || !strings.Contains(policy, "frame-ancestors 'self'") || strings.Contains(policy, "script-src") {
				t.Errorf("%s in its frame has the policy %q", kind, policy)
			}
		}
		if !strings.Contains(styled.body, " style=") || strings.Contains(bare.body, " style=") {
			t.Errorf("%s is the same with styles and without", kind)
		}
	}
	guest.get("/dev/mails/nothing").says(t, http.StatusNotFound)
}
