// Package inbox keeps receiving URLs of our own, for a tenant that has no server yet or wants to see what a failing one does.
//
// It promises that an inbox is found by its unguessable token alone; that what it keeps is bounded, by tenant, inbox, request and time; that it only
// takes: nothing that was sent to it is served to anybody but the tenant's people, as text, and nothing is sent on; that a request costs one statement;
// and that another tenant's inbox is not found.
package inbox

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// The limits, as the pages publish them.
const (
	MaxInboxes = 5                  // of a tenant
	Kept       = 100                // requests, the last ones
	MaxBody    = 64 << 10           // bytes of a request's body that are kept
	Life       = 7 * 24 * time.Hour // from its making, or from the last time it was extended
	Rate       = 10                 // requests a second
	Burst      = 30                 // requests at once
	MaxSeconds = 60                 // of Retry-After, and of a slow answer

	// readable is how long an inbox that has ended can still be read, and extended.
	readable = 24 * time.Hour
)

// Answer is what an inbox answers.
type Answer string

// The answers.
const (
	OK      Answer = "200"
	Failing Answer = "500"
	Gone    Answer = "410"
	TooMany Answer = "429"  // with Retry-After
	Slow    Answer = "slow" // 200, after a while
)

// Answers lists the answers.
func Answers() []Answer { return []Answer{OK, Failing, Gone, TooMany, Slow} }

// Reply is what an inbox is set to answer. Seconds are those of Retry-After, or of the wait before a slow answer.
type Reply struct {
	Answer  Answer
	Seconds int
}

// DefaultReply is that of a new inbox.
var DefaultReply = Reply{Answer: OK, Seconds: 20}

// Inbox is one of a tenant's inboxes.
type Inbox struct {
	ID        string // ibx_…
	URL       string // where to post
	Reply     Reply
	Received  int64 // stored so far
	Refused   int64 // came too fast and were answered 429
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time
	Ended     bool // its time is over: it answers 404
	LastAt    *time.Time
}

// Service performs the operations on inboxes. All fields are required.
type Service struct {
	DB    db.Pool
	Ring  *seal.Ring // seals headers
	Audit Audit
	URL   string // where inboxes are reached, without a slash at the end
	Now   func() time.Time
}

// Audit records what was done, in the transaction that does it. *account.Service is one.
type Audit interface {
	Record(ctx context.Context, tx pgx.Tx, caller account.Caller, action, object string, detail map[string]any) error
}

var (
	sqlInsert = queries.SQL("InboxInsert")
	sqlList   = queries.SQL("InboxList")
	sqlAnswer = queries.SQL("InboxAnswer")
	sqlExtend = queries.SQL("InboxExtend")
	sqlDelete = queries.SQL("InboxDelete")
	sqlPrune  = queries.SQL("InboxPrune")
)

// tokenBytes are random: nobody finds an inbox by trying.
const tokenBytes = 24

func newToken() string {
	random := make([]byte, tokenBytes)
	rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// plausible says whether text may be a token, before the database is asked.
func plausible(token string) bool {
	if len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return false
	}
	_, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil
}

func errNoInbox() error { return fault.New(fault.NotFound, "There is no such inbox.") }

func (r Reply) check() error {
	wrong := fault.New(fault.Invalid, "This answer cannot be set.")
	known := false
	for _, answer := range Answers() {
		known = known || answer == r.Answer
	}
	if !known {
		wrong.Field("answer", "must be 200, 500, 410, 429 or slow")
	}
	if r.Seconds < 1 || r.Seconds > MaxSeconds {
		wrong.Field("seconds", fmt.Sprintf("must be 1 to %d", MaxSeconds))
	}
	return wrong.OrNil()
}

// Create makes an inbox in the caller's tenant. It needs endpoints:write. When the tenant has as many as it may have, it is a Conflict.
func (s *Service) Create(ctx context.Context, caller account.Caller, reply Reply) (Inbox, error) {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return Inbox{}, err
	}
	if err := reply.check(); err != nil {
		return Inbox{}, err
	}
	inboxID := id.New(id.Inbox, s.Now())
	// Two that take the same slot at once: the second finds the next.
	var err error
	for range MaxInboxes {
		err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sqlInsert, pgx.NamedArgs{"id": inboxID, "tenant": caller.Tenant(), "token": newToken(), "answer": reply.Answer,
				"seconds": reply.Seconds, "burst": Burst, "by": caller.Actor(), "life": Life})
			if err != nil {
				return fmt.Errorf("insert inbox: %w", err)
			}
			return s.Audit.Record(ctx, tx, caller, "inbox.created", inboxID, nil)
		})
		if db.Constraint(err) != "inboxes_few" {
			break
		}
	}
	if db.Code(err) == "23502" { // no slot is free
		return Inbox{}, fault.Newf(fault.Conflict, "There are %d inboxes, which is the most. Delete one first.", MaxInboxes)
	}
	if err != nil {
		return Inbox{}, err
	}
	return s.read(ctx, caller.Tenant(), inboxID)
}

