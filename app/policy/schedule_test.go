package policy

import (
	"math"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func preset(t testing.TB, s Set, name string) Policy {
	t.Helper()
	p, ok := s.Preset(name)
	if !ok {
		t.Fatalf("no preset %q", name)
	}
	return p
}

// The figures of the first seed: ten attempts, the last one 75 h 35 min 5 s (3.15 days) after the first, and between
// 2.52 and 3.78 days with the jitter; and what follows for the second seed's waits.
func TestTotals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                     string
		attempts                 int
		total, shortest, longest time.Duration
	}{
		{Standard, 10,
			75*time.Hour + 35*time.Minute + 5*time.Second,
			60*time.Hour + 28*time.Minute + 4*time.Second,
			90*time.Hour + 42*time.Minute + 6*time.Second},
		{Commerce, 8,
			86*time.Hour + 36*time.Minute,
			69*time.Hour + 16*time.Minute + 48*time.Second,
			103*time.Hour + 55*time.Minute + 12*time.Second},
	} {
		p := preset(t, Builtin(), c.name)
		if p.Attempts() != c.attempts || p.Total() != c.total || p.Shortest() != c.shortest || p.Longest() != c.longest {
			t.Errorf("%s: %d attempts over %v, from %v to %v; want %d, %v, %v, %v", c.name,
				p.Attempts(), p.Total(), p.Shortest(), p.Longest(), c.attempts, c.total, c.shortest, c.longest)
		}
	}
	p := Builtin().Standard()
	if days := func(d time.Duration) float64 { return math.Round(d.Hours()/24*100) / 100 }; days(p.Shortest()) != 2.52 ||
		days(p.Total()) != 3.15 || days(p.Longest()) != 3.78 {
		t.Errorf("in days: %v, %v, %v", days(p.Shortest()), days(p.Total()), days(p.Longest()))
	}
}

