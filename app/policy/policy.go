// Package policy is how deliveries are attempted: when, how often, with which answer for a success, and what follows.
//
// It reads the policy file (DESIGN section 4: the first seed's format and what the second seed adds), and promises
// that a policy it gives out keeps every documented limit, that an unknown key or a bad value is an error with its
// line and with what is allowed, and that the mathematics of the schedule is pure: the same failures and the same
// random number give the same wait. It knows neither clock nor database.
package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names of the presets that are always there.
const (
	Standard = "standard" // the first seed's: 10 attempts over 75 h 35 min 5 s, 15 s each
	Commerce = "commerce" // the second seed's: 8 attempts over 86 h 36 min, 10 s each, no retries after 401, 403, 404
)

// ConfigurationAction is what follows a 401, 403 or 404: answers that a retry seldom mends.
type ConfigurationAction string

// The two ways of the seeds.
const (
	RetryAndAlert ConfigurationAction = "retry_and_alert" // retry on the schedule, and tell the seller
	AlertOnly     ConfigurationAction = "alert_only"      // no retry: tell the seller, who resends
)

// GoneAction is what follows a 410.
type GoneAction string

// DisableEndpoint stops every delivery to the endpoint: the one exception to "retried until a 2xx" (first seed).
const DisableEndpoint GoneAction = "disable_endpoint"

// LastAction is one of the things that follow the last failed attempt.
type LastAction string

// What may follow. The first always does.
const (
	DeadLetter  LastAction = "dead_letter"  // onto the tenant's undelivered list
	EmailSeller LastAction = "email_seller" // and a mail to the tenant
)

// CodeRange is the HTTP statuses from From to To, both included.
type CodeRange struct {
	From, To int
}

// Breaker is when an endpoint's circuit opens and how it is probed while it is open.
type Breaker struct {
	// ConsecutiveFailures opens the circuit; 0 means that it never opens.
	ConsecutiveFailures int
	// ProbeEvery is the wait before each probe; the last one repeats.
	ProbeEvery []time.Duration
}

// Retention is how long things are kept, in whole days.
type Retention struct {
	Events     time.Duration // the catalog
	Deliveries time.Duration // the history with its attempts
}

// Policy is one preset. Its slices are shared: nobody changes them.
type Policy struct {
	Name                   string
	Timeout                time.Duration
	SuccessCodes           []CodeRange
	FollowRedirects        bool // always false
	Waits                  []time.Duration
	JitterPercent          int
	RespectRetryAfter      bool
	OnGone                 GoneAction
	OnConfigurationError   ConfigurationAction
	ThrottleOn             []int
	Breaker                Breaker
	DisableAfterFailingFor time.Duration
	AfterLastAttempt       []LastAction
	ResendWindow           time.Duration
	Retention              Retention
}

// The limits of the file, each as documented beside its key.
const (
	minTimeout, maxTimeout     = 1, 60 // seconds
	maxWaits                   = 30
	minWait, maxWait           = time.Second, 7 * day
	maxJitter                  = 50 // percent
	maxThrottleCodes           = 20
	maxConsecutive             = 1000
	maxProbes                  = 20
	minProbe, maxProbe         = time.Second, day
	minDisable, maxDisable     = time.Hour, 90 * day
	minWindow, maxWindow       = day, 365 * day
	minRetention, maxRetention = day, 3650 * day
	maxPresets                 = 50

	day = 24 * time.Hour
)

func standard() Policy {
	return Policy{
		Name:         Standard,
		Timeout:      15 * time.Second,
		SuccessCodes: []CodeRange{{200, 299}},
		Waits: []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour},
		JitterPercent:        20,
		RespectRetryAfter:    true,
		OnGone:               DisableEndpoint,
		OnConfigurationError: RetryAndAlert,
		ThrottleOn:           []int{429, 502, 504},
		Breaker: Breaker{
			ConsecutiveFailures: 10,
			ProbeEvery:          []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute},
		},
		DisableAfterFailingFor: 5 * day,
		AfterLastAttempt:       []LastAction{DeadLetter, EmailSeller},
		ResendWindow:           30 * day,
		Retention:              Retention{Events: 90 * day, Deliveries: 30 * day},
	}
}

