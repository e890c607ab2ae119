// Package notice writes mails and sends them.
//
// It promises that a mail is stored in the transaction of what it tells of, once for its key, and lies there sealed, because it may hold a link
// that opens something; that it says in text what it says in HTML; that whatever people typed is shown as they typed it and is markup,
// header or link of nobody; that every link leads to our own address; and that a mail which may have gone out is sent again only when
// the program or the connection broke before anyone could know.
package notice

import (
	"time"

	"waybill/app/plain"
	"waybill/web/path"
)

// Notice is what a mail says, whatever it is about: the same shape for an invitation and for an endpoint that fails.
type Notice struct {
	Subject    string   // one line; also the heading, unless Heading is set
	Heading    string   // empty: the subject
	Preheader  string   // what a list of mails shows beside the subject
	Paragraphs []string // plain text, a paragraph each
	Facts      []Fact   // a table
	Excerpt    string   // what somebody else's program said, set off and monospaced; may have several lines
	Button     Button   // the one thing to do; none without Path
	Footer     []string // why one gets this mail, and how to get it no more
}

// Fact is a line of a notice's table.
type Fact struct{ Name, Value string }

// Button is where a notice leads. Path is one of package path, so that no mail leads anywhere else.
type Button struct{ Text, Path string }

// The kinds of mails about people.
const (
	KindInvitation      = "invitation"
	KindReset           = "reset"
	KindVerify          = "verify"
	KindWelcome         = "welcome"
	KindPasswordChanged = "password-changed"
)

// words is what people typed, as it can stand in a sentence or a subject.
func words(text string) string { return plain.Clip(text, 80) }

// Invitation invites to a tenant. By is who invites, or empty for the platform; Role is the role's name in words.
func Invitation(tenant, by, role, token string, ends time.Time) Notice {
	who := words(by)
	if who == "" {
		who = "Your platform"
	}
	return Notice{
		Subject:   who + " invites you to " + words(tenant),
		Preheader: "Join to see and manage its webhooks.",
		Paragraphs: []string{
			who + " invites you to the webhooks of " + words(tenant) + ": the place where its endpoints, deliveries and keys are looked after.",
		},
		Facts:  []Fact{{"Account", words(tenant)}, {"Your role", role}, {"The link works until", instant(ends)}},
		Button: Button{"Accept the invitation", path.Invitation(token)},
		Footer: []string{"The link works once. If you expect no such invitation, leave it be: without you nothing happens."},
	}
}

// Reset carries the link that sets a new password.
func Reset(token string, life time.Duration) Notice {
	return Notice{
		Subject:    "Set a new password",
		Preheader:  "The link works once, for " + span(life) + ".",
		Paragraphs: []string{"Somebody, most likely you, asked to set a new password for this address. All your sessions end when you do."},
		Button:     Button{"Set a new password", path.PasswordReset(token)},
		Footer:     []string{"The link works once, for " + span(life) + ". If it was not you, leave it be: your password stays as it is."},
	}
}

// Verify carries the link that confirms an address.
func Verify(token string, life time.Duration) Notice {
	return Notice{
		Subject:    "Confirm your mail address",
		Preheader:  "So that news about your endpoints reaches you.",
		Paragraphs: []string{"Please confirm that this address is yours. News about your endpoints is sent to confirmed addresses only."},
		Button:     Button{"Confirm this address", path.Verify(token)},
		Footer:     []string{"The link works once, for " + span(life) + ". If you have no account here, leave it be."},
	}
}

// Welcome greets who has just joined their first tenant.
func Welcome(name, tenant string) Notice {
	return Notice{
		Subject:   "Welcome to the webhooks of " + words(tenant),
		Preheader: "Where to begin.",
		Paragraphs: []string{
			"Hello " + words(name) + ", your account is ready.",
			"Begin with the endpoints: add the URL of your server, send a test event to it, and see the answer on the same page.",
		},
		Button: Button{"Open the dashboard", path.Endpoints()},
		Footer: []string{"You get this mail once, because you accepted an invitation to " + words(tenant) + "."},
	}
}

// PasswordChanged tells that a password was changed, from where.
func PasswordChanged(at time.Time, address string) Notice {
	facts := []Fact{{"When", instant(at)}}
	if address != "" {
		facts = append(facts, Fact{"From", plain.Clip(address, 64)})
	}
	return Notice{
		Subject:    "Your password was changed",
		Preheader:  "If it was not you, set a new one now.",
		Paragraphs: []string{"The password of your account was changed, and your other sessions have ended."},
		Facts:      facts,
		Button:     Button{"It was not me: set a new password", path.PasswordForgot()},
		Footer:     []string{"You get this mail whenever your password changes."},
	}
}

// instant is a time as mails say it: people read them in any zone.
func instant(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04 UTC") }

// span is a life in whole hours or days.
func span(life time.Duration) string {
	switch hours := int(life.Hours()); {
	case hours == 1:
		return "an hour"
	case hours < 48:
		return count(hours, "hours")
	default:
		return count(hours/24, "days")
	}
}
