package account

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waybill/app/fault"
	"waybill/db"
	"waybill/db/queries"
)

// throttle says how often something may be tried: so many times within the window, and then only after waits that double.
type throttle struct {
	name        string
	tries       int
	first, most time.Duration // the waits
	window      time.Duration
}

// A person mistypes five times; a guesser gets some 100 guesses a day at an account. An address may be that of a whole office.
var (
	accountTries = throttle{"sign-in account", 5, time.Minute, 15 * time.Minute, time.Hour}
	addressTries = throttle{"sign-in address", 50, time.Minute, 15 * time.Minute, time.Hour}
	// Who comes as far as a code knows the password: a million codes, three of them good, and some 40 guesses a day. A recovery code cannot be guessed; its
	// own count lets who has the device taken by a guesser in with one.
	codeTries       = throttle{"sign-in code", 5, time.Minute, time.Hour, 24 * time.Hour}
	recoveryTries   = throttle{"sign-in recovery code", 5, time.Minute, time.Hour, 24 * time.Hour}
	halfTries       = throttle{"sign-in half", 30, time.Minute, 15 * time.Minute, time.Hour}
	resetsOfAccount = throttle{"reset account", 3, 20 * time.Minute, time.Hour, 2 * time.Hour}
	resetsOfAddress = throttle{"reset address", 20, 5 * time.Minute, time.Hour, 2 * time.Hour}
	verifyMails     = throttle{"verify member", 5, 10 * time.Minute, time.Hour, 2 * time.Hour}
	invitationMails = throttle{"invitations tenant", 60, 5 * time.Minute, time.Hour, 2 * time.Hour}
)

var (
	throttleTake    = queries.SQL("ThrottleTake")
	throttleUntil   = queries.SQL("ThrottleUntil")
	throttleForgive = queries.SQL("ThrottleForgive")
	throttleClear   = queries.SQL("ThrottleClear")
	throttleExpire  = queries.SQL("ThrottleExpire")
)

// of is the name under which tries on one thing are counted.
func (t throttle) of(what string) string { return t.name + " " + what }

// take counts a try before it is made. When it may not be made, the error is a RateLimited fault that says when it may.
func (s *Service) take(ctx context.Context, on db.Conn, t throttle, what string) error {
	var tries int
	err := on.QueryRow(ctx, throttleTake, t.of(what), t.tries, t.first, t.most, t.window).Scan(&tries)
	if err == nil {
		return nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("count a try: %w", err)
	}
	until := s.Now()
	if err := on.QueryRow(ctx, throttleUntil, t.of(what)).Scan(&until); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("count a try: %w", err)
	}
	return fault.Newf(fault.RateLimited, "Too many attempts. Try again in %s, at %s UTC.", minutes(until.Sub(s.Now())), until.UTC().Format("15:04"))
}

// minutes is a wait in words, rounded up.
func minutes(wait time.Duration) string {
	n := int((wait + time.Minute - 1) / time.Minute)
	if n <= 1 {
		return "a minute"
	}
	return fmt.Sprintf("%d minutes", n)
}

// executor is a pool or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// forgive takes a counted try back.
func (s *Service) forgive(ctx context.Context, on executor, t throttle, what string) error {
	return change(ctx, on, throttleForgive, t.of(what))
}

// clear forgets all tries.
func (s *Service) clear(ctx context.Context, on executor, t throttle, what string) error {
	return change(ctx, on, throttleClear, t.of(what))
}

func change(ctx context.Context, on executor, sql, subject string) error {
	if _, err := on.Exec(ctx, sql, subject); err != nil {
		return fmt.Errorf("change a throttle: %w", err)
	}
	return nil
}

// accountName stands for a mail address, also one that nobody has, in at most so many characters.
func accountName(email string) string { return hex.EncodeToString(hashOf(email)) }

// addressName is the network that an address stands for: of IPv6 a household has a /64.
func addressName(client Client) string {
	address, err := netip.ParseAddr(client.Address)
	if err != nil {
		return "unknown"
	}
	address = address.Unmap().WithZone("")
	if address.Is6() {
		prefix, _ := address.Prefix(64)
		return prefix.String()
	}
	return address.String()
}
