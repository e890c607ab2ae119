package account

import (
	"context"
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

// SupportSessionLife is how long an operator's look at a tenant's pages lasts.
const SupportSessionLife = 30 * time.Minute

// SupportActor is what operators are called in a tenant's log. Who of them it was stands in the operators' own, under the same id.
const SupportActor = "platform support"

var supportSessionInsert = queries.SQL("SupportSessionInsert")

// SupportView starts a session in which an operator looks at the pages of the tenant that they work in, with a viewer's rights, and returns its token.
// Tenant and operators read in their logs that it began, and why; it ends after SupportSessionLife, when it is ended, and with the operator's own session.
func (s *Service) SupportView(ctx context.Context, caller Caller, why string, client Client) (seal.Secret, error) {
	if caller.Kind != Operator || caller.Tenant() == "" {
		return "", fault.New(fault.Forbidden, "Looking at a tenant's pages is for the platform's operators.")
	}
	if err := caller.Can(TenantsRead); err != nil {
		return "", err
	}
	if problem := plain.Line(why, 0, 200); problem != "" {
		return "", fault.New(fault.Invalid, "This look cannot begin.").Field("why", problem)
	}
	token, hash := newToken(sessionPrefix)
	sessionID := id.New(id.Session, s.Now())
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, supportSessionInsert, sessionID, caller.Tenant(), hash, SupportActor, Viewer.Scopes(),
			plain.Clip(client.UserAgent, 300), plain.Clip(client.Address, 64), SupportSessionLife, caller.ID)
		if err != nil {
			return fmt.Errorf("insert support session: %w", err)
		}
		return s.Record(ctx, tx, caller, "support.viewed", sessionID, map[string]any{"why": why, "minutes": int(SupportSessionLife.Minutes())})
	})
	if err != nil {
		return "", err
	}
	return token, nil
}
