package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// PlatformKeyRow is a key of the platform's own, without the key.
type PlatformKeyRow struct {
	Key
	Bootstrap bool // the one of WAYBILL_PLATFORM_KEY
}

var (
	platformKeyList   = queries.SQL("PlatformKeyList")
	platformKeyRead   = queries.SQL("PlatformKeyRead")
	platformKeyDelete = queries.SQL("PlatformKeyDelete")
)

// mayPlatformKeys is nil for an operator who may hand out the platform's keys. No key makes another.
func mayPlatformKeys(caller Caller) error {
	if caller.Kind != Operator {
		return fault.New(fault.Forbidden, "The platform's keys are for its operators.")
	}
	return caller.Can(KeysWrite)
}

// PlatformKeyCreate makes a key of the platform's own, with some of PlatformScopes or, if Scopes is nil, all of them. The text is returned here and
// never again. It is for operators with keys:write.
func (s *Service) PlatformKeyCreate(ctx context.Context, caller Caller, in KeyInput) (Key, seal.Secret, error) {
	if err := mayPlatformKeys(caller); err != nil {
		return Key{}, "", err
	}
	if _, err := checkKey(Caller{Kind: System}, KeyInput{Name: in.Name, RequestsPerSecond: in.RequestsPerSecond, ExpiresAt: in.ExpiresAt}); err != nil {
		return Key{}, "", err
	}
	scopes, err := narrowed(PlatformScopes(), in.Scopes, "scopes")
	if err != nil {
		return Key{}, "", err
	}
	caller.TenantID = ""
	token, hash := newToken(platformKeyPrefix)
	key := Key{ID: id.New(id.Key, s.Now()), Name: in.Name, Prefix: token.Reveal()[:shownPrefix], Scopes: scopes, CreatedBy: caller.Name}
	if in.RequestsPerSecond != nil {
		key.RequestsPerSecond = *in.RequestsPerSecond
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var over bool
		err := tx.QueryRow(ctx, keyInsert, key.ID, nil, key.Name, key.Prefix, hash, scopes, in.RequestsPerSecond, key.CreatedBy, in.ExpiresAt).
			Scan(&key.CreatedAt, &key.ExpiresAt, &over)
		if err != nil {
			return fmt.Errorf("insert platform key: %w", err)
		}
		if over {
			return fault.New(fault.Invalid, "This key cannot be made.").Field("expires_at", "must lie in the future")
		}
		return s.Record(ctx, tx, caller, "platform_key.created", key.ID, map[string]any{"name": key.Name, "prefix": key.Prefix, "scopes": scopes})
	})
	if err != nil {
		return Key{}, "", err
	}
	return key, token, nil
}

const platformKeyCursor = "platform-keys"

// PlatformKeyList is a page of at most limit keys of the platform's own, newest first, and the cursor of the next page or "". It is for operators with
// keys:write.
func (s *Service) PlatformKeyList(ctx context.Context, caller Caller, after string, limit int) ([]PlatformKeyRow, string, error) {
	if err := mayPlatformKeys(caller); err != nil {
		return nil, "", err
	}
	from, err := idCursor(platformKeyCursor, after, id.Key)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.DB.Query(ctx, platformKeyList, from, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list platform keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (PlatformKeyRow, error) {
		var k PlatformKeyRow
		err := row.Scan(&k.ID, &k.Name, &k.Prefix, &k.Scopes, &k.RequestsPerSecond, &k.CreatedBy, &k.CreatedAt, &k.ExpiresAt, &k.LastUsedAt, &k.Bootstrap)
		return k, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list platform keys: %w", err)
	}
	keys, next := page(keys, limit, func(k PlatformKeyRow) string { return cursor.Encode(platformKeyCursor, k.ID) })
	return keys, next, nil
}

// PlatformKeyRead is the name and prefix of a key of the platform's own, for the question before it is revoked.
func (s *Service) PlatformKeyRead(ctx context.Context, caller Caller, keyID string) (PlatformKeyRow, error) {
	if err := mayPlatformKeys(caller); err != nil {
		return PlatformKeyRow{}, err
	}
	found := PlatformKeyRow{Key: Key{ID: keyID}}
	if !id.Valid(id.Key, keyID) {
		return found, errNoKey()
	}
	err := s.DB.QueryRow(ctx, platformKeyRead, keyID).Scan(&found.Name, &found.Prefix, &found.Bootstrap)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, errNoKey()
	}
	if err != nil {
		return found, fmt.Errorf("read platform key: %w", err)
	}
	return found, nil
}

// PlatformKeyRevoke ends a key of the platform's own for good, at once. The key of WAYBILL_PLATFORM_KEY is a Conflict: it would come back with the next
// start. It is for operators with keys:write.
func (s *Service) PlatformKeyRevoke(ctx context.Context, caller Caller, keyID string) error {
	found, err := s.PlatformKeyRead(ctx, caller, keyID)
	if err != nil {
		return err
	}
	if found.Bootstrap {
		return fault.New(fault.Conflict, "This is the key of WAYBILL_PLATFORM_KEY: set another value there, and it ends.")
	}
	caller.TenantID = ""
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var name, prefix string
		err := tx.QueryRow(ctx, platformKeyDelete, keyID).Scan(&name, &prefix)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoKey()
		}
		if err != nil {
			return fmt.Errorf("delete platform key: %w", err)
		}
		return s.Record(ctx, tx, caller, "platform_key.revoked", keyID, map[string]any{"name": name, "prefix": prefix})
	})
}
