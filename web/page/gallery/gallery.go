// Package gallery shows every component and every page in every state, with fixed data, under /dev/gallery/.
// It is for development: whoever changes a template or a style looks here at 360, 768 and 1,440 pixels, in
// both themes (?theme=dark), before and after.
package gallery

import (
	"bytes"
	"net/http"

	"github.com/a-h/templ"

	"waybill/web/page"
	"waybill/web/path"
)

// policy is the content security policy that pages must live under; the gallery sends the strictest that the
// dashboard has, so that a violation shows here first.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Handler answers under path.Gallery.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path.Gallery()+"{$}", func(w http.ResponseWriter, r *http.Request) {
		show(w, r, index(groups()))
	})
	mux.HandleFunc("GET "+path.Gallery()+"components", func(w http.ResponseWriter, r *http.Request) {
		show(w, r, components())
	})
	for _, fixture := range page.Fixtures() {
		mux.HandleFunc("GET "+path.GalleryPage(fixture.Name, fixture.State), func(w http.ResponseWriter, r *http.Request) {
			show(w, r, fixture.Page.Page(fixture.Frame))
		})
	}
	return mux
}

// show prints a page whose clock stands still: the fixtures' day is not today, and their streams do not exist.
func show(w http.ResponseWriter, r *http.Request, content templ.Component) {
	var buffer bytes.Buffer
	if err := content.Render(r.Context(), &buffer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	frozen := "<html data-frozen"
	if theme := r.URL.Query().Get("theme"); theme == "dark" || theme == "light" {
		frozen += ` data-theme="` + theme + `"`
	}
	html := bytes.Replace(buffer.Bytes(), []byte("<html"), []byte(frozen), 1)
	html = bytes.ReplaceAll(html, []byte(" data-live="), []byte(" data-live-off="))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	_, _ = w.Write(html)
}

// group is a page with its states.
type group struct {
	Name   string
	States []string
}

func groups() []group {
	var all []group
	for _, fixture := range page.Fixtures() {
		if len(all) == 0 || all[len(all)-1].Name != fixture.Name {
			all = append(all, group{Name: fixture.Name})
		}
		last := &all[len(all)-1]
		last.States = append(last.States, fixture.State)
	}
	return all
}
