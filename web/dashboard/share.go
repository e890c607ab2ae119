package dashboard

import (
	"net/http"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/ui"
)

// What the operators' console does in the same way, so that it does it no worse.

// RecordOf is the request's own record, for whoever answers it.
func RecordOf(r *http.Request) *Record { return recordOf(r) }

// Readable says whether path and query are text that can be looked for.
func Readable(r *http.Request) bool { return readable(r) }

// ReadForm parses the body of a POST, of no more than a form may have.
func ReadForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return readForm(r)
}

// FaultOf is the fault to show for err; a database that cannot answer is unavailable.
func FaultOf(err error) *fault.Error { return faultOf(err) }

// Refused turns what an operation has against a form into problems by field; false if err is something else.
func Refused(err error, names map[string]string) (page.Problems, bool) { return refused(err, names) }

// Write renders a page whole, and then sends it.
func Write(w http.ResponseWriter, r *http.Request, status int, p page.Page, frame ui.Frame) error {
	return write(w, r, status, p, frame)
}

// Client is where a sign-in comes from.
func Client(r *http.Request) account.Client { return client(r) }

// Theme is the appearance that this browser's person chose.
func Theme(r *http.Request) string { return theme(r) }

// ShownURL is an endpoint's URL with what may be secret in it left out.
func ShownURL(address string) string { return shownURL(address) }

// DeliveryStamp is what became of a delivery.
func DeliveryStamp(one delivery.Delivery) ui.Stamp { return deliveryStamp(one) }

// AnswerText is a delivery's last answer: its status, or why there was none.
func AnswerText(one delivery.Delivery) string { return answerText(one) }

// ActivityWords says an action of a log as a sentence without its subject and object; empty when it is not known.
func ActivityWords(action string) string { return activityWords[action] }
