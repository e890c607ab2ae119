package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/policy"
	"waybill/app/verdict"
	"waybill/web/page"
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
		{Title: "4. Receive", Text: "Verify the signature, store the event under its id, answer 200. The page Receiving has the code."},
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

// docsReceiving explains requests to whoever gets them.
func (d *Dashboard) docsReceiving(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	kept := d.Policies.Retention()
	sheet := page.DocsReceiving{
		Host: d.URL, UserAgent: "Waybill/1 (+" + d.URL + "/docs/receiving)", Verdicts: verdict.Table(), Sources: d.Sources,
		KeptEvents: days(kept.Events), KeptHistory: days(kept.Deliveries), Resend: days(d.Policies.Standard().ResendWindow),
	}
	if at, err := url.Parse(d.URL); err == nil {
		sheet.Host = at.Host
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
	var total time.Duration
	for i, wait := range p.Waits {
		total += wait
		shown.Steps = append(shown.Steps, page.DocsAttempt{Number: strconv.Itoa(i + 2), Wait: ui.Span(wait), Total: ui.Span(total)})
	}
	return shown
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
