package id

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 17, 9, 41, 5, 123_456_789, time.UTC)

func TestNewIsReadBack(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^[a-z]{2,3}_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	seen := map[Prefix]bool{}
	for _, p := range Prefixes() {
		if seen[p] {
			t.Errorf("prefix %q twice", p)
		}
		seen[p] = true
		s := New(p, noon)
		if !shape.MatchString(s) || !Valid(p, s) {
			t.Errorf("New(%q) = %q is not valid", p, s)
		}
		if !ValidEvent(s) {
			t.Errorf("%q may not stand in webhook-id", s)
		}
		got, err := Time(s)
		if err != nil || !got.Equal(noon.Truncate(time.Millisecond)) {
			t.Errorf("Time(%q) = %v, %v", s, got, err)
		}
		day, err := Day(s)
		if err != nil || day != time.Date(2026, 11, 17, 0, 0, 0, 0, time.UTC) {
			t.Errorf("Day(%q) = %v, %v", s, day, err)
		}
		for _, other := range Prefixes() {
			if other != p && Valid(other, s) {
				t.Errorf("%q passes as a %q", s, other)
			}
		}
	}
}

func TestDayIsOfUTC(t *testing.T) {
	t.Parallel()
	kolkata := time.FixedZone("+05:30", 5*3600+1800)
	newYork := time.FixedZone("-05:00", -5*3600)
	for _, c := range []struct {
		name string
		at   time.Time
		want string
	}{
		{"first moment", time.Date(2026, 11, 17, 0, 0, 0, 0, time.UTC), "2026-11-17"},
		{"last microsecond", time.Date(2026, 11, 17, 23, 59, 59, 999_999_000, time.UTC), "2026-11-17"},
		{"east of it", time.Date(2026, 11, 18, 2, 0, 0, 0, kolkata), "2026-11-17"},
		{"west of it", time.Date(2026, 11, 17, 23, 0, 0, 0, newYork), "2026-11-18"},
		{"year end", time.Date(2026, 12, 31, 23, 59, 59, 999_999_999, time.UTC), "2026-12-31"},
		{"leap day", time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC), "2028-02-29"},
		{"1970", time.Unix(0, 0), "1970-01-01"},
		{"before 1970", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), "1970-01-01"},
		{"far off", time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC), "10889-08-02"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			day, err := Day(New(Delivery, c.at))
			if err != nil || day.Format("2006-01-02") != c.want || day.Location() != time.UTC || day.Hour() != 0 {
				t.Errorf("Day = %v, %v, want %s", day, err, c.want)
			}
		})
	}
}

// TestIdsOfOneMillisecondRise is not parallel: a neighbour's millisecond between two of its calls would
// rightly start a new random number.
func TestIdsOfOneMillisecondRise(t *testing.T) {
	at := time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)
	last := ""
	for range 20_000 {
		s := New(Event, at)
		if s <= last {
			t.Fatalf("%q does not sort behind %q", s, last)
		}
		last = s
	}
	if later := New(Attempt, at.Add(time.Millisecond)); later[len("att_"):] <= last[len("evt_"):] {
		t.Errorf("%q of the next millisecond does not sort behind %q", later, last)
	}
}

func TestConcurrentIdsDiffer(t *testing.T) {
	t.Parallel()
	const each, makers = 2000, 16
	made := make([][]string, makers)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			for n := range each {
				made[i] = append(made[i], New(Delivery, noon.Add(time.Duration(n%3)*time.Millisecond)))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(made...)
	slices.Sort(all)
	if got := len(slices.Compact(all)); got != each*makers {
		t.Errorf("%d different ids of %d", got, each*makers)
	}
}

func TestTimePrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Unix(0, 0), "0000000000"},
		{time.UnixMilli(1), "0000000001"},
		{time.UnixMilli(1_469_918_176_385), "01ARYZ6S41"}, // the example of the ULID specification
		{time.UnixMilli(1<<48 - 1), "7ZZZZZZZZZ"},
		{time.UnixMilli(1 << 48), "7ZZZZZZZZZ"},
		{time.Time{}, "0000000000"},
	} {
		if got := TimePrefix(c.at); got != c.want {
			t.Errorf("TimePrefix(%v) = %q, want %q", c.at, got, c.want)
		}
		if made := New(Event, c.at); !strings.HasPrefix(made, "evt_"+c.want) {
			t.Errorf("New(%v) = %q, want the time part %q", c.at, made, c.want)
		}
	}
	// What a statement would build is an id like any other.
	if s := "dlv_" + TimePrefix(noon) + "0123456789ABCDEF"; !Valid(Delivery, s) {
		t.Errorf("%q is not valid", s)
	}
}

