package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/queries"
)

var (
	sessionAlive   = queries.SQL("SessionAlive")
	portalLinkFate = queries.SQL("PortalLinkFate")
)

// SessionsAlive are those of the sessions that have neither ended nor been revoked. Whoever keeps something open for sessions asks now and
// then, for all of them at once.
func (s *Service) SessionsAlive(ctx context.Context, sessionIDs []string) ([]string, error) {
	ctx = db.BeyondTenants(ctx)
	rows, err := s.DB.Query(ctx, sessionAlive, sessionIDs)
	if err != nil {
		return nil, fmt.Errorf("look at sessions: %w", err)
	}
	alive, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look at sessions: %w", err)
	}
	return alive, nil
}

// LinkFate is what became of a portal link.
type LinkFate string

// The fates. Only who holds a link's token learns them.
const (
	LinkOpen    LinkFate = "open"    // it can be used
	LinkUsed    LinkFate = "used"    // somebody signed in with it
	LinkExpired LinkFate = "expired" // its time is over; within a day of that
	LinkUnknown LinkFate = "unknown" // there never was one, or it is long over
)

// PortalLinkFate says what became of a link, for the page that explains why it does not work.
func (s *Service) PortalLinkFate(ctx context.Context, token string) (LinkFate, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return LinkUnknown, nil
	}
	var fate LinkFate
	err := s.DB.QueryRow(ctx, portalLinkFate, hashOf(token)).Scan(&fate)
	if errors.Is(err, pgx.ErrNoRows) {
		return LinkUnknown, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at portal link: %w", err)
	}
	return fate, nil
}
