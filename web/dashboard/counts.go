package dashboard

import (
	"context"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/sender"
	"waybill/app/verdict"
	"waybill/web/ui"
)

// days says a number of whole days.
func days(span time.Duration) string { return ui.Count(int64(span/(24*time.Hour)), "day", "days") }

// kept is how long the history is kept, in words.
func (d *Dashboard) kept() string { return days(d.Policies.Retention().Deliveries) }

// count is how many deliveries match; -1 when it cannot be said exactly.
func (d *Dashboard) count(ctx context.Context, caller account.Caller, filter delivery.Filter) int64 {
	count, err := d.Deliveries.Count(ctx, caller, filter)
	if err != nil || count.More {
		if err != nil {
			d.Log.WarnContext(ctx, "deliveries could not be counted for a question", "error", err)
		}
		return -1
	}
	return int64(count.N)
}

// waiting is how many deliveries of an endpoint are pending.
func (d *Dashboard) waiting(ctx context.Context, caller account.Caller, endpointID string) int64 {
	return d.count(ctx, caller, delivery.Filter{EndpointID: endpointID, Status: string(delivery.Pending)})
}

// held is how many deliveries of an endpoint are held.
func (d *Dashboard) held(ctx context.Context, caller account.Caller, endpointID string) int64 {
	return d.count(ctx, caller, delivery.Filter{EndpointID: endpointID, Status: string(delivery.Held)})
}

// parkedOf is how many deliveries of an endpoint are held or undelivered.
func (d *Dashboard) parkedOf(ctx context.Context, caller account.Caller, endpointID string) int64 {
	held := d.held(ctx, caller, endpointID)
	undelivered := d.count(ctx, caller, delivery.Filter{EndpointID: endpointID, Status: string(delivery.Undelivered)})
	if held < 0 || undelivered < 0 {
		return -1
	}
	return held + undelivered
}

// publicClass is how an attempt ended in the word that a tenant is told (CASES B43).
func publicClass(class string) verdict.Class { return verdict.Class(sender.Class(class).Public()) }

// secure says whether browsers reach us over https.
func (d *Dashboard) secure() bool { return strings.HasPrefix(d.URL, "https://") }
