package notice

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waybill/app/plain"
	"waybill/web/path"
)

// The kinds of mails about endpoints.
const (
	KindFailing     = "endpoint-failing"
	KindWarning     = "endpoint-warning"
	KindDisabled    = "endpoint-disabled"
	KindRecovered   = "endpoint-recovered"
	KindUndelivered = "undelivered"
)

// Trouble is what mails about one endpoint tell of it.
type Trouble struct {
	Tenant     string // its name
	EndpointID string
	Name       string // the endpoint's description; empty: it is called by its URL
	URL        string // without what may be secret in it

	Since     time.Time // failing since; zero: nothing failed, it is not sent to for what it is
	Until     time.Time // of a warning: when it is disabled; of a recovery: when it worked again
	Different int       // different events that failed in a row, as far as they were counted
	Gone      bool      // it was disabled because it answered 410
	Refused   bool      // waiting will not mend it: a setting, here or there, has to be changed

	// The last attempt.
	Title, Happened, Fix  string // in the words of package verdict
	Excerpt               string // of the answer's body, made by Excerpt
	DeliveryID, AttemptID string // empty: there is none to show
}

func (t Trouble) called() string {
	if t.Name != "" {
		return words(t.Name)
	}
	address := t.URL
	if _, rest, found := strings.Cut(address, "://"); found {
		address = rest
	}
	return plain.Clip(address, 80)
}

func (t Trouble) facts() []Fact {
	facts := []Fact{{"Endpoint", plain.Clip(t.URL, 300)}, {"Last attempt", plain.Clip(t.Title, 200)}}
	if !t.Since.IsZero() {
		facts = append(facts, Fact{"Failing since", instant(t.Since)})
	}
	return facts
}

func (t Trouble) button() Button {
	if t.DeliveryID == "" || t.AttemptID == "" {
		return Button{"Open the endpoint", path.Endpoint(t.EndpointID)}
	}
	return Button{"See the last attempt", path.Attempt(t.DeliveryID, t.AttemptID, "")}
}

func (t Trouble) footer() []string {
	return []string{"You get this mail as a member of " + words(t.Tenant) + ", once for each change of an endpoint's state. Your settings say which ones you get."}
}