// commerce is the second seed's on top of a standard policy.
func commerce(base Policy) Policy {
	base.Name = Commerce
	base.Timeout = 10 * time.Second
	base.Waits = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour,
		24 * time.Hour, 48 * time.Hour}
	base.OnConfigurationError = AlertOnly
	return base
}

// Set is the policies in force: standard, commerce and what the file adds. The zero Set is Builtin.
type Set struct {
	presets map[string]Policy
}

// Builtin is the set without a file.
func Builtin() Set {
	s := standard()
	return Set{map[string]Policy{Standard: s, Commerce: commerce(s)}}
}

func (s Set) all() map[string]Policy {
	if s.presets == nil {
		return Builtin().presets
	}
	return s.presets
}

// Standard is the policy of an endpoint for which nobody chose another.
func (s Set) Standard() Policy { return s.all()[Standard] }

// Preset is the policy of this name, and false when there is none.
func (s Set) Preset(name string) (Policy, bool) {
	p, ok := s.all()[name]
	return p, ok
}

// First is the policy of the first name that is not empty and exists, and the standard one without such a name:
// First(endpoint's, tenant's). A name that the file has lost since it was chosen thus falls back.
func (s Set) First(names ...string) Policy {
	for _, name := range names {
		if p, ok := s.Preset(name); ok {
			return p
		}
	}
	return s.Standard()
}

// Names lists the presets: standard first, then by name.
func (s Set) Names() []string {
	names := slices.Sorted(maps.Keys(s.all()))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case a == Standard && b != Standard:
			return -1
		case b == Standard && a != Standard:
			return 1
		default:
			return 0
		}
	})
	return names
}

// Retention is the longest of all presets for each: a partition holds rows of all of them.
func (s Set) Retention() Retention {
	var r Retention
	for _, p := range s.all() {
		r.Events = max(r.Events, p.Retention.Events)
		r.Deliveries = max(r.Deliveries, p.Retention.Deliveries)
	}
	return r
}

// ResendWindowDays is the longest resend window of all presets, in days: what is deleted sooner could not be resent.
func (s Set) ResendWindowDays() int {
	var longest time.Duration
	for _, p := range s.all() {
		longest = max(longest, p.ResendWindow)
	}
	return int((longest + day - 1) / day)
}

// MaxTimeout is the longest timeout that a policy may give.
const MaxTimeout = maxTimeout * time.Second

// LongestTimeout is the longest of all presets: what a graceful stop waits for.
func (s Set) LongestTimeout() time.Duration {
	var longest time.Duration
	for _, p := range s.all() {
		longest = max(longest, p.Timeout)
	}
	return longest
}

// Success reports whether an answer with this status is a success: never outside 200 to 299.
func (p Policy) Success(code int) bool {
	for _, r := range p.SuccessCodes {
		if r.From <= code && code <= r.To {
			return true
		}
	}
	return false
}

// Gone reports whether this status disables the endpoint.
func (p Policy) Gone(code int) bool { return code == 410 && p.OnGone == DisableEndpoint }

// ConfigurationError reports whether this status (401, 403, 404) tells of a setting that somebody has to change, so
// that the seller is alerted. Whether it is retried, Retries says.
func ConfigurationError(code int) bool { return code == 401 || code == 403 || code == 404 }

// Retries reports whether a failure with this status is followed by the next step of the schedule. Status 0, no
// answer at all, is. It is false for a 410 and, under alert_only, for a configuration error.
func (p Policy) Retries(code int) bool {
	return !p.Gone(code) && (p.OnConfigurationError != AlertOnly || !ConfigurationError(code))
}

// Throttles reports whether this status halves the endpoint's concurrency.
func (p Policy) Throttles(code int) bool { return slices.Contains(p.ThrottleOn, code) }

// Does reports whether this follows the last failed attempt.
func (p Policy) Does(action LastAction) bool { return slices.Contains(p.AfterLastAttempt, action) }

// codes prints ranges as the file writes them: "200-299,304".
func codes(ranges []CodeRange) string {
	var b strings.Builder
	for i, r := range ranges {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(r.From))
		if r.To != r.From {
			b.WriteString("-" + strconv.Itoa(r.To))
		}
	}
	return b.String()
}
