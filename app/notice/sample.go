package notice

import (
	"time"

	"waybill/web/path"
)

// sampleAt is when everything in the samples happens.
var sampleAt = time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC)

// Samples is every kind of mail with fixed data, by its name, for whoever looks at what is sent: the golden files and the development page. "everything" is
// none that is sent: it uses all of the shape.
func Samples() map[string]Notice {
	const token = "wbi_0123456789abcdefghjkmnpqrstvwxyz01234567"
	const address = "198.51.100.24"
	at := sampleAt
	trouble := Trouble{
		Tenant: "Meera Silk House", EndpointID: "ep_01KA8R2Q4ZJ6T0W3X5Y7N8P900", Name: "Order system", URL: "https://orders.silkhouse.example/webhooks/freight",
		Since: at.Add(-51 * time.Minute), Until: at.Add(24 * time.Hour), Different: 14, Title: "Your server answered 500 Internal Server Error",
		Happened: "It failed while it worked on the event.", Fix: "Look in your application's log at the time of this attempt.", Excerpt: Excerpt([]byte("<h1>Oops</h1>\n\tline 2\n")),
		DeliveryID: "dlv_01KA8R2Q4ZJ6T0W3X5Y7N8P900", AttemptID: "att_01KA8R2Q4ZJ6T0W3X5Y7N8P900",
	}
	refused, gone := trouble, trouble
	refused.Refused, refused.Name, refused.Title, refused.Different = true, "", "Your server answered 401 Unauthorized", 1
	gone.Gone, gone.Since, gone.Title = true, time.Time{}, "Your server answered 410 Gone"
	return map[string]Notice{
		"limit-soft": LimitReached("Meera Silk House", 80_012, 80_000, false), "limit-hard": LimitReached("Meera Silk House", 100_003, 100_000, true),
		"endpoint-failing": Failing(trouble), "endpoint-refused": Failing(refused), "endpoint-warning": Warning(trouble),
		"endpoint-disabled": Disabled(trouble), "endpoint-gone": Disabled(gone), "endpoint-recovered": Recovered(trouble),
		"undelivered":              Undelivered("Meera Silk House", at.Truncate(time.Hour), 30*24*time.Hour, []Undone{{trouble, 12, "500"}, {refused, 1, "401"}}),
		"invitation":               Invitation("Meera Silk House", "Meera Iyer", "Developer", token, at.Add(7*24*time.Hour)),
		"invitation-from-platform": Invitation("Meera Silk House", "", "Owner", token, at.Add(7*24*time.Hour)),
		KindReset:                  Reset(token, time.Hour),
		KindVerify:                 Verify(token, 3*24*time.Hour),
		KindWelcome:                Welcome("Meera Iyer", "Meera Silk House"),
		KindPasswordChanged:        PasswordChanged(at, address),
		KindSecondFactorOn:         SecondFactorOn(at, address),
		KindSecondFactorOff:        SecondFactorOff(at, address),
		KindSecondFactorReset:      SecondFactorReset(at, "meera@silkhouse.example"),
		KindRecoveryCodes:          RecoveryCodes(at, address),
		KindRecoveryCodeUsed:       RecoveryCodeUsed(at, address, 7),
		"recovery-code-last":       RecoveryCodeUsed(at, address, 0),
		KindNewBrowser:             NewBrowser(at, "Firefox on Linux", address),
		"everything": {
			Subject: "Order system has failed since 14:20", Heading: "Your endpoint fails", Preheader: "100 deliveries wait.",
			Paragraphs: []string{
				"Your server answers 401 Unauthorized since 14:20. Most likely its code does not know the secret that we sign with any more, and refuses what we send.",
				"Nothing is lost: what waits is sent as soon as your server takes it.",
			},
			Facts:   []Fact{{"Endpoint", "https://orders.silkhouse.example/webhooks/freight"}, {"Failing since", "17 November 2026, 08:50 UTC"}, {"Waiting", "100 deliveries"}},
			Excerpt: "{\"error\": \"signature <mismatch>\"}\nsecond line\r\n",
			Button:  Button{"See what was answered", path.Endpoint("ep_01KA8R2Q4ZJ6T0W3X5Y7N8P900")},
			Footer:  []string{"You get this mail as a developer of Meera Silk House. Your settings say which ones you get."},
		},
	}
}
