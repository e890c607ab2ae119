package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/notice"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// The times of signing in with a code, and of setting that up.
const (
	HalfSignInLife   = 10 * time.Minute // from the password to the code
	SecondFactorTime = 15 * time.Minute // from the password to the code that confirms
)

// SecondFactor is how the signed-in member proves more than a password.
type SecondFactor struct {
	On         bool
	Since      time.Time
	CodesLeft  int      // recovery codes
	Setup      *Setup   // what this session has begun and not yet confirmed
	RequiredBy []string // the names of their tenants that require it
}

// Setup is what a program that makes codes has to know. It is shown until the first code has come back.
type Setup struct {
	Secret seal.Secret // to be typed
	URI    seal.Secret // to be shown as a picture
}

// Entrance is what a right password opens: a session or, where a code is asked for, the way to give one.
type Entrance struct {
	Session seal.Secret
	Half    seal.Secret // for SignInFinish, within HalfSignInLife
}

var (
	memberLock            = queries.SQL("MemberLock")
	secondFactorRead      = queries.SQL("SecondFactorRead")
	secondFactorBegin     = queries.SQL("SecondFactorBegin")
	secondFactorConfirm   = queries.SQL("SecondFactorConfirm")
	secondFactorUse       = queries.SQL("SecondFactorUse")
	secondFactorDelete    = queries.SQL("SecondFactorDelete")
	secondFactorHas       = queries.SQL("SecondFactorHas")
	secondFactorMember    = queries.SQL("SecondFactorMember")
	secondFactorTenants   = queries.SQL("SecondFactorTenants")
	secondFactorElsewhere = queries.SQL("SecondFactorElsewhere")
	secondFactorHolders   = queries.SQL("SecondFactorHolders")
	secondFactorRequired  = queries.SQL("SecondFactorRequired")
	secondFactorRequire   = queries.SQL("SecondFactorRequire")
	recoveryCodesInsert   = queries.SQL("RecoveryCodesInsert")
	recoveryCodesDelete   = queries.SQL("RecoveryCodesDelete")
	recoveryCodeUse       = queries.SQL("RecoveryCodeUse")
	recoveryCodesLeft     = queries.SQL("RecoveryCodesLeft")
	halfSignInInsert      = queries.SQL("HalfSignInInsert")
	halfSignInLook        = queries.SQL("HalfSignInLook")
	halfSignInRedeem      = queries.SQL("HalfSignInRedeem")
	halfSignInsEnd        = queries.SQL("HalfSignInsEnd")
	halfSignInExpire      = queries.SQL("HalfSignInExpire")
)

// lock locks a person's own row, which comes before everything else of theirs.
func lock(ctx context.Context, tx pgx.Tx, memberID string) (Person, error) {
	var p Person
	err := tx.QueryRow(ctx, memberLock, memberID).Scan(&p.ID, &p.Email, &p.Name, &p.hash, &p.Verified)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, errNoMember()
	}
	if err != nil {
		return Person{}, fmt.Errorf("lock member: %w", err)
	}
	return p, nil
}

// run does what takes no answer.
func run(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("change a second factor: %w", err)
	}
	return nil
}

// took is whether a statement that changes at most one row has changed it.
func took(ctx context.Context, tx pgx.Tx, sql string, args ...any) (bool, error) {
	var one string
	err := tx.QueryRow(ctx, sql, args...).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("change a second factor: %w", err)
	}
	return true, nil
}

func sealedSecondFactor(memberID string) []byte { return []byte("second_factors/" + memberID) }

// factor is a row of second_factors with its secret opened; secret is nil when there is none.
type factor struct {
	secret []byte
	on     bool
	since  time.Time
	last   int64 // the step of the last code that was used
	begun  bool  // by the session that asks, within the time to set it up
}

func (s *Service) factor(ctx context.Context, on db.Conn, memberID, sessionID string) (factor, error) {
	var f factor
	var sealed []byte
	err := on.QueryRow(ctx, secondFactorRead, memberID, sessionID, SecondFactorTime).Scan(&sealed, &f.on, &f.since, &f.last, &f.begun)
	if errors.Is(err, pgx.ErrNoRows) {
		return factor{}, nil
	}
	if err != nil {
		return factor{}, fmt.Errorf("read a second factor: %w", err)
	}
	if f.secret, err = s.Ring.Open(sealed, sealedSecondFactor(memberID)); err != nil {
		return factor{}, fmt.Errorf("open the second factor of %s: %w", memberID, err)
	}
	return f, nil
}