// paragraphs are those of list without the empty ones.
func paragraphs(list ...string) []string {
	var kept []string
	for _, p := range list {
		if strings.TrimSpace(p) != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

const heldNotLost = "Nothing is lost: what waits is sent as soon as your server takes it, and what comes to the end of its attempts stays on the undelivered list, from where it can be sent again."

// Failing tells that an endpoint has begun to fail.
func Failing(t Trouble) Notice {
	n := Notice{
		Subject: t.called() + " fails: " + plain.Clip(t.Title, 120), Heading: "An endpoint fails", Preheader: plain.Clip(t.Happened, 120),
		Paragraphs: paragraphs(t.Title+". "+t.Happened, t.Fix, heldNotLost), Facts: t.facts(), Excerpt: t.Excerpt, Button: t.button(), Footer: t.footer(),
	}
	if t.Refused {
		n.Paragraphs = paragraphs(t.Title+". "+t.Happened, t.Fix, "Waiting will not mend this; something has to be changed. What could not be delivered stays on the undelivered list, from where it can be sent again.")
	}
	if t.Different > 1 {
		n.Facts = append(n.Facts, Fact{"Failed in a row", count(t.Different, "different events")})
	}
	return n
}

// Warning tells that a failing endpoint is about to be disabled.
func Warning(t Trouble) Notice {
	facts := append(t.facts(), Fact{"Will be disabled", instant(t.Until)})
	return Notice{
		Subject: t.called() + " will be disabled on " + instant(t.Until), Heading: "An endpoint will be disabled", Preheader: "Every attempt has failed for days.",
		Paragraphs: paragraphs(
			"Every attempt has failed for days. Unless one succeeds, we stop sending to this endpoint on "+instant(t.Until)+".",
			t.Title+". "+t.Happened, t.Fix,
			"What comes after that is held, not lost: when you enable the endpoint again, you choose what of it is sent."),
		Facts: facts, Excerpt: t.Excerpt, Button: t.button(), Footer: t.footer(),
	}
}

// Disabled tells that we have stopped sending to an endpoint.
func Disabled(t Trouble) Notice {
	why := "Every attempt has failed for days, so we have stopped sending to this endpoint."
	if t.Gone {
		why = "Your server answered 410 Gone, which says that this webhook is gone for good, so we have stopped sending to it."
	}
	return Notice{
		Subject: t.called() + " was disabled", Heading: "An endpoint was disabled", Preheader: plain.Clip(why, 120),
		Paragraphs: paragraphs(why, map[bool]string{true: "", false: t.Title + ". " + t.Happened}[t.Gone], t.Fix,
			"Its events are held, not lost. When your server is ready, enable the endpoint and choose what of them is sent."),
		Facts: t.facts(), Excerpt: t.Excerpt, Button: Button{"Open the endpoint", path.Endpoint(t.EndpointID)}, Footer: t.footer(),
	}
}

// Recovered tells that an endpoint of which Failing was told works again.
func Recovered(t Trouble) Notice {
	facts := []Fact{{"Endpoint", plain.Clip(t.URL, 300)}}
	if !t.Since.IsZero() {
		facts = append(facts, Fact{"Failed from", instant(t.Since)})
	}
	facts = append(facts, Fact{"Until", instant(t.Until)})
	return Notice{
		Subject: t.called() + " works again", Heading: "An endpoint works again", Preheader: "What waited is being sent.",
		Paragraphs: []string{"Your server takes deliveries again. What waited is being sent now, gently at first; what had come to the end of its attempts is on the undelivered list."},
		Facts:      facts, Button: Button{"Open the endpoint", path.Endpoint(t.EndpointID)}, Footer: t.footer(),
	}
}

// Undone is what became undelivered at one endpoint.
type Undone struct {
	Trouble
	Count int
	Short string // how the last attempt of the latest ended, in two or three words
}

// undoneShown endpoints are listed in a mail.
const undoneShown = 20

// Undelivered tells what has come to the end of its attempts in an hour, the endpoint with the most first. The mail shows the first one's example.
func Undelivered(tenant string, hour time.Time, kept time.Duration, list []Undone) Notice {
	total := 0
	var facts []Fact
	for i, u := range list {
		total += u.Count
		if i < undoneShown {
			facts = append(facts, Fact{plain.Clip(u.called(), 45), deliveries(u.Count) + " (" + plain.Clip(u.Short, 30) + ")"})
		}
	}
	if len(list) > undoneShown {
		facts = append(facts, Fact{"And", count(len(list)-undoneShown, "more endpoints")})
	}
	n := Notice{
		Subject: deliveries(total) + " could not be delivered", Heading: deliveries(total) + " could not be delivered", Preheader: "You can send them again for " + span(kept) + ".",
		Paragraphs: []string{
			"Between " + hour.UTC().Format("15:04") + " and " + instant(hour.Add(time.Hour)) + " " + deliveries(total) + " of " + words(tenant) + " came to the end of the attempts.",
			"They are on the undelivered list. Once the cause is mended you can send them again, one by one or all together, for " + span(kept) + ".",
		},
		Facts:  facts,
		Button: Button{"Open the undelivered list", path.Undelivered()},
		Footer: []string{"You get this mail as a member of " + words(tenant) + ", once for each hour in which something could not be delivered. Your settings say which ones you get."},
	}
	if len(list) > 0 {
		n.Excerpt = list[0].Excerpt
	}
	return n
}

func deliveries(n int) string {
	if n == 1 {
		return "1 delivery"
	}
	return count(n, "deliveries")
}

// The bounds of an excerpt.
const (
	excerptMost  = 500 // characters
	excerptLines = 12
)

// Excerpt is the beginning of an answer's body as a mail can show it; empty when it is no text.
func Excerpt(body []byte) string {
	text := string(body)
	for cut := 0; cut < utf8.UTFMax && !utf8.ValidString(text) && len(text) > 0; cut++ {
		text = text[:len(text)-1] // the bound may have cut a character
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return ""
	}
	var lines []string
	left := excerptMost
	for line := range strings.Lines(text) {
		shown := plain.Clip(strings.ReplaceAll(strings.TrimRightFunc(line, unicode.IsSpace), "\t", "  "), left)
		if shown == "" && len(lines) == 0 {
			continue
		}
		lines = append(lines, shown)
		if left -= utf8.RuneCountInString(shown); left <= 0 || len(lines) == excerptLines {
			break
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
