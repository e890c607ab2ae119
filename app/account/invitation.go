package account

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
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

// InvitationLife is how long an invitation's link works.
const InvitationLife = 7 * 24 * time.Hour

// MaxInvitations is how many open invitations a tenant may have.
const MaxInvitations = 100

// Invitation is an invitation that was neither accepted nor withdrawn.
type Invitation struct {
	ID        string // inv_…
	Email     string
	Role      Role
	By        string // the actor
	CreatedAt time.Time
	SentAt    time.Time
	ExpiresAt time.Time
	Token     seal.Secret // of a new one alone, and only to a platform key
}

// InvitationInput says who is invited as what.
type InvitationInput struct {
	Email string
	Role  Role
}

// InvitationTarget is where an open invitation leads.
type InvitationTarget struct {
	TenantName string
	Email      string
	Role       Role
	By         string // who invites, as people know them; empty: the platform
	Known      bool   // the address has a password: it is asked for instead of a new one
	// SecondFactor says that a code is asked for as well: the person signs in, and then joins.
	SecondFactor bool
}

// InvitationAnswer is what a person says to an invitation. Name is for who is new.
type InvitationAnswer struct {
	Name     string
	Password seal.Secret
}

var (
	invitationCount   = queries.SQL("InvitationCount")
	invitationReplace = queries.SQL("InvitationReplace")
	invitationInsert  = queries.SQL("InvitationInsert")
	invitationList    = queries.SQL("InvitationList")
	invitationRenew   = queries.SQL("InvitationRenew")
	invitationRevoke  = queries.SQL("InvitationRevoke")
	invitationLook    = queries.SQL("InvitationLook")
	invitationRedeem  = queries.SQL("InvitationRedeem")
	invitationFate    = queries.SQL("InvitationFate")
	invitationExpire  = queries.SQL("InvitationExpire")
	membershipOfEmail = queries.SQL("MembershipOfEmail")
	membershipInsert  = queries.SQL("MembershipInsert")
	memberEnrol       = queries.SQL("MemberEnrol")
)

func errNoInvitation() error { return fault.New(fault.NotFound, "There is no such invitation.") }

// mayInvite is nil for who may see and make the invitations of the tenant: with team:write, or the platform with tenants:write.
func mayInvite(caller Caller) error {
	if caller.Kind == PlatformKey {
		return caller.Can(TenantsWrite)
	}
	return caller.Can(TeamWrite)
}

// InvitationCreate invites an address into the caller's tenant and mails the link; an open invitation of the same address is replaced. It needs
// team:write, or of a platform key tenants:write, and gives no right that the caller lacks. Only the platform is shown the token: whoever
// comes by it has not proven that the address is theirs.
func (s *Service) InvitationCreate(ctx context.Context, caller Caller, in InvitationInput) (Invitation, error) {
	if err := mayInvite(caller); err != nil {
		return Invitation{}, err
	}
	wrong := fault.New(fault.Invalid, "This invitation cannot be sent.")
	email, why := address(in.Email)
	if why != "" {
		wrong.Field("email", why)
	}
	switch err := mayGive(caller, in.Role); {
	case fault.KindOf(err) == fault.Invalid:
		wrong.Fields = append(wrong.Fields, fault.From(err).Fields...)
	case err != nil:
		return Invitation{}, err
	}
	if err := wrong.OrNil(); err != nil {
		return Invitation{}, err
	}
	if err := s.take(ctx, s.DB, invitationMails, caller.Tenant()); err != nil {
		return Invitation{}, err
	}
	token, hash := newToken(invitationPrefix)
	made := Invitation{ID: id.New(id.Invitation, s.Now()), Email: email, Role: in.Role, By: s.inviter(ctx, caller)}
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		tenant, err := s.hold(ctx, tx, caller.Tenant())
		if err != nil {
			return err
		}
		var role Role
		err = tx.QueryRow(ctx, membershipOfEmail, tenant.ID, email).Scan(&role)
		if err == nil {
			return fault.New(fault.Invalid, "This invitation cannot be sent.").Field("email", "is the address of a member already, who is "+string(role))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("look for a member: %w", err)
		}
		if _, err := tx.Exec(ctx, invitationReplace, tenant.ID, email); err != nil {
			return fmt.Errorf("replace an invitation: %w", err)
		}
		var open int
		if err := tx.QueryRow(ctx, invitationCount, tenant.ID).Scan(&open); err != nil {
			return fmt.Errorf("count invitations: %w", err)
		}
		if open >= MaxInvitations {
			return fault.Newf(fault.Conflict, "There are %d open invitations: withdraw some first.", open)
		}
		err = tx.QueryRow(ctx, invitationInsert, made.ID, tenant.ID, email, in.Role, hash, caller.Kind == PlatformKey, made.By, InvitationLife).
			Scan(&made.CreatedAt, &made.ExpiresAt)
		if err != nil {
			return fmt.Errorf("insert an invitation: %w", err)
		}
		made.SentAt = made.CreatedAt
		if err := s.mailInvitation(ctx, tx, tenant, made, token); err != nil {
			return err
		}
		return s.Record(ctx, tx, caller, "invitation.created", made.ID, map[string]any{"email": email, "role": in.Role})
	})
	if err != nil {
		return Invitation{}, err
	}
	if caller.Kind == PlatformKey {
		made.Token = token
	}
	return made, nil
}

