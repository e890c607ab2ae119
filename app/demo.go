package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"waybill/app/demo"
)

type demoCommand struct {
	For   time.Duration `help:"Stop by itself after this time, such as 30s." placeholder:"DURATION"`
	Quiet bool          `help:"Print only the first delivery, the way into the dashboard, and the end."`
}

// Run tells the demo's story until it is told to stop, or its time is over.
func (c *demoCommand) Run(ctx context.Context, io streams, logger *slog.Logger) error {
	if c.For < 0 {
		return errors.New("--for must be a time such as 30s")
	}
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	if !logger.Enabled(ctx, slog.LevelDebug) {
		logger = slog.New(warnings{logger.Handler()}) // the console tells what happens; the log is for what is wrong
	}
	err := demo.Run(ctx, demo.Config{Getenv: io.getenv, Out: io.out, Logger: logger, Quiet: c.Quiet})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// warnings lets warnings and errors through.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
