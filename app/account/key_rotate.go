package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// The overlaps of a rotation.
const (
	DefaultKeyOverlap = 24 * time.Hour
	MaxKeyOverlap     = 30 * 24 * time.Hour
)

var keyRotate = queries.SQL("KeyRotate")

// KeyRotate makes a key of the caller's tenant with the name, rights and limit of an old one, which ends after the overlap (0 to 30 days), or when it
// would have anyway. The new key's own end is as far away as the old one's was from its making. The text is returned here and never again. It
// needs keys:write, and a caller that has every right of the key.
func (s *Service) KeyRotate(ctx context.Context, caller Caller, keyID string, overlap time.Duration) (Key, seal.Secret, error) {
	if err := caller.Can(KeysWrite); err != nil {
		return Key{}, "", err
	}
	if !id.Valid(id.Key, keyID) {
		return Key{}, "", errNoKey()
	}
	if overlap < 0 || overlap > MaxKeyOverlap {
		return Key{}, "", fault.New(fault.Invalid, "This key cannot be rotated.").Field("overlap_seconds", "must be 0 to 2592000")
	}
	token, hash := newToken(tenantKeyPrefix)
	key := Key{ID: id.New(id.Key, s.Now()), Prefix: token.Reveal()[:shownPrefix], CreatedBy: caller.Actor()}
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var limit *int
		err := tx.QueryRow(ctx, keyRotate, caller.Tenant(), keyID, overlap, key.ID, key.Prefix, hash, key.CreatedBy).
			Scan(&key.Name, &key.Scopes, &limit, &key.CreatedAt, &key.ExpiresAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoKey()
		}
		if err != nil {
			return fmt.Errorf("rotate key: %w", err)
		}
		if limit != nil {
			key.RequestsPerSecond = *limit
		}
		if _, err := narrowed(grantable(caller), key.Scopes, "scopes"); err != nil {
			return err
		}
		return s.Record(ctx, tx, caller, "key.rotated", keyID, map[string]any{"name": key.Name, "new": key.ID, "prefix": key.Prefix, "overlap_seconds": int(overlap.Seconds())})
	})
	if err != nil {
		return Key{}, "", err
	}
	return key, token, nil
}
