package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
)

const (
	heartbeat   = 15 * time.Second // shorter than the patience of proxies
	writeWithin = 10 * time.Second // or the reader is gone
	streamLife  = 30 * time.Minute // then the browser connects anew, perhaps to another process
	reconnect   = 3 * time.Second
	sinceMargin = 2 * time.Second // clocks of several machines have a part in what since is compared with

	// What a page writes into its stream's address: when it was made, in Unix milliseconds, or the version that it shows.
	sinceName   = "since"
	versionName = "v"
)

// stream answers with server-sent events (HTML Living Standard, section 9.2) about what key names, until the reader leaves, the session ends
// or the program does.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request, caller account.Caller, key string, look look) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return fault.New(fault.Forbidden, "Live updates are for our own pages.")
	}
	since, version := startOf(r)
	// The look goes on in the hub, which knows no request.
	own := func(ctx context.Context) ([]item, error) { return look(db.AsTenant(ctx, caller.Tenant())) }
	s, err := d.live.open(caller.ID, caller.Tenant()+" "+key, own, since, version)
	if err != nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, fault.From(err).Detail, http.StatusServiceUnavailable)
		return nil
	}
	defer d.live.end(s)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)

	out := http.NewResponseController(w)
	send := func(text string) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeWithin)) // where there is none, the connection's own end has to do
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send(fmt.Sprintf("retry: %d\n\n", reconnect.Milliseconds())) {
		return nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	over := time.NewTimer(streamLife)
	defer over.Stop()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-over.C:
			return nil
		case <-beat.C:
			if !send(": beat\n\n") {
				return nil
			}
		case news, open := <-s.news:
			if !open || !send(events(news, d.Now())) {
				return nil
			}
		}
	}
}

// startOf reads from where a stream is to tell: from its last event when it comes back, else from the page.
func startOf(r *http.Request) (since time.Time, version string) {
	query := r.URL.Query()
	from := cmp.Or(r.Header.Get("Last-Event-ID"), query.Get(versionName), query.Get(sinceName))
	if ms, err := strconv.ParseInt(from, 10, 64); err == nil {
		return time.UnixMilli(ms).Add(-sinceMargin), ""
	}
	return time.Time{}, from
}

// events writes news as events whose id is what startOf reads: the time, or the version of what is watched as a whole.
func events(news []item, now time.Time) string {
	var text strings.Builder
	for _, it := range news {
		name, id := "row", strconv.FormatInt(now.UnixMilli(), 10)
		if it.HTML == "" {
			name, id = "changed", cmp.Or(it.Version, id)
		}
		text.WriteString("id: " + id + "\nevent: " + name + "\n")
		for line := range strings.SplitSeq(it.HTML, "\n") {
			text.WriteString("data: " + strings.ReplaceAll(line, "\r", "") + "\n")
		}
		text.WriteString("\n")
		if name == "changed" {
			break // one reload makes up for all
		}
	}
	return text.String()
}
