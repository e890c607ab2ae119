package page

import (
	"time"

	"waybill/web/path"
	"waybill/web/ui"
)

func keysFixtures() []Fixture {
	scopes := []ScopeChoice{
		{Value: "events:read", Label: "Read events", Hint: "The catalog and its stream.", Chosen: true},
		{Value: "deliveries:read", Label: "Read deliveries", Hint: "The history with its attempts.", Chosen: true},
		{Value: "deliveries:resend", Label: "Resend", Chosen: true},
		{Value: "endpoints:manage", Label: "Manage endpoints", Hint: "Create, change, rotate, delete.", Chosen: true},
	}
	active := ui.Stamp{Tone: ui.Good, Word: "Active"}
	full := Keys{
		MayManage: true, Scopes: scopes, BaseURL: "https://hooks.freight.example", Reference: "/docs/api", Sources: []string{"198.51.100.7", "2001:db8:7::/64"},
		Rows: []KeyRow{
			{ID: fixtureID("key", 1), Name: "order system, production", Prefix: "wbk_7F3Q", Scopes: []string{"events:read", "deliveries:read"}, Created: before(90 * 24 * time.Hour), By: "meera@silkhouse.example", LastUsed: before(3 * time.Minute), Stamp: active},
			{ID: fixtureID("key", 2), Name: "reconciliation", Prefix: "wbk_K2M9", Scopes: []string{"events:read"}, Created: before(20 * 24 * time.Hour), By: "ravi@silkhouse.example", Expires: after(10 * 24 * time.Hour), Stamp: active},
			{ID: fixtureID("key", 3), Name: "old laptop", Prefix: "wbk_A1B2", Scopes: []string{"events:read", "deliveries:read", "deliveries:resend", "endpoints:manage"}, Created: before(300 * 24 * time.Hour), By: "meera@silkhouse.example", LastUsed: before(200 * 24 * time.Hour), Stamp: ui.Stamp{Tone: ui.Mute, Word: "Revoked"}},
		},
	}
	created := full
	created.Created = &CreatedKey{Name: "warehouse scanner", Value: "wbk_9QTZ4nH2kPz7mV1cXb8Rw3LsYdJf6GaE5oUiT0qN"}
	wrong := full
	wrong.Rows, wrong.Problems = nil, Problems{"name": "A key needs a name.", "scopes": "Choose at least one."}
	viewer := full
	viewer.MayManage = false
	states := []Fixture{{State: "full", Page: full}, {State: "created", Page: created}, {State: "wrong-none", Page: wrong}, {State: "as-viewer", Page: viewer},
		{State: "rotate", Page: RotateKey(fixtureID("key", 1), "order system, production", "wbk_7F3Q")}}
	return framed("keys", states)
}

func teamFixtures() []Fixture {
	full := Team{
		MayManage: true,
		Members: []Member{
			{ID: fixtureID("mem", 1), Name: "Meera Iyer", Email: "meera@silkhouse.example", Role: "owner", LastSeen: before(time.Second), You: true, Fixed: true, TwoFactor: true},
			{ID: fixtureID("mem", 2), Name: "Ravi Kumar", Email: "ravi@silkhouse.example", Role: "developer", LastSeen: before(3 * time.Hour), TwoFactor: true},
			{ID: fixtureID("mem", 3), Email: "accounts@silkhouse.example", Role: "viewer"},
		},
		Invitations: []Invited{{ID: "inv_1", Email: "anu@silkhouse.example", Role: "developer", By: "Meera Iyer", Sent: before(26 * time.Hour), Ends: after(142 * time.Hour)}},
	}
	wrong := full
	wrong.Email, wrong.Problems = "ravi@silkhouse.example", Problems{"email": "Ravi Kumar is a member already."}
	viewer, mute := full, full
	viewer.MayManage, mute.NoMail, mute.TwoFactor = false, true, true
	return framed("team", []Fixture{{State: "full", Page: full}, {State: "wrong", Page: wrong}, {State: "as-viewer", Page: viewer}, {State: "nobody-yet", Page: Team{MayManage: true}}, {State: "no-mail", Page: mute}})
}

