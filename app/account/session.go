package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/plain"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// How long a session lasts from its start.
const (
	PortalSessionLife = 12 * time.Hour
	MemberSessionLife = 14 * 24 * time.Hour
)

// SignedIn is one live session, as its owner sees it in a list.
type SignedIn struct {
	ID         string // ses_…
	MemberID   string // mem_…; empty for a portal session
	Label      string // the member's address, or what the portal link was made for; in SessionsOwn the tenant's name
	UserAgent  string
	Address    string
	CreatedAt  time.Time
	LastSeenAt time.Time // within a minute
	ExpiresAt  time.Time
}

// Client is where a sign-in comes from, as the person will see it in the list of sessions. It is kept as plain text, cut short.
type Client struct {
	UserAgent string
	Address   string
}

var (
	sessionInsert       = queries.SQL("SessionInsert")
	sessionByHash       = queries.SQL("SessionByHash")
	sessionSeen         = queries.SQL("SessionSeen")
	sessionList         = queries.SQL("SessionList")
	sessionDelete       = queries.SQL("SessionDelete")
	sessionExpire       = queries.SQL("SessionExpire")
	memberSessionList   = queries.SQL("MemberSessionList")
	memberSessionDelete = queries.SQL("MemberSessionDelete")
	memberSessionsEnd   = queries.SQL("MemberSessionsDelete")
)

// sessionStart is what a new session is made of.
type sessionStart struct {
	tenantID, memberID, label string
	scopes                    []Scope // of a portal session; nil for a member's
	life                      time.Duration
}

// startSession inserts a session and returns its id and its token, which exists nowhere else.
func (s *Service) startSession(ctx context.Context, tx pgx.Tx, start sessionStart, client Client) (string, seal.Secret, error) {
	token, hash := newToken(sessionPrefix)
	sessionID := id.New(id.Session, s.Now())
	scopes, member := start.scopes, &start.memberID
	if scopes == nil {
		scopes = []Scope{}
	}
	if start.memberID == "" {
		member = nil
	}
	_, err := tx.Exec(ctx, sessionInsert, sessionID, start.tenantID, member, hash, start.label, scopes,
		plain.Clip(client.UserAgent, 300), plain.Clip(client.Address, 64), start.life)
	if err != nil {
		return "", "", fmt.Errorf("insert session: %w", err)
	}
	return sessionID, token, nil
}

// SessionCaller finds the caller of a session's token. A token that is unknown, over or ended is an Unauthenticated fault. A member's
// rights are those of their role at this moment.
func (s *Service) SessionCaller(ctx context.Context, token string) (Caller, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return Caller{}, errNoSession()
	}
	caller := Caller{Kind: Session}
	var role Role
	var expires time.Time
	var stale bool
	err := s.DB.QueryRow(ctx, sessionByHash, hashOf(token)).Scan(&caller.ID, &caller.TenantID, &caller.TenantUID, &caller.Suspended,
		&caller.MemberID, &caller.Name, &caller.Scopes, &role, &expires, &stale, &caller.Support, &caller.MustSetUp)
	if errors.Is(err, pgx.ErrNoRows) {
		return Caller{}, errNoSession()
	}
	if err != nil {
		return Caller{}, fmt.Errorf("look up session: %w", err)
	}
	if caller.MemberID != "" {
		caller.Scopes = role.Scopes()
	}
	if stale {
		if _, err := s.DB.Exec(ctx, sessionSeen, caller.ID); err != nil {
			return Caller{}, fmt.Errorf("note the use of a session: %w", err)
		}
	}
	return caller, nil
}

func errNoSession() error {
	return fault.New(fault.Unauthenticated, "You are not signed in, or your session has ended.")
}

// SessionList lists the live sessions that the caller may end, newest first, 200 at most: with team:write all of the tenant, else
// the caller's own.
func (s *Service) SessionList(ctx context.Context, caller Caller) ([]SignedIn, error) {
	member, err := sessionsOf(caller)
	if err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, sessionList, caller.Tenant(), member)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	sessions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (SignedIn, error) {
		var e SignedIn
		err := row.Scan(&e.ID, &e.MemberID, &e.Label, &e.UserAgent, &e.Address, &e.CreatedAt, &e.LastSeenAt, &e.ExpiresAt)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return sessions, nil
}

// sessionsOf is the member to whose sessions the caller is kept; empty: to nobody's.
func sessionsOf(caller Caller) (string, error) {
	if caller.Can(TeamWrite) == nil {
		return "", nil
	}
	if caller.Kind != Session || caller.MemberID == "" {
		return "", fault.New(fault.Forbidden, "Only an owner can see and end the sessions of others.")
	}
	return caller.MemberID, nil
}

