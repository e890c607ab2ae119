package page

import (
	"time"

	"waybill/web/path"
	"waybill/web/ui"
)

var consoleFrame = ui.Frame{Tenant: "Operator console", Member: "anu@freight.example", Role: "Admin", Zone: "UTC", Console: true, Admin: true}

// consoled gives states of a page the console's frame.
func consoled(name string, states []Fixture) []Fixture {
	for i := range states {
		states[i].Name = name
		if !states[i].Frame.Console {
			states[i].Frame = consoleFrame
		}
	}
	return states
}

func consoleFixtures() []Fixture {
	var all []Fixture
	for _, group := range [][]Fixture{consoleDoorFixtures(), consoleListFixtures(), consoleTenantFixtures(), consoleSupportFixtures(), consoleLagFixtures(), consoleRestFixtures()} {
		all = append(all, group...)
	}
	return all
}

func consoleDoorFixtures() []Fixture {
	states := []Fixture{
		{State: "empty", Page: ConsoleSignIn{}},
		{State: "wrong", Page: ConsoleSignIn{Email: "anu@freight.example", Next: "/console/lag", Problems: Problems{"": "Mail address and password do not match."}}},
		{State: "signed-out", Page: ConsoleSignIn{Notice: &ui.Banner{Tone: ui.Info, Title: "You are signed out"}}},
		{State: "link", Page: ConsoleLink{Token: "wbo_4f8a", Email: "anu@freight.example"}},
		{State: "password", Page: ConsoleLink{Token: "wbo_4f8a", Email: "anu@freight.example", Password: true, Problems: Problems{"password": "It must have 12 characters or more, and has 6."}}},
		{State: "dead-link", Page: ConsoleDeadLink{}},
		{State: "error", Page: ConsoleError{Title: "You may not do this", Detail: "This needs the right tenants:write, which this operator's role does not have.", Request: "req_4f8a", Signed: true}},
		{State: "error-guest", Page: ConsoleError{Title: "There is nothing here"}},
	}
	return consoled("console-door", states)
}