// The whole schedule, attempt by attempt, by a clock that the test moves.
func TestTheWholeSchedule(t *testing.T) {
	t.Parallel()
	for _, name := range Builtin().Names() {
		p := preset(t, Builtin(), name)
		for random, want := range map[float64]time.Duration{0: p.Shortest(), 0.5: p.Total(), 1: p.Longest()} {
			now, attempts := noon, 1
			for failures := 1; ; failures++ {
				next, ok := p.NextAttempt(failures, random, 0, now)
				if !ok {
					break
				}
				now = next
				attempts++
			}
			if attempts != p.Attempts() || now.Sub(noon) != want {
				t.Errorf("%s, random %v: %d attempts over %v, want %d over %v", name, random, attempts, now.Sub(noon), p.Attempts(), want)
			}
		}
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	p := Builtin().Standard()
	for _, c := range []struct {
		failures int
		random   float64
		want     time.Duration
		ok       bool
	}{
		{0, 0.5, 0, true},
		{-1, 0.5, 0, true},
		{math.MinInt, 1, 0, true},
		{1, 0, 4 * time.Second, true},
		{1, 0.5, 5 * time.Second, true},
		{1, 1, 6 * time.Second, true},
		{1, 0.25, 4500 * time.Millisecond, true},
		{2, 0.5, 5 * time.Minute, true},
		{9, 0, 19*time.Hour + 12*time.Minute, true},
		{9, 1, 28*time.Hour + 48*time.Minute, true},
		{10, 0.5, 0, false},
		{math.MaxInt, 0.5, 0, false},
		// No random source gives these; a wait must stay in its bounds all the same.
		{1, -5, 4 * time.Second, true},
		{1, 7, 6 * time.Second, true},
		{1, math.Inf(1), 6 * time.Second, true},
		{1, math.Inf(-1), 4 * time.Second, true},
		{1, math.NaN(), 4 * time.Second, true},
	} {
		if got, ok := p.Wait(c.failures, c.random); got != c.want || ok != c.ok {
			t.Errorf("Wait(%d, %v) = %v, %v; want %v, %v", c.failures, c.random, got, ok, c.want, c.ok)
		}
	}
	p.JitterPercent = 0
	for _, random := range []float64{0, 0.3, 1} {
		if got, _ := p.Wait(3, random); got != 30*time.Minute {
			t.Errorf("without jitter, random %v: %v", random, got)
		}
	}
	p.Waits = nil
	if _, ok := p.Wait(1, 0.5); ok || p.Attempts() != 1 || p.Total() != 0 {
		t.Error("a schedule without waits has a second attempt")
	}
}

func FuzzWaitKeepsItsBounds(f *testing.F) {
	f.Add(1, 0.3)
	f.Add(9, 0.9999999999999999)
	p := Builtin().Standard()
	f.Fuzz(func(t *testing.T, failures int, random float64) {
		got, ok := p.Wait(failures, random)
		if ok != (failures <= len(p.Waits)) {
			t.Fatalf("Wait(%d) = %v, %v", failures, got, ok)
		}
		if failures < 1 || !ok {
			if got != 0 {
				t.Errorf("Wait(%d, %v) = %v", failures, random, got)
			}
			return
		}
		w := p.Waits[failures-1]
		if got < w*8/10 || got > w*12/10 {
			t.Errorf("Wait(%d, %v) = %v, outside %v to %v", failures, random, got, w*8/10, w*12/10)
		}
	})
}

// CASES B09: the next attempt is max(own step, min(wish, longest wait)); nonsense is no wish.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const none = -1
	day := 24 * time.Hour
	now := time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC)
	for _, c := range []struct {
		name   string
		values []string
		want   time.Duration
	}{
		{"no header", nil, none},
		{"seconds", []string{"120"}, 2 * time.Minute},
		{"zero", []string{"0"}, 0},
		{"leading zeros", []string{"0000120"}, 2 * time.Minute},
		{"spaces around", []string{" \t120 "}, 2 * time.Minute},
		{"exactly the longest wait", []string{"86400"}, day},
		{"a second more", []string{"86401"}, day},
		{"overflows time.Duration", []string{"9223372037"}, day},
		{"ten years", []string{"315360000"}, day},
		{"largest int64", []string{"9223372036854775807"}, day},
		{"larger than uint64", []string{"99999999999999999999"}, day},
		{"64 digits", []string{strings.Repeat("9", 64)}, day},

		{"negative", []string{"-5"}, none},
		{"plus sign", []string{"+5"}, none},
		{"fraction", []string{"1.5"}, none},
		{"exponent", []string{"1e3"}, none},
		{"hexadecimal", []string{"0x10"}, none},
		{"underscore", []string{"1_000"}, none},
		{"other digits", []string{"१२०"}, none},
		{"unit", []string{"120s"}, none},
		{"list", []string{"120, 120"}, none},
		{"empty", []string{""}, none},
		{"blank", []string{"  "}, none},
		{"line end", []string{"120\n"}, none},
		{"nul", []string{"120\x00"}, none},
		{"100 KB of digits", []string{strings.Repeat("9", 100_000)}, none},
		{"prose", []string{"soon"}, none},

		{"two that disagree", []string{"1", "3600"}, none},
		{"two that agree", []string{"3600", " 3600"}, time.Hour},
		{"many", append(make([]string, 10_000), "1"), none},

		{"date", []string{"Tue, 17 Nov 2026 10:41:05 GMT"}, time.Hour},
		{"date in RFC 850", []string{"Tuesday, 17-Nov-26 10:41:05 GMT"}, time.Hour},
		{"date in asctime", []string{"Tue Nov 17 10:41:05 2026"}, time.Hour},
		{"asctime, day of one digit", []string{"Tue Dec  1 09:41:05 2026"}, day},
		{"date now", []string{"Tue, 17 Nov 2026 09:41:05 GMT"}, 0},
		{"date in the past", []string{"Tue, 17 Nov 2015 09:41:05 GMT"}, 0},
		{"year 9999", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, day},
		{"year 1", []string{"Mon, 01 Jan 0001 00:00:00 GMT"}, 0},
		{"RFC 850, 49 years ahead", []string{"Sunday, 17-Nov-75 10:41:05 GMT"}, day},
		{"RFC 850, 51 years ahead is the past", []string{"Monday, 17-Nov-77 10:41:05 GMT"}, 0},
		{"RFC 850, last century", []string{"Sunday, 06-Nov-94 08:49:37 GMT"}, 0},
		{"date in another zone", []string{"Tue, 17 Nov 2026 10:41:05 PST"}, none},
		{"date with an offset", []string{"Tue, 17 Nov 2026 10:41:05 +0000"}, none},
		{"RFC 850 in another zone", []string{"Tuesday, 17-Nov-26 10:41:05 PST"}, none},
		{"date without a zone", []string{"Tue, 17 Nov 2026 10:41:05"}, none},
		{"ISO date", []string{"2026-11-17T10:41:05Z"}, none},
		{"no such day", []string{"Mon, 31 Feb 2026 10:41:05 GMT"}, none},
		{"no such hour", []string{"Tue, 17 Nov 2026 25:41:05 GMT"}, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := Builtin().Standard()
			got, ok := p.RetryAfter(c.values, now)
			if ok != (c.want != none) || ok && got != c.want || !ok && got != 0 {
				t.Errorf("RetryAfter = %v, %v; want %v", got, ok, c.want)
			}
			p.RespectRetryAfter = false
			if got, ok := p.RetryAfter(c.values, now); ok || got != 0 {
				t.Errorf("not respected, and yet %v", got)
			}
		})
	}
}

func TestRFC850YearsTurnWithTheClock(t *testing.T) {
	t.Parallel()
	p := Builtin().Standard()
	for _, c := range []struct {
		now   time.Time
		value string
		want  time.Duration
	}{
		{time.Date(2099, 12, 31, 23, 59, 0, 0, time.UTC), "Friday, 01-Jan-00 00:00:00 GMT", time.Minute},
		{time.Date(2068, 12, 31, 23, 59, 0, 0, time.UTC), "Tuesday, 01-Jan-69 00:00:00 GMT", time.Minute},
		{time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC), "Saturday, 01-Jan-00 00:00:00 GMT", time.Minute},
		{time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "Thursday, 31-Dec-99 23:59:59 GMT", 0},
	} {
		if got, ok := p.RetryAfter([]string{c.value}, c.now); !ok || got != c.want {
			t.Errorf("%s at %v: %v, %v; want %v", c.value, c.now, got, ok, c.want)
		}
	}
}

