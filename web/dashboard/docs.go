package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/app/signing"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/page/snippets"
	"waybill/web/reference"
	"waybill/web/ui"
)

// showDocs shows a page of the documentation to everybody, in the appearance that the browser's person chose.
func (d *Dashboard) showDocs(w http.ResponseWriter, r *http.Request, p page.Page) error {
	return write(w, r, http.StatusOK, p, ui.Frame{Theme: theme(r)})
}

// docs is where the documentation begins.
func (d *Dashboard) docs(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	api := d.reference()
	return d.showDocs(w, r, page.Docs{Steps: []page.DocsStep{
		{Title: "1. Make a tenant", Text: "With a platform key. The `uid` is your own id of whoever is to be told.", Code: exampleCall(api, "TenantPut")},
		{Title: "2. Publish", Text: "In SQL, inside the transaction of the change that it tells of: what is rolled back is never sent.",
			Code: "select waybill.publish(tenant => 'meenakshi-sarees', type => 'consignment.delivered',\n                       resource_type => 'consignment', resource_id => 'C-4471',\n                       data => '{\"status\":\"delivered\"}');"},
		{Title: "Or by the API", Text: "One event, or `events` with up to 1,000, all or none.", Code: exampleCall(api, "EventPublish")},
		{Title: "3. Let the tenant in", Text: "The link that this answers signs a person in, once, within ten minutes. In the dashboard they add an endpoint, " +
			"try it, and see every attempt.", Code: exampleCall(api, "PortalLinkCreate")},
		{Title: "4. Receive", Text: "Verify the signature, store the event under its id, answer 200. The page Verifying has complete receivers in seven languages."},
		{Title: "5. Or pull", Text: "With a tenant's key: from the oldest event that is kept, and on from `next`, each exactly once.", Code: exampleCall(api, "EventList")},
		{Title: "6. Try it at home", Text: "Follows the stream and posts each event, signed, to a program on your machine.",
			Code: "export WAYBILL_URL=" + d.URL + " WAYBILL_KEY=wbt_…\nwaybill listen --forward-to http://localhost:3000/hooks"},
	}})
}

func exampleCall(api reference.API, name string) string {
	for _, noun := range api.Nouns {
		for _, op := range noun.Operations {
			if op.Name == name {
				return op.Example
			}
		}
	}
	return ""
}

// host is the public address without its scheme.
func (d *Dashboard) host() string {
	if at, err := url.Parse(d.URL); err == nil {
		return at.Host
	}
	return d.URL
}

// docsReceiving explains requests to whoever gets them.
func (d *Dashboard) docsReceiving(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.DocsReceiving{
		Host: d.host(), UserAgent: "Waybill/1 (+" + d.URL + "/docs/receiving)", KeptEvents: days(d.Policies.Retention().Events), KeptAnswer: kib(sender.KeptBody)})
}

// docsConcepts explains the words.
func (d *Dashboard) docsConcepts(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.DocsConcepts{Terms: concepts, Statuses: statuses})
}

// docsPromises says what can be counted on.
func (d *Dashboard) docsPromises(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.DocsPromises{Kept: promises(d.Policies), Not: notPromised})
}

// docsVerify says how signatures are checked.
func (d *Dashboard) docsVerify(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.DocsVerify{Host: d.URL})
}

// docsReceiver is a receiver in one language.
func (d *Dashboard) docsReceiver(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	for _, receiver := range snippets.Receivers() {
		if receiver.Slug == r.PathValue("language") {
			return d.showDocs(w, r, page.DocsReceiver{Receiver: receiver})
		}
	}
	return fault.New(fault.NotFound, "")
}

// docsRetries says when deliveries are tried again, by the policies in force.
func (d *Dashboard) docsRetries(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	sheet := page.DocsRetries{
		KeptHistory: days(d.Policies.Retention().Deliveries), Resend: days(d.Policies.Standard().ResendWindow), Gone: "After 410 the endpoint is disabled: your server says that it is gone for good.",
	}
	for _, name := range d.Policies.Names() {
		if p, ok := d.Policies.Preset(name); ok {
			sheet.Schedules = append(sheet.Schedules, docsSchedule(name, p))
		}
	}
	return d.showDocs(w, r, sheet)
}

func docsSchedule(name string, p policy.Policy) page.DocsSchedule {
	shown := page.DocsSchedule{Name: name, Timeout: ui.Span(p.Timeout), Jitter: strconv.Itoa(p.JitterPercent) + " % either way", Disable: days(p.DisableAfterFailingFor),
		Steps: []page.DocsAttempt{{Number: "1", Wait: "at once"}}}
	if p.OnConfigurationError == policy.AlertOnly {
		shown.Note = "After 401, 403 or 404 nothing is tried again."
	}
	if n := p.Breaker.ConsecutiveFailures; n > 0 {
		shown.Circuit = "After " + strconv.Itoa(n) + " failures in a row the circuit opens: what is due waits and uses none of its attempts, while one request at a time, after " +
			spans(p.Breaker.ProbeEvery) + " and so on, finds out when your server is back."
	}
	var codes []string
	for _, code := range p.ThrottleOn {
		codes = append(codes, strconv.Itoa(code))
	}
	shown.Throttle = either(codes)
	var total time.Duration
	for i, wait := range p.Waits {
		total += wait
		shown.Steps = append(shown.Steps, page.DocsAttempt{Number: strconv.Itoa(i + 2), Wait: ui.Span(wait), Total: ui.Span(total)})
	}
	return shown
}

func spans(waits []time.Duration) string {
	var words []string
	for _, wait := range waits {
		words = append(words, ui.Span(wait))
	}
	return strings.Join(words, ", ")
}

// either joins words with an "or" before the last.
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// docsErrors is the table of verdicts.
func (d *Dashboard) docsErrors(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.DocsErrors{Verdicts: verdict.Table()})
}

// docsLimits is what is bounded, by the constants that bound it.
func (d *Dashboard) docsLimits(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.DocsLimits{Parts: limits(d.Policies)})
}

// docsSources is where requests come from.
func (d *Dashboard) docsSources(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.DocsSources{Sources: d.Sources})
}

// publicKeys shows an endpoint's public keys to everybody who knows its id.
func (d *Dashboard) publicKeys(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	endpointID := r.PathValue("id")
	keys, err := d.Endpoints.PublicKeys(r.Context(), endpointID)
	if err != nil {
		return err
	}
	clock := ui.Clock{Now: d.Now(), Zone: time.UTC}
	sheet := page.PublicKeys{Endpoint: endpointID}
	for _, key := range keys {
		shown := page.PublicKey{Value: key.Key, Created: clock.Moment(key.CreatedAt)}
		if key.ExpiresAt != nil {
			shown.Ends = clock.Moment(*key.ExpiresAt)
		}
		if parsed, err := signing.ParseKey(key.Key); err == nil {
			shown.Fingerprint = parsed.Fingerprint()
		}
		sheet.Keys = append(sheet.Keys, shown)
	}
	return d.showDocs(w, r, sheet)
}

// docsAPI is the reference's first page.
func (d *Dashboard) docsAPI(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showDocs(w, r, page.Reference{API: d.reference()})
}

// docsNoun is the reference of one noun.
func (d *Dashboard) docsNoun(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	api := d.reference()
	for _, noun := range api.Nouns {
		if noun.Slug == r.PathValue("noun") {
			return d.showDocs(w, r, page.ReferenceNoun{API: api, Noun: noun})
		}
	}
	return fault.New(fault.NotFound, "")
}