// SecondFactor is how the signed-in member's stands.
func (s *Service) SecondFactor(ctx context.Context, caller Caller) (SecondFactor, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return SecondFactor{}, err
	}
	f, err := s.factor(ctx, s.DB, caller.MemberID, caller.ID)
	if err != nil {
		return SecondFactor{}, err
	}
	state := SecondFactor{On: f.on}
	switch {
	case f.on:
		state.Since = f.since
		if err := s.DB.QueryRow(ctx, recoveryCodesLeft, caller.MemberID).Scan(&state.CodesLeft); err != nil {
			return SecondFactor{}, fmt.Errorf("count recovery codes: %w", err)
		}
	case f.begun:
		state.Setup = &Setup{Secret: seal.Secret(totpText.EncodeToString(f.secret)), URI: totpURI(caller.Name, f.secret)}
	}
	rows, err := s.DB.Query(ctx, secondFactorTenants, caller.MemberID)
	if err != nil {
		return SecondFactor{}, fmt.Errorf("list what requires a second factor: %w", err)
	}
	if state.RequiredBy, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return SecondFactor{}, fmt.Errorf("list what requires a second factor: %w", err)
	}
	return state, nil
}

func errSecondFactorOn() error {
	return fault.New(fault.Conflict, "Two-factor sign-in is on already.")
}

func errSecondFactorOff() error {
	return fault.New(fault.Conflict, "Two-factor sign-in is off.")
}

func errWrongCode(field string) error {
	return fault.New(fault.Invalid, "This code does not work.").Field(field, "is not the code of this moment, or was used already")
}

// SecondFactorBegin makes a secret for the signed-in member, who gives their password again. Nothing is asked for until SecondFactorConfirm.
func (s *Service) SecondFactorBegin(ctx context.Context, caller Caller, password seal.Secret, client Client) error {
	ctx = db.BeyondTenants(ctx)
	if err := s.PasswordConfirm(ctx, caller, password, client); err != nil {
		return err
	}
	sealed := s.Ring.Seal(newTOTPSecret(), sealedSecondFactor(caller.MemberID))
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := lock(ctx, tx, caller.MemberID); err != nil {
			return err
		}
		begun, err := took(ctx, tx, secondFactorBegin, caller.MemberID, sealed, caller.ID)
		if err == nil && !begun {
			err = errSecondFactorOn()
		}
		return err
	})
}

// SecondFactorConfirm turns on what this session has begun, with the first code of the new secret, and returns the recovery codes, which exist nowhere
// else. A mail tells the member.
func (s *Service) SecondFactorConfirm(ctx context.Context, caller Caller, code seal.Secret, client Client) (codes []seal.Secret, err error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return nil, err
	}
	if err := s.take(ctx, s.DB, codeTries, caller.MemberID); err != nil {
		return nil, err
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		p, err := lock(ctx, tx, caller.MemberID)
		if err != nil {
			return err
		}
		f, err := s.factor(ctx, tx, p.ID, caller.ID)
		switch {
		case err != nil:
			return err
		case f.on:
			return errSecondFactorOn()
		case !f.begun:
			return fault.New(fault.Conflict, "The time to set this up is over. Begin again.")
		}
		step, right := totpMatch(f.secret, typedCode(code), s.Now(), 0)
		if !right {
			return fault.New(fault.Invalid, "This code does not work.").Field("code", "is not the code of this moment: wait for the next one, and see that the clock of your device is right")
		}
		if confirmed, err := took(ctx, tx, secondFactorConfirm, p.ID, caller.ID, step, SecondFactorTime); err != nil || !confirmed {
			return errors.Join(err, errSecondFactorOn())
		}
		if codes, err = s.renewCodes(ctx, tx, p.ID); err != nil {
			return err
		}
		return s.tell(ctx, tx, caller, p, "member.second_factor_on", notice.KindSecondFactorOn, notice.SecondFactorOn(s.Now(), client.Address))
	})
	if err != nil {
		return nil, err
	}
	return codes, s.clear(ctx, s.DB, codeTries, caller.MemberID)
}

// tell records a change of how the signed-in member signs in, ends what was begun before it, and mails them.
func (s *Service) tell(ctx context.Context, tx pgx.Tx, caller Caller, p Person, action, kind string, n notice.Notice) error {
	if err := run(ctx, tx, halfSignInsEnd, p.ID); err != nil {
		return err
	}
	if err := s.Mails.Put(ctx, tx, notice.Letter{Kind: kind, Key: kind + ":" + id.New(id.Mail, s.Now()), To: p.Email, Notice: n}); err != nil {
		return err
	}
	return s.Record(ctx, tx, caller, action, p.ID, map[string]any{"email": p.Email})
}

