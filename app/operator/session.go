package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/plain"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// How long things last.
const (
	SessionLife      = 12 * time.Hour
	PasswordLinkLife = 24 * time.Hour
	SignInLinkLife   = time.Hour
)

// The starts of tokens.
const (
	sessionPrefix = "wbc_"
	linkPrefix    = "wbo_"
)

// purpose is what a one-time link is for.
type purpose string

const (
	linkPassword purpose = "password"
	linkSignIn   purpose = "sign-in"
)

// Session is an operator who is signed in.
type Session struct {
	ID     string // ops_…
	Email  string
	Role   Role
	Caller account.Caller // who they are to operations
}

// May says whether the operator has a right, for what a page offers. The operations check it again.
func (s Session) May(scope account.Scope) bool { return s.Caller.Can(scope) == nil }

var (
	operatorByEmail   = queries.SQL("OperatorByEmail")
	operatorPassword  = queries.SQL("OperatorPassword")
	operatorHold      = queries.SQL("OperatorHold")
	linkInsert        = queries.SQL("OperatorLinkInsert")
	linksVoid         = queries.SQL("OperatorLinksVoid")
	linkLook          = queries.SQL("OperatorLinkLook")
	linkOwner         = queries.SQL("OperatorLinkOwner")
	linkRedeem        = queries.SQL("OperatorLinkRedeem")
	linkExpire        = queries.SQL("OperatorLinkExpire")
	sessionInsert     = queries.SQL("OperatorSessionInsert")
	sessionByHash     = queries.SQL("OperatorSessionByHash")
	sessionSeen       = queries.SQL("OperatorSessionSeen")
	sessionDelete     = queries.SQL("OperatorSessionDelete")
	sessionsDelete    = queries.SQL("OperatorSessionsDelete")
	viewsEnd          = queries.SQL("OperatorViewsEnd")
	sessionExpire     = queries.SQL("OperatorSessionExpire")
	operatorLogInsert = queries.SQL("OperatorLogInsert")
)

func errNoSession() error {
	return fault.New(fault.Unauthenticated, "You are not signed in to the console, or your session has ended.")
}

func errMismatch() error {
	return fault.New(fault.Unauthenticated, "Mail address and password do not match.")
}

func errBadLink() error {
	return fault.New(fault.Unauthenticated, "This link was used already, is too old, or was cut off. Ask for a new one.")
}

// SessionOf is the operator that a session's token stands for. A token that is unknown, over or ended is an Unauthenticated fault.
func (s *Service) SessionOf(ctx context.Context, token string) (Session, error) {
	hash, ok := account.TokenHash(token)
	if !ok {
		return Session{}, errNoSession()
	}
	var found Session
	var o Operator
	var stale bool
	err := s.DB.QueryRow(ctx, sessionByHash, hash).Scan(&found.ID, &o.ID, &o.Email, &o.Role, &stale)
	if isNone(err) {
		return Session{}, errNoSession()
	}
	if err != nil {
		return Session{}, fmt.Errorf("look up an operator's session: %w", err)
	}
	found.Email, found.Role, found.Caller = o.Email, o.Role, o.caller()
	if stale {
		if _, err := s.DB.Exec(ctx, sessionSeen, found.ID); err != nil {
			return Session{}, fmt.Errorf("note the use of an operator's session: %w", err)
		}
	}
	return found, nil
}

// SignIn starts a session and returns its token. Every try is counted; one too many is a RateLimited fault that says when to come back.
func (s *Service) SignIn(ctx context.Context, email string, password seal.Secret, client account.Client) (seal.Secret, error) {
	email, why := account.Address(email)
	if why != "" || password == "" {
		return "", errMismatch()
	}
	if err := s.Accounts.Knock(ctx, email, client); err != nil {
		return "", err
	}
	var o Operator
	var hash string
	err := s.DB.QueryRow(ctx, operatorByEmail, email).Scan(&o.ID, &o.Email, &o.Role, &hash)
	if err != nil && !isNone(err) {
		return "", fmt.Errorf("find an operator: %w", err)
	}
	right, err := account.PasswordMatches(ctx, hash, password)
	if err != nil {
		return "", fmt.Errorf("check a password: %w", err)
	}
	if !right {
		return "", errMismatch()
	}
	if err := s.Accounts.Welcome(ctx, email, client); err != nil {
		return "", err
	}
	var token seal.Secret
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, operatorHold, o.ID, hash).Scan(&o.Role); isNone(err) {
			return errMismatch()
		} else if err != nil {
			return fmt.Errorf("hold an operator: %w", err)
		}
		token, err = s.enter(ctx, tx, o, "password", client)
		return err
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// enter starts a session and records it.
func (s *Service) enter(ctx context.Context, tx pgx.Tx, o Operator, by string, client account.Client) (seal.Secret, error) {
	token, hash := account.NewToken(sessionPrefix)
	sessionID := id.New(prefixSession, s.Now())
	_, err := tx.Exec(ctx, sessionInsert, sessionID, o.ID, hash, plain.Clip(client.UserAgent, 300), plain.Clip(client.Address, 64), SessionLife)
	if err != nil {
		return "", fmt.Errorf("insert an operator's session: %w", err)
	}
	return token, s.note(ctx, tx, o.caller(), "session.started", sessionID, map[string]any{"by": by, "address": plain.Clip(client.Address, 64)})
}

