package api

import (
	"net/http"
	"time"
	"unicode/utf8"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/fault"
)

// Resource names what an event happened to.
type Resource struct {
	Type string `json:"type" required:"true" examples:"[\"consignment\"]"`
	ID   string `json:"id" required:"true" examples:"[\"C-4471\"]"`
}

// Delivery is one event for one endpoint.
type Delivery struct {
	ID         string          `json:"id" required:"true" examples:"[\"dlv_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	EventID    string          `json:"event_id" required:"true"`
	EndpointID string          `json:"endpoint_id" required:"true"`
	Type       string          `json:"type" required:"true" description:"Of the event." examples:"[\"consignment.delivered\"]"`
	Resource   Resource        `json:"resource" required:"true"`
	Status     delivery.Status `json:"status" required:"true" enum:"pending,delivered,undelivered,held,cancelled"`
	Outcome    string          `json:"outcome" required:"true" description:"The status in words, with what follows from it." examples:"[\"Retrying 2/10\"]"`
	Reason     *string         `json:"reason" required:"true" description:"Why it is undelivered, held or cancelled: a word. event_expunged, of a delivered one too: the content of its event was taken out."`
	Test       bool            `json:"test" required:"true" description:"It is of a test event."`
	Payload    string          `json:"payload" required:"true" enum:"full,thin"`
	Attempts   int             `json:"attempts" required:"true" description:"Made so far."`
	Failures   int             `json:"failures" required:"true" description:"Steps of the schedule that are used up."`
	Scheduled  int             `json:"scheduled" required:"true" description:"Attempts that the schedule has in all."`
	CreatedAt  time.Time       `json:"created_at" required:"true"`
	FinishedAt *time.Time      `json:"finished_at" required:"true" description:"When it was delivered, or ended otherwise."`
	Last       *DeliveryLast   `json:"last_attempt" required:"true" description:"null: none was made yet."`
	Next       *DeliveryNext   `json:"next_attempt" required:"true" description:"null: none is due."`
}

// DeliveryLast is the last attempt of a delivery in short.
type DeliveryLast struct {
	At         time.Time `json:"at" required:"true"`
	Class      string    `json:"class" required:"true" description:"How it ended: delivered, status, timeout, tls, dns, no_answer, …"`
	Code       *int      `json:"code" required:"true" description:"The HTTP status; null: no answer."`
	DurationMS int64     `json:"duration_ms" required:"true"`
}

// DeliveryNext is what is due of a delivery.
type DeliveryNext struct {
	At          time.Time `json:"at" required:"true"`
	Trigger     string    `json:"trigger" required:"true" enum:"first,retry,manual,recover,test"`
	RequestedBy *string   `json:"requested_by" required:"true" description:"null: the schedule."`
}

func deliveryOf(d delivery.Delivery) Delivery {
	shown := Delivery{
		ID: d.ID, EventID: d.EventID, EndpointID: d.EndpointID, Type: d.Type, Resource: Resource{d.ResourceType, d.ResourceID},
		Status: d.Status, Outcome: d.Outcome(), Reason: orNull(d.Reason), Test: d.Test, Payload: d.Form,
		Attempts: d.Attempts, Failures: d.Failures, Scheduled: d.Scheduled, CreatedAt: d.CreatedAt, FinishedAt: d.FinishedAt,
	}
	if d.LastAt != nil {
		shown.Last = &DeliveryLast{At: *d.LastAt, Class: d.LastClass, Code: codeOrNull(d.LastCode), DurationMS: d.Last.Milliseconds()}
	}
	if d.NextAt != nil {
		shown.Next = &DeliveryNext{At: *d.NextAt, Trigger: d.NextTrigger, RequestedBy: orNull(d.RequestedBy)}
	}
	return shown
}

func codeOrNull(code int) *int {
	if code == 0 {
		return nil
	}
	return &code
}

// DeliveryListQuery are the parameters of the list of deliveries.
type DeliveryListQuery struct {
	PageQuery
	EndpointID   string     `query:"endpoint_id"`
	EventID      string     `query:"event_id"`
	Type         string     `query:"type" description:"An event type, or a prefix as order.*"`
	ResourceType string     `query:"resource_type"`
	ResourceID   string     `query:"resource_id" maxLength:"800"`
	Status       string     `query:"status" enum:"pending,retrying,delivered,recovered,undelivered,held,cancelled" description:"retrying: pending after a failure; recovered: delivered after one."`
	Code         string     `query:"code" description:"An attempt was answered so: a status as 404, a class as 5xx, or none for no answer. Of 2xx the last attempt counts."`
	Class        string     `query:"class" description:"An attempt ended so: timeout, tls, dns, no_answer, … For delivered the last one counts."`
	Trigger      string     `query:"trigger" enum:"schedule,retry,manual,recover,probe,test" description:"An attempt was made for that."`
	SlowerThan   *int       `query:"slower_than" minimum:"0" maximum:"3600000" description:"The last attempt took so many milliseconds or more."`
	Test         string     `query:"test" enum:"true,false" description:"Only test events, or none of them."`
	Since        *time.Time `query:"since" description:"Made at this time or later."`
	Until        *time.Time `query:"until" description:"Made before this time."`
}

func (q DeliveryListQuery) filter() delivery.Filter {
	f := delivery.Filter{
		EndpointID: q.EndpointID, EventID: q.EventID, Type: q.Type, ResourceType: q.ResourceType, ResourceID: q.ResourceID,
		Status: q.Status, Code: q.Code, Class: q.Class, Trigger: q.Trigger,
		Tests: map[string]delivery.Tests{"true": delivery.OnlyTests, "false": delivery.WithoutTests}[q.Test],
	}
	if q.SlowerThan != nil {
		f.Slower = time.Duration(*q.SlowerThan) * time.Millisecond
	}
	if q.Since != nil {
		f.Since = *q.Since
	}
	if q.Until != nil {
		f.Until = *q.Until
	}
	return f
}

func (a *API) deliveryRoutes() []Route {
	one, badCursor := []Answer{{http.StatusOK, Delivery{}}}, []fault.Kind{fault.Malformed}
	return []Route{
		{
			Name: "DeliveryList", Method: http.MethodGet, Pattern: "/v1/deliveries", Audience: ForTenant, Scope: account.DeliveriesRead,
			Summary: "List deliveries",
			Detail: "Newest first. A page may have fewer deliveries than the limit, or none, and still a next: then so many had to be passed over that " +
				"the search stopped, and goes on from there.",
			Query: DeliveryListQuery{}, Answers: []Answer{{http.StatusOK, List[Delivery]{}}}, Faults: badCursor,
			Handle: a.deliveryList,
		},
		{
			Name: "DeliveryRead", Method: http.MethodGet, Pattern: "/v1/deliveries/{id}", Audience: ForTenant, Scope: account.DeliveriesRead,
			Summary: "Read a delivery", Answers: one,
			Handle: a.deliveryRead,
		},
		{
			Name: "AttemptList", Method: http.MethodGet, Pattern: "/v1/deliveries/{id}/attempts", Audience: ForTenant, Scope: account.DeliveriesRead,
			Summary: "List a delivery's attempts",
			Detail: "The last one first, with what was sent and received. Static headers, and the path of the URL, are hidden without the right " +
				"`secrets:reveal`. Every attempt sends the same body: that of the event.",
			Query: PageQuery{}, Answers: []Answer{{http.StatusOK, List[Attempt]{}}}, Faults: badCursor,
			Handle: a.attemptList,
		},
		{
			Name: "DeliveryResend", Method: http.MethodPost, Pattern: "/v1/deliveries/{id}/resend", Audience: ForTenant, Scope: account.DeliveriesResend,
			Summary: "Resend a delivery",
			Detail: "It is sent now, whatever has become of it, with the same `webhook-id`. A success makes it delivered; a failure changes nothing, and a schedule " +
				"that was interrupted goes on at its time. A conflict says why it cannot be sent now: it is on the wire, due anyway or too old, or its endpoint " +
				"is paused, disabled or deleted.",
			Answers: []Answer{{http.StatusAccepted, Delivery{}}}, Faults: []fault.Kind{fault.Conflict},
			Handle: a.deliveryResend,
		},
	}
}

func (a *API) deliveryList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[DeliveryListQuery](r)
	if err != nil {
		return err
	}
	page, err := a.Deliveries.List(r.Context(), caller, query.filter(), query.After, query.Limit)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(page.Deliveries, deliveryOf), page.Next))
}

func (a *API) deliveryRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, err := a.Deliveries.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, deliveryOf(found))
}

func (a *API) attemptList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[PageQuery](r)
	if err != nil {
		return err
	}
	page, err := a.Deliveries.Attempts(r.Context(), caller, r.PathValue("id"), query.After, query.Limit)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(page.Attempts, attemptOf), page.Next))
}

func (a *API) deliveryResend(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	resent, err := a.Deliveries.Resend(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusAccepted, deliveryOf(resent))
}

// Attempt is one HTTP call of a delivery.
type Attempt struct {
	ID          string           `json:"id" required:"true" examples:"[\"att_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	Number      int              `json:"number" required:"true"`
	Trigger     string           `json:"trigger" required:"true" enum:"first,retry,manual,recover,test"`
	RequestedBy *string          `json:"requested_by" required:"true" description:"null: the schedule."`
	StartedAt   time.Time        `json:"started_at" required:"true"`
	Class       string           `json:"class" required:"true" description:"How it ended: delivered, status, timeout, tls, dns, no_answer, …"`
	Cause       *string          `json:"cause" required:"true" description:"Of tls and timeout: why, or where it stood."`
	Detail      *string          `json:"detail" required:"true" description:"The same in words; null when it was delivered."`
	Code        *int             `json:"code" required:"true" description:"The HTTP status; null: no answer."`
	Request     AttemptRequest   `json:"request" required:"true"`
	Response    *AttemptResponse `json:"response" required:"true" description:"null: no answer."`
	Connection  AttemptReached   `json:"connection" required:"true"`
	Timing      AttemptTiming    `json:"timing" required:"true"`
}

