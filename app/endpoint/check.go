package endpoint

import (
	"fmt"
	"regexp"
	"strings"

	"waybill/app/egress"
	"waybill/app/fault"
	"waybill/app/plain"
	"waybill/app/signing"
)

// Limits of an endpoint.
const (
	MaxTypes         = 500
	MaxType          = 128 // characters
	MaxConcurrency   = 100
	MaxRatePerSecond = 10_000

	// Usual limits of a new endpoint.
	DefaultConcurrency = 10
)

// patternForm is what can be subscribed to; without the asterisk it is an event type.
var (
	patternForm = regexp.MustCompile(`^(\*|[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*(\.\*)?)$`)
	typeForm    = regexp.MustCompile(`^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$`)
)

// checkTypes returns the patterns without repeats, in their order. Patterns that others cover stay: they were meant, and an event is delivered to an
// endpoint once, however many of its patterns match.
func checkTypes(types []string, wrong *fault.Error) []string {
	switch {
	case len(types) == 0:
		wrong.Field("types", `must name at least one event type; "*" is every type, also future ones`)
		return nil
	case len(types) > MaxTypes:
		wrong.Field("types", fmt.Sprintf("must name at most %d event types; a prefix such as order.* names many at once", MaxTypes))
		return nil
	}
	seen := make(map[string]bool, len(types))
	var kept []string
	for i, pattern := range types {
		if len(pattern) > MaxType || !patternForm.MatchString(pattern) {
			wrong.Field(fmt.Sprintf("types[%d]", i),
				`must be an event type of words of A-Z a-z 0-9 _ joined by full stops (order.paid), a prefix (order.*) or *, with at most 128 characters`)
			continue
		}
		if !seen[pattern] {
			seen[pattern] = true
			kept = append(kept, pattern)
		}
	}
	return kept
}

// Matches says whether a subscription pattern takes an event type. It is the rule by which the dispatcher fans out.
func Matches(pattern, eventType string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	if open {
		return strings.HasPrefix(eventType, prefix)
	}
	return pattern == eventType
}

// check finds everything that is wrong with an endpoint as it is about to be saved, and puts its URL and types into the form to store.
func (s *Service) check(e *Endpoint, presetBefore string, wrong *fault.Error) {
	if normal, refused := egress.CheckURL(e.URL, s.URLs); refused != nil {
		wrong.Fields = append(wrong.Fields, refused.Fields...)
	} else {
		e.URL = normal
	}
	e.Types = checkTypes(e.Types, wrong)
	if why := plain.Line(e.Description, 0, 500); why != "" {
		wrong.Field("description", why)
	}
	if !e.Scheme.Valid() {
		wrong.Field("scheme", "must be v1, v1+v1a, v1a or hex")
	}
	if e.Payload != Full && e.Payload != Thin {
		wrong.Field("payload", "must be full or thin")
	}
	if e.Concurrency < 1 || e.Concurrency > MaxConcurrency {
		wrong.Field("limits.concurrency", fmt.Sprintf("must be 1 to %d", MaxConcurrency))
	}
	if e.RatePerSecond != nil && (*e.RatePerSecond < 1 || *e.RatePerSecond > MaxRatePerSecond) {
		wrong.Field("limits.per_second", fmt.Sprintf("must be 1 to %d", MaxRatePerSecond))
	}
	switch {
	case e.Preset == presetBefore: // also one that the policy file has lost
	case e.Preset != "" && !s.KnowsPreset(e.Preset):
		wrong.Field("preset", "is not the name of a delivery policy")
	}
}

// suppliedSecret reads a secret that the tenant brings along (CASES B34).
func suppliedSecret(text string, wrong *fault.Error) signing.Key {
	key, err := signing.ParseKey(text)
	switch {
	case err != nil:
		wrong.Field("secret", err.Error())
	case key.Kind() == signing.Public:
		wrong.Field("secret", "must be a secret: whsec_ and the base64 of 24 to 64 bytes")
	}
	return key
}