// renewCodes puts new recovery codes in place of all old ones.
func (s *Service) renewCodes(ctx context.Context, tx pgx.Tx, memberID string) ([]seal.Secret, error) {
	codes, hashes := newRecoveryCodes(memberID)
	if err := run(ctx, tx, recoveryCodesDelete, memberID); err != nil {
		return nil, err
	}
	return codes, run(ctx, tx, recoveryCodesInsert, memberID, hashes)
}

// RecoveryCodesRenew makes the signed-in member's recovery codes anew, after their password; the old ones work no more. A mail tells them.
func (s *Service) RecoveryCodesRenew(ctx context.Context, caller Caller, password seal.Secret, client Client) (codes []seal.Secret, err error) {
	ctx = db.BeyondTenants(ctx)
	if err := s.PasswordConfirm(ctx, caller, password, client); err != nil {
		return nil, err
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		p, err := lock(ctx, tx, caller.MemberID)
		if err != nil {
			return err
		}
		if on, err := s.asksCode(ctx, tx, p.ID); err != nil || !on {
			return cmpError(err, errSecondFactorOff())
		}
		if codes, err = s.renewCodes(ctx, tx, p.ID); err != nil {
			return err
		}
		return s.tell(ctx, tx, caller, p, "member.recovery_codes_made", notice.KindRecoveryCodes, notice.RecoveryCodes(s.Now(), client.Address))
	})
	if err != nil {
		return nil, err
	}
	return codes, nil
}

// cmpError is the first of two errors that is one.
func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// asksCode says whether a member signs in with a code.
func (s *Service) asksCode(ctx context.Context, on db.Conn, memberID string) (yes bool, err error) {
	if err := on.QueryRow(ctx, secondFactorHas, memberID).Scan(&yes); err != nil {
		return false, fmt.Errorf("look for a second factor: %w", err)
	}
	return yes, nil
}

// SecondFactorOff turns the signed-in member's off, with their password and a code, which may be a recovery code. A mail tells them.
func (s *Service) SecondFactorOff(ctx context.Context, caller Caller, password, code seal.Secret, client Client) error {
	ctx = db.BeyondTenants(ctx)
	if err := s.PasswordConfirm(ctx, caller, password, client); err != nil {
		return err
	}
	tries, how := codeTries, ByCode
	if _, is := typedRecoveryCode(code); is {
		tries, how = recoveryTries, ByRecoveryCode
	}
	if err := s.take(ctx, s.DB, tries, caller.MemberID); err != nil {
		return err
	}
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		p, err := lock(ctx, tx, caller.MemberID)
		if err != nil {
			return err
		}
		f, err := s.factor(ctx, tx, p.ID, caller.ID)
		if err != nil || !f.on {
			return cmpError(err, errSecondFactorOff())
		}
		if right, err := s.useCode(ctx, tx, p.ID, f, how, code); err != nil || !right {
			return cmpError(err, errWrongCode("code"))
		}
		if err := s.forget(ctx, tx, p.ID); err != nil {
			return err
		}
		return s.tell(ctx, tx, caller, p, "member.second_factor_off", notice.KindSecondFactorOff, notice.SecondFactorOff(s.Now(), client.Address))
	})
	if err != nil {
		return err
	}
	return s.clear(ctx, s.DB, tries, caller.MemberID)
}

// forget deletes a member's second factor with its recovery codes.
func (s *Service) forget(ctx context.Context, tx pgx.Tx, memberID string) error {
	if err := run(ctx, tx, secondFactorDelete, memberID); err != nil {
		return err
	}
	return run(ctx, tx, recoveryCodesDelete, memberID)
}

// useCode uses a code up: of any number of calls with the same one, in any processes, one is right.
func (s *Service) useCode(ctx context.Context, tx pgx.Tx, memberID string, f factor, how SignInHow, code seal.Secret) (right bool, err error) {
	if how == ByRecoveryCode {
		typed, plausible := typedRecoveryCode(code)
		if !plausible {
			return false, nil
		}
		return took(ctx, tx, recoveryCodeUse, memberID, recoveryHash(memberID, typed))
	}
	step, right := totpMatch(f.secret, typedCode(code), s.Now(), f.last)
	if !right {
		return false, nil
	}
	return took(ctx, tx, secondFactorUse, memberID, step)
}

