package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// key is one key of a policy: how it is read into one, how it is printed, and the comment that documents it.
type key struct {
	name    string
	comment string
	read    func(r *reader, at place, p *Policy)
	print   func(p Policy) string
}

// keys are all keys of a policy in the order in which they are printed. It is a function because the readers of the
// nested ones come back to it.
func keys() []key {
	return []key{
		{"timeout_seconds", "no answer in this time is a failure; 1 to 60",
			func(r *reader, at place, p *Policy) {
				if n, ok := r.integer(at, minTimeout, maxTimeout, "seconds"); ok {
					p.Timeout = time.Duration(n) * time.Second
				}
			},
			func(p Policy) string { return strconv.Itoa(int(p.Timeout / time.Second)) }},
		{"success_codes", "only these stop the retries; codes and ranges within 200-299",
			func(r *reader, at place, p *Policy) { r.codes(at, &p.SuccessCodes) },
			func(p Policy) string { return strconv.Quote(codes(p.SuccessCodes)) }},
		{"follow_redirects", "always false: a 3xx is a failure, and a signed call goes to no address that nobody checked",
			func(r *reader, at place, _ *Policy) {
				if follow, ok := r.boolean(at); ok && follow {
					r.fail(at, "must be false: a signed call is not bounced to an address that nobody checked")
				}
			},
			func(p Policy) string { return strconv.FormatBool(p.FollowRedirects) }},
		{"waits_between_attempts", "after the immediate first attempt; up to 30 waits of 1s to 7d",
			func(r *reader, at place, p *Policy) { r.durations(at, &p.Waits, 0, maxWaits, minWait, maxWait) },
			func(p Policy) string { return formatDurations(p.Waits) }},
		{"jitter_percent", "each wait is stretched or shrunk by up to this; 0 to 50",
			func(r *reader, at place, p *Policy) {
				if n, ok := r.integer(at, 0, maxJitter, "percent"); ok {
					p.JitterPercent = n
				}
			},
			func(p Policy) string { return strconv.Itoa(p.JitterPercent) }},
		{"respect_retry_after", "Retry-After may lengthen a wait, up to the longest of the schedule; true or false",
			func(r *reader, at place, p *Policy) {
				if respect, ok := r.boolean(at); ok {
					p.RespectRetryAfter = respect
				}
			},
			func(p Policy) string { return strconv.FormatBool(p.RespectRetryAfter) }},
		{"on_410_gone", "disable_endpoint: the one answer that stops everything at once",
			func(r *reader, at place, p *Policy) { oneOf(r, at, &p.OnGone, DisableEndpoint) },
			func(p Policy) string { return string(p.OnGone) }},
		{"on_configuration_error", "401, 403, 404: retry_and_alert, or alert_only (no retry; the seller resends)",
			func(r *reader, at place, p *Policy) { oneOf(r, at, &p.OnConfigurationError, RetryAndAlert, AlertOnly) },
			func(p Policy) string { return string(p.OnConfigurationError) }},
		{"throttle_on", "halve the endpoint's concurrency, recover slowly; up to 20 codes from 400 to 599, not 410",
			func(r *reader, at place, p *Policy) { r.throttle(at, &p.ThrottleOn) },
			func(p Policy) string {
				return "[" + strings.Trim(strings.ReplaceAll(fmt.Sprint(p.ThrottleOn), " ", ", "), "[]") + "]"
			}},
		{"circuit_breaker", "hold after so many failures in a row (0 to 1000; 0: never), probe after each wait (1 to 20 of 1s to 24h; " +
			"in the first hour 5m at most)",
			func(r *reader, at place, p *Policy) { r.block(at, breakerKeys(), p, nil) },
			func(p Policy) string { return flow(breakerKeys(), p) }},
		{"disable_after_failing_for", "without one success in between; 1h to 90d",
			func(r *reader, at place, p *Policy) {
				r.duration(at, &p.DisableAfterFailingFor, minDisable, maxDisable)
			},
			func(p Policy) string { return formatDuration(p.DisableAfterFailingFor) }},
		{"after_last_attempt", "dead_letter (the undelivered list, always) and, if wanted, email_seller",
			func(r *reader, at place, p *Policy) { r.lastActions(at, &p.AfterLastAttempt) },
			func(p Policy) string {
				return "[" + strings.Trim(strings.ReplaceAll(fmt.Sprint(p.AfterLastAttempt), " ", ", "), "[]") + "]"
			}},
		{"resend_window", "how long what was not delivered can be sent again; 1d to 365d, not shorter than the schedule",
			func(r *reader, at place, p *Policy) { r.duration(at, &p.ResendWindow, minWindow, maxWindow) },
			func(p Policy) string { return formatDuration(p.ResendWindow) }},
		{"retention", "whole days, up to 3650d: the catalog; the history with its attempts, never shorter than the window",
			func(r *reader, at place, p *Policy) { r.block(at, retentionKeys(), p, nil) },
			func(p Policy) string { return flow(retentionKeys(), p) }},
	}
}

