package account

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/notice"
	"waybill/app/plain"
	"waybill/db"
	"waybill/db/queries"
)

// SignInHow is what somebody signed in with.
type SignInHow string

// The ways in.
const (
	ByPassword     SignInHow = "password"
	ByCode         SignInHow = "code"          // and the password before it
	ByRecoveryCode SignInHow = "recovery code" // and the password before it
	ByInvitation   SignInHow = "invitation"
	ByPortalLink   SignInHow = "portal link"
)

// SignInOutcome is what became of a sign-in.
type SignInOutcome string

// The outcomes.
const (
	SignInDone       SignInOutcome = "in"
	SignInRefused    SignInOutcome = "refused"    // the password or the code was wrong
	SignInUnfinished SignInOutcome = "unfinished" // the password was right, and no code has followed
)

// SignInKept is how long sign-ins are listed.
const SignInKept = 90 * 24 * time.Hour

// SignInEntry is one line of who signed in from where.
type SignInEntry struct {
	Label   string // of a portal link: who it was for
	At      time.Time
	How     SignInHow
	Outcome SignInOutcome
	Browser string // in words
	Address string
}

var (
	signInInsert       = queries.SQL("SignInInsert")
	signInFinish       = queries.SQL("SignInFinish")
	signInNobody       = queries.SQL("SignInNobody")
	signInList         = queries.SQL("SignInList")
	signInListOfLinks  = queries.SQL("SignInListOfLinks")
	signInsRefused     = queries.SQL("SignInsRefused")
	signInBrowserIsNew = queries.SQL("SignInBrowserIsNew")
	signInMailRead     = queries.SQL("SignInMailRead")
	signInMailSave     = queries.SQL("SignInMailSave")
	signInExpire       = queries.SQL("SignInExpire")
)

// note writes a sign-in down: a member's, or with a tenant one by a portal link.
func note(ctx context.Context, on db.Conn, memberID, tenantID, label string, how SignInHow, outcome SignInOutcome, client Client) (id int64, err error) {
	err = on.QueryRow(ctx, signInInsert, memberID, tenantID, label, how, outcome, Browser(client.UserAgent), plain.Clip(client.Address, 64)).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("note a sign-in: %w", err)
	}
	return id, nil
}

// noteRefused writes down that a password or a code was wrong; of an address that is nobody's there is nothing to write, which takes as long.
func (s *Service) noteRefused(ctx context.Context, p Person, email string, how SignInHow, client Client) error {
	if p.ID == "" {
		return change(ctx, s.DB, signInNobody, accountTries.of(accountName(email)))
	}
	_, err := note(ctx, s.DB, p.ID, "", "", how, SignInRefused, client)
	return err
}

// noteIn writes a member's sign-in down and mails them if the browser is new and they want to know. begun is the line that the right password has
// left, or 0.
func (s *Service) noteIn(ctx context.Context, tx pgx.Tx, p Person, how SignInHow, begun int64, client Client) error {
	browser := Browser(client.UserAgent)
	var unknown bool
	if err := tx.QueryRow(ctx, signInBrowserIsNew, p.ID, browser).Scan(&unknown); err != nil {
		return fmt.Errorf("look for a browser: %w", err)
	}
	if begun != 0 {
		if _, err := tx.Exec(ctx, signInFinish, begun, how); err != nil {
			return fmt.Errorf("note a sign-in: %w", err)
		}
	} else {
		var err error
		if begun, err = note(ctx, tx, p.ID, "", "", how, SignInDone, client); err != nil {
			return err
		}
	}
	if !unknown || how == ByInvitation {
		return nil
	}
	return s.Mails.Put(ctx, tx, notice.Letter{
		Kind: notice.KindNewBrowser, Key: notice.KindNewBrowser + ":" + strconv.FormatInt(begun, 10), To: p.Email,
		Notice: notice.NewBrowser(s.Now(), browser, client.Address),
	})
}

const signInCursor = "sign-ins"

// SignInList is a page of at most limit sign-ins of the last 90 days, newest first, and the cursor of the next page or "": the signed-in member's own in
// all their tenants or, for who came by a portal link, those by links into this tenant, which needs audit:read.
func (s *Service) SignInList(ctx context.Context, caller Caller, after string, limit int) ([]SignInEntry, string, error) {
	ctx = db.BeyondTenants(ctx)
	below := int64(math.MaxInt64)
	if after != "" {
		keys, err := cursor.Decode(signInCursor, after, 1)
		if err != nil {
			return nil, "", err
		}
		if below, err = strconv.ParseInt(keys[0], 10, 64); err != nil {
			return nil, "", cursor.ErrForeign()
		}
	}
	sql, of := signInList, caller.MemberID
	if caller.member() != nil {
		if caller.Kind != Session {
			return nil, "", fault.New(fault.Forbidden, "This is for people who sign in.")
		}
		if err := caller.Can(AuditRead); err != nil {
			return nil, "", err
		}
		sql, of = signInListOfLinks, caller.Tenant()
	}
	rows, err := s.DB.Query(ctx, sql, of, below, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list sign-ins: %w", err)
	}
	var ids []int64
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (SignInEntry, error) {
		var e SignInEntry
		var id int64
		err := row.Scan(&id, &e.Label, &e.At, &e.How, &e.Outcome, &e.Browser, &e.Address)
		ids = append(ids, id)
		return e, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list sign-ins: %w", err)
	}
	if len(list) <= limit {
		return list, "", nil
	}
	return list[:limit], cursor.Encode(signInCursor, strconv.FormatInt(ids[limit-1], 10)), nil
}

// SignInsRefused is how many tries on the signed-in member's sign-in did not get in within 90 days, up to 1,000.
func (s *Service) SignInsRefused(ctx context.Context, caller Caller) (n int, err error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return 0, err
	}
	if err := s.DB.QueryRow(ctx, signInsRefused, caller.MemberID).Scan(&n); err != nil {
		return 0, fmt.Errorf("count refused sign-ins: %w", err)
	}
	return n, nil
}

// SignInMail says whether the signed-in member is mailed when they sign in with a new browser.
func (s *Service) SignInMail(ctx context.Context, caller Caller) (on bool, err error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return false, err
	}
	if err := s.DB.QueryRow(ctx, signInMailRead, caller.MemberID).Scan(&on); err != nil {
		return false, fmt.Errorf("read a member's mails: %w", err)
	}
	return on, nil
}

// SignInMailSave chooses that.
func (s *Service) SignInMailSave(ctx context.Context, caller Caller, on bool) error {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return err
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var before bool
		if err := tx.QueryRow(ctx, signInMailRead, caller.MemberID).Scan(&before); err != nil {
			return fmt.Errorf("read a member's mails: %w", err)
		}
		if before == on {
			return nil
		}
		if _, err := tx.Exec(ctx, signInMailSave, caller.MemberID, on); err != nil {
			return fmt.Errorf("save a member's mails: %w", err)
		}
		return s.Record(ctx, tx, caller, "member.notices_changed", caller.MemberID, map[string]any{"new_browser": on})
	})
}
