package gallery_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"waybill/assets"
	"waybill/e2e"
	pages "waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// dashboard serves fixtures at the addresses that the pages themselves name, so that links, forms and streams
// lead somewhere. Posted forms end up in the channel.
func dashboard(t *testing.T) (address string, posted chan string) {
	fixture := func(name, state string) http.HandlerFunc {
		for _, f := range pages.Fixtures() {
			if f.Name == name && f.State == state {
				return func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					if err := f.Page.Page(f.Frame).Render(r.Context(), w); err != nil {
						t.Error(err)
					}
				}
			}
		}
		t.Fatalf("no fixture %s in state %s", name, state)
		return nil
	}
	full, filtered, none := fixture("deliveries", "full"), fixture("deliveries", "filtered"), fixture("deliveries", "no-match")
	posted = make(chan string, 10)
	mux := http.NewServeMux()
	mux.Handle("GET "+assets.Prefix, assets.Handler())
	mux.HandleFunc("GET /deliveries", func(w http.ResponseWriter, r *http.Request) {
		switch query := r.URL.Query(); {
		case query.Get("q") != "":
			none(w, r)
		case query.Get("status") != "":
			filtered(w, r)
		default:
			full(w, r)
		}
	})
	mux.HandleFunc("GET /deliveries/live", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "event: row\ndata: ")
		row := pages.DeliveryRow{ID: "dlv_new", Type: "consignment.fresh", Stamp: ui.Stamp{Tone: ui.Good, Word: "Delivered"}}
		_ = pages.DeliveryTableRow(row, true).Render(r.Context(), w)
		_, _ = fmt.Fprint(w, "\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /endpoints/{id}/pause", fixture("confirm", "pause"))
	mux.HandleFunc("GET /endpoints/new", fixture("endpoint-new", "empty"))
	mux.HandleFunc("GET /endpoints/{id}", fixture("endpoint", "failing"))
	mux.HandleFunc("GET /deliveries/{id}/attempts/{attempt}/curl", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "curl -X POST") })
	mux.HandleFunc("GET /deliveries/{id}", fixture("delivery", "retrying"))
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		posted <- r.URL.Path + " " + r.PostForm.Encode()
		http.Redirect(w, r, "/deliveries", http.StatusSeeOther)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, posted
}

// tab is a browser's tab with words for what a test does in it.
type tab struct {
	*testing.T
	ctx  context.Context
	base string
}

func (t tab) open(address string) {
	t.Helper()
	if err := chromedp.Do(t.ctx, chromedp.Navigate(t.base+address)); err != nil {
		t.Fatal(err)
	}
}

// becomes asks until a JavaScript expression is true, also over a change of pages. What is asked while a page gives way to another may
// never be answered, so each question has an end of its own.
func (t tab) becomes(expression string, within time.Duration) error {
	return e2e.Until(t.ctx, within, expression, func() (bool, error) {
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		defer cancel()
		return chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
	})
}

// until waits for a JavaScript expression to be true.
func (t tab) until(expression string) {
	t.Helper()
	if err := t.becomes(expression, 30*time.Second); err != nil {
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		defer cancel()
		state, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + ' ' + document.activeElement.outerHTML.slice(0, 200)"))
		t.Fatalf("%v at %s", err, state)
	}
}

func (t tab) do(expression string) {
	t.Helper()
	if err := chromedp.Do(t.ctx, chromedp.Evaluate[chromedp.Void](expression)); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

func (t tab) keys(keys string) {
	t.Helper()
	for _, key := range keys {
		if err := chromedp.Do(t.ctx, chromedp.KeyEvent(string(key))); err != nil {
			t.Fatal(err)
		}
	}
}

// press sends one event of the keyboard.
func (t tab) press(event input.DispatchKeyEventParams) {
	t.Helper()
	if _, err := chromedp.Call(t.ctx, input.DispatchKeyEvent, event); err != nil {
		t.Fatal(err)
	}
}

func (t tab) click(selector string) {
	t.Helper()
	if err := chromedp.Do(t.ctx, chromedp.Click(selector)); err != nil {
		t.Fatalf("%s: %v", selector, err)
	}
}

// away moves the pointer into a corner where nothing is.
func (t tab) away() {
	t.Helper()
	if err := chromedp.Do(t.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 0, 0)); err != nil {
		t.Fatal(err)
	}
}

