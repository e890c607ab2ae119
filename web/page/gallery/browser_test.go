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
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"waybill/assets"
	"waybill/e2e"
	pages "waybill/web/page"
	"waybill/web/page/gallery"
	"waybill/web/path"
)

var (
	shots = flag.String("shots", "", "folder for a picture of each page at each width in both themes")
	only  = flag.String("only", "", "comma-separated parts of page names to walk; all if empty")
	most  = flag.Int64("tall", 2600, "tallest picture in pixels")
)

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
				wrong, err := chromedp.Run(browser, chromedp.Evaluate[string](e2e.AuditScript))
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
	// A browser that never answers fails the test that asked it, long before all tests are given up.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
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
