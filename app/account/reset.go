package account

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/notice"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// How long the links of mails work.
const (
	ResetLife  = time.Hour
	VerifyLife = 3 * 24 * time.Hour
)

// What a one-time link of a mail is for.
const (
	forReset  = "reset"
	forVerify = "verify"
)

var (
	memberTokenInsert = queries.SQL("MemberTokenInsert")
	memberTokenLook   = queries.SQL("MemberTokenLook")
	memberTokenMember = queries.SQL("MemberTokenMember")
	memberTokenRedeem = queries.SQL("MemberTokenRedeem")
	memberTokenFate   = queries.SQL("MemberTokenFate")
	memberTokensVoid  = queries.SQL("MemberTokensVoid")
	memberTokenExpire = queries.SQL("MemberTokenExpire")
	memberVerify      = queries.SQL("MemberVerify")
)

// ResetAsk mails a link that sets a new password, if the address is a member's. Whether it is, and whether that account has asked too often, nobody
// learns; a client's address that asks too often is told, with a RateLimited fault.
func (s *Service) ResetAsk(ctx context.Context, email string, client Client) error {
	ctx = db.BeyondTenants(ctx)
	email, why := address(email)
	if why != "" {
		return fault.New(fault.Invalid, "No link can be sent there.").Field("email", why)
	}
	if err := s.take(ctx, s.DB, resetsOfAddress, addressName(client)); err != nil {
		return err
	}
	switch err := s.take(ctx, s.DB, resetsOfAccount, accountName(email)); {
	case fault.KindOf(err) == fault.RateLimited:
		return nil
	case err != nil:
		return err
	}
	p, err := s.person(ctx, memberByEmail, email)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		token, err := s.memberToken(ctx, tx, p.ID, resetPrefix, forReset, ResetLife)
		if err != nil {
			return err
		}
		return s.Mails.Put(ctx, tx, notice.Letter{
			Kind: notice.KindReset, Key: keyOf(notice.KindReset, token), To: p.Email, Life: ResetLife, Notice: notice.Reset(token.Reveal(), ResetLife),
		})
	})
}

// memberToken makes a one-time link's token.
func (s *Service) memberToken(ctx context.Context, tx pgx.Tx, memberID, prefix, purpose string, life time.Duration) (seal.Secret, error) {
	token, hash := newToken(prefix)
	if _, err := tx.Exec(ctx, memberTokenInsert, hash, memberID, purpose, life); err != nil {
		return "", fmt.Errorf("insert a member's token: %w", err)
	}
	return token, nil
}

// keyOf names the mail that carries a token, without giving it away.
func keyOf(kind string, token seal.Secret) string {
	return kind + ":" + hex.EncodeToString(hashOf(token.Reveal())[:16])
}

// ResetLook is whose password an unused link sets, for the page that asks for it. A link that does not work is an Unauthenticated fault.
func (s *Service) ResetLook(ctx context.Context, token string) (Person, error) {
	return s.tokenLook(ctx, token, forReset)
}

// VerifyLook is whose address an unused link confirms. A link that does not work is an Unauthenticated fault.
func (s *Service) VerifyLook(ctx context.Context, token string) (Person, error) {
	return s.tokenLook(ctx, token, forVerify)
}

func errDeadLink() error {
	return fault.New(fault.Unauthenticated, "This link was used already, is too old, or was cut off.")
}

func (s *Service) tokenLook(ctx context.Context, token, purpose string) (Person, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return Person{}, errDeadLink()
	}
	var p Person
	err := s.DB.QueryRow(ctx, memberTokenLook, hashOf(token), purpose).Scan(&p.Email, &p.Name)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, errDeadLink()
	}
	if err != nil {
		return Person{}, fmt.Errorf("look at a member's token: %w", err)
	}
	return p, nil
}

// ResetFate says what became of a link that sets a password, VerifyFate of one that confirms an address.
func (s *Service) ResetFate(ctx context.Context, token string) (LinkFate, error) {
	return s.fate(ctx, token, memberTokenFate, forReset)
}

// VerifyFate says what became of a link that confirms an address.
func (s *Service) VerifyFate(ctx context.Context, token string) (LinkFate, error) {
	return s.fate(ctx, token, memberTokenFate, forVerify)
}

