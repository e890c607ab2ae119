package assets_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"waybill/assets"
)

func ask(t *testing.T, method, address string, headers ...string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(method, address, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	assets.Handler().ServeHTTP(recorder, request)
	return recorder.Result()
}

func TestEveryFileIsServedForAYear(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	for _, name := range assets.Names() {
		plain := ask(t, "GET", assets.Path(name))
		body, _ := io.ReadAll(plain.Body)
		if plain.StatusCode != 200 || len(body) == 0 || len(body) != assets.Size(name) {
			t.Errorf("%s: status %d, %d bytes, want %d", name, plain.StatusCode, len(body), assets.Size(name))
		}
		for header, want := range map[string]string{
			"Content-Type": kinds[path.Ext(name)], "Cache-Control": "public, max-age=31536000, immutable",
			"X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding", "Content-Encoding": "",
		} {
			if got := plain.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		small := ask(t, "GET", assets.Path(name), "Accept-Encoding", "br, gzip")
		if small.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: not compressed", name)
			continue
		}
		reader, err := gzip.NewReader(small.Body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if unpacked, err := io.ReadAll(reader); err != nil || !bytes.Equal(unpacked, body) {
			t.Errorf("%s: compressed is not the same as plain (%v)", name, err)
		}
	}
}

func TestAnotherVersionsAddressIsNotKept(t *testing.T) {
	t.Parallel()
	answer := ask(t, "GET", assets.Prefix+"0123456789abcdef/"+assets.Stylesheet)
	if answer.StatusCode != 200 || answer.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("status %d, cache-control %q", answer.StatusCode, answer.Header.Get("Cache-Control"))
	}
}

func TestWhatIsNotThereAndWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]int{
		assets.Prefix: 404, assets.Path("js/app.js") + "x": 404, assets.Prefix + "x/css/tokens.css": 404,
		assets.Prefix + "x/../assets.go": 404,
	} {
		if got := ask(t, "GET", address).StatusCode; got != want {
			t.Errorf("%s: %d, want %d", address, got, want)
		}
	}
	if got := ask(t, "POST", assets.Path("js/app.js")); got.StatusCode != 405 || got.Header.Get("Allow") == "" {
		t.Errorf("POST: %d", got.StatusCode)
	}
	head := ask(t, "HEAD", assets.Path("js/app.js"))
	if body, _ := io.ReadAll(head.Body); len(body) != 0 || head.Header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d bytes, content-length %s", len(body), head.Header.Get("Content-Length"))
	}
}

func TestCompressionIsOnlyForThoseWhoWantIt(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"": "", "br": "", "gzip": "gzip", "gzip;q=0": "", "*": "gzip", "*;q=0": "", "gzip;q=0, *": "",
		"*;q=0, gzip;q=0.5": "gzip", "deflate, gzip; q=1.0": "gzip", "gzip;q=nonsense": "",
	} {
		if got := ask(t, "GET", assets.Path("js/app.js"), "Accept-Encoding", header).Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestAnUnknownNamePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic for a file that does not exist")
		}
	}()
	assets.Path("js/nowhere.js")
}

func TestScriptsStaySmall(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("js/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines >= 80 {
			t.Errorf("%s has %d lines; a module has fewer than 80", file, lines)
		}
		for _, imported := range regexp.MustCompile(`from "\./([a-z]+\.js)"|import "\./([a-z]+\.js)"`).FindAllSubmatch(text, -1) {
			name := string(imported[1]) + string(imported[2])
			if assets.Size("js/"+name) == 0 {
				t.Errorf("%s imports %s, which does not exist", file, name)
			}
		}
	}
}

// TestEveryLayerIsNamed keeps styles out of the unnamed layer, which would beat all others.
func TestEveryLayerIsNamed(t *testing.T) {
	t.Parallel()
	layers := regexp.MustCompile(`(?m)^@layer (reset|tokens|base|layout|components) \{$`)
	err := filepath.WalkDir("css", func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			outside := line != "" && line[0] != ' ' && line[0] != '}' && line[0] != '/' && line[0] != '*'
			if outside && !layers.MatchString(line) {
				t.Errorf("%s: outside a named layer: %s", file, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
