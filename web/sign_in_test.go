package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"waybill/app/account"
)

func TestLinkIsNotSpentByLooking(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := b.link(b.tenant, account.PortalInput{Label: "Meera"})
	for range 3 { // mail scanners and previews
		b.browser().get(link).says(t, http.StatusOK, "Open the webhooks of Meera Silk House", "The freight platform sent you here")
		head := b.browser()
		if got := head.do(head.request(http.MethodHead, link, nil)); got.status != http.StatusOK {
			t.Fatalf("HEAD answered %d", got.status)
		}
	}
	who := b.browser()
	if got := who.post(link, nil); got.status != http.StatusSeeOther || got.location() != "/" {
		t.Fatalf("answered %d to %q", got.status, got.location())
	}
	who.get("/deliveries").says(t, http.StatusOK, "Meera Silk House", "Nothing has been delivered yet")
}

func TestLinkWorksOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := b.link(b.tenant, account.PortalInput{})
	var wins, losses int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got := b.browser().post(link, nil)
			mu.Lock()
			defer mu.Unlock()
			switch got.status {
			case http.StatusSeeOther:
				wins++
			case http.StatusGone:
				losses++
			}
		})
	}
	all.Wait()
	if wins != 1 || losses != 7 {
		t.Fatalf("%d were signed in and %d turned away; want 1 and 7", wins, losses)
	}
	b.browser().get(link).says(t, http.StatusGone, "This link has been used")
}

func TestLinkExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := b.link(b.tenant, account.PortalInput{})
	if _, err := b.pool.Exec(t.Context(), `update portal_links set created_at = created_at - interval '11 minutes', expires_at = expires_at - interval '11 minutes'`); err != nil {
		t.Fatal(err)
	}
	b.browser().get(link).says(t, http.StatusGone, "This link has expired", "10 minutes")
	b.browser().post(link, nil).says(t, http.StatusGone, "This link has expired")
	b.browser().get("/sign-in/link/wbl_nonsense").says(t, http.StatusNotFound, "This link does not work")
	b.browser().get("/sign-in/link/"+strings.Repeat("x", 3000)).says(t, http.StatusNotFound, "This link does not work")
}

func TestSessionCookieHoldsTheTokenAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.browser()
	header := who.post(b.link(b.tenant, account.PortalInput{}), nil).header
	cookie, err := http.ParseSetCookie(header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	if cookie.Name != "__Host-waybill" || !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode {
		t.Errorf("the cookie is not kept to this host, https and http: %s", cookie)
	}
	if !strings.HasPrefix(cookie.Value, "wbs_") {
		t.Errorf("the cookie holds more than a token: %q", cookie.Value)
	}
	var stored int
	if err := b.pool.QueryRow(t.Context(), `select count(*) from sessions where position($1 in encode(hash, 'escape')) > 0 or user_agent = $1 or label = $1`, cookie.Value).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if stored != 0 {
		t.Error("the token is stored as it is")
	}
	if strings.Contains(b.logs.String(), cookie.Value) || strings.Contains(b.logs.String(), "wbl_") {
		t.Error("a token stands in the log")
	}
}

func TestSignOutEndsTheSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	base, err := url.Parse(b.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	kept := who.client.Jar.Cookies(base)
	got := who.post("/sign-out", nil)
	who.get(got.location()).says(t, http.StatusOK, "You are signed out")
	if left := who.client.Jar.Cookies(base); len(left) != 0 {
		t.Errorf("cookies are left: %v", left)
	}
	thief := b.browser()
	thief.client.Jar.SetCookies(base, kept)
	if got := thief.get("/deliveries"); got.status != http.StatusSeeOther || !strings.HasPrefix(got.location(), "/sign-in") {
		t.Errorf("the cookie of a session that was ended still opens the pages: %d", got.status)
	}
}

func TestNewLinkReplacesTheSessionOfThisBrowser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{Label: "one"})
	who.post(b.link(b.tenant, account.PortalInput{Label: "two"}), nil)
	var labels []string
	if err := b.pool.QueryRow(t.Context(), `select array_agg(label) from sessions`).Scan(&labels); err != nil {
		t.Fatal(err)
	}
	if len(labels) != 1 || labels[0] != "two" {
		t.Errorf("sessions %v are open, want the new one alone", labels)
	}
}

func TestSigningInLeadsBackToOurPagesAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := b.browser().get("/deliveries?status=held")
	if want := "/sign-in?next=%2Fdeliveries%3Fstatus%3Dheld"; got.status != http.StatusSeeOther || got.location() != want {
		t.Fatalf("answered %d to %q, want to %q", got.status, got.location(), want)
	}
	who := b.signedIn(b.tenant, account.PortalInput{})
	for next, want := range map[string]string{
		"/deliveries?status=held": "/deliveries?status=held", "https://evil.test/": "/", "//evil.test/": "/", `/\evil.test`: "/",
		"javascript:alert(1)": "/", "deliveries": "/", "": "/", "/%0d%0aX:y": "/%0d%0aX:y",
	} {
		got := who.get("/sign-in?next=" + url.QueryEscape(next))
		if got.status != http.StatusSeeOther || got.location() != want {
			t.Errorf("next=%q led with %d to %q, want %q", next, got.status, got.location(), want)
		}
	}
}

func TestReadOnlyLinkLooksButDoesNotTouch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.browser().get(b.link(b.tenant, account.PortalInput{ReadOnly: true})).says(t, http.StatusOK, "but not change")
	who := b.signedIn(b.tenant, account.PortalInput{ReadOnly: true})
	who.get("/endpoints").says(t, http.StatusOK, "You can look, but not change anything")
	who.get("/endpoints/new").says(t, http.StatusForbidden, "endpoints:write")
	who.post("/endpoints/new", url.Values{"url": {"https://x.example/"}, "types": {"*"}, "anyway": {"yes"}}).says(t, http.StatusForbidden)
	who.get("/keys").says(t, http.StatusForbidden)
}
