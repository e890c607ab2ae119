// Package ui holds the components that pages are made of.
//
// It promises that a component takes values and prints them: no database, no context, no arithmetic in the
// template, nothing about tenants or deliveries beyond the words it is given. Everything given is escaped.
// No component writes a style attribute, a script or an event handler, so that every page lives under a
// content security policy without exceptions; what moves is decorated by assets/js through data- attributes
// and works without it.
package ui

//go:generate go run github.com/a-h/templ/cmd/templ@v0.3.1118 generate -path ..

// Tone colours a stamp, banner or chart series. A tone never stands alone: there is always a word beside it.
type Tone string

// The tones, by what they mean.
const (
	Good Tone = "good" // delivered, passed
	Wait Tone = "wait" // retrying, warned
	Bad  Tone = "bad"  // undelivered, failed, destructive
	Hold Tone = "hold" // held, paused
	Mute Tone = "mute" // cancelled, disabled, over
	Info Tone = "info" // news, sending
)

// Link is an address with its words.
type Link struct {
	Text, Href string
}

// Option is one choice of a select, a tab row or a set of radio buttons; Note is shown beside it where there
// is room.
type Option struct {
	Value, Text, Note string
}

// Stamp is an outcome: Word is what it says, Note what is said beside it ("attempt 3 of 10").
type Stamp struct {
	Tone Tone
	Word string
	Note string
}

// Frame is what every page of a signed-in member shows around its content.
type Frame struct {
	Tenant      string   // the tenant's name
	Others      []Option // the member's other tenants: uid and name
	Member      string   // name or mail address; empty for a portal session
	Role        string   // "Owner", "Developer", "Viewer", "Signed in by Freightline"
	Zone        string   // the tenant's zone, as "Asia/Kolkata"
	Theme       string   // "light", "dark" or empty for the system's
	Undelivered int64    // shown as a badge; 0 shows none, negative that it could not be counted
	Notice      *Banner  // stands above every page: read-only session, suspended tenant
	Flash       *Flash   // what the last action did
	NoTeam      bool     // there are no members: everybody comes by links
	Mailbox     bool     // the demo's mailbox is in the navigation
	Console     bool     // these are the operators' pages, with their own navigation
	Admin       bool     // and the operator is an admin
}

// Flash is what the last action did, shown once after the redirect.
type Flash struct {
	Tone Tone
	Text string
	Link Link // where to go on from here; optional
}

// Head is what a page says about itself.
type Head struct {
	Title  string // of the window and, unless the page has its own heading, of the page
	Nav    string // path of the navigation entry that is current
	Crumbs []Link // the way back up, outermost first
}
