package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// short is a policy whose schedule is over in a second: what fails is undelivered soon.
const short = `
webhook_delivery:
  timeout_seconds: 2
  waits_between_attempts: [1s]
  jitter_percent: 0
  circuit_breaker: {consecutive_failures: 0, probe_every: [1s]}
presets:
  slow: {waits_between_attempts: [10m, 1h], circuit_breaker: {consecutive_failures: 0, probe_every: [1s]}}
`

// TestEveryPageOfTheProgram follows every link of the dashboard, one of each kind, of a tenant that has everything and of one that has nothing, at
// three widths and in both themes: no link leads nowhere, nothing is wider than the window or too pale, every field has a label, and the
// browser has nothing to complain about. It keeps a picture of each page.
func TestEveryPageOfTheProgram(t *testing.T) {
	t.Parallel()
	s := newStage(t, short, "sarees", "empty")
	s.furnish(openShop(t))
	for tenant, least := range map[string]int{"sarees": 30, "empty": 14} {
		tab, err := s.browser.Stranger()
		if err != nil {
			t.Fatal(err)
		}
		w := &walk{person: newPerson(t, tab, tenant, mouse{}, 1440, "light"), stage: s, seen: map[string]bool{}}
		w.joins(tenant)
		w.from("/")
		if len(w.seen) < least {
			t.Errorf("only %d pages of %s were found: %v", len(w.seen), tenant, w.seen)
		}
		t.Logf("%d pages of %s", len(w.seen), tenant)
	}
	guest, err := s.browser.Stranger()
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{person: newPerson(t, guest, "guest", mouse{}, 1440, "light"), stage: s, seen: map[string]bool{}}
	w.visit(s.link("sarees", `{"read_only":true}`), "sign-in-link")
	w.visit("/sign-in", "sign-in")
	w.visit("/password", "password")
	w.visit("/password/sent?to=meera@sarees.example", "password-sent")
	mails := slices.DeleteFunc(w.visit("/dev/mail", "mailbox"), func(link string) bool { return !strings.HasPrefix(link, "/dev/mail/") })
	if len(mails) == 0 {
		t.Fatal("the mailbox is empty")
	}
	w.visit(mails[0], "mail")
	w.from("/docs")
	for _, dead := range []string{"/sign-in/link/wbl_none", "/password/wbr_none", "/invitation/wbi_none", "/verify/wbv_none", "/nothing/here"} {
		w.opens(dead)
		w.quiet(dead, "404")
		w.looksAll("dead" + strings.ReplaceAll(dead, "/", "-"))
	}
}

// furnish gives the tenant one of everything that a page can show.
func (s *stage) furnish(shop *shop) {
	s.t.Helper()
	call := func(method, path string, in, out any) {
		s.t.Helper()
		if err := s.Call(s.t.Context(), method, "/v1/tenants/sarees"+path, in, out); err != nil {
			s.t.Fatal(err)
		}
	}
	broken := openShop(s.t)
	broken.answers(http.StatusInternalServerError)
	endpoint := func(in map[string]any) string {
		var made struct{ ID string }
		call(http.MethodPost, "/endpoints", in, &made)
		return made.ID
	}
	endpoint(map[string]any{"url": shop.URL + "/webhooks/orders", "types": []string{"*"}, "description": "Order system", "scheme": "v1+v1a"})
	endpoint(map[string]any{"url": broken.URL + "/in", "types": []string{"consignment.*"}, "description": "Warehouse"})
	endpoint(map[string]any{"url": broken.URL + "/late", "types": []string{"consignment.loaded"}, "description": "Bookkeeping", "preset": "slow"})
	paused := endpoint(map[string]any{"url": shop.URL + "/a/very/long/path/that/somebody/has/chosen/for/reasons/of/their/own", "types": []string{"consignment.delivered"}})
	call(http.MethodPost, "/endpoints/"+paused+"/pause", nil, nil)
	endpoint(map[string]any{"url": shop.URL + "/never", "types": []string{"invoice.issued"}, "payload": "thin"})
	for i := range 12 {
		s.happens("sarees", []string{"consignment.loaded", "consignment.delivered"}[i%2], fmt.Sprintf("C-%d", 4470+i/2))
	}
	call(http.MethodPost, "/keys", map[string]any{"name": "reconciliation"}, nil)
	call(http.MethodPost, "/invitations", map[string]any{"email": "ravi@sarees.example", "role": "developer"}, nil)
	s.eventually(30*time.Second, 12, `select count(*) from deliveries where status = 'undelivered'`)
}