// AttemptRequest is what was sent, but for the body.
type AttemptRequest struct {
	Method   string          `json:"method" required:"true"`
	URL      string          `json:"url" required:"true" description:"Only scheme and host without the right secrets:reveal."`
	Headers  []AttemptHeader `json:"headers" required:"true"`
	BodySize int             `json:"body_size" required:"true" description:"Bytes."`
}

// AttemptHeader is one header as it was on the wire.
type AttemptHeader struct {
	Name  string  `json:"name" required:"true"`
	Value *string `json:"value" required:"true" description:"null: hidden, without the right secrets:reveal."`
}

// AttemptResponse is what came back.
type AttemptResponse struct {
	Headers []AttemptHeader `json:"headers" required:"true"`
	Body    *string         `json:"body" required:"true" description:"Its first 16 KiB; null when that is not text."`
	Bytes   []byte          `json:"body_base64,omitempty" description:"The same in base64, when it is not text."`
	Size    int64           `json:"body_size" required:"true" description:"Bytes that were seen; more than are kept when it was cut."`
	Note    *string         `json:"note" required:"true" description:"Why the body was not read to its end."`
}

// AttemptReached is how the receiver was reached.
type AttemptReached struct {
	Protocol *string     `json:"protocol" required:"true" examples:"[\"HTTP/2.0\"]"`
	Remote   *string     `json:"remote" required:"true" description:"The address that was reached."`
	TLS      *AttemptTLS `json:"tls" required:"true"`
}

