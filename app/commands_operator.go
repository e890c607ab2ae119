package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"waybill/app/fault"
	"waybill/app/operator"
	"waybill/db"
	"waybill/web/path"
)

type operatorCommand struct {
	Add operatorAddCommand `cmd:"" help:"Make an operator, or a new link for one, and print the one-time link with which they set a password."`
}

type operatorAddCommand struct {
	Email string `arg:"" help:"The operator's mail address."`
	Role  string `help:"What they may do: admin (everything) or support (look, resend, view as a tenant)." enum:"admin,support" default:"admin"`
}

// Run makes the operator and prints the link: whoever may run commands here may let people in.
func (c *operatorAddCommand) Run(ctx context.Context, io streams, logger *slog.Logger) error {
	url, stop, err := database(ctx, io, logger)
	if err != nil {
		return err
	}
	defer stop()
	pool, err := db.Open(ctx, url, db.Options{AppName: "waybill operator", MaxConns: 1})
	if err != nil {
		return err
	}
	defer pool.Close()
	operators := &operator.Service{DB: pool, Now: time.Now}
	made, token, err := operators.Add(ctx, operator.Command(), c.Email, operator.Role(c.Role))
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			text := f.Detail
			for _, field := range f.Fields {
				text += " " + field.Name + " " + field.Detail + "."
			}
			return errors.New(text)
		}
		return err
	}
	base := strings.TrimRight(cmp.Or(io.getenv("WAYBILL_URL"), "http://localhost:8080"), "/")
	fmt.Fprintf(io.out, "%s is %s. Within a day and once, this link sets their password:\n%s\n", made.Email, made.Role, base+path.ConsolePassword(token.Reveal()))
	return nil
}
