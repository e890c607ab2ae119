package policy

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t testing.TB, text string) Set {
	t.Helper()
	s, err := Load([]byte(text))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return s
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Both are the standard policy: the first seed's file leaves out what only Waybill has, the design's says all.
func TestTheFilesOfSeedAndDesign(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"seed.yaml", "design.yaml"} {
		if got := load(t, testdata(t, name)); !reflect.DeepEqual(got, Builtin()) {
			t.Errorf("%s gives\n%v\nwant\n%v", name, got, Builtin())
		}
	}
}

func TestCommerceIsTheSecondSeeds(t *testing.T) {
	t.Parallel()
	p := preset(t, Builtin(), Commerce)
	want := Builtin().Standard()
	want.Name, want.Timeout, want.OnConfigurationError = "commerce", 10*time.Second, AlertOnly
	want.Waits = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v\nwant\n%+v", p, want)
	}
}

func TestYAMLIsReadBack(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Set{
		"builtin": Builtin(),
		"everything changed": load(t, `
webhook_delivery:
  timeout_seconds: 60
  success_codes: "200,202-204"
  waits_between_attempts: [1s, 1m30s, 7d]
  jitter_percent: 50
  respect_retry_after: false
  on_configuration_error: alert_only
  throttle_on: [503]
  circuit_breaker: {consecutive_failures: 0, probe_every: [1s, 24h]}
  disable_after_failing_for: 90d
  after_last_attempt: [dead_letter]
  resend_window: 365d
  retention: {events: 3650d, deliveries: 3649d}
presets:
  one: {throttle_on: [], waits_between_attempts: [], resend_window: 1d12h}
  two-_2: {jitter_percent: 0}
`),
	} {
		text := s.YAML()
		again, err := Load([]byte(text))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s is not read back (%v):\n%s", name, err, text)
		}
		if s.String() != text {
			t.Errorf("%s: String is not YAML", name)
		}
		if p := s.Standard(); load(t, "webhook_delivery:\n  "+strings.ReplaceAll(strings.TrimSpace(p.YAML()), "\n", "\n  ")).Standard().String() != p.String() {
			t.Errorf("%s: Policy.YAML is not read back:\n%s", name, p.YAML())
		}
	}
}

func TestYAMLOfTheBuiltin(t *testing.T) {
	t.Parallel()
	got := Builtin().YAML()
	path := filepath.Join("testdata", "builtin.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := testdata(t, "builtin.yaml"); got != want {
		t.Errorf("YAML:\n%s\nwant (go test -update writes it):\n%s", got, want)
	}
	for _, line := range strings.Split(got, "\n") {
		if len(line) > 140 || strings.TrimRight(line, " ") != line {
			t.Errorf("line %q is too long or ends in spaces", line)
		}
	}
}

func TestKeysLeftOut(t *testing.T) {
	t.Parallel()
	s := load(t, `
webhook_delivery:
  timeout_seconds: 30
  circuit_breaker: {consecutive_failures: 3}
  retention: {events: 100d}
presets:
  quick: {waits_between_attempts: [1s]}
  commerce: {timeout_seconds: 5}
`)
	want := Builtin().Standard()
	want.Timeout, want.Breaker.ConsecutiveFailures, want.Retention.Events = 30*time.Second, 3, 100*day
	if got := s.Standard(); !reflect.DeepEqual(got, want) {
		t.Errorf("standard: %+v\nwant %+v", got, want)
	}
	quick := want
	quick.Name, quick.Waits = "quick", []time.Duration{time.Second}
	if got := preset(t, s, "quick"); !reflect.DeepEqual(got, quick) {
		t.Errorf("quick builds on %+v\nwant %+v", got, quick)
	}
	changed := commerce(want)
	changed.Timeout = 5 * time.Second
	if got := preset(t, s, "commerce"); !reflect.DeepEqual(got, changed) {
		t.Errorf("commerce: %+v\nwant %+v", got, changed)
	}
	// The second reading starts from the built-in values and not from what the first one left.
	if got := load(t, "presets: {}"); !reflect.DeepEqual(got, Builtin()) {
		t.Errorf("an empty list of presets: %v", got)
	}
}