func errHalfOver() error {
	return fault.New(fault.Unauthenticated, "The time to give the code is over. Sign in again.")
}

// SignInHalf is whose code a half sign-in waits for. One that is over or made up is an Unauthenticated fault.
func (s *Service) SignInHalf(ctx context.Context, half string) (Person, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(half) {
		return Person{}, errHalfOver()
	}
	var p Person
	err := s.DB.QueryRow(ctx, halfSignInLook, hashOf(half)).Scan(&p.ID, &p.Email, &p.Name, &p.hash, &p.Verified)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, errHalfOver()
	}
	if err != nil {
		return Person{}, fmt.Errorf("look at a half sign-in: %w", err)
	}
	return p, nil
}

// SignInFinish starts the session that SignIn has prepared, with a code of the member's device or, as how says, a recovery code. A half sign-in that is
// over is an Unauthenticated fault, a wrong code an Invalid one of the field code, one too many a RateLimited one that says when to come back.
func (s *Service) SignInFinish(ctx context.Context, half string, how SignInHow, code seal.Secret, client Client) (seal.Secret, error) {
	ctx = db.BeyondTenants(ctx)
	p, err := s.SignInHalf(ctx, half)
	if err != nil {
		return "", err
	}
	tries := codeTries
	if how == ByRecoveryCode {
		tries = recoveryTries
	} else {
		how = ByCode
	}
	from := addressName(client)
	if err := s.take(ctx, s.DB, addressTries, from); err != nil {
		return "", err
	}
	if err := s.take(ctx, s.DB, tries, p.ID); err != nil {
		return "", err
	}
	token, err := s.finish(ctx, p, half, how, code, client)
	if fault.KindOf(err) == fault.Invalid {
		if noted := s.noteRefused(ctx, p, p.Email, how, client); noted != nil {
			return "", noted
		}
	}
	if err != nil {
		return "", err
	}
	if err := s.clear(ctx, s.DB, tries, p.ID); err != nil {
		return "", err
	}
	return token, s.forgive(ctx, s.DB, addressTries, from)
}

func (s *Service) finish(ctx context.Context, p Person, half string, how SignInHow, code seal.Secret, client Client) (token seal.Secret, err error) {
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := lock(ctx, tx, p.ID); err != nil {
			return err
		}
		var begun int64
		if err := tx.QueryRow(ctx, halfSignInRedeem, hashOf(half)).Scan(&begun); errors.Is(err, pgx.ErrNoRows) {
			return errHalfOver()
		} else if err != nil {
			return fmt.Errorf("redeem a half sign-in: %w", err)
		}
		f, err := s.factor(ctx, tx, p.ID, "")
		if err != nil || !f.on {
			return cmpError(err, errHalfOver())
		}
		if right, err := s.useCode(ctx, tx, p.ID, f, how, code); err != nil || !right {
			return cmpError(err, errWrongCode("code"))
		}
		tenant, err := s.latest(ctx, tx, p.ID)
		if err != nil {
			return err
		}
		if err := s.noteIn(ctx, tx, p, how, begun, client); err != nil {
			return err
		}
		if how == ByRecoveryCode {
			if err := s.tellCodeUsed(ctx, tx, p, client); err != nil {
				return err
			}
		}
		token, _, err = s.enter(ctx, tx, p, tenant, MemberSessionLife, string(how), client)
		return err
	})
	return token, err
}

// tellCodeUsed mails that a recovery code has let somebody in, and how many are left.
func (s *Service) tellCodeUsed(ctx context.Context, tx pgx.Tx, p Person, client Client) error {
	var left int
	if err := tx.QueryRow(ctx, recoveryCodesLeft, p.ID).Scan(&left); err != nil {
		return fmt.Errorf("count recovery codes: %w", err)
	}
	return s.Mails.Put(ctx, tx, notice.Letter{
		Kind: notice.KindRecoveryCodeUsed, Key: notice.KindRecoveryCodeUsed + ":" + id.New(id.Mail, s.Now()), To: p.Email,
		Notice: notice.RecoveryCodeUsed(s.Now(), client.Address, left),
	})
}

// latest is the tenant that a member's sign-in leads to.
func (s *Service) latest(ctx context.Context, tx pgx.Tx, memberID string) (tenant Tenant, err error) {
	err = tx.QueryRow(ctx, membershipLatest, memberID).Scan(&tenant.ID, &tenant.UID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, fault.New(fault.Forbidden, "You are a member of no account any more. Ask an owner to invite you again.")
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("find the member's tenant: %w", err)
	}
	return tenant, nil
}