// AttemptTLS is the receiver's TLS.
type AttemptTLS struct {
	Version    *string    `json:"version" required:"true"`
	ServerName *string    `json:"server_name" required:"true"`
	Issuer     *string    `json:"issuer" required:"true"`
	NotAfter   *time.Time `json:"not_after" required:"true" description:"When the certificate ends."`
}

// AttemptTiming is where the time went, in milliseconds. What was not entered is 0.
type AttemptTiming struct {
	Connect float64 `json:"connect_ms" required:"true"`
	TLS     float64 `json:"tls_ms" required:"true"`
	Wait    float64 `json:"wait_ms" required:"true"`
	Read    float64 `json:"read_ms" required:"true"`
	Total   float64 `json:"total_ms" required:"true"`
}

func attemptOf(a delivery.Attempt) Attempt {
	shown := Attempt{
		ID: a.ID, Number: a.Number, Trigger: a.Trigger, RequestedBy: orNull(a.RequestedBy), StartedAt: a.StartedAt,
		Class: a.Class, Cause: orNull(a.Cause), Detail: orNull(a.Detail), Code: codeOrNull(a.Code),
		Request:    AttemptRequest{Method: http.MethodPost, URL: a.Request.URL, Headers: each(a.Request.Headers, headerOf), BodySize: a.Request.BodySize},
		Connection: AttemptReached{Protocol: orNull(a.Proto), Remote: orNull(a.Remote)},
		Timing: AttemptTiming{
			Connect: milliseconds(a.Connect), TLS: milliseconds(a.Handshake), Wait: milliseconds(a.Wait), Read: milliseconds(a.Read), Total: milliseconds(a.Total),
		},
	}
	if a.TLS != nil {
		shown.Connection.TLS = &AttemptTLS{Version: orNull(a.TLS.Version), ServerName: orNull(a.TLS.ServerName), Issuer: orNull(a.TLS.Issuer)}
		if !a.TLS.NotAfter.IsZero() {
			shown.Connection.TLS.NotAfter = &a.TLS.NotAfter
		}
	}
	if r := a.Response; r != nil {
		shown.Response = &AttemptResponse{Headers: each(r.Headers, headerOf), Size: r.Size, Note: orNull(r.Note)}
		if whole := wholeRunes(r.Body, r.Size); utf8.Valid(whole) {
			text := string(whole)
			shown.Response.Body = &text
		} else {
			shown.Response.Bytes = r.Body
		}
	}
	return shown
}

func headerOf(h delivery.Header) AttemptHeader {
	if h.Hidden {
		return AttemptHeader{Name: h.Name}
	}
	return AttemptHeader{Name: h.Name, Value: &h.Value}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// wholeRunes leaves out the half character that cutting a body may have left at its end.
func wholeRunes(body []byte, size int64) []byte {
	if int64(len(body)) >= size {
		return body
	}
	for i := 1; i < utf8.UTFMax && i <= len(body); i++ {
		if end := body[len(body)-i:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return body[:len(body)-i]
			}
			break
		}
	}
	return body
}
