package account

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/notice"
	"waybill/app/plain"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// Person is a member as they are in every tenant.
type Person struct {
	ID, Email, Name string
	Verified        bool // the address was confirmed
	hash            string
}

// Tenancy is a tenant that a person is a member of.
type Tenancy struct {
	TenantUID, TenantName string
	Role                  Role
}

var (
	memberByEmail    = queries.SQL("MemberByEmail")
	memberByID       = queries.SQL("MemberByID")
	memberHold       = queries.SQL("MemberHold")
	memberPassword   = queries.SQL("MemberPassword")
	memberName       = queries.SQL("MemberName")
	membershipLatest = queries.SQL("MembershipLatest")
	membershipUsed   = queries.SQL("MembershipUsed")
	membershipsOf    = queries.SQL("MembershipsOf")
	membershipByUID  = queries.SQL("MembershipByUID")
	sessionLeave     = queries.SQL("SessionLeave")
)

// address is a mail address in the form in which it is stored: lower case, without a name. why says, in words that follow the name of a field, what
// is wrong with it.
func address(text string) (email, why string) {
	email = strings.ToLower(strings.TrimSpace(text))
	parsed, err := mail.ParseAddress(email)
	switch {
	case email == "":
		return "", "must not be empty"
	case len(email) > 254:
		return "", "must have 254 characters at most"
	case strings.ContainsFunc(email, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", "must be written in ASCII, without spaces"
	case err != nil || parsed.Address != email || strings.ContainsAny(email, `"<>()[],;:\`):
		return "", "must be a mail address such as anna@example.com"
	}
	return email, ""
}

// person reads a member; NotFound is only for this package to see.
func (s *Service) person(ctx context.Context, sql, key string) (Person, error) {
	ctx = db.BeyondTenants(ctx)
	var p Person
	err := s.DB.QueryRow(ctx, sql, key).Scan(&p.ID, &p.Email, &p.Name, &p.hash, &p.Verified)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, fault.New(fault.NotFound, "There is no such member.")
	}
	if err != nil {
		return Person{}, fmt.Errorf("read member: %w", err)
	}
	return p, nil
}

func errMismatch() error {
	return fault.New(fault.Unauthenticated, "Mail address and password do not match.")
}

// proven is the member whose password this is; with a wrong one, whose account it was tried on, if anybody's. Every try is counted against the account, whether there is one or not, and against the
// client's address; whoever is right is forgiven. A wrong one is an Unauthenticated fault, one too many a RateLimited one that says when to come back.
func (s *Service) proven(ctx context.Context, email string, password seal.Secret, client Client) (Person, error) {
	ctx = db.BeyondTenants(ctx)
	from := addressName(client)
	if err := s.take(ctx, s.DB, addressTries, from); err != nil {
		return Person{}, err
	}
	if err := s.take(ctx, s.DB, accountTries, accountName(email)); err != nil {
		return Person{}, err
	}
	p, err := s.person(ctx, memberByEmail, email)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return Person{}, err
	}
	right, err := matches(ctx, p.hash, password)
	if err != nil {
		return Person{}, fmt.Errorf("check a password: %w", err)
	}
	if !right {
		return p, errMismatch()
	}
	if err := s.clear(ctx, s.DB, accountTries, accountName(email)); err != nil {
		return Person{}, err
	}
	return p, s.forgive(ctx, s.DB, addressTries, from)
}

// SignIn starts a session in the tenant where the person was last or, if they have a second factor, what SignInFinish goes on with.
func (s *Service) SignIn(ctx context.Context, email string, password seal.Secret, client Client) (Entrance, error) {
	ctx = db.BeyondTenants(ctx)
	email, why := address(email)
	if why != "" || password == "" {
		return Entrance{}, errMismatch()
	}
	p, err := s.proven(ctx, email, password, client)
	if fault.KindOf(err) == fault.Unauthenticated {
		if noted := s.noteRefused(ctx, p, email, ByPassword, client); noted != nil {
			return Entrance{}, noted
		}
	}
	if err != nil {
		return Entrance{}, err
	}
	asked, err := s.asksCode(ctx, s.DB, p.ID)
	if err == nil && asked {
		err = s.take(ctx, s.DB, halfTries, p.ID)
	}
	if err != nil {
		return Entrance{}, err
	}
	var in Entrance
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var held string
		if err := tx.QueryRow(ctx, memberHold, p.ID, p.hash).Scan(&held); errors.Is(err, pgx.ErrNoRows) {
			return errMismatch()
		} else if err != nil {
			return fmt.Errorf("hold member: %w", err)
		}
		tenant, err := s.latest(ctx, tx, p.ID)
		if err != nil {
			return err
		}
		asked, err := s.asksCode(ctx, tx, p.ID)
		switch {
		case err != nil:
			return err
		case asked:
			in.Half, err = s.half(ctx, tx, p, client)
			return err
		}
		if err := s.noteIn(ctx, tx, p, ByPassword, 0, client); err != nil {
			return err
		}
		in.Session, _, err = s.enter(ctx, tx, p, tenant, MemberSessionLife, string(ByPassword), client)
		return err
	})
	if err != nil {
		return Entrance{}, err
	}
	return in, nil
}

// enter starts a member's session in a tenant, notes that they are there, and records it.
func (s *Service) enter(ctx context.Context, tx pgx.Tx, p Person, tenant Tenant, life time.Duration, by string, client Client) (seal.Secret, Caller, error) {
	start := sessionStart{tenantID: tenant.ID, memberID: p.ID, label: p.Email, life: life}
	sessionID, token, err := s.startSession(ctx, tx, start, client)
	if err != nil {
		return "", Caller{}, err
	}
	if _, err := tx.Exec(ctx, membershipUsed, tenant.ID, p.ID); err != nil {
		return "", Caller{}, fmt.Errorf("note the use of a membership: %w", err)
	}
	caller := Caller{Kind: Session, ID: sessionID, Name: p.Email, TenantID: tenant.ID, TenantUID: tenant.UID, MemberID: p.ID}
	detail := map[string]any{"by": by, "address": plain.Clip(client.Address, 64)}
	return token, caller, s.Record(ctx, tx, caller, "session.started", sessionID, detail)
}

// Profile is the signed-in member.
func (s *Service) Profile(ctx context.Context, caller Caller) (Person, error) {
	if err := caller.member(); err != nil {
		return Person{}, err
	}
	return s.person(ctx, memberByID, caller.MemberID)
}

// ProfileSave changes the signed-in member's name.
func (s *Service) ProfileSave(ctx context.Context, caller Caller, name string) error {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return err
	}
	if why := plain.Line(name, 1, 100); why != "" {
		return fault.New(fault.Invalid, "This name cannot be saved.").Field("name", why)
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, memberName, caller.MemberID, name); err != nil {
			return fmt.Errorf("save a member's name: %w", err)
		}
		return s.Record(ctx, tx, caller, "member.renamed", caller.MemberID, map[string]any{"name": name})
	})
}

// PasswordConfirm is nil when password is the signed-in member's. It is for what needs more than a browser that somebody left open.
func (s *Service) PasswordConfirm(ctx context.Context, caller Caller, password seal.Secret, client Client) error {
	if err := caller.member(); err != nil {
		return err
	}
	_, err := s.proven(ctx, caller.Name, password, client)
	if fault.KindOf(err) == fault.Unauthenticated {
		return fault.New(fault.Invalid, "This is not your password.").Field("password", "is not your password")
	}
	return err
}

// PasswordChange gives the signed-in member another password and ends all their sessions but this one. A mail tells them.
func (s *Service) PasswordChange(ctx context.Context, caller Caller, current, next seal.Secret, client Client) error {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return err
	}
	p, err := s.person(ctx, memberByID, caller.MemberID)
	if err != nil {
		return err
	}
	if why := weakness(next, p.Email, p.Name); why != "" {
		return fault.New(fault.Invalid, "This password cannot be used.").Field("password", why)
	}
	if _, err := s.proven(ctx, p.Email, current, client); fault.KindOf(err) == fault.Unauthenticated {
		return fault.New(fault.Invalid, "The current password is wrong.").Field("current", "is not your password")
	} else if err != nil {
		return err
	}
	hash, err := hashPassword(ctx, next)
	if err != nil {
		return fmt.Errorf("hash a password: %w", err)
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.setPassword(ctx, tx, p, hash, p.hash, false, caller.ID, client); err != nil {
			return err
		}
		return s.Record(ctx, tx, caller, "member.password_changed", p.ID, nil)
	})
}

// setPassword stores a hash, in place of another unless that is empty, ends every session but one, makes links that would set a password
// void, and what was signed in by half, and mails it.
func (s *Service) setPassword(ctx context.Context, tx pgx.Tx, p Person, hash, instead string, verified bool, except string, client Client) error {
	err := tx.QueryRow(ctx, memberPassword, p.ID, hash, instead, verified).Scan(&p.Email, &p.Name)
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.New(fault.Conflict, "The password was changed in the meantime.")
	}
	if err != nil {
		return fmt.Errorf("save a password: %w", err)
	}
	if _, err := endSessions(ctx, tx, p.ID, except); err != nil {
		return err
	}
	if err := run(ctx, tx, halfSignInsEnd, p.ID); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, memberTokensVoid, p.ID, "reset"); err != nil {
		return fmt.Errorf("make links void: %w", err)
	}
	if err := s.clear(ctx, tx, accountTries, accountName(p.Email)); err != nil {
		return err
	}
	return s.Mails.Put(ctx, tx, notice.Letter{
		Kind: notice.KindPasswordChanged, Key: "password-changed:" + id.New(id.Mail, s.Now()), To: p.Email,
		Notice: notice.PasswordChanged(s.Now(), client.Address),
	})
}

// Tenancies lists the tenants that the signed-in member can work in, by name; to others than members, none.
func (s *Service) Tenancies(ctx context.Context, caller Caller) ([]Tenancy, error) {
	ctx = db.BeyondTenants(ctx)
	if caller.member() != nil {
		return nil, nil
	}
	rows, err := s.DB.Query(ctx, membershipsOf, caller.MemberID)
	if err != nil {
		return nil, fmt.Errorf("list tenancies: %w", err)
	}
	tenancies, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Tenancy, error) {
		var t Tenancy
		err := row.Scan(&t.TenantUID, &t.TenantName, &t.Role)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("list tenancies: %w", err)
	}
	return tenancies, nil
}

// TenantSwitch ends the signed-in member's session and goes on with a new one in another of their tenants, for as long as the old one would have
// lasted. It returns the token and that time.
func (s *Service) TenantSwitch(ctx context.Context, caller Caller, uid string, client Client) (token seal.Secret, life time.Duration, err error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return "", 0, err
	}
	if !uidForm.MatchString(uid) {
		return "", 0, errNoTenant()
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		there := Tenant{UID: uid}
		if err := tx.QueryRow(ctx, membershipByUID, caller.MemberID, uid).Scan(&there.ID); errors.Is(err, pgx.ErrNoRows) {
			return errNoTenant()
		} else if err != nil {
			return fmt.Errorf("find the member's tenant: %w", err)
		}
		err := tx.QueryRow(ctx, sessionLeave, caller.Tenant(), caller.ID, caller.MemberID).Scan(&life)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && life < time.Second {
			return errNoSession()
		}
		if err != nil {
			return fmt.Errorf("leave a tenant: %w", err)
		}
		if err := s.Record(ctx, tx, caller, "session.ended", caller.ID, map[string]any{"of": caller.Name}); err != nil {
			return err
		}
		token, _, err = s.enter(ctx, tx, Person{ID: caller.MemberID, Email: caller.Name}, there, life, "switch", client)
		return err
	})
	if err != nil {
		return "", 0, err
	}
	return token, life, nil
}
