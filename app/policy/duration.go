package policy

import (
	"strconv"
	"strings"
	"time"
)

// durationForm says what a duration may look like, for messages.
const durationForm = "a duration such as 5s, 5m, 2h, 1h30m or 5d"

var units = []struct {
	letter byte
	length time.Duration
}{{'d', day}, {'h', time.Hour}, {'m', time.Minute}, {'s', time.Second}}

// parseDuration reads whole numbers with the units d, h, m and s, each at most once and from large to small, up to 8
// digits each.
func parseDuration(s string) (time.Duration, bool) {
	var sum time.Duration
	next := 0 // the largest unit that may still come
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 || digits > 8 || digits == len(rest) {
			return 0, false
		}
		for next < len(units) && units[next].letter != rest[digits] {
			next++
		}
		if next == len(units) {
			return 0, false
		}
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || time.Duration(n) > (1<<63-1-sum)/units[next].length {
			return 0, false
		}
		sum += time.Duration(n) * units[next].length
		next++
		rest = rest[digits+1:]
	}
	return sum, s != ""
}

// formatDuration writes what parseDuration reads, as the seeds write it: 24h and 48h, but 5d.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	if d%day == 0 && d > 2*day {
		return strconv.Itoa(int(d/day)) + "d"
	}
	var b strings.Builder
	for _, u := range units {
		if u.length == day && d <= 2*day {
			continue
		}
		if n := d / u.length; n > 0 {
			b.WriteString(strconv.Itoa(int(n)))
			b.WriteByte(u.letter)
			d -= n * u.length
		}
	}
	return b.String()
}

func formatDurations(list []time.Duration) string {
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = formatDuration(d)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
