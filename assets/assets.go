// Package assets holds the stylesheet, scripts and pictures of the pages, embedded in the program.
//
// It promises that a file's address names its content: Path gives /assets/<hash>/<name>, where the hash
// covers every file, so that a browser may keep what it has for a year and relative addresses inside a
// script or a stylesheet go on working. The style files are joined into one, css/app.css, and everything
// that is text is compressed once, when the program starts.
package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed css js images
var files embed.FS

// Prefix is where Handler is to be mounted.
const Prefix = "/assets/"

// Stylesheet is the name of the joined style files.
const Stylesheet = "css/app.css"

// year is long enough for "for ever"; RFC 8246 lets a browser skip even the question.
const immutable = "public, max-age=31536000, immutable"

// kinds are the content types by file ending; a file of another kind stops the start.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

type asset struct {
	kind         string
	plain, small []byte
}

var all, hash = load()

// Path is the address of the named file ("js/app.js", "images/icons.svg", Stylesheet). An unknown name is a
// mistake in a template and panics, so the first test that renders the page shows it.
func Path(name string) string {
	if _, ok := all[name]; !ok {
		panic(fmt.Sprintf("assets: no file %q", name))
	}
	return Prefix + hash + "/" + name
}

// Size is the number of bytes of the named file, uncompressed, or 0 if there is none.
func Size(name string) int { return len(all[name].plain) }

// Names lists what can be asked for, sorted.
func Names() []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Handler answers GET and HEAD under Prefix. An address with another program version's hash gets today's
// file, uncached: during a rolling deployment a page may meet the assets of its neighbour.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		version, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
		file, ok := all[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", file.kind)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Vary", "Accept-Encoding")
		h.Set("Cache-Control", immutable)
		if version != hash {
			h.Set("Cache-Control", "no-cache")
		}
		body := file.plain
		if acceptsGzip(r.Header.Get("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			body = file.small
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(body)
		}
	})
}

// acceptsGzip reads an Accept-Encoding header (RFC 9110, section 12.5.3) as far as gzip is concerned.
func acceptsGzip(header string) bool {
	star := false
	for part := range strings.SplitSeq(header, ",") {
		coding, parameter, _ := strings.Cut(part, ";")
		weight, weighted := strings.CutPrefix(strings.ReplaceAll(parameter, " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		wanted := !weighted || (err == nil && q > 0)
		switch strings.TrimSpace(coding) {
		case "gzip":
			return wanted
		case "*":
			star = wanted
		}
	}
	return star
}

func load() (map[string]asset, string) {
	plain := map[string][]byte{Stylesheet: stylesheet()}
	must(fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".css" {
			return err
		}
		plain[name], err = files.ReadFile(name)
		if path.Ext(name) == ".js" {
			plain[name] = uncommented(plain[name])
		}
		return err
	}))
	loaded, sum := make(map[string]asset, len(plain)), sha256.New()
	names := make([]string, 0, len(plain))
	for name := range plain {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		kind, ok := kinds[path.Ext(name)]
		if !ok {
			panic(fmt.Sprintf("assets: no content type for %q", name))
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(plain[name]))
		sum.Write(plain[name])
		loaded[name] = asset{kind: kind, plain: plain[name], small: compress(plain[name])}
	}
	return loaded, hex.EncodeToString(sum.Sum(nil))[:16]
}

// stylesheet joins the style files: the order of the layers first, then the files in the order of their
// names, which no longer matters once the layers are named.
func stylesheet() []byte {
	var joined bytes.Buffer
	joined.WriteString("@layer reset,tokens,base,layout,components;")
	must(fs.WalkDir(files, "css", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		joined.WriteString(compact(string(text)))
		return err
	}))
	return joined.Bytes()
}

// compact drops comments, line breaks and the spaces that mean nothing from a style sheet. Quoted text stays.
func compact(css string) string {
	var kept strings.Builder
	for {
		before, rest, found := strings.Cut(css, "/*")
		kept.WriteString(before)
		if !found {
			break
		}
		_, css, _ = strings.Cut(rest, "*/")
	}
	var lines strings.Builder
	for line := range strings.Lines(kept.String()) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		lines.WriteString(line)
		if !strings.ContainsAny(line[len(line)-1:], "{};,") {
			lines.WriteByte(' ')
		}
	}
	parts := strings.Split(lines.String(), `"`)
	for i := 0; i < len(parts); i += 2 {
		parts[i] = meaningless.Replace(parts[i])
	}
	return strings.Join(parts, `"`)
}

// meaningless are spaces without which a style sheet says the same. The space before a colon is not among
// them: it is what tells a descendant's pseudo-class from the element's own.
var meaningless = strings.NewReplacer(": ", ":", ", ", ",", " {", "{", "{ ", "{", "; }", "}", " }", "}", "; ", ";")

// uncommented drops the comment lines and the indentation of a script; the scripts have no other comments, no strings
// that look like one, and none that go over several lines.
func uncommented(script []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(script) {
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && !bytes.HasPrefix(trimmed, []byte("//")) {
			kept.Write(trimmed)
			kept.WriteByte('\n')
		}
	}
	return kept.Bytes()
}

func compress(plain []byte) []byte {
	var small bytes.Buffer
	writer, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	must(err)
	_, err = writer.Write(plain)
	must(err)
	must(writer.Close())
	return small.Bytes()
}

// must stops the start: every error here is one of the build, not of the world.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("assets: %v", err))
	}
}
