package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/account"
)

// The operational events are Waybill's own, about all tenants' endpoints and deliveries; they go to the platform's tenant for them and to nobody else. Their types stand
// in that tenant's catalog beside the platform's, unless the platform has given one of these names a meaning of its own.

// operationalSince is the day since when the catalog has them.
var operationalSince = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// Parts of the schemas and examples.
const (
	endpointSchema = `"tenant":{"type":"string","description":"Your id of the tenant."},"endpoint":{"type":"object","required":["id","url"],"properties":{"id":{"type":"string"},` +
		`"url":{"type":"string","description":"Without its query."}}}`
	attemptSchema = `"last_attempt":{"type":"object","required":["id","class","words"],"properties":{"id":{"type":"string"},"class":{"type":"string","description":"How it ended."},` +
		`"code":{"type":"integer","description":"The HTTP status; left out without an answer."},"words":{"type":"string","description":"The same in words."}}}`
	deliverySchema = `"delivery":{"type":"string","description":"The one whose attempt this is about."}`
	reasonSchema   = `"reason":{"type":"string"}`
	failingSchema  = `"failing_since":{"type":"string","format":"date-time"}`
	disableSchema  = `"disable_at":{"type":"string","format":"date-time","description":"Unless it answers before."}`

	endpointExample = `"tenant":"shop-1","endpoint":{"id":"ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R","url":"https://seller.example/hooks"},"delivery":"dlv_01J9X3ZK7Q8W2M4T5V6B7N8P9R"`
	attemptExample  = `"last_attempt":{"id":"att_01J9X3ZK7Q8W2M4T5V6B7N8P9R","class":"status","code":500,"words":"Your server answered 500 Internal Server Error"}`
	failingExample  = `"failing_since":"2026-11-17T09:41:05Z"`
	disableExample  = `"disable_at":"2026-11-22T09:41:05Z"`
)

func operational(name, description, properties, example string) EventType {
	schema := fmt.Sprintf(`{"type":"object","required":["tenant"],"properties":{%s}}`, properties)
	return EventType{Name: name, Description: description, Group: "Operations", Schema: jsontext.Value(schema), Example: jsontext.Value("{" + example + "}"),
		SchemaVersion: 1, CreatedAt: operationalSince, UpdatedAt: operationalSince}
}

// operationalTypes are all of them, by name.
var operationalTypes = []EventType{
	operational("delivery.exhausted", "A delivery has ended undelivered: its schedule is over, or trying again would not help.",
		endpointSchema+","+deliverySchema+","+reasonSchema+","+attemptSchema, endpointExample+`,"reason":"schedule_exhausted",`+attemptExample),
	operational("endpoint.disabled", "Waybill has disabled an endpoint: it answered 410 Gone, or failed for as long as its policy allows.",
		endpointSchema+","+deliverySchema+","+reasonSchema+","+failingSchema+","+disableSchema+","+attemptSchema,
		endpointExample+`,"reason":"failing",`+failingExample+","+disableExample+","+attemptExample),
	operational("endpoint.failing", "An endpoint has failed for some minutes, or refuses what only its people can mend. Once until it works again.",
		endpointSchema+","+deliverySchema+","+failingSchema+","+disableSchema+","+attemptSchema, endpointExample+","+failingExample+","+disableExample+","+attemptExample),
	operational("endpoint.recovered", "An endpoint that was reported as failing works again.",
		endpointSchema+","+deliverySchema+","+failingSchema+","+disableSchema+","+attemptSchema,
		endpointExample+","+failingExample+`,"last_attempt":{"id":"att_01J9X3ZK7Q8W2M4T5V6B7N8P9R","class":"delivered","code":200,"words":"Delivered"}`),
	operational("endpoint.warned", "An endpoint has failed for days and is disabled soon unless it answers.",
		endpointSchema+","+deliverySchema+","+failingSchema+","+disableSchema+","+attemptSchema, endpointExample+","+failingExample+","+disableExample+","+attemptExample),
	operational("tenant.limit_reached", "A tenant has used up what it may of something: of what is only announced (soft), or of what is refused from now on (hard). Once a day for each.",
		`"tenant":{"type":"string","description":"Your id of the tenant."},"limit":{"enum":["events_per_day"]},"level":{"enum":["soft","hard"]},`+
			`"used":{"type":"integer"},"allowed":{"type":"integer"}`,
		`"tenant":"shop-1","limit":"events_per_day","level":"soft","used":80000,"allowed":80000`),
}

// own are the types that are in the caller's catalog alone.
func (c *Types) own(caller account.Caller) []EventType {
	if c.Operations == "" || caller.TenantUID != c.Operations {
		return nil
	}
	return operationalTypes
}

// ownType is one of them, and false when there is none of this name.
func (c *Types) ownType(caller account.Caller, name string) (EventType, bool) {
	for _, t := range c.own(caller) {
		if t.Name == name {
			return t, true
		}
	}
	return EventType{}, false
}

// withOwn puts the caller's own types of a group, behind the name from, among those of a page, up to most of all. stored is in the order of names, and whole if it is
// shorter than most.
func (c *Types) withOwn(caller account.Caller, stored []EventType, group, from string, most int) []EventType {
	all := slices.Clone(stored)
	for _, t := range c.own(caller) {
		known := slices.ContainsFunc(stored, func(s EventType) bool { return s.Name == t.Name })
		if !known && t.Name > from && (group == "" || group == t.Group) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b EventType) int { return cmp.Compare(a.Name, b.Name) })
	return all[:min(len(all), most)]
}
