package notice

import (
	"strconv"

	"waybill/web/path"
)

// KindLimit is the kind of the mail that a limit of the day is reached.
const KindLimit = "limit-reached"

// LimitReached tells that an account has as many events today as are announced, or, hard, as are taken.
func LimitReached(tenant string, used, allowed int64, hard bool) Notice {
	n := Notice{
		Subject: words(tenant) + " has had " + strconv.FormatInt(allowed, 10) + " events today", Heading: "Many events today", Preheader: "Nothing is refused yet.",
		Paragraphs: []string{
			"Your platform told us to say so when " + words(tenant) + " has " + strconv.FormatInt(allowed, 10) + " events in a day. Everything is still taken and delivered.",
			"If that is more than you expect, look at what was published today.",
		},
		Facts:  []Fact{{"Events today", strconv.FormatInt(used, 10)}, {"Announced from", strconv.FormatInt(allowed, 10)}},
		Button: Button{"Open the settings", path.Settings()},
		Footer: []string{"You get this mail as a member of " + words(tenant) + ", once a day. A day begins at midnight UTC. Your settings say which mails you get."},
	}
	if hard {
		n.Subject, n.Heading, n.Preheader = words(tenant)+" has used up its events of today", "The events of today are used up", "More are taken tomorrow."
		n.Paragraphs = []string{
			words(tenant) + " may have " + strconv.FormatInt(allowed, 10) + " events a day, and has had them. What your platform publishes beyond that through our API is refused until midnight UTC; what was taken is delivered.",
			"Your platform can raise the limit.",
		}
		n.Facts[1].Name = "Allowed"
	}
	return n
}