func TestLoadReadsCommonForms(t *testing.T) {
	t.Parallel()
	want := Builtin().Standard()
	want.Timeout = 20 * time.Second
	for name, text := range map[string]string{
		"block":                 "webhook_delivery:\n  timeout_seconds: 20\n",
		"flow":                  "{webhook_delivery: {timeout_seconds: 20}}",
		"Windows line ends":     "webhook_delivery:\r\n  timeout_seconds: 20\r\n",
		"byte order mark":       "\ufeffwebhook_delivery:\n  timeout_seconds: 20\n",
		"document marks":        "---\nwebhook_delivery:\n  timeout_seconds: 20\n...\n",
		"comments":              "# a\nwebhook_delivery: # b\n  # c\n  timeout_seconds: 20 # d\n# e\n",
		"quoted keys":           "\"webhook_delivery\":\n  'timeout_seconds': 20\n",
		"quoted durations":      "webhook_delivery:\n  timeout_seconds: 20\n  resend_window: \"30d\"\n",
		"success codes as text": "webhook_delivery:\n  timeout_seconds: 20\n  success_codes: 200-299\n",
		"lists as blocks":       "webhook_delivery:\n  timeout_seconds: 20\n  throttle_on:\n    - 429\n    - 502\n    - 504\n",
	} {
		if got := load(t, text).Standard(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := load(t, "webhook_delivery:\n  success_codes: 204\n").Standard().SuccessCodes; !reflect.DeepEqual(got, []CodeRange{{204, 204}}) {
		t.Errorf("one code as a number: %v", got)
	}
}

// Every limit, from both sides.
func TestLimits(t *testing.T) {
	t.Parallel()
	waits := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1s, ", n), ", ") + "]" }
	codes := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString([]string{"", ", "}[min(i, 1)])
			b.WriteString("4" + string(rune('2'+i/10)) + string(rune('0'+i%10)))
		}
		return "[" + b.String() + "]"
	}
	long := "resend_window: 365d\n  retention: {events: 3650d, deliveries: 3650d}\n  " // room for a long schedule
	for _, c := range []struct {
		key        string
		good, evil []string
	}{
		{"timeout_seconds", []string{"1", "60"}, []string{"0", "61", "-1", "1.5", "15s", `"15"`, "0x0f", "015", "1_5", "", "[15]", "{a: 1}", "true", "99999999999999999999"}},
		{"success_codes", []string{`"200-299"`, "200", "200-200", `"200,204, 206-208"`}, []string{`""`, "199-299", "200-300", "299-200", "2xx", "200-", "-", "200,,201", "304", "[200]", "true", `"200-299-"`, `"2000"`, strings.TrimSuffix(strings.Repeat("200,", 101), ",")}},
		{"follow_redirects", []string{"false"}, []string{"true", "yes", `"false"`, "0", ""}},
		{"waits_between_attempts", []string{"[]", "[1s]", "[7d]", waits(30)}, []string{waits(31), "[0s]", "[7d1s]", "[8d]", "[5]", "[5x]", "5s", "", "{5s: 1}", "[[5s]]", "[-5s]", "[5s, , 5m]"}},
		{"jitter_percent", []string{"0", "50"}, []string{"51", "-1", "20%", "0.2"}},
		{"respect_retry_after", []string{"true", "false"}, []string{"yes", "1", `"true"`}},
		{"on_410_gone", []string{"disable_endpoint", `"disable_endpoint"`}, []string{"retry", "true", "", "Disable_Endpoint", "[disable_endpoint]"}},
		{"on_configuration_error", []string{"retry_and_alert", "alert_only"}, []string{"alert", "retry", "", "401"}},
		{"throttle_on", []string{"[]", "[429]", "[400, 599]", codes(20)}, []string{codes(21), "[399]", "[600]", "[410]", "[429, 429]", "429", "[\"429\"]", "[4xx]"}},
		{"circuit_breaker", []string{"{}", "{consecutive_failures: 0}", "{consecutive_failures: 1000}", "{probe_every: [1s]}", "{probe_every: " + waits(20) + "}", "{probe_every: [24h]}"},
			[]string{"{consecutive_failures: 1001}", "{consecutive_failures: -1}", "{probe_every: []}", "{probe_every: " + waits(21) + "}", "{probe_every: [25h]}", "{probe_every: [0s]}", "{other: 1}", "[]", "10", ""}},
		{"disable_after_failing_for", []string{"1h", "90d"}, []string{"59m59s", "91d", "5", "never", "[5d]"}},
		{"after_last_attempt", []string{"[dead_letter]", "[dead_letter, email_seller]", "[email_seller, dead_letter]"},
			[]string{"[]", "[email_seller]", "[dead_letter, dead_letter]", "[dead_letter, email_seller, dead_letter]", "[drop]", "dead_letter", ""}},
		{"resend_window", []string{"5d", "365d"}, []string{"23h", "366d", "3d", "0s", "month"}},
		{"retention", []string{"{}", "{events: 3650d}", "{events: 3650d, deliveries: 3650d}", "{deliveries: 48h, events: 2d}"},
			[]string{"{events: 3651d}", "{events: 36h}", "{deliveries: 90m}", "{events: 0d}", "{event: 90d}", "90d"}},
	} {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			for _, value := range c.good {
				room := long
				switch {
				case c.key == "resend_window":
					room = "retention: {events: 3650d, deliveries: 3650d}\n  "
				case c.key == "retention" && strings.Contains(value, "48h"):
					room = "waits_between_attempts: []\n  resend_window: 1d\n  "
				case c.key == "retention":
					room = ""
				}
				text := "webhook_delivery:\n  " + room + c.key + ": " + value + "\n"
				if strings.Contains(value, "48h") { // commerce builds on it and does not fit
					text += "presets: {commerce: {waits_between_attempts: []}}\n"
				}
				if _, err := Load([]byte(text)); err != nil {
					t.Errorf("%s: %s is refused: %v", c.key, value, err)
				}
			}
			for _, value := range c.evil {
				text := "# a comment\nwebhook_delivery:\n  " + c.key + ": " + value + "\n"
				_, err := Load([]byte(text))
				var problems Problems
				if !errors.As(err, &problems) || len(problems) == 0 {
					t.Errorf("%s: %s is accepted: %v", c.key, value, err)
					continue
				}
				if problems[0].Line != 3 || !strings.Contains(err.Error(), "line 3: ") {
					t.Errorf("%s: %s is not blamed on line 3: %v", c.key, value, err)
				}
			}
		})
	}
}