func fixtureActivity() []ActivityRow {
	endpoint := ui.Link{Text: "Order system", Href: path.Endpoint(orderHooks.ID)}
	return []ActivityRow{
		{ID: "aud_1", At: before(3 * time.Minute), Who: "meera@silkhouse.example", What: "resent a delivery of", Object: endpoint, Detail: "consignment.delivered of C-4471", From: "198.51.100.24"},
		{ID: "aud_2", At: before(2 * time.Hour), Who: "meera@silkhouse.example", What: "rotated the secret of", Object: endpoint, Detail: "overlap 24 h", From: "198.51.100.24"},
		{ID: "aud_3", At: before(2*time.Hour + time.Minute), Who: "meera@silkhouse.example", What: "revealed a secret of", Object: endpoint, Detail: "whsec_…LaSw", From: "198.51.100.24"},
		{ID: "aud_4", At: before(26 * time.Hour), Who: "meera@silkhouse.example", What: "paused", Object: ui.Link{Text: warehouse.title(), Href: path.Endpoint(warehouse.ID)}, From: "2001:db8::17"},
		{ID: "aud_5", At: before(4 * 24 * time.Hour), Who: "Waybill", What: "disabled", Object: ui.Link{Text: "legacy.silkhouse.example"}, Detail: "it answered 410 Gone"},
		{ID: "aud_6", At: before(4*24*time.Hour + time.Hour), Who: "API key wbk_7F3Q…", What: "created the endpoint", Object: ui.Link{Text: oldShop.title(), Href: path.Endpoint(oldShop.ID)}, From: "203.0.113.9"},
		{ID: "aud_7", At: before(5 * 24 * time.Hour), Who: "Freight platform support", What: "looked at this account", From: "192.0.2.10"},
		{ID: "aud_8", At: before(6 * 24 * time.Hour), Who: "meera@silkhouse.example", What: "signed in", Detail: "by a link of the platform", From: "198.51.100.24"},
	}
}

func activityFixtures() []Fixture {
	members := []ui.Option{{Value: fixtureID("mem", 1), Text: "meera@silkhouse.example"}}
	actions := []ui.Option{{Value: "secret", Text: "Secrets"}, {Value: "endpoint", Text: "Endpoints"}, {Value: "sign-in", Text: "Sign-ins"}}
	return framed("activity", []Fixture{
		{State: "full", Page: Activity{Members: members, Actions: actions, Rows: fixtureActivity(), Shown: "1 to 8 of 8"}},
		{State: "no-match", Page: Activity{Members: members, Actions: actions, Action: "secret"}},
		{State: "not-loaded", Page: Activity{Failed: true}},
	})
}