// inviter is the caller as the invited person knows them: a member's name, the address or the label of a link; the platform is empty.
func (s *Service) inviter(ctx context.Context, caller Caller) string {
	switch caller.Kind {
	case Session:
		if p, err := s.Profile(ctx, caller); err == nil && p.Name != "" {
			return p.Name
		}
		return caller.Name
	default:
		return ""
	}
}

// hold locks the row of one tenant, which comes first in the lock order.
func (s *Service) hold(ctx context.Context, tx pgx.Tx, tenantID string) (Tenant, error) {
	rows, err := tx.Query(ctx, tenantHold, tenantID)
	if err != nil {
		return Tenant{}, fmt.Errorf("lock tenant: %w", err)
	}
	tenant, err := pgx.CollectExactlyOneRow(rows, scanTenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, errNoTenant()
	}
	if err != nil {
		return Tenant{}, fmt.Errorf("lock tenant: %w", err)
	}
	return tenant, nil
}

func (s *Service) mailInvitation(ctx context.Context, tx pgx.Tx, tenant Tenant, made Invitation, token seal.Secret) error {
	return s.Mails.Put(ctx, tx, notice.Letter{
		Kind: notice.KindInvitation, Key: made.ID + ":" + hex.EncodeToString(hashOf(token.Reveal())[:8]), TenantID: tenant.ID, To: made.Email, Life: InvitationLife,
		Notice: notice.Invitation(tenant.Name, made.By, made.Role.Title(), token.Reveal(), made.ExpiresAt),
	})
}

// InvitationList lists the open invitations of the caller's tenant, also those that have expired, newest first. Its right is InvitationCreate's.
func (s *Service) InvitationList(ctx context.Context, caller Caller) ([]Invitation, error) {
	if err := mayInvite(caller); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, invitationList, caller.Tenant())
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	invitations, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Invitation, error) {
		var i Invitation
		err := row.Scan(&i.ID, &i.Email, &i.Role, &i.By, &i.CreatedAt, &i.SentAt, &i.ExpiresAt)
		return i, err
	})
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	return invitations, nil
}