// List is the inboxes of the caller's tenant, newest first. It needs endpoints:read.
func (s *Service) List(ctx context.Context, caller account.Caller) ([]Inbox, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return nil, err
	}
	return s.list(ctx, caller.Tenant(), "")
}

// Read is one inbox of the caller's tenant. It needs endpoints:read.
func (s *Service) Read(ctx context.Context, caller account.Caller, inboxID string) (Inbox, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return Inbox{}, err
	}
	return s.read(ctx, caller.Tenant(), inboxID)
}

func (s *Service) read(ctx context.Context, tenant, inboxID string) (Inbox, error) {
	if !id.Valid(id.Inbox, inboxID) {
		return Inbox{}, errNoInbox()
	}
	found, err := s.list(ctx, tenant, inboxID)
	if err == nil && len(found) == 0 {
		err = errNoInbox()
	}
	if err != nil {
		return Inbox{}, err
	}
	return found[0], nil
}

func (s *Service) list(ctx context.Context, tenant, inboxID string) ([]Inbox, error) {
	rows, err := s.DB.Query(ctx, sqlList, pgx.NamedArgs{"tenant": tenant, "id": inboxID})
	if err != nil {
		return nil, fmt.Errorf("list inboxes: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Inbox, error) {
		var b Inbox
		var token string
		err := row.Scan(&b.ID, &token, &b.Reply.Answer, &b.Reply.Seconds, &b.Received, &b.Refused, &b.CreatedBy, &b.CreatedAt, &b.ExpiresAt, &b.Ended, &b.LastAt)
		b.URL = s.URL + Prefix + token
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("list inboxes: %w", err)
	}
	return found, nil
}

// Prefix is what the path of an inbox begins with; the token follows.
const Prefix = "/inbox/"

// IsOurs says whether a URL is that of an inbox here, of whichever tenant.
func (s *Service) IsOurs(url string) bool { return strings.HasPrefix(url, s.URL+Prefix) }

// SetReply changes what an inbox of the caller's tenant answers, from the next request on. It needs endpoints:write.
func (s *Service) SetReply(ctx context.Context, caller account.Caller, inboxID string, reply Reply) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	if err := reply.check(); err != nil {
		return err
	}
	return s.change(ctx, caller, inboxID, sqlAnswer, "inbox.changed", pgx.NamedArgs{"answer": reply.Answer, "seconds": reply.Seconds},
		map[string]any{"answer": string(reply.Answer)})
}

// Extend lets an inbox of the caller's tenant live for Life from now; one that has ended receives again. It needs endpoints:write.
func (s *Service) Extend(ctx context.Context, caller account.Caller, inboxID string) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	return s.change(ctx, caller, inboxID, sqlExtend, "inbox.extended", pgx.NamedArgs{"life": Life}, nil)
}

// Delete removes an inbox of the caller's tenant with all that it has received. It needs endpoints:write.
func (s *Service) Delete(ctx context.Context, caller account.Caller, inboxID string) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	return s.change(ctx, caller, inboxID, sqlDelete, "inbox.deleted", pgx.NamedArgs{}, nil)
}

// change runs a statement that returns the inbox it changed, and records that.
func (s *Service) change(ctx context.Context, caller account.Caller, inboxID, sql, action string, args pgx.NamedArgs, detail map[string]any) error {
	if !id.Valid(id.Inbox, inboxID) {
		return errNoInbox()
	}
	args["tenant"], args["id"] = caller.Tenant(), inboxID
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var changed any
		err := tx.QueryRow(ctx, sql, args).Scan(&changed)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoInbox()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
		return s.Audit.Record(ctx, tx, caller, action, inboxID, detail)
	})
}

// Prune removes the inboxes that ended a while ago, and says how many. A job calls it.
func (s *Service) Prune(ctx context.Context) (int, error) {
	tag, err := s.DB.Exec(ctx, sqlPrune, readable, 1000)
	if err != nil {
		return 0, fmt.Errorf("prune inboxes: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