func TestValidIsStrict(t *testing.T) {
	t.Parallel()
	const good = "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R"
	if !Valid(Event, good) {
		t.Fatalf("%q is refused", good)
	}
	for name, s := range map[string]string{
		"empty":               "",
		"only prefix":         "evt_",
		"other prefix":        "dlv_01J9X3ZK7Q8W2M4T5V6B7N8P9R",
		"no underscore":       "evt-01J9X3ZK7Q8W2M4T5V6B7N8P9R",
		"upper prefix":        "EVT_01J9X3ZK7Q8W2M4T5V6B7N8P9R",
		"lower ulid":          strings.ToLower(good),
		"one short":           good[:len(good)-1],
		"one long":            good + "0",
		"trailing newline":    good + "\n",
		"newline for a digit": good[:len(good)-1] + "\n",
		"leading space":       " " + good[:len(good)-1],
		"letter I":            "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9I",
		"letter L":            "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9L",
		"letter O":            "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9O",
		"letter U":            "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9U",
		"over 128 bits":       "evt_81J9X3ZK7Q8W2M4T5V6B7N8P9R",
		"full stop":           "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9.",
		"two bytes a letter":  "evt_01J9X3ZK7Q8W2M4T5V6B7N8Pé",
		"nul":                 "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9\x00",
		"long":                strings.Repeat(good, 1000),
	} {
		if Valid(Event, s) {
			t.Errorf("%s: %.80q passes", name, s)
		}
		if day, err := Day(s); err == nil && name != "other prefix" {
			t.Errorf("%s: Day(%.80q) = %v", name, s, day)
		}
	}
	if _, err := Day("xyz_01J9X3ZK7Q8W2M4T5V6B7N8P9R"); err == nil {
		t.Error("Day reads an unknown prefix")
	} else if strings.Contains(err.Error(), "xyz") {
		t.Errorf("the error quotes its input: %v", err)
	}
}

// CASES B29: whatever could change where the parts of the signed text begin, or what a header is.
func TestValidEvent(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R": true,
		"a":                              true,
		"-":                              true,
		"_":                              true,
		"AZaz09_-":                       true,
		"0":                              true,
		strings.Repeat("x", 64):          true,
		strings.Repeat("x", 65):          false,
		strings.Repeat("x", 300):         false,
		"":                               false,
		`a.1700000000.{"x":1}`:           false,
		"a.b":                            false,
		"a b":                            false,
		" a":                             false,
		"a ":                             false,
		"a\r\nX: y":                      false,
		"a\n":                            false,
		"é":                              false,
		"a\u200b":                        false,
		"%2e":                            false,
		"a/b":                            false,
		"a:b":                            false,
		"a,b":                            false,
		"\x00":                           false,
		"\xff":                           false,
		"Ａ":                              false,
	} {
		if got := ValidEvent(s); got != want {
			t.Errorf("ValidEvent(%q) = %v, want %v", s, got, want)
		}
	}
}

func FuzzReadBack(f *testing.F) {
	f.Add("evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R")
	f.Add("ep_7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Add("a.b")
	strict := regexp.MustCompile(`^(tnt|ep|evt|dlv|att|key|sec|mem|ses|wrk|aud|rcv)_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	event := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	f.Fuzz(func(t *testing.T, s string) {
		valid := slices.ContainsFunc(Prefixes(), func(p Prefix) bool { return Valid(p, s) })
		// Go's $ without (?m) is the end of the text only, so the expressions need no newline check.
		if valid != strict.MatchString(s) {
			t.Errorf("Valid(%q) = %v", s, valid)
		}
		if _, err := Day(s); (err == nil) != valid {
			t.Errorf("Day(%q): %v, though valid is %v", s, err, valid)
		}
		if ValidEvent(s) != event.MatchString(s) {
			t.Errorf("ValidEvent(%q) = %v", s, ValidEvent(s))
		}
	})
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		New(Attempt, noon)
	}
}