// InvitationResend mails an open invitation again, with a new link; the old one is dead. Its right is InvitationCreate's.
func (s *Service) InvitationResend(ctx context.Context, caller Caller, invitationID string) error {
	if err := mayInvite(caller); err != nil {
		return err
	}
	if !id.Valid(id.Invitation, invitationID) {
		return errNoInvitation()
	}
	token, hash := newToken(invitationPrefix)
	again := Invitation{ID: invitationID, By: s.inviter(ctx, caller)}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		tenant, err := s.hold(ctx, tx, caller.Tenant())
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, invitationRenew, tenant.ID, invitationID, hash, InvitationLife).Scan(&again.Email, &again.Role, &again.CreatedAt, &again.ExpiresAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoInvitation()
		}
		if err != nil {
			return fmt.Errorf("renew an invitation: %w", err)
		}
		if err := mayGive(caller, again.Role); err != nil {
			return err
		}
		if err := s.take(ctx, tx, invitationMails, tenant.ID); err != nil {
			return err
		}
		if err := s.mailInvitation(ctx, tx, tenant, again, token); err != nil {
			return err
		}
		return s.Record(ctx, tx, caller, "invitation.resent", invitationID, map[string]any{"email": again.Email})
	})
}

// InvitationRevoke withdraws an open invitation. Its right is InvitationCreate's.
func (s *Service) InvitationRevoke(ctx context.Context, caller Caller, invitationID string) error {
	if err := mayInvite(caller); err != nil {
		return err
	}
	if !id.Valid(id.Invitation, invitationID) {
		return errNoInvitation()
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var email string
		err := tx.QueryRow(ctx, invitationRevoke, caller.Tenant(), invitationID).Scan(&email)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoInvitation()
		}
		if err != nil {
			return fmt.Errorf("revoke an invitation: %w", err)
		}
		return s.Record(ctx, tx, caller, "invitation.revoked", invitationID, map[string]any{"email": email})
	})
}

// InvitationLook says where an open invitation leads, without accepting it. One that does not work is an Unauthenticated fault.
func (s *Service) InvitationLook(ctx context.Context, token string) (InvitationTarget, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return InvitationTarget{}, errDeadLink()
	}
	var t InvitationTarget
	var tenantID, uid string
	err := s.DB.QueryRow(ctx, invitationLook, hashOf(token)).Scan(&tenantID, &uid, &t.TenantName, &t.Email, &t.Role, &t.By, &t.Known, &t.SecondFactor)
	if errors.Is(err, pgx.ErrNoRows) {
		return InvitationTarget{}, errDeadLink()
	}
	if err != nil {
		return InvitationTarget{}, fmt.Errorf("look at an invitation: %w", err)
	}
	return t, nil
}

// InvitationFate says what became of an invitation; one that was withdrawn is unknown.
func (s *Service) InvitationFate(ctx context.Context, token string) (LinkFate, error) {
	return s.fate(ctx, token, invitationFate)
}

// InvitationAccept accepts an invitation and starts a session in its tenant, whose token it returns. Who has a password already proves that with it
// (tries are counted as those of a sign-in); who is new chooses one, and a name. Of any number of calls for one invitation one succeeds.
func (s *Service) InvitationAccept(ctx context.Context, token string, in InvitationAnswer, client Client) (seal.Secret, error) {
	ctx = db.BeyondTenants(ctx)
	target, err := s.InvitationLook(ctx, token)
	if err != nil {
		return "", err
	}
	if target.SecondFactor {
		return "", fault.New(fault.Conflict, "This address signs in with a code. Sign in first, and open the invitation again.")
	}
	if target.Known {
		p, err := s.proven(ctx, target.Email, in.Password, client)
		if fault.KindOf(err) == fault.Unauthenticated {
			return "", fault.New(fault.Invalid, "This is not the account's password.").Field("password", "is not the password of this account")
		}
		if err != nil {
			return "", err
		}
		return s.join(ctx, token, client, func(context.Context, pgx.Tx, bool) (Person, error) { return p, nil })
	}
	wrong := fault.New(fault.Invalid, "The invitation cannot be accepted like this.")
	if why := plain.Line(in.Name, 1, 100); why != "" {
		wrong.Field("name", why)
	}
	if why := weakness(in.Password, target.Email, in.Name); why != "" {
		wrong.Field("password", why)
	}
	if err := wrong.OrNil(); err != nil {
		return "", err
	}
	hash, err := hashPassword(ctx, in.Password)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return s.join(ctx, token, client, func(ctx context.Context, tx pgx.Tx, mailed bool) (Person, error) {
		return s.enrol(ctx, tx, Person{ID: id.New(id.Member, s.Now()), Email: target.Email, Name: in.Name, Verified: mailed}, target.TenantName, hash)
	})
}

