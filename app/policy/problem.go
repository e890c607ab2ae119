package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong in a policy file.
type Problem struct {
	// Line and Column count from 1; Column 0 means the whole line.
	Line, Column int
	// Key is the key with the keys it lies in ("webhook_delivery.retention.events"); empty for the file itself.
	Key string
	// Detail says what is wrong and what is allowed.
	Detail string
}

// Error is "line 7: webhook_delivery.timeout_seconds: …".
func (p Problem) Error() string {
	if p.Key == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Detail)
	}
	return fmt.Sprintf("line %d: %s: %s", p.Line, p.Key, p.Detail)
}

// Problems is everything that is wrong in a file, in the order of its lines: the error of Load.
type Problems []Problem

// Error is one line for each problem, and at most 20.
func (p Problems) Error() string {
	const most = 20
	var b strings.Builder
	for i, one := range p {
		if i == most {
			fmt.Fprintf(&b, "\nand %d more", len(p)-most)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(one.Error())
	}
	return b.String()
}

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return p
}

// quoteShort quotes what the file says, cut to a length that fits a message.
func quoteShort(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