func consoleListFixtures() []Fixture {
	tenant := Cell{Text: "Meera Silk House", Small: "seller-11", Href: path.ConsoleTenant("seller-11")}
	attention := ConsoleList{Title: "Attention", Nav: path.ConsoleHome(), Lead: "Endpoints of all tenants that need somebody, the worst and longest first.",
		Tabs: []ui.Tab{{Text: "All", Href: path.ConsoleHome(), Count: "3", Current: true}, {Text: "Circuit open", Href: path.ConsoleAttention("1", ""), Count: "1"}},
		Grid: Grid{Label: "Endpoints that need attention", Columns: []Column{{Name: "Endpoint"}, {Name: "Tenant"}, {Name: "Needs"}, {Name: "Since"}, {Name: "Last answer"}, {Name: "Due since", Number: true}, {Name: "Parked", Number: true}}, Rows: [][]Cell{
			{{Text: "https://hooks.silkhouse.example/orders", Small: orderHooks.ID}, tenant, {Stamp: ui.Stamp{Tone: ui.Bad, Word: "Circuit open"}, Small: "disabled at Fri 20 Nov, 14:20"}, {When: before(3 * time.Hour)}, {Text: "401", Href: path.ConsoleDelivery("seller-11", fixtureID("dlv", 1))}, {When: before(2 * time.Hour), Small: "sleeping"}, {Text: "100 or more undelivered"}},
			{{Text: "https://erp.kanchi.example/in", Small: warehouse.ID}, {Text: "Kanchi Cottons", Small: "seller-12", Href: path.ConsoleTenant("seller-12")}, {Stamp: ui.Stamp{Tone: ui.Wait, Word: "Failing"}, Small: "3 deliveries failed"}, {When: before(20 * time.Minute)}, {Text: "timed out"}, {Text: "–"}, {}},
			{{Text: "https://legacy.silkhouse.example", Small: oldShop.ID}, tenant, {Stamp: ui.Stamp{Tone: ui.Hold, Word: "Disabled by us"}, Small: "its server said 410 Gone"}, {When: before(5 * 24 * time.Hour)}, {Text: "410"}, {Text: "–"}, {Text: "4 held"}},
		}}, Pager: ui.Pager{Shown: "3 endpoints"}}
	quiet := ConsoleList{Title: "Attention", Nav: path.ConsoleHome(), Tabs: attention.Tabs, Empty: ui.Link{Text: "Nothing needs attention", Href: "No endpoint fails, none was disabled by us, and no work waits for its turn for longer than a minute."}}
	tenants := ConsoleList{Title: "Tenants", Nav: path.ConsoleTenants(), Search: &ui.FacetRow{Action: path.ConsoleTenants(), Clear: path.ConsoleTenants(), Facets: []ui.Facet{{Name: "q", Label: "uid or name", Value: "silk"}}},
		Action: ui.Link{Text: "New tenant", Href: path.ConsoleTenantNew()}, Grid: consoleTenantsGrid(), Pager: ui.Pager{Shown: "2 tenants on this page", First: path.ConsoleTenants(), Next: path.ConsoleTenantsOf("silk", "x")}}
	incidents := ConsoleSections{Title: "Incidents", Nav: path.ConsoleIncidents(), Lead: "What failing endpoints of all tenants have in common. 14 endpoints fail now.", Sections: []ConsoleSection{
		{ID: "hosts", Title: "By host", Text: "Two endpoints or more at one host.", Grid: Grid{Label: "By host", Columns: []Column{{Name: "In common"}, {Name: "Endpoints", Number: true}, {Name: "Tenants", Number: true}, {Name: "Since"}, {Name: "Such as"}},
			Rows: [][]Cell{{{Text: "hooks.shopcloud.example"}, {Text: "11"}, {Text: "9"}, {When: before(40 * time.Minute)}, {Text: "Meera Silk House", Href: path.ConsoleTenant("seller-11"), Small: "Meera Silk House (ep_1), Kanchi Cottons (ep_2)"}}}}},
		{ID: "tls", Title: "By TLS error", None: "No endpoint fails for its certificate."}}}
	return consoled("console-lists", []Fixture{{State: "attention", Page: attention}, {State: "quiet", Page: quiet}, {State: "tenants", Page: tenants}, {State: "incidents", Page: incidents}})
}

