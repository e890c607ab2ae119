package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Clock turns instants into what a reader sees: Now is the one instant that a page counts from, Zone the
// tenant's time zone.
type Clock struct {
	Now  time.Time
	Zone *time.Location
}

// Moment is an instant as shown: Datetime for machines (RFC 3339, UTC, milliseconds), Relative ("3 min ago",
// "in 2 h") and Exact (with weekday, seconds, zone name and offset). The zero Moment is "never" and shows a
// dash.
type Moment struct {
	Datetime, Relative, Exact string
}

// IsZero says that there is no instant.
func (m Moment) IsZero() bool { return m.Datetime == "" }

// Moment shows an instant; the zero time gives the zero Moment.
func (c Clock) Moment(at time.Time) Moment {
	if at.IsZero() {
		return Moment{}
	}
	return Moment{
		Datetime: at.UTC().Format("2006-01-02T15:04:05.000Z"),
		Relative: relative(c.Now, at),
		Exact:    at.In(c.zone()).Format("Mon 2 Jan 2006, 15:04:05 MST (-07:00)"),
	}
}

// Time is the time of day in the tenant's zone, with the day when it is not today's.
func (c Clock) Time(at time.Time) string {
	here, now := at.In(c.zone()), c.Now.In(c.zone())
	if here.YearDay() == now.YearDay() && here.Year() == now.Year() {
		return here.Format("15:04")
	}
	if here.Year() == now.Year() {
		return here.Format("Mon 2 Jan, 15:04")
	}
	return here.Format("2 Jan 2006, 15:04")
}

// Day is the date in the tenant's zone.
func (c Clock) Day(at time.Time) string { return at.In(c.zone()).Format("2 Jan 2006") }

func (c Clock) zone() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}

// relative is coarse on purpose: one unit, rounded down, so that "59 min ago" never reads "1 h ago". The
// module assets/js/times.js says the same words.
func relative(now, at time.Time) string {
	ahead := at.After(now)
	gap := now.Sub(at).Abs()
	if gap < 5*time.Second {
		return "now"
	}
	words := ""
	switch {
	case gap < time.Minute:
		words = fmt.Sprintf("%d s", int(gap.Seconds()))
	case gap < time.Hour:
		words = fmt.Sprintf("%d min", int(gap.Minutes()))
	case gap < 48*time.Hour:
		words = fmt.Sprintf("%d h", int(gap.Hours()))
	default:
		words = fmt.Sprintf("%d d", int(gap.Hours())/24)
	}
	if ahead {
		return "in " + words
	}
	return words + " ago"
}

// Span says a length of time in at most two units: "212 ms", "1.4 s", "5 min", "2 h 5 min", "3 d 3 h".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Millisecond && d > 0:
		return "< 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second != 0:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

func two(big int, bigUnit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%d %s", big, bigUnit)
	}
	return fmt.Sprintf("%d %s %d %s", big, bigUnit, small, smallUnit)
}

// Size says a number of bytes in decimal units, exact below 1,000.
func Size(bytes int64) string {
	switch {
	case bytes == 1:
		return "1 byte"
	case bytes < 1_000:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	case bytes < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}

// Number groups a whole number by thousands: 12,345.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Share is a percentage with as many digits as keep 99.97 % from reading 100 %; of nothing it is a dash.
func Share(part, whole int64) string {
	switch {
	case whole == 0:
		return "–"
	case part == whole:
		return "100 %"
	case part == 0:
		return "0 %"
	}
	percent := float64(part) / float64(whole) * 100
	switch {
	case percent >= 99.99:
		return "> 99.99 %"
	case percent >= 99:
		return fmt.Sprintf("%.2f %%", percent)
	case percent < 0.1:
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", percent)
}

// Count says a number with its noun: "1 delivery", "1,204 deliveries".
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Tail shortens a long id to its prefix and last six characters: "evt_…8N9P9R".
func Tail(id string) string {
	prefix, rest, found := strings.Cut(id, "_")
	if !found || len(rest) < 12 {
		return id
	}
	return prefix + "_…" + rest[len(rest)-6:]
}
