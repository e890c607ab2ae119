// Package page holds the pages of the dashboard.
//
// Each file is one page: its view model, which holds exactly what is shown, its template, and beside it the
// fixtures in which the gallery and the golden tests show every state. A handler fills the model and calls
// Page; nothing here looks anything up, and nothing here knows the domain. Words that pages, mails and
// documentation share come from app/verdict, which is text only.
package page

import (
	"github.com/a-h/templ"

	"waybill/web/ui"
)

// Page is what a handler shows.
type Page interface {
	// Page is the whole document. Pages for people who are not signed in ignore the frame.
	Page(frame ui.Frame) templ.Component
}

// Problems are what was wrong with a form, by field name; the empty name is about the form as a whole.
type Problems map[string]string

// EndpointName is an endpoint as lists show it: its host, bold, and the rest of its URL, muted. Where a tenant
// described the endpoint, Name is that; it is shown in place of the host.
type EndpointName struct {
	ID, Name, Host, Path string
}

func (e EndpointName) title() string {
	if e.Name != "" {
		return e.Name
	}
	return e.Host
}

func (e EndpointName) rest() string {
	if e.Name != "" {
		return e.Host + e.Path
	}
	return e.Path
}

// Fixture is a page in one of its states, with fixed data.
type Fixture struct {
	Name, State string // lower case with dashes: "deliveries", "nothing-matches"
	Page        Page
	Frame       ui.Frame
}

// Fixtures are all pages in all their states, page by page.
func Fixtures() []Fixture {
	var all []Fixture
	for _, group := range [][]Fixture{
		signInFixtures(), peopleFixtures(), overviewFixtures(), endpointsFixtures(), endpointNewFixtures(), inboxFixtures(), exportFixtures(),
		endpointFixtures(), secretsFixtures(), signatureFixtures(), testFixtures(), recoverFixtures(), deliveriesFixtures(), deliveryFixtures(),
		undeliveredFixtures(), eventsFixtures(), eventFixtures(), eventTypeFixtures(), gapFixtures(), keysFixtures(), consumersFixtures(), teamFixtures(),
		activityFixtures(), settingsFixtures(), twoFactorFixtures(), signInsFixtures(), mailFixtures(), mailSampleFixtures(), docsFixtures(), confirmationFixtures(), errorFixtures(), consoleFixtures(),
	} {
		all = append(all, group...)
	}
	return all
}
