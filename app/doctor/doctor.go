// Package doctor looks for what operators get wrong before it hurts: the database and its settings, a pooler that loses session state, the key
// ring, the egress proxy, names, clocks, mail, the policy and the public address.
//
// It promises to change nothing (a mail server is greeted, no mail is sent), to end within a minute whatever does not answer, to look on
// after a failure as far as that makes sense, and to say in words what is wrong and what to do. Secrets are never printed.
package doctor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"waybill/app/policy"
	"waybill/app/seal"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	Pass Level = "pass"
	Warn Level = "warn" // works, and will surprise
	Fail Level = "fail" // does not work, or is not safe
)

// Finding is one line: what was looked at and what was found, with what to do unless it passed.
type Finding struct {
	Level Level
	Check string // one or two words: "database", "clock"
	Found string
	Do    string // empty when nothing is to be done
}

// Options is what there is to look at.
type Options struct {
	Problems []error // of the configuration, each one naming its variable

	DatabaseURL string
	Embedded    bool // DatabaseURL is the server that the program runs itself
	Conns       int  // connections that one process of the program opens at most

	URL         string
	Development bool
	Ring        *seal.Ring // nil: it could not be read, which is among Problems
	Policy      func() (policy.Set, error)
	ProxyURL    string // empty: the proxy runs in the program, and is started for the test
	EgressAllow []netip.Prefix
	SMTPURL     seal.Secret

	Resolver *net.Resolver    // nil: the system's
	Now      func() time.Time // time.Now when nil
}

// within bounds each check.
const within = 10 * time.Second

// findings collects lines of one check.
type findings struct {
	check string
	all   []Finding
}

func (f *findings) pass(format string, a ...any) {
	f.all = append(f.all, Finding{Level: Pass, Check: f.check, Found: fmt.Sprintf(format, a...)})
}

func (f *findings) warn(do, format string, a ...any) {
	f.all = append(f.all, Finding{Level: Warn, Check: f.check, Found: fmt.Sprintf(format, a...), Do: do})
}

func (f *findings) fail(do, format string, a ...any) {
	f.all = append(f.all, Finding{Level: Fail, Check: f.check, Found: fmt.Sprintf(format, a...), Do: do})
}

// Examine makes every check, hands each finding to show as soon as it is known, and returns them all.
func Examine(ctx context.Context, o Options, show func(Finding)) []Finding {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var all []Finding
	run := func(check string, look func(ctx context.Context, f *findings)) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		f := &findings{check: check}
		look(ctx, f)
		for _, one := range f.all {
			all = append(all, one)
			show(one)
		}
	}
	run("configuration", o.configuration)
	run("policy", o.policy)
	run("address", o.address)
	o.examineDatabase(ctx, run)
	run("proxy", o.proxy)
	run("mail", o.mail)
	return all
}

// Failed says whether any finding is a failure.
func Failed(all []Finding) bool {
	for _, f := range all {
		if f.Level == Fail {
			return true
		}
	}
	return false
}

// Print writes a finding as one line, and what to do as a second.
func Print(w io.Writer, f Finding) {
	fmt.Fprintf(w, "%-4s  %-13s  %s\n", f.Level, f.Check, oneLine(f.Found))
	if f.Do != "" {
		fmt.Fprintf(w, "%21s  %s\n", "", oneLine(f.Do))
	}
}

// oneLine keeps what a server or a library said from breaking the line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)), " ")
}

func (o *Options) configuration(_ context.Context, f *findings) {
	for _, problem := range o.Problems {
		f.fail("Set it as the README's table of variables says.", "%v", problem)
	}
	if len(o.Problems) == 0 {
		f.pass("every variable can be read")
	}
	if o.Development {
		f.warn("Remove WAYBILL_ALLOW_HTTP where real events are sent.", "WAYBILL_ALLOW_HTTP is set: endpoints may be http://, and missing keys are made up")
	}
	if len(o.EgressAllow) > 0 {
		f.warn("Remove WAYBILL_EGRESS_ALLOW where tenants add endpoints: they reach whatever it names.", "WAYBILL_EGRESS_ALLOW lets endpoints be in %s", join(o.EgressAllow))
	}
}

func join(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

func (o *Options) policy(_ context.Context, f *findings) {
	set, err := o.Policy()
	if err != nil {
		f.fail("Correct the file; `waybill policy check FILE` says the same.", "%v", err)
		return
	}
	f.pass("the longest timeout of a policy is %s: give a process %s to stop", set.LongestTimeout(), set.LongestTimeout()+5*time.Second)
}