func settingsFixtures() []Fixture {
	full := Settings{
		Tenant:  TenantSettings{Name: "Meera Silk House", UID: "seller-11", Zone: "Asia/Kolkata", Zones: []string{"Asia/Kolkata", "Asia/Dubai", "Europe/Berlin", "UTC"}},
		Profile: Profile{Name: "Meera Iyer", Email: "meera@silkhouse.example", Verified: true}, MayTenant: true, Member: true,
		Notices: []ui.Check{
			{Name: "notices", Value: "failing", Label: "An endpoint fails", Hint: "When it begins, and a day before it is disabled.", Checked: true},
			{Name: "notices", Value: "disabled", Label: "An endpoint was disabled", Checked: true},
			{Name: "notices", Value: "recovered", Label: "An endpoint works again"},
		},
		Sessions: []Session{
			{ID: "ses_1", Browser: "Firefox on Linux", From: "198.51.100.24", Tenant: "Meera Silk House", Started: before(3 * time.Hour), Seen: before(0), This: true},
			{ID: "ses_2", Browser: "Safari on iPhone", From: "2001:db8::17", Tenant: "Kanchi Cottons", Started: before(50 * time.Hour), Seen: before(20 * time.Hour)},
		},
		Limits: []Fact{{Name: "Endpoints", Value: "5 of 50"}, {Name: "Requests at once", Value: "50"}, {Name: "Events a day", Value: "81 % of 100,000", Warn: true}},
	}
	full.Own = []ui.Check{{Name: "own", Value: "new-browser", Label: "You sign in with a new browser", Checked: true}}
	full.TwoFactor, full.SignIns, full.Refused = TwoFactor{On: true, CodesLeft: 8}, fixtureSignIns()[:3], 2
	wrong := full
	wrong.TwoFactor = TwoFactor{}
	wrong.Tenant.Zone, wrong.Profile.Verified = "Mars/Olympus", false
	wrong.Problems = Problems{"zone": "There is no time zone “Mars/Olympus”.", "current": "That is not your password.", "password": "This password is known from a leak."}
	portal := full
	portal.MayTenant, portal.Member, portal.Sessions, portal.SignIns = false, false, nil, fixtureLinkSignIns()
	return framed("settings", []Fixture{{State: "owner", Page: full}, {State: "wrong", Page: wrong}, {State: "portal-session", Page: portal}})
}

func mailFixtures() []Fixture {
	return framed("mail", []Fixture{
		{State: "full", Page: Mails{Rows: []MailRow{
			{ID: "m2", To: "it@silkhouse.example", Subject: "Order system has failed since 14:20", At: before(20 * time.Minute), Stamp: ui.Stamp{Tone: ui.Wait, Word: "Waiting"}},
			{ID: "m1", To: "anu@silkhouse.example", Subject: "Meera Iyer invites you to Meera Silk House", At: before(26 * time.Hour), Stamp: ui.Stamp{Tone: ui.Good, Word: "Sent"}},
		}}},
		{State: "none", Page: Mails{Sent: true}},
		{State: "one", Page: Mail{ID: "m2", From: "Waybill <hooks@freight.example>", To: "it@silkhouse.example", Subject: "Order system has failed since 14:20", At: before(20 * time.Minute), Text: "Your server answers 401 Unauthorized since 14:20.\n\n100 deliveries wait.\n"}},
	})
}

func peopleFixtures() []Fixture {
	invited := InvitationAccept{Token: "inv_4f8a", Tenant: "Meera Silk House", By: "Meera Iyer", Role: "developer", Email: "anu@silkhouse.example"}
	known, wrong := invited, invited
	known.Known = true
	coded := known
	coded.Code = true
	here := invited
	here.SignedIn, here.By = true, ""
	wrong.Name, wrong.Problems = "Anu", Problems{"password": "It must have 12 characters or more, and has 6."}
	return []Fixture{
		{Name: "password", State: "forgot", Page: PasswordForgot{}},
		{Name: "password", State: "sent", Page: PasswordForgot{Email: "meera@silkhouse.example", Sent: true}},
		{Name: "password", State: "reset", Page: PasswordReset{Token: "pwr_4f8a", Email: "meera@silkhouse.example", Problems: Problems{"password": "This password is known from a leak."}}},
		{Name: "password", State: "link-expired", Page: DeadLink{Kind: LinkPassword, Reason: LinkExpired}},
		{Name: "invitation", State: "new", Page: invited},
		{Name: "invitation", State: "known", Page: known},
		{Name: "invitation", State: "with-code", Page: coded},
		{Name: "invitation", State: "wrong", Page: wrong},
		{Name: "invitation", State: "used", Page: DeadLink{Kind: LinkInvitation, Reason: LinkUsed}},
		{Name: "invitation", State: "signed-in", Page: here},
		{Name: "password", State: "no-mail", Page: PasswordForgot{NoMail: true}},
		{Name: "verify", State: "ready", Page: VerifyAsk{Token: "wbv_4f8a", Email: "meera@silkhouse.example"}},
	}
}
