package notice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/plain"
	"waybill/db/queries"
)

// Carrier takes mails away.
type Carrier interface {
	// Open makes a connection, good for any number of mails. Its error is about the server, not about a mail.
	Open(ctx context.Context) (Connection, error)
}

// Connection sends one mail after the other.
type Connection interface {
	// Send returns nil once the server has taken the mail over, and else a *Refusal or an error of the connection.
	Send(ctx context.Context, m Mail) error
	Close()
}

// Refusal is a server's answer about one mail.
type Refusal struct {
	Final bool   // the same mail will be refused again
	Code  int    // of SMTP
	Text  string // what the server said; it may name the recipient, and stays out of logs
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused with %d", r.Code) }

// How long things take at most, and are waited with.
const (
	lease      = 5 * time.Minute  // a claimed mail is another's after that; longer than a try can take
	tryFor     = time.Minute      // one connection or one mail
	downFirst  = 15 * time.Second // after a server that was not there
	downMost   = 5 * time.Minute
	laterFirst = time.Minute // after a server that would not take this mail now (greylisting, a full mailbox)
	laterMost  = time.Hour
)

var (
	mailClaim = queries.SQL("MailClaim")
	mailSent  = queries.SQL("MailSent")
	mailLater = queries.SQL("MailLater")
	mailDrop  = queries.SQL("MailDrop")
	mailNext  = queries.SQL("MailNext")
)

// Send sends what is due and ends when nothing is, or when the mail server cannot be reached: then what is due is tried again later. No error
// of a mail or of a mail server is one of Send; a database that does not answer is.
func (o *Outbox) Send(ctx context.Context, carrier Carrier, log *slog.Logger) error {
	var line Connection
	defer func() {
		if line != nil {
			line.Close()
		}
	}()
	for ctx.Err() == nil {
		m, try, dead, err := o.claim(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if dead != "" {
			log.Warn("a mail is not sent", "mail", m.ID, "kind", m.Kind, "reason", dead)
			if err := o.exec(ctx, mailDrop, m.ID, try, dead); err != nil {
				return err
			}
			continue
		}
		if line == nil {
			opening, cancel := context.WithTimeout(ctx, tryFor)
			line, err = carrier.Open(opening)
			cancel()
		}
		if err == nil {
			sending, cancel := context.WithTimeout(ctx, tryFor)
			err = line.Send(sending, m)
			cancel()
		}
		if down, err := o.settle(ctx, m, try, err, log); down || err != nil {
			return err
		}
	}
	return ctx.Err()
}

// claim takes the next mail that is due, for one try. dead says why there is no point in trying.
func (o *Outbox) claim(ctx context.Context) (m Mail, try int, dead string, err error) {
	var sealed []byte
	var over bool
	err = o.DB.QueryRow(ctx, mailClaim, lease).Scan(&m.ID, &m.Kind, &m.TenantID, &m.To, &m.Subject, &sealed, &m.CreatedAt, &try, &over)
	if err != nil {
		return Mail{}, 0, "", fmt.Errorf("claim a mail: %w", err)
	}
	if over {
		return m, try, "not sent in time", nil
	}
	if err := o.open(&m, sealed); err != nil {
		return m, try, "its seal cannot be opened: the key is no longer in the ring", nil
	}
	return m, try, "", nil
}

// settle records how a try ended, also when the program is told to stop meanwhile. down says that the server is not there.
func (o *Outbox) settle(ctx context.Context, m Mail, try int, outcome error, log *slog.Logger) (down bool, err error) {
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryFor)
	defer cancel()
	var refusal *Refusal
	switch {
	case outcome == nil:
		return false, o.exec(recording, mailSent, m.ID, try)
	case errors.As(outcome, &refusal) && refusal.Final:
		log.Warn("a mail was refused for good", "mail", m.ID, "kind", m.Kind, "code", refusal.Code)
		return false, o.exec(recording, mailDrop, m.ID, try, plain.Clip(refusal.Text, 300))
	case errors.As(outcome, &refusal):
		return false, o.exec(recording, mailLater, m.ID, try, doubled(laterFirst, laterMost, try), plain.Clip(refusal.Text, 300))
	default:
		wait := doubled(downFirst, downMost, try)
		log.Warn("the mail server does not take mails", "mail", m.ID, "again_in", wait, "error", plain.Clip(outcome.Error(), 300))
		return true, o.exec(recording, mailLater, m.ID, try, wait, plain.Clip(outcome.Error(), 300))
	}
}

func (o *Outbox) exec(ctx context.Context, sql string, args ...any) error {
	if _, err := o.DB.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("record a mail's try: %w", err)
	}
	return nil
}

// doubled is the wait after the given try: first, twice that, and so on up to most.
func doubled(first, most time.Duration, try int) time.Duration {
	wait := first
	for range try - 1 {
		if wait *= 2; wait >= most {
			return most
		}
	}
	return wait
}

// Next is when a mail is due again; the zero time: none waits.
func (o *Outbox) Next(ctx context.Context) (time.Time, error) {
	var at *time.Time
	if err := o.DB.QueryRow(ctx, mailNext).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("look for waiting mails: %w", err)
	}
	if at == nil {
		return time.Time{}, nil
	}
	return *at, nil
}