// What the messages say is what an operator reads when the start stops.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       string // the whole message
	}{
		{"empty", "", "line 1: the file says nothing: it needs webhook_delivery or presets; without a file the built-in policies apply"},
		{"only comments", "# x\n\n", "line 1: the file says nothing: it needs webhook_delivery or presets; without a file the built-in policies apply"},
		{"unknown block", "webhook_deliveries:\n  timeout_seconds: 5\n", `line 1: unknown key "webhook_deliveries"; allowed: webhook_delivery, presets`},
		{"keys without their block", "timeout_seconds: 5\n", `line 1: unknown key "timeout_seconds"; allowed: webhook_delivery, presets`},
		{"unknown key", "webhook_delivery:\n  timeout_seconds: 5\n  retries: 3\n",
			`line 3: webhook_delivery: unknown key "retries"; allowed: timeout_seconds, success_codes, follow_redirects, waits_between_attempts, jitter_percent, respect_retry_after, on_410_gone, on_configuration_error, throttle_on, circuit_breaker, disable_after_failing_for, after_last_attempt, resend_window, retention`},
		{"unknown nested key", "webhook_delivery:\n  retention:\n    events: 90d\n    attempts: 30d\n",
			`line 4: webhook_delivery.retention: unknown key "attempts"; allowed: events, deliveries`},
		{"too long a timeout", "webhook_delivery:\n  timeout_seconds: 90\n",
			`line 2: webhook_delivery.timeout_seconds: must be a whole number from 1 to 60 (seconds); it is "90"`},
		{"a wait without a unit", "webhook_delivery:\n  waits_between_attempts:\n    - 5s\n    - 300\n",
			`line 4: webhook_delivery.waits_between_attempts[1]: must be a duration such as 5s, 5m, 2h, 1h30m or 5d, from 1s to 7d; it is "300"`},
		{"redirects", "webhook_delivery: {follow_redirects: true}",
			`line 1: webhook_delivery.follow_redirects: must be false: a signed call is not bounced to an address that nobody checked`},
		{"nothing behind the key", "webhook_delivery:\n  timeout_seconds:\n  jitter_percent: 5\n",
			`line 2: webhook_delivery.timeout_seconds: must be a whole number from 1 to 60 (seconds); it is empty`},
		{"no keys", "webhook_delivery:\n",
			`line 1: webhook_delivery: must hold keys (timeout_seconds, success_codes, follow_redirects, waits_between_attempts, jitter_percent, respect_retry_after, on_410_gone, on_configuration_error, throttle_on, circuit_breaker, disable_after_failing_for, after_last_attempt, resend_window, retention); it is empty`},
		{"a list for keys", "presets: [a]\n", `line 1: presets: must hold keys; it is a list`},
		{"text", "hello\n", `line 1: must hold keys (webhook_delivery, presets); it is "hello"`},
		{"several", "webhook_delivery:\n  jitter_percent: 99\n  timeout_seconds: 0\npresets:\n  x: {jitter: 1}\n",
			"line 2: webhook_delivery.jitter_percent: must be a whole number from 0 to 50 (percent); it is \"99\"\n" +
				"line 3: webhook_delivery.timeout_seconds: must be a whole number from 1 to 60 (seconds); it is \"0\"\n" +
				`line 5: presets.x: unknown key "jitter"; allowed: timeout_seconds, success_codes, follow_redirects, waits_between_attempts, jitter_percent, respect_retry_after, on_410_gone, on_configuration_error, throttle_on, circuit_breaker, disable_after_failing_for, after_last_attempt, resend_window, retention`},
		{"key twice", "webhook_delivery:\n  jitter_percent: 1\n  jitter_percent: 2\n",
			`line 3: this is not YAML: mapping key "jitter_percent" already defined at [2:3]`},
		{"preset twice", "presets:\n  a: {}\n  a: {}\n", `line 3: this is not YAML: mapping key "a" already defined at [2:3]`},
		{"bracket missing", "webhook_delivery:\n  throttle_on: [429\n", `line 2: this is not YAML: sequence end token ']' not found`},
		{"a tab", "webhook_delivery:\n\ttimeout_seconds: 5\n", `line 2: this is not YAML: found character '	' that cannot start any token`},
		{"second document", "presets: {}\n---\npresets: {}\n", "line 3: one document without directives is read; this begins another"},
		{"directive", "%YAML 1.2\n---\npresets: {}\n", "line 1: one document without directives is read; this begins another"},
		{"anchor", "webhook_delivery:\n  resend_window: &x 30d\n",
			`line 2: webhook_delivery.resend_window: must be a duration such as 5s, 5m, 2h, 1h30m or 5d, from 24h to 365d; it is an anchor, alias or tag, which are not read`},
		{"tag", "webhook_delivery:\n  jitter_percent: !!int 5\n",
			`line 2: webhook_delivery.jitter_percent: must be a whole number from 0 to 50 (percent); it is an anchor, alias or tag, which are not read`},
		{"merge key", "webhook_delivery:\n  <<: {jitter_percent: 5}\n",
			`line 2: webhook_delivery: unknown key "<<"; allowed: timeout_seconds, success_codes, follow_redirects, waits_between_attempts, jitter_percent, respect_retry_after, on_410_gone, on_configuration_error, throttle_on, circuit_breaker, disable_after_failing_for, after_last_attempt, resend_window, retention`},
		{"a block of text", "webhook_delivery:\n  resend_window: |\n    30d\n",
			`line 2: webhook_delivery.resend_window: must be a duration such as 5s, 5m, 2h, 1h30m or 5d, from 24h to 365d; it is a block of text`},
		{"control character", "webhook_delivery:\n  # \x1b[31m\n", "line 2: the file must be UTF-8 text without control characters"},
		{"Latin-1", "# ok\n\n# caf\xe9\n", "line 3: the file must be UTF-8 text without control characters"},
		{"long value", "webhook_delivery: {on_410_gone: " + strings.Repeat("é", 100) + "}",
			`line 1: webhook_delivery.on_410_gone: must be disable_endpoint; it is "` + strings.Repeat("é", 40) + `…"`},

		{"preset named standard", "presets:\n  standard: {jitter_percent: 1}\n", "line 2: presets.standard: is what webhook_delivery says; change it there"},
		{"bad name of a preset", "presets:\n  Fast: {jitter_percent: 1}\n", "line 2: presets.Fast: a preset's name is a to z, then up to 31 of a to z, 0 to 9, _ and -"},
		{"number for a name", "presets:\n  7: {jitter_percent: 1}\n", `line 2: presets: unknown key "7"`},

		{"schedule over the window", "webhook_delivery:\n  jitter_percent: 50\n  waits_between_attempts: [7d, 7d, 7d]\n",
			"line 3: webhook_delivery.waits_between_attempts: the schedule of preset standard takes up to 31d12h with its jitter, longer than its resend_window of 30d"},
		{"window under the schedule", "webhook_delivery:\n  resend_window: 3d\n",
			"line 2: webhook_delivery.resend_window: the schedule of preset standard takes up to 3d18h42m6s with its jitter, longer than its resend_window of 3d"},
		{"window over retention", "webhook_delivery:\n  resend_window: 31d\n",
			"line 2: webhook_delivery.resend_window: the resend_window of preset standard is 31d, longer than its deliveries are kept (30d)"},
		{"retention under the window", "webhook_delivery:\n  retention:\n    deliveries: 29d\n",
			"line 3: webhook_delivery.retention: the resend_window of preset standard is 30d, longer than its deliveries are kept (29d)"},
		{"events under deliveries", "webhook_delivery:\n  retention: {events: 20d}\n",
			"line 2: webhook_delivery.retention: deliveries of preset standard are kept for 30d, longer than their events (20d)"},
		{"a standard that breaks commerce", "webhook_delivery:\n  resend_window: 4d\n",
			"line 2: webhook_delivery.resend_window: the schedule of preset commerce takes up to 4d7h55m12s with its jitter, longer than its resend_window of 4d"},
		{"a standard that breaks a preset", "webhook_delivery:\n  jitter_percent: 50\npresets:\n  slow:\n    waits_between_attempts: [7d, 7d, 7d]\n",
			"line 5: presets.slow.waits_between_attempts: the schedule of preset slow takes up to 31d12h with its jitter, longer than its resend_window of 30d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			set, err := Load([]byte(c.text))
			if err == nil {
				t.Fatalf("accepted:\n%v", set)
			}
			if err.Error() != c.want {
				t.Errorf("%s\nwant\n%s", err, c.want)
			}
			if set.presets != nil {
				t.Error("a set came with the error")
			}
		})
	}
}

