package policy

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// CASES B44: exactly 200 to 299 succeed.
func TestSuccess(t *testing.T) {
	t.Parallel()
	p := Builtin().Standard()
	for code := -1; code <= 1000; code++ {
		if got := p.Success(code); got != (200 <= code && code <= 299) {
			t.Errorf("Success(%d) = %v", code, got)
		}
	}
	set, err := Load([]byte("webhook_delivery:\n  success_codes: \"200, 202-204\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]bool{199: false, 200: true, 201: false, 202: true, 203: true, 204: true, 205: false, 299: false} {
		if got := set.Standard().Success(code); got != want {
			t.Errorf("narrowed: Success(%d) = %v", code, got)
		}
	}
}

func TestWhatFollowsAnAnswer(t *testing.T) {
	t.Parallel()
	standard, commerce := Builtin().Standard(), preset(t, Builtin(), Commerce)
	for _, c := range []struct {
		code                             int
		gone, configuration, throttles   bool
		standardRetries, commerceRetries bool
	}{
		{0, false, false, false, true, true},
		{101, false, false, false, true, true},
		{301, false, false, false, true, true},
		{400, false, false, false, true, true},
		{401, false, true, false, true, false},
		{403, false, true, false, true, false},
		{404, false, true, false, true, false},
		{405, false, false, false, true, true},
		{410, true, false, false, false, false},
		{429, false, false, true, true, true},
		{500, false, false, false, true, true},
		{502, false, false, true, true, true},
		{503, false, false, false, true, true},
		{504, false, false, true, true, true},
		{999, false, false, false, true, true},
	} {
		for _, p := range []Policy{standard, commerce} {
			want := c.standardRetries
			if p.Name == Commerce {
				want = c.commerceRetries
			}
			if p.Gone(c.code) != c.gone || ConfigurationError(c.code) != c.configuration || p.Throttles(c.code) != c.throttles ||
				p.Retries(c.code) != want {
				t.Errorf("%s, %d: gone %v, configuration error %v, throttles %v, retries %v", p.Name, c.code,
					p.Gone(c.code), ConfigurationError(c.code), p.Throttles(c.code), p.Retries(c.code))
			}
		}
	}
	if !standard.Does(DeadLetter) || !standard.Does(EmailSeller) || standard.Does("other") {
		t.Errorf("after the last attempt: %v", standard.AfterLastAttempt)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	s, err := Load([]byte(`
webhook_delivery: {timeout_seconds: 20, retention: {deliveries: 40d}}
presets:
  patient: {timeout_seconds: 60, retention: {events: 400d}}
  alpha: {waits_between_attempts: []}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Names(); !slices.Equal(got, []string{"standard", "alpha", "commerce", "patient"}) {
		t.Errorf("Names() = %v", got)
	}
	for _, name := range s.Names() {
		if p := preset(t, s, name); p.Name != name {
			t.Errorf("the preset %q is named %q", name, p.Name)
		}
	}
	if s.LongestTimeout() != time.Minute || Builtin().LongestTimeout() != 15*time.Second {
		t.Errorf("LongestTimeout() = %v and %v", s.LongestTimeout(), Builtin().LongestTimeout())
	}
	if got := s.Retention(); got != (Retention{Events: 400 * day, Deliveries: 40 * day}) {
		t.Errorf("Retention() = %v", got)
	}
	if _, ok := s.Preset(""); ok {
		t.Error("there is a preset without a name")
	}
	for want, names := range map[string][]string{
		"standard": nil, "patient": {"patient", "alpha"}, "alpha": {"", "alpha"}, "commerce": {"lost", "commerce"},
	} {
		if got := s.First(names...).Name; got != want {
			t.Errorf("First(%q) = %q, want %q", names, got, want)
		}
	}
	if got := s.First("lost", "").Name; got != Standard {
		t.Errorf("First of lost names = %q", got)
	}
	if !reflect.DeepEqual(Set{}.Standard(), Builtin().Standard()) {
		t.Error("the zero Set is not the built-in one")
	}
}
