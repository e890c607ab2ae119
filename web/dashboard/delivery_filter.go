package dashboard

import (
	"strconv"
	"time"

	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/web/path"
)

// filterNames maps the names that delivery's operations use for the parts of a filter to what the page calls them.
var filterNames = map[string]string{
	"endpoint_id": "Endpoint", "event_id": "Event id", "resource_id": "Resource or event id", "search": "Resource or event id", "type": "Event type",
	"status": "Outcome", "code": "Answer", "trigger": "Sent because", "slower_than": "Slower than", "since": "From", "until": "To",
}

// ranges are the presets of the time facet.
var ranges = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

// filterOf is the operation's filter of what an address says. What cannot be understood is an Invalid fault: a mistyped filter must not
// show everything.
func filterOf(v view, f path.DeliveryFilter) (delivery.Filter, error) {
	out := delivery.Filter{EndpointID: f.Endpoint, Search: f.Search, Type: f.Type, Status: f.Status, Code: f.Code, Trigger: f.Trigger}
	wrong := fault.New(fault.Invalid, "A filter is not valid.")
	if f.Slower != "" {
		ms, err := strconv.Atoi(f.Slower)
		if err != nil || ms < 0 || ms > int(time.Hour.Milliseconds()) {
			wrong.Field("slower_than", "must be a number of milliseconds")
		}
		out.Slower = time.Duration(max(ms, 0)) * time.Millisecond
	}
	span, known := ranges[f.Range]
	switch {
	case f.Range == "":
	case known:
		out.Since = v.clock.Now.Add(-span)
	case f.Range != "custom":
		wrong.Field("since", "must be one of the ranges that are offered")
	default:
		var ok bool
		if out.Since, ok = instant(v, f.From); !ok {
			wrong.Field("since", "must be a date and time")
		}
		if out.Until, ok = instant(v, f.To); !ok {
			wrong.Field("until", "must be a date and time")
		}
	}
	return out, wrong.OrNil()
}

// instant reads a time as a form sends it, in the tenant's zone, or as RFC 3339; empty is no limit.
func instant(v view, text string) (time.Time, bool) {
	if text == "" {
		return time.Time{}, true
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, v.clock.Zone); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
