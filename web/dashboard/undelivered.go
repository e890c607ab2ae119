package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// maxGroups is how many groups of parked deliveries stand above the list.
const maxGroups = 10

// parkedWhy says why something is parked, by the reason's word.
var parkedWhy = map[string]string{
	"schedule_exhausted": "Every attempt of the schedule failed", "gone": "Your server answered 410 Gone",
	"configuration_error": "Your server refuses it, and trying again would not help", "test_failed": "A test event that failed",
	"endpoint_paused": "The endpoint was paused", "endpoint_disabled": "The endpoint was disabled", "tenant_suspended": "This account was suspended",
}

func whyParked(reason string) string {
	if words := parkedWhy[reason]; words != "" {
		return words
	}
	return "Parked"
}

// undelivered is what is parked: undelivered, and held by endpoints that are off.
func (d *Dashboard) undelivered(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	sheet := page.Undelivered{
		Endpoint: query.Get("endpoint"), Status: query.Get("status"), Counts: [3]string{"–", "–", "–"}, MayResend: may(caller, account.DeliveriesResend),
	}
	status, err := d.fillParked(r.Context(), v, &sheet, query.Get("cursor"))
	if err != nil {
		return err
	}
	return d.show(w, r, v, status, sheet)
}

func (d *Dashboard) fillParked(ctx context.Context, v view, sheet *page.Undelivered, after string) (int, error) {
	var parked delivery.Parked
	var found delivery.Page
	var endpoints map[string]endpoint.Endpoint
	err := together(ctx, func(ctx context.Context) (err error) {
		parked, err = d.Deliveries.Parked(ctx, v.caller)
		return err
	}, func(ctx context.Context) (err error) {
		found, err = d.listParked(ctx, v.caller, *sheet, after)
		return err
	}, func(ctx context.Context) (err error) {
		endpoints, err = d.endpointsByID(ctx, v.caller)
		return err
	})
	if unavailable(err) {
		sheet.Failed = true
		return http.StatusServiceUnavailable, nil
	}
	if err != nil {
		return 0, err
	}
	var total delivery.Count
	sheet.Counts, total = parkedCounts(parked, sheet.Endpoint, sheet.Status)
	sheet.Matching, sheet.MatchingMore = int64(total.N), total.More
	if sheet.Status == "" && after == "" {
		running, err := d.runningRecoveries(ctx, v.caller)
		if err != nil {
			return 0, err
		}
		sheet.Groups = d.parkedGroups(v, parked, sheet.Endpoint, endpoints, running)
	}
	for _, one := range found.Deliveries {
		row := page.ParkedRow{Delivery: deliveryRow(v, one, endpoints), Why: lower(whyParked(one.Reason)), Until: v.clock.Moment(d.resendUntil(v, endpoints[one.EndpointID], one.CreatedAt))}
		if one.FinishedAt != nil {
			row.Since = v.clock.Moment(*one.FinishedAt)
		}
		sheet.Rows = append(sheet.Rows, row)
	}
	sheet.Shown = counted(len(found.Deliveries), total, after == "")
	if after != "" {
		sheet.First = path.UndeliveredAt(sheet.Endpoint, sheet.Status, "")
	}
	if found.Next != "" {
		sheet.Next = path.UndeliveredAt(sheet.Endpoint, sheet.Status, found.Next)
	}
	return http.StatusOK, nil
}

// listParked is a page of what is parked. Each status is a list of its own; of both together there is the first page, the newest of each.
func (d *Dashboard) listParked(ctx context.Context, caller account.Caller, sheet page.Undelivered, after string) (delivery.Page, error) {
	filter := delivery.Filter{EndpointID: sheet.Endpoint, Status: sheet.Status, Tests: delivery.WithoutTests}
	switch sheet.Status {
	case string(delivery.Undelivered), string(delivery.Held):
		return d.Deliveries.List(ctx, caller, filter, after, pageRows)
	case "":
	default:
		return delivery.Page{}, fault.New(fault.NotFound, "There is no such list.")
	}
	var both delivery.Page
	for _, status := range []delivery.Status{delivery.Undelivered, delivery.Held} {
		filter.Status = string(status)
		found, err := d.Deliveries.List(ctx, caller, filter, "", pageRows)
		if err != nil {
			return delivery.Page{}, err
		}
		both.Deliveries = append(both.Deliveries, found.Deliveries...)
	}
	slices.SortFunc(both.Deliveries, func(a, b delivery.Delivery) int { return cmp.Compare(b.ID, a.ID) })
	both.Deliveries = both.Deliveries[:min(len(both.Deliveries), pageRows)]
	return both, nil
}

