package e2e

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ErrNoBrowser says that this machine has no Chromium.
var ErrNoBrowser = errors.New("no Chromium on this machine")

// AuditScript is a JavaScript expression that lists what is wrong with a page as it is painted, a line each; empty: nothing.
//
//go:embed audit.js
var AuditScript string

//go:embed find.js
var find string

// Widths are the widths in pixels at which pages are looked at: a telephone, a tablet and a desk. Themes are the colours.
var (
	Widths = []int64{360, 768, 1440}
	Themes = []string{"light", "dark"}
)

// Browser is a real Chromium.
type Browser struct {
	ctx   context.Context // of the browser and of its first tab
	first *Tab
	end   context.CancelFunc
}

// OpenBrowser starts a Chromium that knows hosts by name: {"waybill.localhost": "127.0.0.1:1234"} leads http://waybill.localhost there. Close
// it. The error is ErrNoBrowser where there is none.
func OpenBrowser(ctx context.Context, hosts map[string]string) (*Browser, error) {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		return nil, ErrNoBrowser
	}
	var rules []string
	for name, addr := range hosts {
		rules = append(rules, "MAP "+name+":80 "+addr)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("allow-pre-commit-input", true), // a click on a page that is not painted yet would be thrown away
		chromedp.Flag("host-resolver-rules", strings.Join(rules, ",")))
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	b, first := &Browser{end: end}, &Tab{}
	b.ctx, _ = chromedp.NewContext(allocator, chromedp.WithListener(first.hear)) // ends with its allocator
	first.ctx, b.first = b.ctx, first
	if err := first.watch(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Close ends the browser and returns when it is gone.
func (b *Browser) Close() { b.end() }

// Tab is the first tab of the browser.
func (b *Browser) Tab() *Tab { return b.first }

// Stranger opens a tab that shares no cookie with any other.
func (b *Browser) Stranger() (*Tab, error) {
	t := &Tab{}
	t.ctx, _ = chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(t.hear)) // ends with the browser
	return t, t.watch()
}

// Tab is a tab with words for what somebody does and sees in it. What is pointed at is found by what is written on it, waits until it is there, and
// is really clicked: what lies under something else cannot be. It counts what its user has to do.
type Tab struct {
	Clicks, Keys, Pastes int

	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// watch makes the browser tell what it has to complain about.
func (t *Tab) watch() error {
	if _, err := chromedp.Call(t.ctx, log.Enable, struct{}{}); err != nil {
		return fmt.Errorf("open a tab: %w", err)
	}
	return nil
}

func (t *Tab) hear(event any) {
	said := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			said = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		said = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			said += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			said = "console: "
			for _, one := range e.Args {
				said += string(one.Value) + " "
			}
		}
	}
	if said != "" {
		t.mu.Lock()
		t.complaints = append(t.complaints, said)
		t.mu.Unlock()
	}
}

// Complaints are the console's errors and warnings since the last call: exceptions, violations of the content security policy, answers that
// are errors.
func (t *Tab) Complaints() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.complaints
	t.complaints = nil
	return said
}

// patience is how long a page may take to show what is expected of it, and loading how long to be loaded. What a browser is asked while a page
// gives way to another is sometimes never answered: nothing waits without an end.
const (
	patience = 15 * time.Second
	loading  = 60 * time.Second
)

// Open goes to an address and returns when it is loaded. An answer that is an error is none of this call's.
func (t *Tab) Open(address string) error {
	ctx, cancel := context.WithTimeout(t.ctx, loading)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		return fmt.Errorf("open %s: %w", address, err)
	}
	return nil
}

// evaluate runs a JavaScript expression in the page and reads what it is.
func (t *Tab) evaluate(expression string, out any) error {
	ctx, cancel := context.WithTimeout(t.ctx, patience/3) // an answer takes milliseconds; who waits in Until asks again
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("JSON.stringify("+expression+")"))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), out)
}

// ask asks find.js, whose functions answer by words.
func (t *Tab) ask(function string, out any, arguments ...string) error {
	quoted, err := json.Marshal(append([]string{}, arguments...))
	if err != nil {
		return err
	}
	return t.evaluate(fmt.Sprintf("(%s).%s(...%s) ?? null", find, function, quoted), out)
}

// Until waits for a JavaScript expression to be true, also over a change of pages.
func (t *Tab) Until(what, expression string) error {
	return Until(t.ctx, patience, what, func() (ok bool, err error) { return ok, t.evaluate(expression, &ok) })
}