// walk is somebody who looks at everything once.
type walk struct {
	*person
	stage *stage
	seen  map[string]bool
}

// joins makes the walker the tenant's owner.
func (w *walk) joins(tenant string) {
	w.Helper()
	var made struct{ URL string }
	if err := w.stage.Call(w.Context(), http.MethodPost, "/v1/tenants/"+tenant+"/invitations", map[string]any{"email": "owner@" + tenant + ".example"}, &made); err != nil {
		w.Fatal(err)
	}
	w.opens(strings.TrimPrefix(made.URL, "http://"+site))
	w.fills("Your name", "Meera")
	w.fills("Choose a password", "seven green looms sing")
	w.uses("Join " + tenant)
	w.sees("Overview")
}

var (
	anID = regexp.MustCompile(`[a-z]{2,4}_[0-9A-Za-z]{10,}|[0-9a-f-]{36}`)
	// download is what a link gives to a program rather than to a person.
	download = regexp.MustCompile(`/(file|json|curl|http|response|body|html|openapi[^/]*)(\?|$)|^/v1/|\.(json|yaml|txt)(\?|$)`)
)

// kindOf is what all pages alike have in common: the path without ids, and the names of the parameters.
func kindOf(address *url.URL) string {
	kind := anID.ReplaceAllString(address.Path, "x")
	for _, named := range []string{"/event-types/", "/docs/api/", "/docs/verify/"} {
		if strings.HasPrefix(kind, named) {
			kind = named + "x"
		}
	}
	var names []string
	for name := range address.Query() {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(append([]string{kind}, names...), " ")
}

// from visits an address, and what is linked from there, one page of each kind.
func (w *walk) from(start string) {
	w.Helper()
	for next := []string{start}; len(next) > 0; next = next[1:] {
		address, err := url.Parse(next[0])
		if err != nil {
			w.Fatal(err)
		}
		kind := kindOf(address)
		if w.seen[kind] || download.MatchString(next[0]) || strings.HasPrefix(next[0], "/dev/") {
			continue
		}
		w.seen[kind] = true
		next = append(next, w.visit(next[0], strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(kind, "-"), "-"))...)
	}
}

// visit looks at one page and returns where its links lead.
func (w *walk) visit(address, name string) (links []string) {
	w.Helper()
	w.opens(address)
	w.looksAll(name)
	w.quiet(address)
	var title string
	w.must(w.tab.evaluate(`document.querySelector("h1")?.textContent ?? ""`, &title))
	if title == "There is nothing here" || title == "" {
		w.Errorf("%s: %s leads to %q", w.name, address, title)
	}
	w.must(w.tab.evaluate(`[...document.querySelectorAll("main a[href], nav a[href]")].map((a) => a.getAttribute("href")).filter((h) => h.startsWith("/"))`, &links))
	return links
}

// looksAll audits a page at every width and in both themes, and keeps a picture of each.
func (w *walk) looksAll(page string) {
	w.Helper()
	for _, theme := range Themes {
		for _, width := range Widths {
			w.must(w.tab.Look(width, 900, theme))
			wrong, err := w.tab.Audit()
			w.must(err)
			if wrong != "" {
				w.Errorf("%s, %s, %s, %d wide:\n%s", w.name, page, theme, width, wrong)
			}
			if *everyPicture || theme == "light" && width == 1440 {
				w.must(w.tab.Picture(filepath.Join(*picturesDir, w.name, fmt.Sprintf("%s_%s_%d.png", page, theme, width)), width, 2600))
			}
		}
	}
}
