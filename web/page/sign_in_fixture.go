package page

import "waybill/web/ui"

func signInFixtures() []Fixture {
	return []Fixture{
		{Name: "sign-in", State: "empty", Page: SignIn{}},
		{Name: "sign-in", State: "by-link-only", Page: SignIn{LinkOnly: true, Notice: &ui.Banner{Tone: ui.Good, Title: "You are signed out"}}},
		{Name: "sign-in", State: "wrong", Page: SignIn{
			Email:    "meera@silkhouse.example",
			Problems: Problems{"": "Mail address and password do not match."},
		}},
		{Name: "sign-in", State: "too-often", Page: SignIn{
			Email:    "meera@silkhouse.example",
			Problems: Problems{"": "Too many attempts. Try again in 4 minutes."},
		}},
		{Name: "sign-in", State: "session-ended", Page: SignIn{
			Next:   "/deliveries?status=undelivered",
			Notice: &ui.Banner{Tone: ui.Info, Title: "Your session has ended", Text: "Sign in again to go on where you were."},
		}},
		{Name: "sign-in-link", State: "ready", Page: SignInLink{Token: "slt_4f8a", Tenant: "Meera Silk House", Platform: "The freight platform"}},
		{Name: "sign-in-link", State: "read-only", Page: SignInLink{
			Token: "slt_4f8a", Tenant: "Meera Silk House", Platform: "The freight platform",
			Limits: "You can look at everything, but not change anything.",
		}},
		{Name: "sign-in-link", State: "expired", Page: DeadLink{Kind: LinkSignIn, Reason: LinkExpired}},
		{Name: "sign-in-link", State: "used", Page: DeadLink{Kind: LinkSignIn, Reason: LinkUsed}},
		{Name: "sign-in-link", State: "unknown", Page: DeadLink{Kind: LinkSignIn, Reason: LinkUnknown}},
	}
}