// Sees waits until the page says each of the texts.
func (t *Tab) Sees(texts ...string) error {
	for _, text := range texts {
		err := Until(t.ctx, patience, fmt.Sprintf("the page says %q", text), func() (ok bool, err error) {
			err = t.ask("says", &ok, text)
			return ok, err
		})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, t.Shows())
		}
	}
	return nil
}

// Shows is the address of the page and all of its words, for an error message.
func (t *Tab) Shows() string {
	var all, address string
	if err := errors.Join(t.ask("all", &all), t.evaluate("location.href", &address)); err != nil {
		return err.Error()
	}
	return address + ": " + all
}

// Text is the text of the first element that a CSS selector finds, once it is there.
func (t *Tab) Text(selector string) (text string, err error) {
	err = Until(t.ctx, patience, "there is "+selector, func() (bool, error) {
		var found *string
		err := t.evaluate(fmt.Sprintf("document.querySelector(%q)?.textContent.trim() ?? null", selector), &found)
		if found != nil {
			text = *found
		}
		return found != nil, err
	})
	return text, err
}

// point waits until find.js knows where something is, and clicks there.
func (t *Tab) point(function, name string) error {
	var at []float64
	err := Until(t.ctx, patience, fmt.Sprintf("%q can be clicked", name), func() (bool, error) {
		at = nil
		err := t.ask(function, &at, name)
		return len(at) == 2, err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, t.Shows())
	}
	t.Clicks++
	return chromedp.Do(t.ctx, chromedp.MouseClickXY(at[0], at[1]))
}

// Click clicks a link, a button or a box to tick by what is written on it.
func (t *Tab) Click(name string) error { return t.point("middleOf", name) }

// Type clicks into the field with this label, takes away what is in it and types.
func (t *Tab) Type(label, text string) error {
	if err := t.point("middleOfField", label); err != nil {
		return err
	}
	return errors.Join(t.selectAll(), t.Press(text))
}

// Paste puts a text where the cursor is, as from the clipboard.
func (t *Tab) Paste(text string) error {
	t.Pastes++
	_, err := chromedp.Call(t.ctx, input.InsertText, input.InsertTextParams{Text: text})
	return err
}

func (t *Tab) selectAll() error {
	return chromedp.Do(t.ctx, chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// Press presses keys, one after the other.
func (t *Tab) Press(keys string) error {
	for _, key := range keys {
		t.Keys++
		if err := chromedp.Do(t.ctx, chromedp.KeyEvent(string(key))); err != nil {
			return err
		}
	}
	return nil
}

// mostTabs is how many times the tabulator is pressed before somebody gives up.
const mostTabs = 120

// TabTo moves the focus by the tabulator until it is on what has this name, and demands that the focus is to be seen there.
func (t *Tab) TabTo(function, name string) error {
	for pressed := range mostTabs {
		var there bool
		if err := t.ask(function, &there, name); err != nil || there && pressed == 0 {
			return err // the page has put the focus there, and browsers show that as they see fit
		}
		if there {
			return t.seen(name)
		}
		if err := t.Press("\t"); err != nil {
			return err
		}
	}
	return fmt.Errorf("%q is not reached by %d presses of the tabulator\n%s", name, mostTabs, t.Shows())
}

func (t *Tab) seen(name string) error {
	var ringed bool
	if err := t.ask("ringed", &ringed); err != nil {
		return err
	}
	if !ringed {
		return fmt.Errorf("the focus on %q cannot be seen", name)
	}
	return nil
}

// Look sets the window's width and the colours that the user prefers. Nothing moves by itself: what is looked at stands still.
func (t *Tab) Look(width, height int64, theme string) error {
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
	_, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, media)
	return errors.Join(err, t.resize(width, height))
}

func (t *Tab) resize(width, height int64) error {
	metrics := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500}
	_, err := chromedp.Call(t.ctx, emulation.SetDeviceMetricsOverride, metrics)
	return err
}

// Audit is what is wrong with the page as it is painted now; empty: nothing.
func (t *Tab) Audit() (string, error) {
	return chromedp.Run(t.ctx, chromedp.Evaluate[string](AuditScript))
}

// Picture keeps what the page looks like, down to tallest pixels, as a PNG file.
func (t *Tab) Picture(file string, width, tallest int64) error {
	var height int64
	if err := t.evaluate("document.documentElement.scrollHeight", &height); err != nil {
		return err
	}
	if err := t.resize(width, min(max(height, 700), tallest)); err != nil {
		return err
	}
	shot, err := chromedp.Call(t.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, shot.Data, 0o644)
}

// Scripts turns the page's scripts off or on, from the next page on.
func (t *Tab) Scripts(on bool) error {
	_, err := chromedp.Call(t.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
	return err
}
