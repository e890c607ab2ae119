package main

import (
	"context"
	"errors"
	"log/slog"

	"waybill/app/doctor"
	"waybill/app/server"
)

type doctorCommand struct{}

// errUnwell is what the command ends with when a check failed; the findings have said the rest.
var errUnwell = errors.New("something is wrong: see the lines that say fail")

// Run examines what this environment describes and prints a line for each finding. It changes nothing.
func (c *doctorCommand) Run(ctx context.Context, io streams, logger *slog.Logger) error {
	config, problems := server.FromEnv(io.getenv, nil)
	o := doctor.Options{Problems: each(problems), DatabaseURL: config.DatabaseURL, Conns: server.Conns, URL: config.URL, Development: config.Development(),
		Policy: config.LoadPolicy, ProxyURL: config.ProxyURL, EgressAllow: config.EgressAllow, SMTPURL: config.SMTPURL}
	ring, err := config.KeptRing()
	if err == nil {
		o.Ring = ring
	} else if config.SecretKeys == "" {
		o.Problems = append(o.Problems, err) // a configured ring that cannot be read is among them already
	}
	url, stop, err := database(ctx, io, logger)
	if err == nil {
		defer stop()
		o.Embedded, o.DatabaseURL = o.DatabaseURL == "", url
	} else {
		o.Problems = append(o.Problems, err)
	}
	if doctor.Failed(doctor.Examine(ctx, o, func(f doctor.Finding) { doctor.Print(io.out, f) })) {
		return errUnwell
	}
	return nil
}

// each takes joined errors apart.
func each(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}