// arrives waits for another page: for an element that only it has.
func (t tab) arrives(selector string) {
	t.Helper()
	t.until(`document.readyState === "complete" && document.querySelector(` + strconv.Quote(selector) + `)?.checkVisibility() === true`)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	browserContext := start(t)
	base, posted := dashboard(t)
	resize(t, browserContext, 1440, 900)
	for _, step := range []struct {
		name string
		run  func(tab)
	}{
		{"a filter changes the list and the address, not the page", filters},
		{"rows are chosen together", chooses},
		{"a new row arrives by itself", follows},
		{"a confirmation opens as a dialog and gives the focus back", func(t tab) { confirms(t, posted) }},
		{"shortcuts", shortcuts},
		{"copy takes the text, or what an address answers", copies},
		{"event types are found by typing", narrows},
		{"times stay true, in the server's words", times},
	} {
		t.Run(step.name, func(t *testing.T) { step.run(tab{t, browserContext, base}) })
	}
}

func filters(t tab) {
	t.open("/deliveries")
	t.do("window.same = true")
	t.do(`const s = document.getElementById("facet-status"); s.focus(); s.value = "undelivered"; s.dispatchEvent(new Event("change", { bubbles: true }))`)
	t.until(`location.search === "?status=undelivered" && document.querySelectorAll("tbody tr[id^=dlv]").length < 10`)
	t.until(`window.same && document.activeElement.id === "facet-status"`)
	t.do("history.back()")
	t.until(`location.search === "" && window.same && document.querySelectorAll("tbody tr").length >= 50`)
	t.do(`document.getElementById("facet-q").focus()`)
	t.keys("C-9" + kb.Enter)
	t.until(`location.search === "?q=C-9" && window.same && document.querySelector(".empty-title").textContent === "Nothing matches"`)
	t.until(`document.querySelector("[data-announcer]").textContent === "Nothing matches"`)
	t.click(".empty a[data-in-place]")
	t.until(`location.search === "" && window.same && document.getElementById("facet-q").value === ""`)
}

func chooses(t tab) {
	t.open("/deliveries")
	t.until(`document.querySelector("[data-choose-action]").disabled`)
	t.click("[data-choose-all]")
	t.until(`!document.querySelector("[data-choose-action]").disabled && /^\d+ selected$/.test(document.querySelector("[data-choose-count]").textContent)`)
	t.do(`document.querySelector("tbody input[type=checkbox]").click()`)
	t.until(`document.querySelector("[data-choose-all]").indeterminate`)
}

func follows(t tab) {
	t.open("/deliveries")
	t.away() // rows wait under a pointer as well, wherever the last click has left it
	t.until(`document.querySelector("tbody tr").id === "dlv_new" && document.querySelector(".live").dataset.state === "open"`)
	// Rows do not move under the focus: the next one waits until it has left.
	t.do(`document.getElementById("dlv_new").remove(); document.querySelector(".row-link").focus(); document.querySelector("[data-live-switch]").click()`)
	t.until(`document.querySelector(".live").dataset.state === "off"`)
	t.do(`document.querySelector("[data-live-switch]").click()`)
	t.until(`document.querySelector("[data-live-waiting]").textContent === "1 new" && !document.getElementById("dlv_new")`)
	t.do(`document.activeElement.blur()`)
	t.until(`document.querySelector("tbody tr").id === "dlv_new" && document.querySelector("[data-live-waiting]").textContent === ""`)
	t.click("[data-live-switch]")
	t.until(`document.querySelector(".live").dataset.state === "off"`)
}

func confirms(t tab, posted chan string) {
	t.open(path.Endpoint("ep_1"))
	t.click(`a[href$="/pause"]`)
	t.until(`document.querySelector("dialog[open] h1")?.textContent === "Pause endpoint"`)
	t.keys(kb.Escape)
	t.until(`!document.querySelector("dialog[open]") && document.activeElement.href.endsWith("/pause")`)
	t.keys(kb.Enter)
	t.until(`!!document.querySelector("dialog[open]")`)
	// What is left of that key press does nothing here.
	t.do(`window.sent = 0; document.addEventListener("submit", () => window.sent++, { capture: true })`)
	held := true
	enter := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeChar, Key: "Enter", Code: "Enter", Text: "\r", UnmodifiedText: "\r", WindowsVirtualKeyCode: 13}
	t.press(enter)
	enter.Type, enter.AutoRepeat = input.DispatchKeyEventTypeKeyDown, &held
	t.press(enter)
	t.until(`window.sent === 0 && document.activeElement.closest("dialog[open]") !== null`)
	t.click("dialog[open] button[type=submit]")
	select {
	case form := <-posted:
		if form != path.EndpointPause(pagesEndpoint())+" " {
			t.Errorf("posted %q", form)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("nothing was posted")
	}
	t.arrives("#facet-q")
}

// pagesEndpoint is the id of the endpoint that the fixtures' confirmations are about.
func pagesEndpoint() string {
	for _, f := range pages.Fixtures() {
		if row, ok := f.Page.(pages.Endpoint); ok {
			return row.Head.Endpoint.ID
		}
	}
	return ""
}

