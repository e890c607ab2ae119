package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// endpointName is an endpoint as lists show it: without user, password and query, which may hold secrets.
func endpointName(id, address, description string) page.EndpointName {
	name := page.EndpointName{ID: id, Name: description}
	parsed, err := url.Parse(address)
	if err != nil {
		return name
	}
	name.Host, name.Path = parsed.Host, parsed.EscapedPath()
	if parsed.RawQuery != "" {
		name.Path += "?…"
	}
	return name
}

func nameOf(e endpoint.Endpoint) page.EndpointName { return endpointName(e.ID, e.URL, e.Description) }

// shownURL is an endpoint's URL with what may be secret in it left out (CASES B39).
func shownURL(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	shown := parsed.Scheme + "://"
	if parsed.User != nil {
		shown += "…@"
	}
	shown += parsed.Host + parsed.EscapedPath()
	if parsed.RawQuery != "" {
		names := []string{}
		for pair := range strings.SplitSeq(parsed.RawQuery, "&") {
			name, _, _ := strings.Cut(pair, "=")
			names = append(names, name+"=…")
		}
		shown += "?" + strings.Join(names, "&")
	}
	return shown
}

// endpointStamp says what state an endpoint is in, and since when and why.
func endpointStamp(v view, e endpoint.Endpoint) (ui.Stamp, string) {
	since := v.clock.Time(e.StateAt)
	switch {
	case e.State == endpoint.Paused:
		return ui.Stamp{Tone: ui.Hold, Word: "Paused"}, "by " + by(e.StateBy) + " since " + since
	case e.State == endpoint.Disabled && e.Reason == "gone":
		return ui.Stamp{Tone: ui.Mute, Word: "Disabled"}, "by us: your server answered 410 Gone, " + since
	case e.State == endpoint.Disabled && e.Reason == "failing":
		return ui.Stamp{Tone: ui.Mute, Word: "Disabled"}, "by us: every attempt failed for days, " + since
	case e.State == endpoint.Disabled:
		return ui.Stamp{Tone: ui.Mute, Word: "Disabled"}, "by " + by(e.StateBy) + " since " + since
	case e.VerifiedAt == nil:
		return ui.Stamp{Tone: ui.Wait, Word: "Unverified"}, "no request was accepted yet"
	}
	return ui.Stamp{Tone: ui.Good, Word: "Active"}, ""
}

// head is what all tabs of an endpoint show above them.
func (d *Dashboard) head(ctx context.Context, v view, e endpoint.Endpoint) (page.EndpointHead, error) {
	var secrets []endpoint.Secret
	var health map[string]delivery.Health
	if err := together(ctx, func(ctx context.Context) (err error) {
		secrets, err = d.Endpoints.Secrets(ctx, v.caller, e.ID)
		return err
	}, func(ctx context.Context) (err error) {
		health, err = d.health(ctx, v.caller, []string{e.ID})
		return err
	}); err != nil {
		return page.EndpointHead{}, err
	}
	last, err := d.lastFailure(ctx, v, e, health[e.ID])
	if err != nil {
		return page.EndpointHead{}, err
	}
	return headOf(v, e, secrets, health[e.ID], last), nil
}

// headOf makes the head; last is the verdict of the endpoint's last failure, or nil.
func headOf(v view, e endpoint.Endpoint, secrets []endpoint.Secret, health delivery.Health, last *verdict.Verdict) page.EndpointHead {
	h := page.EndpointHead{
		Endpoint: nameOf(e), URL: shownURL(e.URL), Active: e.State == endpoint.Active, MayManage: may(v.caller, account.EndpointsWrite),
	}
	if len(secrets) > 1 {
		h.Secrets = strconv.Itoa(len(secrets))
	}
	h.Stamp, h.Reason = endpointStamp(v, e)
	if stamp, reason, yes := failing(v, e, health, last); yes {
		h.Stamp, h.Reason = stamp, reason
	}
	if h.Reason == "" && e.VerifiedAt != nil {
		h.Reason = "verified on " + v.clock.Day(*e.VerifiedAt)
	}
	h.Alert = alert(v, e, health, last)
	if f, yes := failureOf(e, health); yes {
		h.Why = f.words(last)
	}
	return h
}

// alert is the banner of an endpoint that is off or failing: what that means for its events, and how it ends.
func alert(v view, e endpoint.Endpoint, h delivery.Health, last *verdict.Verdict) *ui.Banner {
	if e.State == endpoint.Active {
		return failingAlert(v, e, h, last)
	}
	banner := &ui.Banner{Tone: ui.Hold, Title: "This endpoint is " + string(e.State), Text: "Its events are held, not lost."}
	switch e.Reason {
	case "gone":
		banner.Title = "Your server said that it is gone for good (410), so we stopped sending"
	case "failing":
		banner.Title = "Every attempt failed for days, so we stopped sending"
	}
	if may(v.caller, account.EndpointsWrite) {
		banner.Actions = []ui.Link{{Text: "Enable endpoint", Href: path.EndpointEnable(e.ID)}}
	}
	return banner
}

// failingAlert is the banner of an active endpoint whose attempts fail.
func failingAlert(v view, e endpoint.Endpoint, h delivery.Health, last *verdict.Verdict) *ui.Banner {
	f, yes := failureOf(e, h)
	if !yes {
		return nil
	}
	words := f.words(last)
	title := words.Title
	if !f.all(e, h) { // else nobody looked further back
		title += ", since " + v.clock.Time(f.since)
	}
	banner := &ui.Banner{
		Tone: ui.Bad, Title: title,
		Text:    words.Happened + " " + ui.Count(int64(f.count), "attempt has", "attempts have") + " failed in a row" + whatFollows(v, e, h),
		Actions: []ui.Link{{Text: "See the last attempts", Href: path.Deliveries(path.DeliveryFilter{Endpoint: e.ID})}},
	}
	if help := page.HelpLink(words.Help, e.ID); help.Href != "" {
		banner.Actions = append(banner.Actions, help)
	}
	return banner
}

// whatFollows ends the sentence that an endpoint fails: how it is tried again, and when that ends.
func whatFollows(v view, e endpoint.Endpoint, h delivery.Health) string {
	text := "; each delivery is tried again on its schedule."
	if e.Health.State == endpoint.Open {
		text = ". What is due waits and uses none of its attempts"
		if n := int64(h.Waiting.N); n > 0 && !h.Waiting.More {
			text += " (" + ui.Count(n, "delivery", "deliveries") + ")"
		}
		text += "; one request at a time tries whether your server is back"
		if e.Health.NextProbeAt != nil && e.Health.NextProbeAt.After(v.clock.Now) {
			text += ", the next at " + v.clock.Time(*e.Health.NextProbeAt)
		}
		text += "."
	}
	if e.Health.DisableAt != nil {
		text += " Without a success the endpoint is disabled at " + v.clock.Time(*e.Health.DisableAt) + "."
	}
	return text
}

// tab reads the endpoint that a tab's address names, and what stands above the tab.
func (d *Dashboard) tab(r *http.Request, caller account.Caller) (view, endpoint.Endpoint, page.EndpointHead, error) {
	v, err := d.view(r, caller)
	if err != nil {
		return v, endpoint.Endpoint{}, page.EndpointHead{}, err
	}
	e, err := d.Endpoints.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return v, e, page.EndpointHead{}, err
	}
	head, err := d.head(r.Context(), v, e)
	return v, e, head, err
}
