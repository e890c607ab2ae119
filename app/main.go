// Command waybill delivers a platform's events to its tenants' servers and shows each tenant what happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // tenants choose time zones; the image has no zone files

	"github.com/alecthomas/kong"
)

// cli is the command line: waybill COMMAND. Everything else is configured by environment variables, listed in the README.
type cli struct {
	Log string `help:"Least level that is logged." enum:"debug,info,warn,error" default:"info"`

	Demo     demoCommand     `cmd:"" help:"Run everything in one process with a private Postgres, a freight platform and a seller's receiver."`
	Serve    serveCommand    `cmd:"" help:"Run the program, or parts of it."`
	Migrate  migrateCommand  `cmd:"" help:"Bring the database's schema up to this program's."`
	Publish  publishCommand  `cmd:"" help:"Publish one event; its data is JSON on standard input."`
	Policy   policyCommand   `cmd:"" help:"Work with delivery policy files."`
	Listen   listenCommand   `cmd:"" help:"Follow a tenant's events and post each to a program on this machine."`
	Trigger  triggerCommand  `cmd:"" help:"Send a test event to an endpoint."`
	Types    typesCommand    `cmd:"" help:"Work with the catalog of event types."`
	Doctor   doctorCommand   `cmd:"" help:"Look for what is wrong with the configuration, the database, the proxy, names, clock and mail, and say what to do."`
	Operator operatorCommand `cmd:"" help:"Work with the platform's own people, who use the console."`
	Health   healthCommand   `cmd:"" help:"Ask the running program on this machine whether it is well."`
}

// streams is what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}))
}

// run carries out a command line and returns the exit code: 0 done, 1 failed, 2 not understood.
func run(ctx context.Context, args []string, io streams) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c, kong.Name("waybill"), kong.Description("Webhook delivery for platforms with many tenants."),
		kong.Writers(io.out, io.err), kong.Exit(func(code int) { exited = code }), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(io))
	if err != nil {
		fmt.Fprintln(io.err, "waybill:", err)
		return 2
	}
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited // help was asked for, and given
	}
	if err != nil {
		fmt.Fprintf(io.err, "waybill: %v\nTry: waybill --help\n", err)
		return 2
	}
	command.Bind(newLogger(io.err, c.Log))
	if err := command.Run(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(io.err, "waybill: %v\n", err)
		return 1
	}
	return 0
}

func newLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
}