func TestLoadIsBounded(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var b strings.Builder
		b.WriteString("presets:\n")
		for i := range n {
			b.WriteString("  p" + strings.Repeat("x", i%26) + string(rune('a'+i/26)) + ": {}\n")
		}
		return b.String()
	}
	if s := load(t, many(50)); len(s.Names()) != 52 {
		t.Errorf("50 presets give %v", s.Names())
	}
	for name, text := range map[string]string{
		"51 presets":           many(51),
		"over 64 KiB":          "# " + strings.Repeat("x", 64<<10),
		"deep lists":           "webhook_delivery: " + strings.Repeat("[", 60_000),
		"deep mappings":        strings.Repeat("{a: ", 16_000),
		"deep block lists":     strings.Repeat("- ", 30_000),
		"deep keys":            strings.Repeat("? ", 30_000),
		"many tags":            strings.Repeat("!!a ", 16_000),
		"many anchors":         strings.Repeat("&a ", 20_000),
		"as deep as is parsed": strings.Repeat("[", 4_000),
		"aliases of aliases":   "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			if _, err := Load([]byte(text)); err == nil || len(err.Error()) > 10_000 {
				t.Errorf("%.200v", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestProblemsAreCutShort(t *testing.T) {
	t.Parallel()
	_, err := Load([]byte("webhook_delivery: {waits_between_attempts: [" + strings.Repeat("x, ", 29) + "x]}"))
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 30 {
		t.Fatalf("%d problems: %v", len(problems), err)
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 21 || lines[20] != "and 10 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"seed.yaml", "design.yaml", "builtin.yaml"} {
		f.Add(testdata(f, name))
	}
	f.Add("webhook_delivery: {retention: {events: 1d}}")
	f.Add("presets: {a: {waits_between_attempts: [1s, 7d]}, commerce: {jitter_percent: 50}}")
	f.Add("a: &x [*x]\n<<: *x\n? [a]\n: !!int |\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Load([]byte(text))
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("untyped error %v", err)
			}
			for _, p := range problems {
				if p.Line < 1 || p.Line > 2+strings.Count(text, "\n")+strings.Count(text, "\r") || p.Detail == "" {
					t.Errorf("%+v for %q", p, text)
				}
			}
			return
		}
		again, err := Load([]byte(s.YAML()))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("not read back (%v):\n%s", err, s.YAML())
		}
		for _, name := range s.Names() {
			p, _ := s.Preset(name)
			if p.Timeout < time.Second || p.Timeout > time.Minute || len(p.Waits) > 30 || p.JitterPercent > 50 || p.FollowRedirects ||
				!p.Does(DeadLetter) || p.Longest() > p.ResendWindow || p.ResendWindow > p.Retention.Deliveries {
				t.Errorf("%s breaks a limit: %v", name, p)
			}
			if p.Success(199) || p.Success(300) {
				t.Errorf("%s: success outside 2xx: %v", name, p.SuccessCodes)
			}
		}
	})
}