// half notes that a password was right and a code has to follow, and returns the token that the code is given with.
func (s *Service) half(ctx context.Context, tx pgx.Tx, p Person, client Client) (seal.Secret, error) {
	begun, err := note(ctx, tx, p.ID, "", "", ByPassword, SignInUnfinished, client)
	if err != nil {
		return "", err
	}
	token, hash := newToken(halfPrefix)
	return token, run(ctx, tx, halfSignInInsert, hash, p.ID, begun, HalfSignInLife)
}

// SecondFactorHolders are the ids of those members of the caller's tenant who sign in with a code. It needs team:write.
func (s *Service) SecondFactorHolders(ctx context.Context, caller Caller) (map[string]bool, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TeamWrite); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, secondFactorHolders, caller.Tenant())
	if err != nil {
		return nil, fmt.Errorf("list second factors: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list second factors: %w", err)
	}
	holders := make(map[string]bool, len(ids))
	for _, memberID := range ids {
		holders[memberID] = true
	}
	return holders, nil
}

// SecondFactorRequired says whether the caller's tenant requires a second factor of its members. It needs team:write.
func (s *Service) SecondFactorRequired(ctx context.Context, caller Caller) (required bool, err error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TeamWrite); err != nil {
		return false, err
	}
	if err := s.DB.QueryRow(ctx, secondFactorRequired, caller.Tenant()).Scan(&required); err != nil {
		return false, fmt.Errorf("read what a tenant requires: %w", err)
	}
	return required, nil
}

// SecondFactorRequire makes the caller's tenant require a second factor of its members, or no longer. Members without one are led to set it up when they
// sign in next; who came by a portal link has no password and is not concerned. It needs team:write, and of a member who requires it that they have one.
func (s *Service) SecondFactorRequire(ctx context.Context, caller Caller, required bool) error {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TeamWrite); err != nil {
		return err
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if required && caller.MemberID != "" {
			if on, err := s.asksCode(ctx, tx, caller.MemberID); err != nil || !on {
				return cmpError(err, fault.New(fault.Conflict, "Set up two-factor sign-in for yourself first."))
			}
		}
		changed, err := took(ctx, tx, secondFactorRequire, caller.Tenant(), required)
		if err != nil || !changed {
			return err
		}
		action := "tenant.second_factor_required"
		if !required {
			action = "tenant.second_factor_optional"
		}
		return s.Record(ctx, tx, caller, action, caller.Tenant(), nil)
	})
}

// SecondFactorReset takes a member's second factor and recovery codes away, for who has lost both: their password alone signs them in again. It needs
// team:write, and is refused where the member also works for tenants in which the caller is no owner, because it would weaken those. A mail tells
// the member.
func (s *Service) SecondFactorReset(ctx context.Context, caller Caller, memberID string) error {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TeamWrite); err != nil {
		return err
	}
	if !id.Valid(id.Member, memberID) {
		return errNoMember()
	}
	if memberID == caller.MemberID {
		return fault.New(fault.Conflict, "Turn your own off in your settings: that takes your password and a code.")
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var email string
		err := tx.QueryRow(ctx, secondFactorMember, caller.Tenant(), memberID).Scan(&email)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoMember()
		}
		if err != nil {
			return fmt.Errorf("find a member: %w", err)
		}
		p, err := lock(ctx, tx, memberID)
		if err != nil {
			return err
		}
		var elsewhere bool
		if err := tx.QueryRow(ctx, secondFactorElsewhere, memberID, caller.MemberID, caller.Tenant()).Scan(&elsewhere); err != nil {
			return fmt.Errorf("find a member's other tenants: %w", err)
		}
		if elsewhere && caller.Kind != System {
			return fault.New(fault.Conflict, "This member works for other accounts as well, which this would weaken. A recovery code lets them in, and then they can turn it off themselves.")
		}
		if on, err := s.asksCode(ctx, tx, memberID); err != nil || !on {
			return cmpError(err, fault.New(fault.Conflict, "This member has no two-factor sign-in."))
		}
		if err := s.forget(ctx, tx, memberID); err != nil {
			return err
		}
		return s.tell(ctx, tx, caller, p, "member.second_factor_reset", notice.KindSecondFactorReset, notice.SecondFactorReset(s.Now(), caller.Actor()))
	})
}