// parkedCounts are the numbers of the tabs, and the one of the tab that is open.
func parkedCounts(parked delivery.Parked, endpointID, status string) (texts [3]string, open delivery.Count) {
	counts := [3]delivery.Count{{}, parked.Undelivered, parked.Held}
	if endpointID != "" {
		counts[1], counts[2] = delivery.Count{}, delivery.Count{}
		for _, group := range parked.Groups {
			switch {
			case group.EndpointID != endpointID:
			case group.Status == delivery.Undelivered:
				counts[1].N += group.N
			default:
				counts[2].N += group.N
			}
		}
	}
	counts[0] = delivery.Count{N: counts[1].N + counts[2].N, More: counts[1].More || counts[2].More}
	for i, count := range counts {
		if texts[i] = ui.Number(int64(count.N)); count.More {
			texts[i] = "more than " + texts[i]
		}
	}
	return texts, counts[max(slices.Index([]string{"", string(delivery.Undelivered), string(delivery.Held)}, status), 0)]
}

// parkedGroups says what is parked of which endpoint and why, the largest first.
func (d *Dashboard) parkedGroups(v view, parked delivery.Parked, endpointID string, endpoints map[string]endpoint.Endpoint, running map[string]string) []page.ParkedGroup {
	var groups []page.ParkedGroup
	for _, g := range parked.Groups {
		if endpointID != "" && g.EndpointID != endpointID || len(groups) == maxGroups {
			continue
		}
		group := page.ParkedGroup{
			Endpoint: endpointName(g.EndpointID, g.EndpointURL, g.EndpointName), Stamp: ui.Stamp{Tone: ui.Bad, Word: "Undelivered"},
			Count: ui.Count(int64(g.N), "delivery", "deliveries"), Why: whyParked(g.Reason),
			Until: "the first ages out on " + v.clock.Day(d.resendUntil(v, endpoints[g.EndpointID], g.Oldest)),
		}
		e, known := endpoints[g.EndpointID]
		if address := running[g.EndpointID]; address != "" {
			group.Action = ui.Link{Text: "See the catch-up", Href: address}
		} else if known && e.State == endpoint.Active && may(v.caller, account.DeliveriesResend) {
			group.Action = ui.Link{Text: "Catch up…", Href: path.EndpointRecover(e.ID)}
		}
		if g.Status == delivery.Held {
			group.Stamp = ui.Stamp{Tone: ui.Hold, Word: "Held"}
			if known && e.State == endpoint.Active {
				group.Why += " and is active again; these wait for you to resend them"
			} else if known && may(v.caller, account.EndpointsWrite) {
				group.Action = ui.Link{Text: "Enable…", Href: path.EndpointEnable(e.ID)}
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// runningRecoveries are the addresses of the last catch-ups that still run, by endpoint.
func (d *Dashboard) runningRecoveries(ctx context.Context, caller account.Caller) (map[string]string, error) {
	last, _, err := d.Deliveries.RecoveryList(ctx, caller, "", "", 2*maxTargets)
	running := map[string]string{}
	for _, one := range last {
		if one.State == delivery.RecoveryRunning {
			running[one.EndpointID] = path.EndpointRecovery(one.EndpointID, one.ID)
		}
	}
	return running, err
}

// endpointsByID are the tenant's endpoints, for whoever may see them.
func (d *Dashboard) endpointsByID(ctx context.Context, caller account.Caller) (map[string]endpoint.Endpoint, error) {
	list, err := d.subscribable(ctx, caller)
	return byID(list), err
}

func byID(list []endpoint.Endpoint) map[string]endpoint.Endpoint {
	all := make(map[string]endpoint.Endpoint, len(list))
	for _, e := range list {
		all[e.ID] = e
	}
	return all
}

// resendUntil is until when a delivery that was made at some time can be resent.
func (d *Dashboard) resendUntil(v view, e endpoint.Endpoint, made time.Time) time.Time {
	return made.Add(d.Policies.First(e.Preset, v.tenant.Preset).ResendWindow)
}
