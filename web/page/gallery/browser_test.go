package gallery_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"waybill/assets"
	pages "waybill/web/page"
	"waybill/web/page/gallery"
	"waybill/web/path"
)

var (
	shots = flag.String("shots", "", "folder for a picture of each page at each width in both themes")
	only  = flag.String("only", "", "comma-separated parts of page names to walk; all if empty")
	most  = flag.Int64("tall", 2600, "tallest picture in pixels")
)

// walk runs in the page and lists what is wrong with how it looks: wider than the window, or text whose
// contrast with what is painted behind it is below WCAG 2.2 AA.
const walk = `(() => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) {
    for (const e of document.querySelectorAll("body *")) {
      const box = e.getBoundingClientRect();
      if (box.right > innerWidth + 1 && !e.closest(".table-frame, .code, .tabs")) wrong.push("wider than the page: " + e.tagName + "." + e.className + " ends at " + Math.round(box.right));
    }
    if (!wrong.length) wrong.push("the page scrolls sideways: " + root.scrollWidth);
  }
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = new Map();
  const parse = (color) => {
    if (!parsed.has(color)) {
      canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
      parsed.set(color, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return parsed.get(color);
  };
  const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3]) { layers.push(c); if (c[3] === 255) break; } }
    return layers.reverse().reduce((under, c) => under.map((v, i) => v + (c[i] - v) * c[3] / 255), [255, 255, 255]);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || seen.has(e) || !e.checkVisibility() || e.closest("svg, option, datalist, [disabled], [aria-disabled=true], .visually-hidden")) continue;
    seen.add(e);
    const style = getComputedStyle(e);
    const back = behind(e), front = parse(style.color);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) wrong.push("contrast " + ratio.toFixed(2) + ": " + e.tagName + "." + e.className + " " + texts.currentNode.data.trim().slice(0, 40));
  }
  return wrong.slice(0, 8).join("\n");
})()`

// TestEveryPageInABrowser opens every page state at three widths and in both themes: no sideways scrolling, AA
// contrast of what is really painted, no console error, no violation of the content security policy.
func TestEveryPageInABrowser(t *testing.T) {
	t.Parallel()
	browser := start(t)
	mux := http.NewServeMux()
	mux.Handle(assets.Prefix, assets.Handler())
	mux.Handle(path.Gallery(), gallery.Handler())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	var mu sync.Mutex
	var complaints []string
	complain := func(text string) { mu.Lock(); complaints = append(complaints, text); mu.Unlock() }
	if err := chromedp.Listen(browser, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			complain(fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		case *runtime.EventExceptionThrown:
			complain("exception: " + e.ExceptionDetails.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(browser, log.Enable, struct{}{}); err != nil {
		t.Fatal(err)
	}
	for name, address := range addresses() {
		if err := chromedp.Do(browser, chromedp.Navigate(server.URL+address)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, theme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}
			if _, err := chromedp.Call(browser, emulation.SetEmulatedMedia, media); err != nil {
				t.Fatal(err)
			}
			for _, width := range []int64{360, 768, 1440} {
				if theme == "dark" && width != 1440 && *shots == "" {
					continue // a theme changes colours, not places
				}
				resize(t, browser, width, 900)
				wrong, err := chromedp.Run(browser, chromedp.Evaluate[string](walk))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if wrong != "" {
					t.Errorf("%s, %s, %d wide:\n%s", name, theme, width, wrong)
				}
				picture(t, browser, width, name+"_"+theme)
			}
		}
		mu.Lock()
		for _, complaint := range complaints {
			t.Errorf("%s: the browser says: %s", name, complaint)
		}
		complaints = nil
		mu.Unlock()
	}
}

// addresses are the gallery's pages by the name of their picture.
func addresses() map[string]string {
	all := map[string]string{"components": path.Gallery() + "components", "index": path.Gallery()}
	for _, fixture := range pages.Fixtures() {
		all[fixture.Name+"__"+fixture.State] = path.GalleryPage(fixture.Name, fixture.State)
	}
	if *only == "" {
		return all
	}
	chosen := map[string]string{}
	for name, address := range all {
		for part := range strings.SplitSeq(*only, ",") {
			if strings.Contains(name, part) {
				chosen[name] = address
			}
		}
	}
	return chosen
}

// start gives a browser of the test's own. Without one the test is skipped, but fails where CI says that
// there must be one.
func start(t *testing.T) context.Context {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	switch {
	case program == "" && os.Getenv("CI") == "true":
		t.Fatal("no Chromium on this machine")
	case program == "":
		t.Skip("no Chromium on this machine")
	case testing.Short():
		t.Skip("-short")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	browser, leave := chromedp.NewContext(allocator)
	t.Cleanup(leave)
	return browser
}

func resize(t *testing.T, browser context.Context, width, height int64) {
	t.Helper()
	metrics := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500}
	if _, err := chromedp.Call(browser, emulation.SetDeviceMetricsOverride, metrics); err != nil {
		t.Fatal(err)
	}
}

// picture keeps what the page looks like, if -shots asks for it.
func picture(t *testing.T, browser context.Context, width int64, name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	height, err := chromedp.Run(browser, chromedp.Evaluate[int64]("document.documentElement.scrollHeight"))
	if err != nil {
		t.Fatal(err)
	}
	resize(t, browser, width, min(max(height, 700), *most))
	shot, err := chromedp.Call(browser, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s_%d.png", name, width)), shot.Data, 0o644); err != nil {
		t.Fatal(err)
	}
}