func (s *Service) fate(ctx context.Context, token, sql string, more ...any) (LinkFate, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return LinkUnknown, nil
	}
	var fate LinkFate
	err := s.DB.QueryRow(ctx, sql, append([]any{hashOf(token)}, more...)...).Scan(&fate)
	if errors.Is(err, pgx.ErrNoRows) {
		return LinkUnknown, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at a link: %w", err)
	}
	return fate, nil
}

// redeem uses a link up and says whose it was.
func redeem(ctx context.Context, tx pgx.Tx, token, purpose string) (memberID string, err error) {
	if err = tx.QueryRow(ctx, memberTokenMember, hashOf(token), purpose).Scan(&memberID); err == nil {
		err = tx.QueryRow(ctx, memberTokenRedeem, hashOf(token), purpose).Scan(&memberID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errDeadLink()
	}
	if err != nil {
		return "", fmt.Errorf("redeem a member's token: %w", err)
	}
	return memberID, nil
}

// Reset sets a new password with a link of a mail, which also confirms the address. All sessions of the person end, and all other such links.
func (s *Service) Reset(ctx context.Context, token string, password seal.Secret, client Client) error {
	ctx = db.BeyondTenants(ctx)
	p, err := s.ResetLook(ctx, token)
	if err != nil {
		return err
	}
	if why := weakness(password, p.Email, p.Name); why != "" {
		return fault.New(fault.Invalid, "This password cannot be used.").Field("password", why)
	}
	hash, err := hashPassword(ctx, password)
	if err != nil {
		return fmt.Errorf("hash a password: %w", err)
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if p.ID, err = redeem(ctx, tx, token, forReset); err != nil {
			return err
		}
		if err := s.setPassword(ctx, tx, p, hash, "", true, "", client); err != nil {
			return err
		}
		return s.recordOf(ctx, tx, p, "member.password_reset", client)
	})
}

// recordOf records what a person did outside of any tenant: in the one where they were last, if there is one.
func (s *Service) recordOf(ctx context.Context, tx pgx.Tx, p Person, action string, client Client) error {
	caller := Caller{Kind: Session, Name: p.Email, MemberID: p.ID}
	err := tx.QueryRow(ctx, membershipLatest, p.ID).Scan(&caller.TenantID, &caller.TenantUID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the member's tenant: %w", err)
	}
	return s.Record(ctx, tx, caller, action, p.ID, map[string]any{"address": client.Address})
}

// VerifyAsk mails the signed-in member a link that confirms their address; nothing if it is confirmed.
func (s *Service) VerifyAsk(ctx context.Context, caller Caller) error {
	ctx = db.BeyondTenants(ctx)
	p, err := s.Profile(ctx, caller)
	if err != nil || p.Verified {
		return err
	}
	if err := s.take(ctx, s.DB, verifyMails, p.ID); err != nil {
		return err
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.mailVerify(ctx, tx, p); err != nil {
			return err
		}
		return s.Record(ctx, tx, caller, "member.confirmation_sent", p.ID, nil)
	})
}

func (s *Service) mailVerify(ctx context.Context, tx pgx.Tx, p Person) error {
	token, err := s.memberToken(ctx, tx, p.ID, verifyPrefix, forVerify, VerifyLife)
	if err != nil {
		return err
	}
	return s.Mails.Put(ctx, tx, notice.Letter{
		Kind: notice.KindVerify, Key: keyOf(notice.KindVerify, token), To: p.Email, Life: VerifyLife, Notice: notice.Verify(token.Reveal(), VerifyLife),
	})
}

// Verify confirms an address with a link of a mail and says which.
func (s *Service) Verify(ctx context.Context, token string, client Client) (email string, err error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return "", errDeadLink()
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		memberID, err := redeem(ctx, tx, token, forVerify)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, memberVerify, memberID).Scan(&email); err != nil {
			return fmt.Errorf("verify a member: %w", err)
		}
		if _, err := tx.Exec(ctx, memberTokensVoid, memberID, forVerify); err != nil {
			return fmt.Errorf("make links void: %w", err)
		}
		return s.recordOf(ctx, tx, Person{ID: memberID, Email: email}, "member.verified", client)
	})
	return email, err
}
