package dashboard

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestTogether(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	until := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		reads []func(context.Context) error
		want  error
		panic string
	}{
		"nothing":                 {},
		"an error ends the other": {reads: []func(context.Context) error{until, func(context.Context) error { return broken }, until}, want: broken},
		"a panic, too":            {reads: []func(context.Context) error{until, func(context.Context) error { panic("lost") }}, panic: "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if caught := recover(); fmt.Sprint(caught) != fmt.Sprint(map[bool]any{true: nil, false: c.panic}[c.panic == ""]) {
					t.Errorf("caught %v, want %q", caught, c.panic)
				}
			}()
			if err := together(t.Context(), c.reads...); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// Reads that wait for each other show that they run at the same time.
func TestTogetherAtOnce(t *testing.T) {
	t.Parallel()
	here, there := make(chan int), make(chan int)
	var sum int
	err := together(t.Context(), func(context.Context) error { here <- 1; sum += <-there; return nil }, func(context.Context) error { n := <-here; there <- n + 1; return nil })
	if err != nil || sum != 2 {
		t.Errorf("%d, %v", sum, err)
	}
}
