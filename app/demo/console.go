package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// console prints the story: a line an event worth telling, with the time since the program's start in front.
type console struct {
	out     io.Writer
	started time.Time
	now     func() time.Time
	quiet   bool // only what always says

	mu sync.Mutex
}

// say prints a line of the story.
func (c *console) say(format string, args ...any) {
	if !c.quiet {
		c.always(format, args...)
	}
}

// always prints a line that is wanted when the console is quiet too.
func (c *console) always(format string, args ...any) {
	c.print(clock(c.now().Sub(c.started)), fmt.Sprintf(format, args...))
}

// note prints a line without a time.
func (c *console) note(format string, args ...any) {
	if !c.quiet {
		c.print("", fmt.Sprintf(format, args...))
	}
}

// blank prints an empty line.
func (c *console) blank() {
	if !c.quiet {
		c.print("", "")
	}
}

func (c *console) print(at, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Nobody is helped by an error of the terminal.
	_, _ = fmt.Fprintln(c.out, strings.TrimRight(fmt.Sprintf("%10s  %s", at, text), " "))
}

// clock is "12.3 s", and "3:05 min" from two minutes on.
func clock(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d min", int(d.Minutes()), int(d.Seconds())%60)
}

// short is a duration in the unit that suits it.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d.Milliseconds(), 1))
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// count is a number with its noun, in the plural if it is not one: "1,204 updates".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return number(n) + " " + noun
}

// number is n with commas between its thousands.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// have is "3 updates have", and "1 update has".
func have(n int, noun string) string {
	if n == 1 {
		return count(n, noun) + " has"
	}
	return count(n, noun) + " have"
}

// waitFor is "3 updates wait", and "1 update waits".
func waitFor(n int, noun string) string {
	if n == 1 {
		return count(n, noun) + " waits"
	}
	return count(n, noun) + " wait"
}

// none is n, and "none" for 0.
func none(n int) string {
	if n == 0 {
		return "none"
	}
	return number(n)
}

// words is a status as people say it.
func words(status string) string { return strings.ReplaceAll(status, "_", " ") }
