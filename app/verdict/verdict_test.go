package verdict_test

import (
	"strings"
	"testing"
	"time"

	"waybill/app/verdict"
)

var classes = []verdict.Class{
	verdict.Delivered, verdict.BlockedAddress, verdict.DNS, verdict.Refused, verdict.ConnectTimeout, verdict.TLS,
	verdict.Timeout, verdict.Reset, verdict.NotHTTP, verdict.NoAnswer, verdict.Redirect, verdict.Status, verdict.Gone,
	verdict.TooLargeHeader, verdict.BadRequestConfig, verdict.Proxy, verdict.Canceled, verdict.Unknown,
}

func TestEveryRowIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[verdict.Class]bool{}
	titles := map[string]bool{}
	for _, v := range verdict.Table() {
		seen[v.Class] = true
		if titles[v.Title] {
			t.Errorf("two rows say %q", v.Title)
		}
		titles[v.Title] = true
		if v.Short == "" || v.Happened == "" || v.Retry == "" || v.RetryText() == "" {
			t.Errorf("%s (%s) leaves something unsaid: %+v", v.Class, v.Title, v)
		}
		if v.Class != verdict.Delivered && (len(v.Causes) == 0 || len(v.Fixes) == 0) {
			t.Errorf("%s (%s) names no cause or no fix", v.Class, v.Title)
		}
		for _, sentence := range append(append([]string{v.Happened}, v.Causes...), v.Fixes...) {
			if !strings.HasSuffix(sentence, ".") || strings.TrimSpace(sentence) != sentence {
				t.Errorf("%s: not a sentence: %q", v.Class, sentence)
			}
		}
	}
	for _, class := range classes {
		if !seen[class] {
			t.Errorf("the table has no row for %s", class)
		}
	}
}

func TestFactsAreSaid(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		facts verdict.Facts
		want  string
	}{
		"where a redirect leads": {verdict.Facts{Class: verdict.Redirect, Code: 301, Location: "https://www.saree.example/hooks"},
			"Your server answered 301 Moved Permanently It redirects to https://www.saree.example/hooks."},
		"when the certificate ended": {verdict.Facts{Class: verdict.TLS, Reason: verdict.Expired, Expiry: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)},
			"The certificate ended on 3 November 2026"},
		"which name the certificate lacks": {verdict.Facts{Class: verdict.TLS, Reason: verdict.WrongName, Host: "saree.example"},
			"does not name saree.example"},
		"how long we waited":          {verdict.Facts{Class: verdict.Timeout, Phase: "wait", Timeout: 15 * time.Second}, "no answer came within 15 seconds"},
		"the phase of a timeout":      {verdict.Facts{Class: verdict.ConnectTimeout, Timeout: 5 * time.Second}, "was not accepted within 5 seconds"},
		"a code without a name":       {verdict.Facts{Class: verdict.Status, Code: 799}, "Your server answered 799 That is no answer"},
		"a code of a known kind":      {verdict.Facts{Class: verdict.Status, Code: 418}, "418 I'm a teapot It refuses"},
		"a gone without a code":       {verdict.Facts{Class: verdict.Gone}, "Your server answered 410 Gone"},
		"a class from another time":   {verdict.Facts{Class: "quantum"}, "How this attempt ended is not known"},
		"an answer that broke off":    {verdict.Facts{Class: verdict.Delivered, Code: 204, Cut: true}, "204 No Content and so accepted the event. The answer's body could not"},
		"a server failure unexpected": {verdict.Facts{Class: verdict.Status, Code: 520}, "Your server answered 520 Your server, or something before it, failed."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := verdict.Explain(test.facts)
			if got := v.Title + " " + v.Happened; !strings.Contains(got, test.want) {
				t.Errorf("got %q, want it to say %q", got, test.want)
			}
			if v.Class != test.facts.Class {
				t.Errorf("the class became %q", v.Class)
			}
		})
	}
}

func TestBlockedAddressNamesNoAddress(t *testing.T) {
	t.Parallel()
	plain := verdict.Explain(verdict.Facts{Class: verdict.BlockedAddress})
	told := verdict.Explain(verdict.Facts{Class: verdict.BlockedAddress, Host: "10.1.2.3", Location: "10.1.2.3", Reason: "10.1.2.3"})
	if got, want := told.Title+told.Happened+strings.Join(told.Causes, "")+strings.Join(told.Fixes, ""),
		plain.Title+plain.Happened+strings.Join(plain.Causes, "")+strings.Join(plain.Fixes, ""); got != want {
		t.Errorf("the words depend on facts that a tenant must not learn: %q", got)
	}
}

func TestWhatIsOursDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, class := range []verdict.Class{verdict.Proxy, verdict.Canceled, verdict.Unknown, verdict.BlockedAddress, verdict.BadRequestConfig, verdict.Delivered} {
		if verdict.Explain(verdict.Facts{Class: class}).Counts {
			t.Errorf("%s counts against the endpoint", class)
		}
	}
	for _, facts := range []verdict.Facts{{Class: verdict.Status, Code: 500}, {Class: verdict.Refused}, {Class: verdict.Timeout}, {Class: verdict.TLS}} {
		if !verdict.Explain(facts).Counts {
			t.Errorf("%s does not count against the endpoint", facts.Class)
		}
	}
}

func TestRetryFollowsTheDesign(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]verdict.Retry{401: verdict.ByPreset, 403: verdict.ByPreset, 404: verdict.ByPreset, 400: verdict.OnSchedule, 500: verdict.OnSchedule, 429: verdict.OnSchedule} {
		if got := verdict.Explain(verdict.Facts{Class: verdict.Status, Code: code}).Retry; got != want {
			t.Errorf("after %d: %q, want %q", code, got, want)
		}
	}
	if got := verdict.Explain(verdict.Facts{Class: verdict.Gone, Code: 410}).Retry; got != verdict.Stops {
		t.Errorf("after 410: %q", got)
	}
}
