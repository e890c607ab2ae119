package web

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"

	"waybill/app/notice"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// inlineStyle is what a mail program that knows no styles does not see.
var inlineStyle = regexp.MustCompile(` style="[^"]*"`)

// samplePolicy is that of the development pages of mails: as every page's, and a mail's HTML in a frame of its own.
const samplePolicy = policy + "; frame-src 'self'"

// sampleHTMLPolicy lets a mail's HTML show itself, in our own frame alone, and do nothing.
const sampleHTMLPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-popups"

// mailSamples shows every kind of mail with fixed data. It is for development.
func mailSamples(base string) http.Handler {
	samples := notice.Samples()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path.MailSamples()+"{$}", func(w http.ResponseWriter, r *http.Request) {
		sheet := page.MailSamples{}
		for _, kind := range slices.Sorted(maps.Keys(samples)) {
			sheet.Kinds = append(sheet.Kinds, page.MailRow{ID: kind, Subject: samples[kind].Subject})
		}
		showSample(w, r, sheet)
	})
	mux.HandleFunc("GET "+path.MailSamples()+"{kind}", func(w http.ResponseWriter, r *http.Request) {
		sample, ok := samples[r.PathValue("kind")]
		made, err := notice.Render(sample, base)
		if !ok || err != nil {
			http.NotFound(w, r)
			return
		}
		showSample(w, r, page.MailSample{Kind: r.PathValue("kind"), Subject: made.Subject, Text: made.Text, HTML: true})
	})
	mux.HandleFunc("GET "+path.MailSamples()+"{kind}/html", func(w http.ResponseWriter, r *http.Request) {
		sample, ok := samples[r.PathValue("kind")]
		made, err := notice.Render(sample, base)
		if !ok || err != nil {
			http.NotFound(w, r)
			return
		}
		if r.URL.Query().Has("plain") {
			made.HTML = inlineStyle.ReplaceAllString(made.HTML, "")
		}
		header := w.Header()
		header.Set("Content-Security-Policy", sampleHTMLPolicy)
		header.Set("X-Frame-Options", "SAMEORIGIN")
		header.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, made.HTML)
	})
	return headers(false, mux)
}

func showSample(w http.ResponseWriter, r *http.Request, sheet page.Page) {
	var buffer bytes.Buffer
	if err := sheet.Page(ui.Frame{}).Render(r.Context(), &buffer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", samplePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = buffer.WriteTo(w)
}
