package dashboard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// overview is the first page: is everything well, and if not, where to look.
func (d *Dashboard) overview(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	span := spanOf(r.URL.Query().Get("range"))
	var endpoints []endpoint.Endpoint
	var health map[string]delivery.Health
	var c charts
	var newest []delivery.Delivery
	if err := together(r.Context(), func(ctx context.Context) (err error) {
		if endpoints, err = d.subscribable(ctx, caller); err == nil {
			health, err = d.health(ctx, caller, idsOf(endpoints))
		}
		return err
	}, func(ctx context.Context) (err error) {
		if d.charted(caller) {
			c, err = d.chart(ctx, v, "", span)
		}
		return err
	}, func(ctx context.Context) (err error) {
		newest, err = d.newest(ctx, caller)
		return err
	}); err != nil {
		return err
	}
	sheet := page.Overview{Range: string(span), NoRollups: true, HasEndpoints: len(endpoints) > 0, Unread: health == nil && len(endpoints) > 0}
	verified, looked := false, 0
	for _, e := range endpoints {
		sheet.Waiting += int64(health[e.ID].Waiting.N)
		sheet.WaitingMore = sheet.WaitingMore || health[e.ID].Waiting.More
		verified = verified || e.VerifiedAt != nil
		var last *verdict.Verdict
		if _, yes := failureOf(e, health[e.ID]); yes && looked < lookedAt {
			looked++
			if last, err = d.lastFailure(r.Context(), v, e, health[e.ID]); err != nil {
				return err
			}
		}
		if item, needs := attention(v, e, health[e.ID], last); needs {
			sheet.Attention = append(sheet.Attention, item)
		}
	}
	slices.SortStableFunc(sheet.Attention, func(a, b page.Attention) int { return cmp.Compare(urgency(a.Stamp), urgency(b.Stamp)) })
	sheet.Undelivered = max(v.frame.Undelivered, 0)
	sheet.Unread = sheet.Unread || v.frame.Undelivered < 0
	sheet.Steps = firstSteps(endpoints, verified)
	if d.charted(caller) && len(endpoints) > 0 {
		sheet.NoRollups, sheet.Unread = false, sheet.Unread || c.Failing
		sheet.Delivered, sheet.Failed, sheet.P50, sheet.P95, sheet.Outcomes, sheet.Times = c.Delivered, c.Failed, rounded(c.P50), rounded(c.P95), c.Outcomes, c.Times
	}
	sheet.Live = withQuery(path.OverviewLive(), versionName, digest("", newest))
	return d.show(w, r, v, http.StatusOK, sheet)
}

// newest is the tenant's last deliveries, by which a page knows that something has changed.
func (d *Dashboard) newest(ctx context.Context, caller account.Caller) ([]delivery.Delivery, error) {
	if !may(caller, account.DeliveriesRead) {
		return nil, nil
	}
	found, err := d.Deliveries.List(ctx, caller, delivery.Filter{}, "", recentRows)
	if unavailable(err) {
		return nil, nil
	}
	return found.Deliveries, err
}

// lookedAt is how many failing endpoints the overview looks at in detail; of more it says what it knows without.
const lookedAt = 8

// attention says what is wrong with an endpoint, why, and the step that helps. last is the verdict of its last failure, or nil.
func attention(v view, e endpoint.Endpoint, h delivery.Health, last *verdict.Verdict) (page.Attention, bool) {
	item := page.Attention{Endpoint: nameOf(e)}
	if stamp, reason, yes := failing(v, e, h, last); yes {
		f, _ := failureOf(e, h)
		words := f.words(last)
		item.Stamp, item.Reason, item.Happened, item.Causes, item.Fixes = stamp, sentence(reason), words.Happened, words.Causes, words.Fixes
		item.Help = page.HelpLink(words.Help, e.ID)
		if h.Waiting.N > 0 {
			item.Reason += " " + waits(h.Waiting)
		}
		item.Action = ui.Link{Text: "See the last attempts", Href: path.Deliveries(path.DeliveryFilter{Endpoint: e.ID})}
		return item, true
	}
	if e.State == endpoint.Active {
		return item, false
	}
	var reason string
	item.Stamp, reason = endpointStamp(v, e)
	item.Reason = item.Stamp.Word + " " + reason + ". Its events are held."
	if may(v.caller, account.EndpointsWrite) {
		item.Action = ui.Link{Text: "Enable…", Href: path.EndpointEnable(e.ID)}
	}
	return item, true
}

// waits is a sentence of its own about what waits.
func waits(waiting delivery.Count) string {
	text := ui.Count(int64(waiting.N), "delivery waits.", "deliveries wait.")
	if waiting.More {
		return "More than " + text
	}
	return text
}

// firstSteps is what a new tenant still has to do; nothing once a server has accepted something.
func firstSteps(endpoints []endpoint.Endpoint, verified bool) []page.Step {
	if verified {
		return nil
	}
	test, secrets := path.Endpoints(), path.Endpoints()
	if len(endpoints) > 0 {
		test, secrets = path.EndpointTest(endpoints[0].ID), path.EndpointSecrets(endpoints[0].ID)
	}
	return []page.Step{
		{Text: "Add the URL of your server", Note: "We check the connection at once and say what is wrong, if anything is.", Href: path.EndpointNew(), Done: len(endpoints) > 0},
		{Text: "Send a test event", Note: "Your server's answer appears on the page.", Href: test},
		{Text: "Check the signature in your code", Note: "So that nobody but us can post events to you.", Href: secrets},
	}
}

// overviewLive says when the overview has changed.
func (d *Dashboard) overviewLive(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return err
	}
	return d.stream(w, r, caller, "overview", func(ctx context.Context) ([]item, error) {
		found, err := d.Deliveries.List(ctx, caller, delivery.Filter{}, "", recentRows)
		if err != nil {
			return nil, err
		}
		return []item{{ID: "overview", Version: digest("", found.Deliveries)}}, nil
	})
}

// hash is a short text that is another one for another text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
