package e2e

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	picturesDir  = flag.String("pictures", "screenshots", "folder for pictures of the pages")
	everyPicture = flag.Bool("every-picture", false, "pictures of each page at all widths and in both themes, not of one")
)

// site is the address that browsers know the program by. Browsers trust it as they do https.
const site = "waybill.localhost"

// openBrowser is a browser for one test. Without a Chromium the test is skipped, but fails where CI says that there must be one.
func openBrowser(t *testing.T, hosts map[string]string) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	b, err := OpenBrowser(context.WithoutCancel(t.Context()), hosts)
	if errors.Is(err, ErrNoBrowser) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// person is somebody at a tab. What they cannot do ends the test, with a picture of where they stood.
type person struct {
	*testing.T
	tab  *Tab
	name string // for pictures
	hand hand
	wide int64 // of the window
	at   int   // how many pages were looked at
}

// hand is what somebody works with.
type hand interface {
	use(tab *Tab, name string) error
	fill(tab *Tab, label, text string) error
}

type mouse struct{}

func (mouse) use(tab *Tab, name string) error         { return tab.Click(name) }
func (mouse) fill(tab *Tab, label, text string) error { return tab.Type(label, text) }

// keyboard never points.
type keyboard struct{}

func (keyboard) use(tab *Tab, name string) error {
	if err := tab.Sees(name); err != nil {
		return err
	}
	if err := tab.TabTo("focused", name); err != nil {
		return err
	}
	var kind string
	if err := tab.ask("kind", &kind); err != nil {
		return err
	}
	key := "\r"
	if kind == "checkbox" || kind == "radio" {
		key = " "
	}
	return tab.Press(key)
}

func (keyboard) fill(tab *Tab, label, text string) error {
	if err := tab.Sees(label); err != nil {
		return err
	}
	if err := tab.TabTo("focusedField", label); err != nil {
		return err
	}
	return errors.Join(tab.selectAll(), tab.Press(text))
}

// newPerson sits down at a tab with a window of this width.
func newPerson(t *testing.T, tab *Tab, name string, hand hand, wide int64, theme string) *person {
	t.Helper()
	p := &person{T: t, tab: tab, name: name, hand: hand, wide: wide}
	p.must(tab.Look(wide, 900, theme))
	return p
}

func (p *person) must(err error) {
	p.Helper()
	if err == nil {
		return
	}
	file := filepath.Join(*picturesDir, "failed", p.name+".png")
	if p.tab.Picture(file, p.wide, 2600) == nil {
		p.Logf("a picture of it: %s", file)
	}
	p.Fatalf("%s: %v", p.name, err)
}

func (p *person) opens(address string)     { p.Helper(); p.must(p.tab.Open("http://" + site + address)) }
func (p *person) uses(name string)         { p.Helper(); p.must(p.hand.use(p.tab, name)) }
func (p *person) fills(label, text string) { p.Helper(); p.must(p.hand.fill(p.tab, label, text)) }
func (p *person) sees(texts ...string)     { p.Helper(); p.must(p.tab.Sees(texts...)) }

// chooses an option of a select, by the keyboard as everybody can: the list that a click opens is none of the page's.
func (p *person) chooses(label, option string) {
	p.Helper()
	p.must(p.tab.TabTo("focusedField", label))
	p.must(p.tab.Press(option))
	p.until("the select "+label+" has another value", `document.activeElement.selectedOptions?.[0].text === "`+option+`"`)
}

func (p *person) until(what, expression string) {
	p.Helper()
	p.must(p.tab.Until(what, expression))
}

func (p *person) reads(selector string) string {
	p.Helper()
	text, err := p.tab.Text(selector)
	p.must(err)
	return text
}

// looks holds the page that is open against the audit, and keeps a picture of it.
func (p *person) looks(page string) {
	p.Helper()
	p.at++
	wrong, err := p.tab.Audit()
	p.must(err)
	if wrong != "" {
		p.Errorf("%s, at %s:\n%s", p.name, page, wrong)
	}
	p.must(p.tab.Picture(filepath.Join(*picturesDir, "story", p.name+"-"+pad(p.at)+"-"+page+".png"), p.wide, 2600))
	p.quiet(page)
}

func pad(n int) string { return ("0" + strconv.Itoa(n))[len(strconv.Itoa(n))-1:] }

// quiet fails the test for whatever the browser has to complain about, but what the test has brought about.
func (p *person) quiet(page string, but ...string) {
	p.Helper()
	for _, complaint := range p.tab.Complaints() {
		if !slices.ContainsFunc(but, func(text string) bool { return strings.Contains(complaint, text) }) {
			p.Errorf("%s, at %s: the browser says: %s", p.name, page, complaint)
		}
	}
}

// TestTheBrowserComplains: what the other tests rely on finding is found.
func TestTheBrowserComplains(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; style-src 'self' 'unsafe-inline'; script-src 'self'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/script.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`console.error("mind the gap"); nothing.here`))
		case "/good":
			_, _ = w.Write([]byte(`<!doctype html><title>t</title><link rel="icon" href="data:,"><label for="a">A</label><input id="a"><button>Go</button>`))
		case "/bad":
			_, _ = w.Write([]byte(`<!doctype html><title>t</title><link rel="icon" href="data:,"><script src="/script.js"></script><script>alert(1)</script>
<input name="lonely"><button></button><p id="x">a</p><p id="x" style="color:#ccc;background:#fff">too pale</p><div style="width:3000px">wide</div>
<button style="position:fixed;inset:0 auto auto 0">Under</button><div style="position:fixed;inset:0;background:#fff">over</div>`))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	tab := openBrowser(t, map[string]string{site: strings.TrimPrefix(server.URL, "http://")}).Tab()
	audited := func(page string) string {
		t.Helper()
		if err := tab.Open("http://" + site + page); err != nil {
			t.Fatal(err)
		}
		wrong, err := tab.Audit()
		if err != nil {
			t.Fatal(err)
		}
		return wrong
	}
	if wrong := audited("/good"); wrong != "" {
		t.Errorf("a good page is said to be wrong:\n%s", wrong)
	}
	if said := tab.Complaints(); len(said) != 0 {
		t.Errorf("a good page makes the browser say %q", said)
	}
	wrong := audited("/bad")
	for _, want := range []string{"wider than the page: div", "two elements have the id x", "input lonely has no label", "button has no words", "contrast 1.6"} {
		if !strings.Contains(wrong, want) {
			t.Errorf("the audit does not say %q but:\n%s", want, wrong)
		}
	}
	said := strings.Join(tab.Complaints(), "\n")
	for _, want := range []string{"mind the gap", "nothing is not defined", "Content Security Policy"} {
		if !strings.Contains(said, want) {
			t.Errorf("the browser does not say %q but:\n%s", want, said)
		}
	}
	var at []float64
	if err := tab.ask("middleOf", &at, "Under"); err != nil || at != nil {
		t.Errorf("what lies under something else is said to be at %v (%v)", at, err)
	}
}
