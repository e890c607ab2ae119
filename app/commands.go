package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"waybill/app/fault"
	"waybill/app/outbox"
	"waybill/app/policy"
	"waybill/app/server"
	"waybill/db"
	"waybill/db/embedded"
)

type serveCommand struct {
	Only []string `help:"Only these parts: web, worker, proxy. All of them without it." enum:"web,worker,proxy" placeholder:"PART,…"`
	Addr string   `help:"Listening address, instead of WAYBILL_ADDR." placeholder:"HOST:PORT"`
}

// Run serves until it is told to stop, and then stops in order.
func (c *serveCommand) Run(ctx context.Context, io streams, logger *slog.Logger) error {
	roles := make([]server.Role, len(c.Only))
	for i, r := range c.Only {
		roles[i] = server.Role(r)
	}
	config, err := server.FromEnv(c.getenv(io.getenv), roles)
	if err != nil {
		return fmt.Errorf("the configuration is not usable:\n%w", err)
	}
	s, err := server.Start(ctx, config, logger)
	if err != nil {
		return err
	}
	logger.Info("waybill is running", "addr", s.Addr(), "url", config.URL, "roles", c.Only)
	select {
	case <-ctx.Done():
		logger.Info("stopping")
	case err = <-s.Failed():
	}
	s.Stop(context.WithoutCancel(ctx))
	return err
}

// getenv is the environment with the flags put over it.
func (c *serveCommand) getenv(getenv func(string) string) func(string) string {
	return func(name string) string {
		if name == "WAYBILL_ADDR" && c.Addr != "" {
			return c.Addr
		}
		return getenv(name)
	}
}

type healthCommand struct {
	Path string `help:"What is asked." default:"/healthz"`
}

// Run asks the program that listens on WAYBILL_ADDR of this machine whether it is well: the health check of an image without a shell.
func (c *healthCommand) Run(ctx context.Context, io streams) error {
	addr := io.getenv("WAYBILL_ADDR")
	if addr == "" {
		addr = server.DefaultAddr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("WAYBILL_ADDR: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+c.Path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", c.Path, answer.Status)
	}
	return nil
}

type migrateCommand struct{}

// Run migrates under an advisory lock; two at once are fine.
func (c *migrateCommand) Run(ctx context.Context, io streams, logger *slog.Logger) error {
	url, stop, err := database(ctx, io, logger)
	if err != nil {
		return err
	}
	defer stop()
	applied, err := db.Migrate(ctx, url, logger)
	if err != nil {
		return err
	}
	if len(applied) == 0 {
		fmt.Fprintln(io.out, "nothing to do: the schema is up to date")
	}
	for _, name := range applied {
		fmt.Fprintln(io.out, "applied", name)
	}
	return nil
}

// database is WAYBILL_DATABASE_URL, or the embedded Postgres: one that runs already, or one for the time of this command.
func database(ctx context.Context, io streams, logger *slog.Logger) (url string, stop func(), err error) {
	if url = io.getenv("WAYBILL_DATABASE_URL"); url != "" {
		return url, func() {}, nil
	}
	s, err := embedded.Start(ctx, embedded.Config{Dir: io.getenv("WAYBILL_DATA"), Logger: logger, Join: true})
	if err != nil {
		return "", nil, err
	}
	return s.URL(), func() {
		if err := s.Close(); err != nil {
			logger.Error("the embedded Postgres did not stop cleanly", "error", err)
		}
	}, nil
}

type publishCommand struct {
	Tenant       string     `required:"" help:"The tenant's uid."`
	Type         string     `required:"" help:"The event type, such as consignment.delivered."`
	ResourceType string     `required:"" help:"The resource's type, such as consignment."`
	ResourceID   string     `required:"" name:"resource-id" help:"The resource's id, such as C-4471."`
	ID           string     `help:"The event's id, which makes a second call with the same content publish nothing."`
	Sequence     *int64     `help:"The resource's version; the next one when it is left out."`
	Version      int        `help:"Schema version." default:"1"`
	OccurredAt   *time.Time `help:"When it happened (RFC 3339); now when it is left out." format:"2006-01-02T15:04:05Z07:00"`
}

// maxStdin is how much of standard input is read: a little more than an event may carry.
const maxStdin = outbox.MaxData + 1024

// Run publishes and prints the event's id.
func (c *publishCommand) Run(ctx context.Context, in streams, logger *slog.Logger) error {
	data, err := io.ReadAll(io.LimitReader(in.in, maxStdin))
	if err != nil {
		return fmt.Errorf("read data from standard input: %w", err)
	}
	if !json.Valid(data) {
		return errors.New("standard input is not JSON; pipe the event's data in, such as: echo '{\"status\":\"delivered\"}' | waybill publish …")
	}
	url, stop, err := database(ctx, in, logger)
	if err != nil {
		return err
	}
	defer stop()
	pool, err := db.Open(ctx, url, db.Options{AppName: "waybill publish", MaxConns: 1})
	if err != nil {
		return err
	}
	defer pool.Close()
	published, err := outbox.Publish(ctx, pool, outbox.Event{ID: c.ID, Tenant: c.Tenant, Type: c.Type, ResourceType: c.ResourceType,
		ResourceID: c.ResourceID, Sequence: c.Sequence, Version: c.Version, OccurredAt: c.OccurredAt, Data: data})
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			return errors.New(f.Detail)
		}
		return err
	}
	fmt.Fprintln(in.out, published[0].ID)
	return nil
}

type policyCommand struct {
	Check policyCheckCommand `cmd:"" help:"Check a policy file and print what it means."`
}

type policyCheckCommand struct {
	File string `arg:"" type:"existingfile" help:"The file."`
}

// Run prints the policies the file stands for, or the line that is wrong and what is allowed there.
func (c *policyCheckCommand) Run(io streams) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	set, err := policy.Load(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	fmt.Fprint(io.out, set.YAML())
	return nil
}
