package path

import "net/url"

// DeliveryFilter is what the address of the delivery list says. Empty fields ask for everything.
type DeliveryFilter struct {
	Status   string // pending, retrying, delivered, recovered, undelivered, held, cancelled
	Code     string // a status code ("404"), a class ("5xx") or "none" for no answer
	Endpoint string // ep_…
	Type     string // event type or prefix ("order.*")
	Range    string // 1h, 24h, 7d, 30d, custom
	From, To string // RFC 3339 or datetime-local in the tenant's zone, with Range "custom"
	Search   string // resource id or event id, whole
	Trigger  string // schedule, manual, recover, test, probe
	Slower   string // at least so many milliseconds
	Cursor   string // where the page starts
}

// DeliveryFilterOf reads a filter from a query. Values are taken as they are; the operation checks them.
func DeliveryFilterOf(query url.Values) DeliveryFilter {
	return DeliveryFilter{
		Status: query.Get("status"), Code: query.Get("code"), Endpoint: query.Get("endpoint"),
		Type: query.Get("type"), Range: query.Get("range"), From: query.Get("from"), To: query.Get("to"),
		Search: query.Get("q"), Trigger: query.Get("trigger"), Slower: query.Get("slower"),
		Cursor: query.Get("cursor"),
	}
}

func (f DeliveryFilter) pairs() []string {
	return []string{
		"status", f.Status, "code", f.Code, "endpoint", f.Endpoint, "type", f.Type, "range", f.Range,
		"from", f.From, "to", f.To, "q", f.Search, "trigger", f.Trigger, "slower", f.Slower, "cursor", f.Cursor,
	}
}

// At is the same filter at another cursor; an empty one is the first page.
func (f DeliveryFilter) At(cursor string) DeliveryFilter {
	f.Cursor = cursor
	return f
}

// Narrowed says whether the filter leaves anything out, not counting where the page starts.
func (f DeliveryFilter) Narrowed() bool { return f.At("") != DeliveryFilter{} }

// Deliveries is the delivery history under a filter.
func Deliveries(f DeliveryFilter) string { return with("/deliveries", f.pairs()...) }

// DeliveriesLive is the stream of rows that match the filter, as server-sent events.
func DeliveriesLive(f DeliveryFilter) string { return with("/deliveries/live", f.At("").pairs()...) }

// DeliveriesExport is what can be exported under a filter, and the files that were made (GET), and makes one (POST).
func DeliveriesExport(f DeliveryFilter) string {
	return with("/deliveries/export", f.At("").pairs()...)
}

// DeliveriesFile is the history under a filter as CSV.
func DeliveriesFile(f DeliveryFilter) string {
	return with("/deliveries/export/file", f.At("").pairs()...)
}

// FilterSave takes the POST that saves a filter under a name.
func FilterSave(f DeliveryFilter) string { return with("/deliveries/filters", f.At("").pairs()...) }

// FilterForget takes the POST that deletes a saved filter, and goes back to the list under the given one.
func FilterForget(id string, f DeliveryFilter) string {
	return with(join("deliveries", "filters", id, "delete"), f.At("").pairs()...)
}

// Export is the progress of a file.
func Export(id string) string { return join("exports", id) }

// ExportLive is the stream that says when the file has got further.
func ExportLive(id string) string { return join("exports", id, "live") }

// ExportCancel takes the POST that ends the making of a file.
func ExportCancel(id string) string { return join("exports", id, "cancel") }

// ExportFile is the file.
func ExportFile(id string) string { return join("exports", id, "file") }

// DeliveriesResend previews (GET, for what matches the filter) and starts (POST, for the filter or for the
// chosen "delivery" fields) a resend of several deliveries.
func DeliveriesResend(f DeliveryFilter) string {
	return with("/deliveries/resend", f.At("").pairs()...)
}

// Delivery is one delivery, showing its latest attempt.
func Delivery(id string) string { return join("deliveries", id) }

// DeliveryLive is the stream that says when the delivery has changed.
func DeliveryLive(id string) string { return join("deliveries", id, "live") }

// DeliveryResend asks before resending (GET) and resends (POST).
func DeliveryResend(id string) string { return join("deliveries", id, "resend") }

// DeliveryCancel asks before giving up what is still to be tried (GET) and gives it up (POST).
func DeliveryCancel(id string) string { return join("deliveries", id, "cancel") }

// Attempt is the delivery's page showing the given attempt, with bodies in one of the views "pretty" (the
// default, empty), "raw" or "hex".
func Attempt(delivery, attempt, view string) string {
	return with(join("deliveries", delivery, "attempts", attempt), "view", view)
}

// AttemptCurl is the attempt's request as a curl command, as text.
func AttemptCurl(delivery, attempt string) string {
	return join("deliveries", delivery, "attempts", attempt, "curl")
}

// AttemptHTTP is the attempt's request as HTTP/1.1 text.
func AttemptHTTP(delivery, attempt string) string {
	return join("deliveries", delivery, "attempts", attempt, "http")
}

// AttemptJSON is the attempt as the API shows it, as text.
func AttemptJSON(delivery, attempt string) string {
	return join("deliveries", delivery, "attempts", attempt, "json")
}

// DeliveryJSON is the delivery as the API shows it, as text.
func DeliveryJSON(id string) string { return join("deliveries", id, "json") }

// AttemptResponse is the body the receiver answered with, as text in a sandbox.
func AttemptResponse(delivery, attempt string) string {
	return join("deliveries", delivery, "attempts", attempt, "response")
}
