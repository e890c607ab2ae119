package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/plain"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// PortalLinkLife is how long a portal link can be used.
const PortalLinkLife = 10 * time.Minute

// PortalInput says what a portal link opens.
type PortalInput struct {
	Label    string  // who it is for, as the activity log will name them; empty: "portal link"
	ReadOnly bool    // only reading, without payloads being withheld
	Scopes   []Scope // nil: everything that an owner may do, or, with ReadOnly, that a viewer may
}

// PortalLink is a one-time link into a tenant's dashboard. The token is in no list and no log.
type PortalLink struct {
	Token     seal.Secret
	Label     string
	Scopes    []Scope
	ExpiresAt time.Time
}

// PortalTarget is where a link that has not been used yet leads.
type PortalTarget struct {
	TenantID, TenantUID, TenantName string
	Label                           string
	Scopes                          []Scope
}

var (
	portalLinkInsert = queries.SQL("PortalLinkInsert")
	portalLinkLook   = queries.SQL("PortalLinkLook")
	portalLinkRedeem = queries.SQL("PortalLinkRedeem")
	portalLinkExpire = queries.SQL("PortalLinkExpire")
)

// PortalLinkCreate makes a link into the tenant that the platform's caller works in. It needs tenants:write.
func (s *Service) PortalLinkCreate(ctx context.Context, caller Caller, in PortalInput) (PortalLink, error) {
	ctx = db.BeyondTenants(ctx)
	if err := caller.Can(TenantsWrite); err != nil {
		return PortalLink{}, err
	}
	if in.Label == "" {
		in.Label = "portal link"
	}
	if why := plain.Line(in.Label, 1, 100); why != "" {
		return PortalLink{}, fault.New(fault.Invalid, "This link cannot be made.").Field("label", why)
	}
	role := Owner
	if in.ReadOnly {
		role = Viewer
	}
	scopes, err := narrowed(role.Scopes(), in.Scopes, "capabilities")
	if err != nil {
		return PortalLink{}, err
	}
	token, hash := newToken(portalPrefix)
	link := PortalLink{Token: token, Label: in.Label, Scopes: scopes}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, portalLinkInsert, hash, caller.Tenant(), in.Label, scopes, caller.Actor(), PortalLinkLife).Scan(&link.ExpiresAt)
		if err != nil {
			return fmt.Errorf("insert portal link: %w", err)
		}
		return s.Record(ctx, tx, caller, "portal.link_created", "", map[string]any{"label": in.Label, "read_only": in.ReadOnly})
	})
	if err != nil {
		return PortalLink{}, err
	}
	return link, nil
}

// PortalLinkLook says where an unused link leads, without using it, for the page on which a person confirms. A link that is used, over
// or made up is an Unauthenticated fault.
func (s *Service) PortalLinkLook(ctx context.Context, token string) (PortalTarget, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return PortalTarget{}, errBadLink()
	}
	var p PortalTarget
	err := s.DB.QueryRow(ctx, portalLinkLook, hashOf(token)).Scan(&p.TenantID, &p.TenantUID, &p.TenantName, &p.Label, &p.Scopes)
	if errors.Is(err, pgx.ErrNoRows) {
		return PortalTarget{}, errBadLink()
	}
	if err != nil {
		return PortalTarget{}, fmt.Errorf("look at portal link: %w", err)
	}
	return p, nil
}

// PortalLinkRedeem uses a link up and starts a session with its rights, whose token it returns. Of any number of calls for one link one
// succeeds; to the others, as for a link that is over or made up, the answer is an Unauthenticated fault.
func (s *Service) PortalLinkRedeem(ctx context.Context, token string, client Client) (seal.Secret, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return "", errBadLink()
	}
	var session seal.Secret
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		start := sessionStart{life: PortalSessionLife}
		err := tx.QueryRow(ctx, portalLinkRedeem, hashOf(token)).Scan(&start.tenantID, &start.label, &start.scopes)
		if errors.Is(err, pgx.ErrNoRows) {
			return errBadLink()
		}
		if err != nil {
			return fmt.Errorf("redeem portal link: %w", err)
		}
		if _, err := note(ctx, tx, "", start.tenantID, start.label, ByPortalLink, SignInDone, client); err != nil {
			return err
		}
		var sessionID string
		if sessionID, session, err = s.startSession(ctx, tx, start, client); err != nil {
			return err
		}
		seller := Caller{Kind: Session, ID: sessionID, Name: start.label, TenantID: start.tenantID}
		return s.Record(ctx, tx, seller, "session.started", sessionID, map[string]any{"by": "portal link", "address": plain.Clip(client.Address, 64)})
	})
	if err != nil {
		return "", err
	}
	return session, nil
}

func errBadLink() error {
	return fault.New(fault.Unauthenticated, "This link was used already, is older than ten minutes, or was cut off. Ask for a new one.")
}