func breakerKeys() []key {
	return []key{
		{"consecutive_failures", "",
			func(r *reader, at place, p *Policy) {
				if n, ok := r.integer(at, 0, maxConsecutive, "failures"); ok {
					p.Breaker.ConsecutiveFailures = n
				}
			},
			func(p Policy) string { return strconv.Itoa(p.Breaker.ConsecutiveFailures) }},
		{"probe_every", "",
			func(r *reader, at place, p *Policy) {
				r.durations(at, &p.Breaker.ProbeEvery, 1, maxProbes, minProbe, maxProbe)
			},
			func(p Policy) string { return formatDurations(p.Breaker.ProbeEvery) }},
	}
}

func retentionKeys() []key {
	whole := func(r *reader, at place, into *time.Duration) {
		d := *into
		if !r.duration(at, &d, minRetention, maxRetention) {
			return
		}
		if d%day != 0 {
			r.fail(at, "must be whole days, such as 30d; it is %s", formatDuration(d))
			return
		}
		*into = d
	}
	return []key{
		{"events", "",
			func(r *reader, at place, p *Policy) { whole(r, at, &p.Retention.Events) },
			func(p Policy) string { return formatDuration(p.Retention.Events) }},
		{"deliveries", "",
			func(r *reader, at place, p *Policy) { whole(r, at, &p.Retention.Deliveries) },
			func(p Policy) string { return formatDuration(p.Retention.Deliveries) }},
	}
}

// flow prints nested keys on one line.
func flow(nested []key, p Policy) string {
	texts := make([]string, len(nested))
	for i, k := range nested {
		texts[i] = k.name + ": " + k.print(p)
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

func (r *reader) codes(at place, into *[]CodeRange) {
	const allowed = `must be codes and ranges within 200-299, such as "200-299" or "200,202"`
	var text string
	switch n := at.node.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.IntegerNode:
		text = n.Token.Value
	default:
		r.fail(at, allowed)
		return
	}
	var ranges []CodeRange
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			last = first
		}
		from, ok1 := statusCode(first)
		to, ok2 := statusCode(last)
		if !ok1 || !ok2 || from < 200 || to > 299 || from > to || len(ranges) == 100 {
			r.fail(at, allowed+"; it is %s", quoteShort(text))
			return
		}
		ranges = append(ranges, CodeRange{from, to})
	}
	*into = ranges
}

func statusCode(s string) (int, bool) {
	s = strings.TrimSpace(s)
	if len(s) != 3 || !isDigits(s) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func (r *reader) throttle(at place, into *[]int) {
	items, ok := r.list(at, 0, maxThrottleCodes, "status codes, such as [429, 502, 504]")
	if !ok {
		return
	}
	list, good := []int{}, true
	for _, item := range items {
		n, ok := r.integer(item, 400, 599, "as a status code")
		switch {
		case !ok:
			good = false
		case n == 410:
			r.fail(item, "must not be 410: that disables the endpoint")
			good = false
		case slices.Contains(list, n):
			r.fail(item, "%d is there twice", n)
			good = false
		default:
			list = append(list, n)
		}
	}
	if good {
		*into = list
	}
}

func (r *reader) lastActions(at place, into *[]LastAction) {
	items, ok := r.list(at, 0, 2, "of dead_letter and email_seller")
	if !ok {
		return
	}
	var list []LastAction
	good := true
	for _, item := range items {
		var a LastAction
		if !oneOf(r, item, &a, DeadLetter, EmailSeller) {
			good = false
			continue
		}
		if slices.Contains(list, a) {
			r.fail(item, "%s is there twice", a)
			good = false
		}
		list = append(list, a)
	}
	if good && !slices.Contains(list, DeadLetter) {
		r.fail(at, "must contain dead_letter: what is not delivered is always on the undelivered list")
		return
	}
	if good {
		*into = list
	}
}