func TestNextAttempt(t *testing.T) {
	t.Parallel()
	p := Builtin().Standard()
	for _, c := range []struct {
		name       string
		failures   int
		retryAfter time.Duration
		want       time.Duration
		ok         bool
	}{
		{"own step", 1, 0, 5 * time.Second, true},
		{"wish below it", 2, time.Minute, 5 * time.Minute, true},
		{"wish equal to it", 2, 5 * time.Minute, 5 * time.Minute, true},
		{"wish above it", 1, time.Hour, time.Hour, true},
		{"wish above the longest wait", 1, 1000 * time.Hour, 24 * time.Hour, true},
		{"largest wish", 1, math.MaxInt64, 24 * time.Hour, true},
		{"negative wish", 1, math.MinInt64, 5 * time.Second, true},
		{"over", 10, time.Hour, 0, false},
		{"nothing failed", 0, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := p.NextAttempt(c.failures, 0.5, c.retryAfter, noon)
			if ok != c.ok || ok && got.Sub(noon) != c.want || !ok && !got.IsZero() {
				t.Errorf("NextAttempt = %v, %v; want %v, %v", got.Sub(noon), ok, c.want, c.ok)
			}
		})
	}
}

func TestAWishNeverShortensAJitteredStep(t *testing.T) {
	t.Parallel()
	p := Builtin().Standard()
	// The last step stretched is longer than the cap of a wish.
	got, ok := p.NextAttempt(9, 1, 1000*time.Hour, noon)
	if want := 28*time.Hour + 48*time.Minute; !ok || got.Sub(noon) != want {
		t.Errorf("NextAttempt = %v, want %v", got.Sub(noon), want)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "9223372037", "-5", "1e3", "Fri, 31 Dec 9999 23:59:59 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994", ""} {
		f.Add(s, s, int64(1_794_000_000), 1)
	}
	f.Add("1", "3600", int64(0), 5)
	p := Builtin().Standard()
	f.Fuzz(func(t *testing.T, a, b string, unix int64, failures int) {
		now := time.Unix(unix%(1<<40), 0)
		for _, values := range [][]string{{a}, {a, b}} {
			wish, ok := p.RetryAfter(values, now)
			if wish < 0 || wish > 24*time.Hour || !ok && wish != 0 {
				t.Errorf("RetryAfter(%q) = %v, %v", values, wish, ok)
			}
			own, ok := p.NextAttempt(failures, 0.5, 0, now)
			next, again := p.NextAttempt(failures, 0.5, wish, now)
			if ok != again || next.Before(own) || next.Sub(now) > 24*time.Hour {
				t.Errorf("RetryAfter(%q): %v, without it %v", values, next, own)
			}
		}
	})
}

func TestProbe(t *testing.T) {
	t.Parallel()
	p := Builtin().Standard()
	for n, want := range map[int]time.Duration{
		-1: 30 * time.Second, 0: 30 * time.Second, 1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute,
		4: 5 * time.Minute, 5: 10 * time.Minute, 6: 10 * time.Minute, math.MaxInt: 10 * time.Minute,
	} {
		if got := p.Probe(n); got != want {
			t.Errorf("Probe(%d) = %v, want %v", n, got, want)
		}
	}
	if got := (Policy{}).Probe(1); got <= 0 {
		t.Errorf("without a list, Probe = %v", got)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"5s": 5 * time.Second, "5m": 5 * time.Minute, "2h": 2 * time.Hour, "24h": 24 * time.Hour, "5d": 120 * time.Hour,
		"30d": 720 * time.Hour, "1h30m": 90 * time.Minute, "1d12h30m5s": 36*time.Hour + 30*time.Minute + 5*time.Second,
		"90s": 90 * time.Second, "0s": 0, "007m": 7 * time.Minute, "99999999s": 99999999 * time.Second,
	} {
		got, ok := parseDuration(text)
		if !ok || got != want {
			t.Errorf("parseDuration(%q) = %v, %v; want %v", text, got, ok, want)
		}
		if again, ok := parseDuration(formatDuration(got)); !ok || again != got {
			t.Errorf("%v is written %q and read as %v", got, formatDuration(got), again)
		}
	}
	for _, text := range []string{"", "5", "s", "5x", "5ms", "-5s", "+5s", "1.5h", "5 s", " 5s", "5s ", "5S", "m5", "5m5m", "5s5m", "1h1d",
		"99999999d", "100000000s", "९s", "5s\n", "1e3s", "∞"} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("parseDuration(%q) = %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 5 * time.Second: "5s", 24 * time.Hour: "24h", 48 * time.Hour: "48h", 72 * time.Hour: "3d", 30 * day: "30d",
		49 * time.Hour: "2d1h", 36 * time.Hour: "36h", 90 * time.Second: "1m30s", 73*time.Hour + time.Second: "3d1h1s",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("formatDuration(%v) = %q, want %q", d, got, want)
		}
	}
}