func shortcuts(t tab) {
	t.open(path.Endpoint("ep_1"))
	t.keys("?")
	t.until(`document.querySelector("#shortcuts[open]")?.textContent.includes("Deliveries") === true`)
	t.keys(kb.Escape)
	t.until(`!document.querySelector("#shortcuts[open]")`)
	// Two keys belong together if they come within 1.2 s of each other, which a busy machine does not always manage.
	for range 5 {
		t.keys("gd")
		if t.becomes(`document.querySelector("#facet-q") !== null`, 5*time.Second) == nil {
			break
		}
	}
	t.arrives("#facet-q")
	t.until(`document.querySelector(".live").dataset.state === "open"`) // the scripts have run
	t.keys("j")
	t.until(`document.activeElement.className === "row-link"`)
	for range 10 { // to the first that can be chosen
		if t.becomes(`!!document.activeElement.closest("tr")?.querySelector("input")`, time.Second) == nil {
			break
		}
		t.keys("j")
	}
	t.keys("x")
	t.until(`document.querySelector("[data-choose-count]").textContent === "1 selected"`)
	t.keys("/")
	t.until(`document.activeElement.id === "facet-q"`)
	t.keys("gd")
	// The protocol types the slash even though the script has taken the key.
	t.until(`document.getElementById("facet-q").value.endsWith("gd")`)
}

func copies(t tab) {
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		permit := browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted}
		if _, err := chromedp.CallBrowser(t.ctx, browser.SetPermission, permit); err != nil {
			t.Fatal(err)
		}
	}
	t.open("/deliveries/dlv_1")
	clipboard := func(want string) {
		t.Helper()
		t.until(`document.querySelector("[data-announcer]").textContent === "Copied"`)
		got, err := chromedp.Run(t.ctx, chromedp.Evaluate[string]("navigator.clipboard.readText()", chromedp.EvalAwaitPromise))
		if err != nil || got != want {
			t.Errorf("copied %q (%v), want %q", got, err, want)
		}
		t.do(`document.querySelector("[data-announcer]").textContent = ""`)
	}
	t.click(`[aria-label="Copy event id"]`)
	id, err := chromedp.Run(t.ctx, chromedp.Evaluate[string](`document.querySelector('[aria-label="Copy event id"]').dataset.copy`))
	if err != nil || len(id) != 30 {
		t.Fatal(id, err)
	}
	clipboard(id)
	t.click(`a[data-copy-from$="/curl"]`)
	clipboard("curl -X POST")
}

func narrows(t tab) {
	t.open("/endpoints/new")
	t.do(`document.getElementById("types-search").focus()`)
	t.keys("Loaded")
	t.until(`[...document.querySelectorAll("[data-narrow-item]")].filter((e) => e.checkVisibility()).length === 1 && document.querySelectorAll("[data-narrow-group][hidden]").length === 1`)
}

// times holds the script's words against ui.Clock's, on both sides of each border between units.
func times(t tab) {
	t.open(path.Endpoint("ep_1"))
	now := time.Now()
	clock := ui.Clock{Now: now, Zone: time.UTC}
	for _, gap := range []time.Duration{90 * time.Minute, -90 * time.Minute, 30 * time.Minute, 47*time.Hour + 30*time.Minute, 50 * time.Hour, -100 * time.Hour, 30 * time.Hour} {
		moment := clock.Moment(now.Add(-gap - sign(gap)*10*time.Second))
		t.do(`{const e = document.createElement("time"); e.id = "probe"; e.dateTime = ` + strconv.Quote(moment.Datetime) + `; e.dataset.relative = ""; document.getElementById("probe")?.remove(); document.body.append(e)}`)
		t.until(`document.getElementById("probe").textContent === ` + strconv.Quote(moment.Relative))
	}
}

func sign(d time.Duration) time.Duration {
	if d < 0 {
		return -1
	}
	return 1
}

// TestWithoutScripts: what needs scripts is not there, and what matters still works.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	browserContext := start(t)
	base, posted := dashboard(t)
	page := tab{t, browserContext, base}
	if _, err := chromedp.Call(browserContext, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	resize(t, browserContext, 360, 800)
	page.open("/deliveries?status=undelivered")
	page.click("tbody input[type=checkbox]")
	page.click("[data-choose-action]")
	select {
	case form := <-posted:
		if form == "/deliveries/resend " || form[:len("/deliveries/resend delivery=dlv_")] != "/deliveries/resend delivery=dlv_" {
			t.Errorf("posted %q", form)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("nothing was posted")
	}
	page.arrives(".pager")
	page.open(path.Endpoint("ep_1"))
	page.click("[popovertarget=navigation]")
	page.click(`#navigation a[href="/deliveries"]`)
	page.arrives("#facet-q")
	page.until(`document.querySelector("[data-live-switch]")?.checkVisibility() !== true`)
}