func consoleTenantsGrid() Grid {
	return Grid{Label: "Tenants, by uid", Columns: []Column{{Name: "Tenant"}, {Name: "State"}, {Name: "Endpoints", Number: true}, {Name: "Undelivered", Number: true}, {Name: "Held", Number: true}, {Name: "At once", Number: true}, {Name: "Policy"}, {Name: "Since"}},
		Rows: [][]Cell{
			{{Text: "Meera Silk House", Small: "seller-11", Href: path.ConsoleTenant("seller-11")}, {Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"}}, {Text: "5"}, {Text: "100 or more"}, {Text: "4"}, {Text: "50"}, {Text: "standard"}, {When: before(300 * 24 * time.Hour)}},
			{{Text: "Kanchi Cottons", Small: "seller-12", Href: path.ConsoleTenant("seller-12")}, {Stamp: ui.Stamp{Tone: ui.Hold, Word: "Suspended"}, Small: "2 d ago"}, {Text: "1"}, {Text: "0"}, {Text: "31"}, {Text: "10"}, {Text: "commerce"}, {When: before(40 * 24 * time.Hour)}},
		}}
}

func consoleTenantFixtures() []Fixture {
	full := ConsoleTenant{ID: fixtureID("tnt", 1), UID: "seller-11", Name: "Meera Silk House", Created: before(300 * 24 * time.Hour), Concurrency: "50", Preset: "standard", Zone: "Asia/Kolkata", MayWrite: true,
		Figures: []ui.Option{{Text: "Events today", Value: "more than 10,000", Note: "since midnight UTC"}, {Text: "Delivered today", Value: "31,204", Note: "of 31,530 attempts"}},
		Usage: ConsoleSection{ID: "usage", Title: "Usage by day", Text: "What was attempted, by UTC day.", Grid: Grid{Label: "Usage by day", Columns: []Column{{Name: "Day"}, {Name: "Delivered", Number: true}, {Name: "Success", Number: true}},
			Rows: [][]Cell{{{Text: "17 Nov 2026"}, {Text: "31,204"}, {Share: &ui.ShareBar{Part: 31204, Whole: 31530, Tone: ui.Good}}}, {{Text: "16 Nov 2026"}, {Text: "0"}, {Share: &ui.ShareBar{Tone: ui.Good}}}}}},
		Endpoints: ConsoleSection{ID: "endpoints", Title: "Endpoints", Grid: Grid{Label: "Endpoints, newest first", Columns: []Column{{Name: "Endpoint"}, {Name: "State"}, {Name: "Health"}},
			Rows: [][]Cell{{{Text: "https://hooks.silkhouse.example/orders", Small: orderHooks.ID}, {Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"}}, {Stamp: ui.Stamp{Tone: ui.Wait, Word: "Failing"}, Small: "since 11:20"}}}}},
		Parked:   ConsoleSection{ID: "parked", Title: "What waits for somebody", None: "Nothing is undelivered or held."},
		Activity: ConsoleSection{ID: "activity", Title: "Lately in its own log", Grid: Grid{Label: "Activity, newest first", Columns: []Column{{Name: "Who"}, {Name: "What"}, {Name: "When"}}, Rows: [][]Cell{{{Text: "platform support"}, {Text: "resent the delivery", Small: fixtureID("dlv", 1)}, {When: before(3 * time.Minute)}}}}},
	}
	suspended, support := full, full
	suspended.Suspended = before(2 * 24 * time.Hour)
	suspended.Secret = &ConsoleSecret{Title: "The sign-in link is ready", Label: "Copy link", Value: "https://hooks.freight.example/sign-in/link/wbl_4f8a", Text: "It signs one person in, once, within ten minutes."}
	support.MayWrite, support.Pager = false, ui.Pager{Shown: "50 endpoints on this page", Next: path.ConsoleTenantAt("seller-11", "x")}
	form := ConsoleTenantForm{New: true, Concurrency: "50", Zone: "UTC", Presets: []ui.Option{{Text: "standard"}, {Value: "commerce", Text: "commerce"}}}
	wrong := form
	wrong.New, wrong.UID, wrong.Concurrency, wrong.Problems = false, "seller-11", "5000", Problems{"concurrency": "It must be 1 to 1000.", "name": "It must not be empty."}
	ask := ConsoleAsk{Nav: path.ConsoleTenants(), Crumbs: []ui.Link{{Text: "Tenants", Href: path.ConsoleTenants()}}, Ask: ui.Confirm{Title: "View as the tenant", Object: "Meera Silk House (seller-11)", Verb: "Open its pages",
		Effects: []string{"You see this tenant’s pages as its people do, payloads too, and can change nothing there."}, Action: path.ConsoleTenantView("seller-11"), Back: path.ConsoleTenant("seller-11")},
		Fields: []ui.Input{{Name: "why", Label: "Why", Hint: "A word or a ticket’s number; the tenant reads it.", Max: 200}}}
	link := ask
	link.Ask.Title, link.Ask.Verb, link.Problems = "Make a sign-in link", "Make link", Problems{"": "It cannot be made now."}
	link.Choices = []ui.Choice{{Name: "rights", Label: "Rights", Value: "owner", Options: []ui.Option{{Value: "owner", Text: "Everything"}, {Value: "viewer", Text: "Read only"}}}}
	return consoled("console-tenant", []Fixture{{State: "full", Page: full}, {State: "suspended", Page: suspended}, {State: "as-support", Page: support, Frame: ui.Frame{Tenant: "Operator console", Member: "help@freight.example", Role: "Support", Console: true}},
		{State: "new", Page: form}, {State: "wrong", Page: wrong}, {State: "view", Page: ask}, {State: "link", Page: link}})
}

func consoleSupportFixtures() []Fixture {
	found := ConsoleFind{Text: "C-4471", Asked: true, Said: "Looked for as part of a tenant’s uid or name, an object’s id. As an object’s id it was looked for in every catalog: 2,104 pairs of tenant and type.", Sections: []ConsoleSection{
		{ID: "objects", Title: "Objects", Grid: Grid{Label: "Objects", Columns: []Column{{Name: "Object"}, {Name: "Tenant"}, {Name: "Latest sequence", Number: true}}, Rows: [][]Cell{{{Text: "C-4471", Small: "consignment", Code: true, Href: path.ConsoleEvents("seller-11", "C-4471")}, {Text: "Meera Silk House", Href: path.ConsoleTenant("seller-11")}, {Text: "4"}}}}}}}
	more := found
	more.Rest, more.Sections = path.ConsoleFindOf("C-4471", "", "x"), nil
	event := ConsoleEvent{TenantUID: "seller-11", Tenant: "Meera Silk House", ID: fixtureID("evt", 1), Type: "consignment.delivered", Resource: "C-4471", ResourceType: "consignment", Sequence: "4", Test: true,
		Published: before(3 * time.Hour), Occurred: before(3 * time.Hour), Body: ui.NewBody([]byte(`{"id":"evt_1","data":{"n":1}}`), 29, ui.Pretty), BodyNote: "Its content is what was sent.",
		Deliveries: ConsoleSection{ID: "deliveries", Title: "Did it arrive?", Grid: Grid{Label: "What became of it", Columns: []Column{{Name: "Endpoint"}, {Name: "Outcome"}}, Rows: [][]Cell{{{Text: "hooks.silkhouse.example", Small: fixtureID("dlv", 1), Href: path.ConsoleDelivery("seller-11", fixtureID("dlv", 1))}, {Stamp: ui.Stamp{Tone: ui.Bad, Word: "Undelivered"}}}}}}}
	delivery := ConsoleDelivery{TenantUID: "seller-11", Tenant: "Meera Silk House", ID: fixtureID("dlv", 1), Event: fixtureID("evt", 1), Type: "consignment.delivered", Resource: "C-4471", Endpoint: "hooks.silkhouse.example", EndpointID: orderHooks.ID,
		Stamp: ui.Stamp{Tone: ui.Bad, Word: "Undelivered"}, Published: before(3 * time.Hour), MayResend: true,
		Attempts: ConsoleSection{ID: "attempts", Title: "Attempts", Grid: Grid{Label: "Attempts, the last first", Columns: []Column{{Name: "Attempt"}, {Name: "When"}, {Name: "Answer"}, {Name: "Took", Number: true}}, Rows: [][]Cell{{{Text: "1, first", Small: fixtureID("att", 1)}, {When: before(3 * time.Hour)}, {Stamp: ui.Stamp{Tone: ui.Bad, Word: "401"}, Small: "Your server answered 401 Unauthorized"}, {Text: "42 ms"}}}}},
		Last:     &ConsoleAnswer{Title: "Your server answered 401 Unauthorized", Happened: "It refused the request.", Causes: []string{"The secret was rotated, and your code has the old one."}, Fixes: []string{"Compare the secrets."}, Body: ui.NewBody([]byte("bad signature"), 13, ui.Pretty)}}
	due := delivery
	due.NoResend, due.Last, due.Next = "It is due anyway.", nil, after(5*time.Minute)
	return consoled("console-support", []Fixture{{State: "found", Page: found}, {State: "found-part", Page: more}, {State: "find", Page: ConsoleFind{}}, {State: "event", Page: event}, {State: "delivery", Page: delivery}, {State: "delivery-due", Page: due}})
}

func consoleLagFixtures() []Fixture {
	points := []ui.Point{{Label: "14:00", Full: "14:00", Values: []time.Duration{20 * time.Millisecond, 0}}, {Full: "14:01", Values: []time.Duration{40 * time.Millisecond, 2 * time.Second}}, {Full: "14:02", Missing: true}, {Label: "14:03", Full: "14:03", Values: []time.Duration{30 * time.Millisecond, time.Second}}}
	full := ConsoleLag{Live: path.ConsoleLagLive(), Figures: []ui.Option{{Text: "Outbox lag", Value: "30 ms", Note: "The dispatcher keeps up."}, {Text: "Oldest due delivery", Value: "1 s", Note: "What is due is sent at once."}},
		Past: ui.Lines{ID: "past", Title: "The last hour", Summary: "Flat and near zero is well.", Series: []ui.Series{{Name: "Outbox lag", Tone: ui.Hold}, {Name: "Oldest due", Tone: ui.Info}}, Points: points},
		Sections: []ConsoleSection{{ID: "lanes", Title: "Lanes by state", Text: "A lane is the right to send to one endpoint.", Grid: Grid{Label: "Lanes by state", Columns: []Column{{Name: "State"}, {Name: "Lanes", Number: true}, {Name: "Share"}},
			Rows: [][]Cell{{{Text: "running"}, {Text: "12"}, {Share: &ui.ShareBar{Part: 12, Whole: 1000, Tone: ui.Good}}}, {{Text: "idle"}, {Text: "988"}, {Share: &ui.ShareBar{Part: 988, Whole: 1000, Tone: ui.Mute}}}}}},
			{ID: "mails", Title: "Mail queue", Text: "No mail waits."}}}
	return consoled("console-lag", []Fixture{{State: "full", Page: full}, {State: "just-started", Page: ConsoleLag{Live: path.ConsoleLagLive(), Figures: full.Figures}}})
}

func consoleRestFixtures() []Fixture {
	kind := ConsoleType{Name: "consignment.delivered", Description: "The consignment was handed over.", Group: "Consignments", Version: "2", Changed: before(40 * 24 * time.Hour), Schema: "{\n  \"type\": \"object\"\n}", MayWrite: true, Deprecated: true}
	read := kind
	read.MayWrite, read.Enforced, read.Example = false, true, `{"id":"C-4471"}`
	keys := ConsoleKeys{Scopes: []ScopeChoice{{Value: "events:publish", Label: "Publish events", Chosen: true}, {Value: "tenants:write", Label: "Manage tenants", Hint: "Also sign-in links into them."}}, Expires: "365d",
		Keys: ConsoleSection{ID: "keys", Title: "Keys", Grid: Grid{Label: "Platform keys, newest first", Columns: []Column{{Name: "Key"}, {Name: "State"}, {Name: "End it"}}, Rows: [][]Cell{{{Text: "order system", Small: "wbp_7f3q2k9m…"}, {Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"}}, {Text: "Revoke…", Href: path.ConsoleKeyRevoke(fixtureID("key", 1))}}}}}}
	made := keys
	made.Secret = &ConsoleSecret{Title: "The key “order system” is ready", Label: "Copy key", Value: "wbp_7f3q2k9mx4hc", Text: "Copy it now: it is shown this once."}
	made.Problems, made.Pager = Problems{"name": "It must not be empty."}, ui.Pager{Shown: "50 keys on this page", Next: path.ConsoleKeysAt("x")}
	people := ConsoleOperators{Role: "support", Operators: ConsoleSection{ID: "operators", Title: "Operators", Grid: Grid{Label: "Operators", Columns: []Column{{Name: "Operator"}, {Name: "Role"}, {Name: "End it"}}, Rows: [][]Cell{{{Text: "anu@freight.example"}, {Text: "admin"}, {Text: "Remove…", Href: path.ConsoleOperatorRemove("opr_1")}}}}}}
	policy := ConsolePolicy{Text: "webhook_delivery:\n  timeout_seconds: 15\n", Presets: ConsoleSection{ID: "presets", Title: "Who has which", Grid: Grid{Label: "Presets", Columns: []Column{{Name: "Preset"}, {Name: "Tenants", Number: true}}, Rows: [][]Cell{{{Text: "standard"}, {Text: "2,001"}}}}}}
	return consoled("console-rest", []Fixture{{State: "type", Page: kind}, {State: "type-as-support", Page: read}, {State: "keys", Page: keys}, {State: "key-made", Page: made}, {State: "operators", Page: people}, {State: "policy", Page: policy}})
}