// enrol makes a person and welcomes them. An address that has got a password meanwhile is a Conflict.
func (s *Service) enrol(ctx context.Context, tx pgx.Tx, p Person, tenantName, hash string) (Person, error) {
	err := tx.QueryRow(ctx, memberEnrol, p.ID, p.Email, p.Name, hash, p.Verified).Scan(&p.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, fault.New(fault.Conflict, "This address has an account by now. Open the invitation again.")
	}
	if err != nil {
		return Person{}, fmt.Errorf("enrol a member: %w", err)
	}
	if !p.Verified {
		if err := s.mailVerify(ctx, tx, p); err != nil {
			return Person{}, err
		}
	}
	return p, s.Mails.Put(ctx, tx, notice.Letter{Kind: notice.KindWelcome, Key: "welcome:" + p.ID, To: p.Email, Notice: notice.Welcome(p.Name, tenantName)})
}

// InvitationJoin accepts an invitation for the member who is signed in, if it was sent to their address, and goes on in its tenant: the session
// that asks ends. It returns the new one's token.
func (s *Service) InvitationJoin(ctx context.Context, caller Caller, token string, client Client) (seal.Secret, error) {
	p, err := s.Profile(ctx, caller)
	if err != nil {
		return "", err
	}
	target, err := s.InvitationLook(ctx, token)
	if err != nil {
		return "", err
	}
	if target.Email != p.Email {
		return "", fault.New(fault.Forbidden, "This invitation was sent to another address than the one you are signed in with.")
	}
	return s.join(ctx, token, client, func(ctx context.Context, tx pgx.Tx, _ bool) (Person, error) {
		var life time.Duration
		err := tx.QueryRow(ctx, sessionLeave, caller.Tenant(), caller.ID, caller.MemberID).Scan(&life)
		if errors.Is(err, pgx.ErrNoRows) {
			return Person{}, errNoSession()
		}
		if err != nil {
			return Person{}, fmt.Errorf("leave a tenant: %w", err)
		}
		return p, s.Record(ctx, tx, caller, "session.ended", caller.ID, map[string]any{"of": caller.Name})
	})
}

// join uses an invitation up, makes the person that who gives a member, and signs them in. mailed says that the link went out by mail alone, so that
// whoever has it reads that address.
func (s *Service) join(ctx context.Context, token string, client Client, who func(ctx context.Context, tx pgx.Tx, mailed bool) (Person, error)) (seal.Secret, error) {
	ctx = db.BeyondTenants(ctx)
	var session seal.Secret
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var tenant Tenant
		var role Role
		var invitationID, email string
		var shown bool
		err := tx.QueryRow(ctx, invitationRedeem, hashOf(token)).Scan(&invitationID, &tenant.ID, &tenant.UID, &tenant.Name, &email, &role, &shown)
		if errors.Is(err, pgx.ErrNoRows) {
			return errDeadLink()
		}
		if err != nil {
			return fmt.Errorf("redeem an invitation: %w", err)
		}
		p, err := who(ctx, tx, !shown)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, membershipInsert, tenant.ID, p.ID, role); err != nil {
			return fmt.Errorf("insert a membership: %w", err)
		}
		if err := s.noteIn(ctx, tx, p, ByInvitation, 0, client); err != nil {
			return err
		}
		var caller Caller
		if session, caller, err = s.enter(ctx, tx, p, tenant, MemberSessionLife, "invitation", client); err != nil {
			return err
		}
		return s.Record(ctx, tx, caller, "member.joined", p.ID, map[string]any{"email": email, "role": role, "invitation": invitationID})
	})
	if err != nil {
		return "", err
	}
	return session, nil
}