// SignOut ends the operator's session and their looks into tenants, at once.
func (s *Service) SignOut(ctx context.Context, who Session) error {
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sessionDelete, who.ID, who.Caller.ID)
		if err != nil {
			return fmt.Errorf("end an operator's session: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, viewsEnd, who.Caller.ID); err != nil {
			return fmt.Errorf("end an operator's looks: %w", err)
		}
		return s.note(ctx, tx, who.Caller, "session.ended", who.ID, nil)
	})
}

// link makes a one-time link's token for an operator; those made before work no more.
func (s *Service) link(ctx context.Context, tx pgx.Tx, operatorID string, what purpose, life time.Duration) (seal.Secret, error) {
	if _, err := tx.Exec(ctx, linksVoid, operatorID); err != nil {
		return "", fmt.Errorf("void an operator's links: %w", err)
	}
	token, hash := account.NewToken(linkPrefix)
	var until time.Time
	if err := tx.QueryRow(ctx, linkInsert, hash, operatorID, what, life).Scan(&until); err != nil {
		return "", fmt.Errorf("insert an operator's link: %w", err)
	}
	return token, nil
}

// DemoLink makes the admin email unless there is one, and a one-time link's token that signs them in. It is for the demo alone: there nobody has a password.
func (s *Service) DemoLink(ctx context.Context, email string) (seal.Secret, error) {
	made, _, err := s.Add(ctx, Command(), email, Admin)
	if err != nil {
		return "", err
	}
	var token seal.Secret
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) (err error) {
		token, err = s.link(ctx, tx, made.ID, linkSignIn, SignInLinkLife)
		return err
	})
	return token, err
}

// LinkLook says whose an unused link is, without using it. passwords: of those that set a password; else of those that sign in. A link that is used, over or
// made up is an Unauthenticated fault.
func (s *Service) LinkLook(ctx context.Context, token string, passwords bool) (email string, err error) {
	hash, ok := account.TokenHash(token)
	if !ok {
		return "", errBadLink()
	}
	err = s.DB.QueryRow(ctx, linkLook, hash, purposeOf(passwords)).Scan(&email)
	if isNone(err) {
		return "", errBadLink()
	}
	if err != nil {
		return "", fmt.Errorf("look at an operator's link: %w", err)
	}
	return email, nil
}

func purposeOf(passwords bool) purpose {
	if passwords {
		return linkPassword
	}
	return linkSignIn
}

// redeem uses a link up, of any number of calls for one link in one of them, and gives whose it was.
func (s *Service) redeem(ctx context.Context, tx pgx.Tx, token string, what purpose) (Operator, error) {
	hash, ok := account.TokenHash(token)
	if !ok {
		return Operator{}, errBadLink()
	}
	var o Operator
	err := tx.QueryRow(ctx, linkOwner, hash, what).Scan(&o.ID, &o.Email, &o.Role)
	if err == nil {
		err = tx.QueryRow(ctx, linkRedeem, hash, what).Scan(&o.ID)
	}
	if isNone(err) {
		return Operator{}, errBadLink()
	}
	if err != nil {
		return Operator{}, fmt.Errorf("redeem an operator's link: %w", err)
	}
	return o, nil
}

// SignInByLink uses a link up and starts a session, whose token it returns.
func (s *Service) SignInByLink(ctx context.Context, token string, client account.Client) (seal.Secret, error) {
	var session seal.Secret
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		o, err := s.redeem(ctx, tx, token, linkSignIn)
		if err != nil {
			return err
		}
		session, err = s.enter(ctx, tx, o, "link", client)
		return err
	})
	if err != nil {
		return "", err
	}
	return session, nil
}

// PasswordSet uses a link up and sets the password of whose it is. All their sessions end; one new session starts, whose token it returns.
func (s *Service) PasswordSet(ctx context.Context, token string, password seal.Secret, client account.Client) (seal.Secret, error) {
	email, err := s.LinkLook(ctx, token, true)
	if err != nil {
		return "", err
	}
	if why := account.PasswordWeakness(password, email); why != "" {
		return "", fault.New(fault.Invalid, "This password cannot be set.").Field("password", why)
	}
	hash, err := account.PasswordHash(ctx, password)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	var session seal.Secret
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		o, err := s.redeem(ctx, tx, token, linkPassword)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, operatorPassword, o.ID, hash).Scan(&o.Email, &o.Role); err != nil {
			return fmt.Errorf("set an operator's password: %w", err)
		}
		for _, sql := range []string{sessionsDelete, viewsEnd, linksVoid} {
			if _, err := tx.Exec(ctx, sql, o.ID); err != nil {
				return fmt.Errorf("end an operator's sessions: %w", err)
			}
		}
		if err := s.note(ctx, tx, o.caller(), "operator.password_set", o.ID, nil); err != nil {
			return err
		}
		session, err = s.enter(ctx, tx, o, "link", client)
		return err
	})
	if err != nil {
		return "", err
	}
	return session, nil
}
