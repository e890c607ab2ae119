package account

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/queries"
)

var keysAlive = queries.SQL("KeysAlive")

// KeysAlive are those of the API keys that have neither expired nor been revoked. Whoever keeps something open for keys asks now and then, for
// all of them at once.
func (s *Service) KeysAlive(ctx context.Context, keyIDs []string) ([]string, error) {
	ctx = db.BeyondTenants(ctx)
	rows, err := s.DB.Query(ctx, keysAlive, keyIDs)
	if err != nil {
		return nil, fmt.Errorf("look at keys: %w", err)
	}
	alive, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look at keys: %w", err)
	}
	return alive, nil
}