// SessionsOwn lists the live sessions of the signed-in member in all their tenants, newest first, 200 at most.
func (s *Service) SessionsOwn(ctx context.Context, caller Caller) ([]SignedIn, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, memberSessionList, caller.MemberID)
	if err != nil {
		return nil, fmt.Errorf("list own sessions: %w", err)
	}
	sessions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (SignedIn, error) {
		var e SignedIn
		err := row.Scan(&e.ID, &e.MemberID, &e.Label, &e.UserAgent, &e.Address, &e.CreatedAt, &e.LastSeenAt, &e.ExpiresAt)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("list own sessions: %w", err)
	}
	return sessions, nil
}

// SessionRevoke ends a session at once, in every process: one of the member's own, in whatever tenant; or with team:write anybody's of the
// caller's tenant.
func (s *Service) SessionRevoke(ctx context.Context, caller Caller, sessionID string) error {
	if caller.Kind == Session && caller.ID == sessionID {
		return s.SignOut(ctx, caller)
	}
	member, err := sessionsOf(caller)
	if err != nil {
		return err
	}
	if caller.MemberID != "" {
		err := s.endOwnSession(ctx, caller, sessionID)
		if fault.KindOf(err) != fault.NotFound || member != "" {
			return err
		}
	}
	return s.endSession(ctx, caller, "session.revoked", sessionID, member)
}

func errNoSuchSession() error { return fault.New(fault.NotFound, "There is no such session.") }

// endOwnSession ends a session of the caller's, which may be in another of their tenants. It is recorded where they sit.
func (s *Service) endOwnSession(ctx context.Context, caller Caller, sessionID string) error {
	ctx = db.BeyondTenants(ctx)
	if !id.Valid(id.Session, sessionID) {
		return errNoSuchSession()
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var label string
		err := tx.QueryRow(ctx, memberSessionDelete, caller.MemberID, sessionID).Scan(&label)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoSuchSession()
		}
		if err != nil {
			return fmt.Errorf("delete session: %w", err)
		}
		return s.Record(ctx, tx, caller, "session.revoked", sessionID, map[string]any{"of": label})
	})
}

// SignOut ends the caller's own session.
func (s *Service) SignOut(ctx context.Context, caller Caller) error {
	if caller.Kind != Session {
		return errNoSession()
	}
	return s.endSession(ctx, caller, "session.ended", caller.ID, "")
}

func (s *Service) endSession(ctx context.Context, caller Caller, action, sessionID, member string) error {
	if !id.Valid(id.Session, sessionID) {
		return errNoSuchSession()
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var label string
		err := tx.QueryRow(ctx, sessionDelete, caller.Tenant(), sessionID, member).Scan(&label)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoSuchSession()
		}
		if err != nil {
			return fmt.Errorf("delete session: %w", err)
		}
		return s.Record(ctx, tx, caller, action, sessionID, map[string]any{"of": label})
	})
}

// SessionRevokeOthers ends all sessions of the signed-in member, in all their tenants, but the one that asks, and says how many.
func (s *Service) SessionRevokeOthers(ctx context.Context, caller Caller) (int, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.member(); err != nil {
		return 0, err
	}
	ended := 0
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) (err error) {
		if ended, err = endSessions(ctx, tx, caller.MemberID, caller.ID); err != nil || ended == 0 {
			return err
		}
		return s.Record(ctx, tx, caller, "session.revoked", "", map[string]any{"count": ended})
	})
	return ended, err
}

// endSessions ends a member's sessions but the one named, and says how many.
func endSessions(ctx context.Context, tx pgx.Tx, memberID, except string) (int, error) {
	tag, err := tx.Exec(ctx, memberSessionsEnd, memberID, except)
	if err != nil {
		return 0, fmt.Errorf("delete sessions: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// Prune removes sessions, links, invitations, throttles and the history of sign-ins whose time is over, and says how many rows that were. A job calls it now and then; nothing
// depends on it, because what has expired is refused by its time.
func (s *Service) Prune(ctx context.Context) (int, error) {
	ctx = db.BeyondTenants(ctx)
	removed := 0
	for _, sql := range []string{sessionExpire, portalLinkExpire, memberTokenExpire, invitationExpire, throttleExpire, halfSignInExpire, signInExpire} {
		tag, err := s.DB.Exec(ctx, sql)
		if err != nil {
			return removed, fmt.Errorf("prune accounts: %w", err)
		}
		removed += int(tag.RowsAffected())
	}
	return removed, nil
}
