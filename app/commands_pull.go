package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"waybill/app/listen"
)

// serverFlags say which Waybill a developer's command talks to.
type serverFlags struct {
	URL string `help:"The Waybill server; WAYBILL_URL, or http://localhost:8080, when it is left out." placeholder:"URL"`
	Key string `help:"An API key; WAYBILL_KEY when it is left out, which keeps it out of the list of processes." placeholder:"KEY"`
}

func (f serverFlags) server(getenv func(string) string) listen.Server {
	s := listen.Server{URL: f.URL, Key: f.Key}
	if s.URL == "" {
		s.URL = getenv("WAYBILL_URL")
	}
	if s.URL == "" {
		s.URL = "http://localhost:8080"
	}
	if s.Key == "" {
		s.Key = getenv("WAYBILL_KEY")
	}
	return s
}

type listenCommand struct {
	serverFlags
	ForwardTo string   `required:"" name:"forward-to" help:"Where events are posted, such as http://localhost:3000/hooks." placeholder:"URL"`
	Secret    string   `help:"Sign with this secret, instead of a new one that is printed." placeholder:"whsec_…"`
	Type      []string `help:"Only these event types, or prefixes as order.*." placeholder:"TYPE,…"`
	Replay    int      `help:"Begin with the last so many events." placeholder:"N"`
}

// Run follows the stream of events and posts each to a program on this machine, until it is told to stop.
func (c *listenCommand) Run(ctx context.Context, io streams) error {
	return listen.Run(ctx, listen.Config{Server: c.server(io.getenv), ForwardTo: c.ForwardTo, Secret: c.Secret, Types: c.Type, Replay: c.Replay, Out: io.out})
}

type triggerCommand struct {
	serverFlags
	Type     string        `arg:"" help:"The event type, such as consignment.delivered."`
	Endpoint string        `help:"The endpoint's id; the only one there is when it is left out." placeholder:"ep_…"`
	Data     string        `help:"The event's data as JSON, instead of the type's example in the catalog." placeholder:"JSON"`
	Within   time.Duration `help:"How long the endpoint's answer is waited for." default:"30s"`
}

// Run sends a test event and says what the endpoint answered.
func (c *triggerCommand) Run(ctx context.Context, io streams) error {
	t := listen.Trigger{Server: c.server(io.getenv), Type: c.Type, Endpoint: c.Endpoint, Within: c.Within, Out: io.out}
	if c.Data != "" {
		if !json.Valid([]byte(c.Data)) {
			return errors.New("--data must be JSON")
		}
		t.Data = json.RawMessage(c.Data)
	}
	return t.Send(ctx)
}

type typesCommand struct {
	Import typesImportCommand `cmd:"" help:"Bring event types from a file into the catalog: a list of our own, or the webhooks of an OpenAPI 3.1 document; JSON or YAML."`
}

type typesImportCommand struct {
	serverFlags
	File string `arg:"" type:"existingfile" help:"The file."`
}

// Run imports and says what was done with each type. The key is the platform's.
func (c *typesImportCommand) Run(ctx context.Context, io streams) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	if err := c.server(io.getenv).ImportTypes(ctx, text, io.out); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	return nil
}
