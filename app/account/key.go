package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/plain"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/queries"
)

// Key is an API key without the key itself.
type Key struct {
	ID                string // key_…
	Name              string
	Prefix            string // its first characters, for people to tell keys apart
	Scopes            []Scope
	RequestsPerSecond int    // 0: what the API allows by default
	CreatedBy         string // the actor
	CreatedAt         time.Time
	ExpiresAt         *time.Time // nil: it does not
	LastUsedAt        *time.Time // within a minute; nil: never
}

// KeyInput says what a new key is to be.
type KeyInput struct {
	Name              string
	Scopes            []Scope    // nil: every scope that the caller could give
	ExpiresAt         *time.Time // nil: never
	RequestsPerSecond *int       // 1 to 10,000; nil: the default
}

var (
	keyByHash       = queries.SQL("KeyByHash")
	keyUsed         = queries.SQL("KeyUsed")
	keyInsert       = queries.SQL("KeyInsert")
	keyList         = queries.SQL("KeyList")
	keyDelete       = queries.SQL("KeyDelete")
	bootstrapLock   = queries.SQL("BootstrapLock")
	bootstrapForget = queries.SQL("BootstrapForget")
	bootstrapInsert = queries.SQL("BootstrapInsert")
)

// Authenticate finds the caller of an API key. A key that is unknown, revoked or over is an Unauthenticated fault; a database that cannot
// answer never is. Nothing is remembered between calls: what is revoked is refused from now on.
func (s *Service) Authenticate(ctx context.Context, bearer string) (Caller, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(bearer) {
		return Caller{}, errBadKey()
	}
	var caller Caller
	var expired, stale bool
	err := s.DB.QueryRow(ctx, keyByHash, hashOf(bearer)).Scan(&caller.ID, &caller.TenantID, &caller.TenantUID, &caller.Suspended, &caller.Name,
		&caller.Scopes, &caller.RequestsPerSecond, &expired, &stale)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Caller{}, errBadKey()
	case err != nil:
		return Caller{}, fmt.Errorf("authenticate: %w", err)
	case expired:
		return Caller{}, fault.New(fault.Unauthenticated, "This API key has expired.")
	}
	caller.Kind = TenantKey
	if caller.TenantID == "" {
		caller.Kind = PlatformKey
	}
	if stale {
		if _, err := s.DB.Exec(ctx, keyUsed, caller.ID); err != nil {
			return Caller{}, fmt.Errorf("note the use of a key: %w", err)
		}
	}
	return caller, nil
}

func errBadKey() error { return fault.New(fault.Unauthenticated, "This API key is not valid.") }

// Bootstrap makes key, the value of WAYBILL_PLATFORM_KEY, the platform's first key, with every right; a different one that was there
// before is refused from now on. It must have 32 to 512 printable ASCII characters without spaces. Any number of processes may do so at once.
func (s *Service) Bootstrap(ctx context.Context, key seal.Secret) error {
	ctx = db.BeyondTenants(ctx)
	text := key.Reveal()
	if len(text) < 32 || !plausible(text) {
		return errors.New("the platform key must have 32 to 512 printable characters without spaces")
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, bootstrapLock); err != nil {
			return fmt.Errorf("wait for the platform key: %w", err)
		}
		if _, err := tx.Exec(ctx, bootstrapForget, hashOf(text)); err != nil {
			return fmt.Errorf("forget the old platform key: %w", err)
		}
		_, err := tx.Exec(ctx, bootstrapInsert, id.New(id.Key, s.Now()), text[:4], hashOf(text), PlatformScopes())
		if err != nil {
			return fmt.Errorf("store the platform key: %w", err)
		}
		return nil
	})
}

// KeyCreate makes a key of the caller's tenant. The text is returned here and never again. It needs keys:write, and gives no scope that the
// caller lacks.
func (s *Service) KeyCreate(ctx context.Context, caller Caller, in KeyInput) (Key, seal.Secret, error) {
	if err := caller.Can(KeysWrite); err != nil {
		return Key{}, "", err
	}
	scopes, err := checkKey(caller, in)
	if err != nil {
		return Key{}, "", err
	}
	token, hash := newToken(tenantKeyPrefix)
	key := Key{
		ID: id.New(id.Key, s.Now()), Name: in.Name, Prefix: token.Reveal()[:shownPrefix],
		Scopes: scopes, CreatedBy: caller.Actor(),
	}
	if in.RequestsPerSecond != nil {
		key.RequestsPerSecond = *in.RequestsPerSecond
	}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var over bool
		err := tx.QueryRow(ctx, keyInsert, key.ID, caller.Tenant(), key.Name, key.Prefix, hash, scopes, in.RequestsPerSecond, key.CreatedBy,
			in.ExpiresAt).Scan(&key.CreatedAt, &key.ExpiresAt, &over)
		if err != nil {
			return fmt.Errorf("insert key: %w", err)
		}
		if over {
			return fault.New(fault.Invalid, "This key cannot be made.").Field("expires_at", "must lie in the future")
		}
		return s.Record(ctx, tx, caller, "key.created", key.ID, map[string]any{"name": key.Name, "prefix": key.Prefix, "scopes": scopes})
	})
	if err != nil {
		return Key{}, "", err
	}
	return key, token, nil
}

func checkKey(caller Caller, in KeyInput) ([]Scope, error) {
	wrong := fault.New(fault.Invalid, "This key cannot be made.")
	if why := plain.Line(in.Name, 1, 100); why != "" {
		wrong.Field("name", why)
	}
	if in.RequestsPerSecond != nil && (*in.RequestsPerSecond < 1 || *in.RequestsPerSecond > 10_000) {
		wrong.Field("requests_per_second", "must be 1 to 10000")
	}
	if in.ExpiresAt != nil && in.ExpiresAt.Year() > 9999 {
		wrong.Field("expires_at", "must lie before the year 10000")
	}
	if err := wrong.OrNil(); err != nil {
		return nil, err
	}
	return narrowed(grantable(caller), in.Scopes, "scopes")
}

// grantable are the key scopes that the caller has itself.
func grantable(caller Caller) []Scope {
	return slices.DeleteFunc(KeyScopes(), func(scope Scope) bool { return caller.Kind != System && !has(caller.Scopes, scope) })
}

const keyCursor = "keys"

// KeyList is a page of at most limit keys of the caller's tenant, newest first, and the cursor of the next page or "". It needs keys:write.
func (s *Service) KeyList(ctx context.Context, caller Caller, after string, limit int) ([]Key, string, error) {
	if err := caller.Can(KeysWrite); err != nil {
		return nil, "", err
	}
	from, err := idCursor(keyCursor, after, id.Key)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.DB.Query(ctx, keyList, caller.Tenant(), from, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Key, error) {
		var k Key
		err := row.Scan(&k.ID, &k.Name, &k.Prefix, &k.Scopes, &k.RequestsPerSecond, &k.CreatedBy, &k.CreatedAt, &k.ExpiresAt, &k.LastUsedAt)
		return k, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list keys: %w", err)
	}
	keys, next := page(keys, limit, func(k Key) string { return cursor.Encode(keyCursor, k.ID) })
	return keys, next, nil
}

// KeyRevoke ends a key of the caller's tenant for good, at once. It needs keys:write.
func (s *Service) KeyRevoke(ctx context.Context, caller Caller, keyID string) error {
	if err := caller.Can(KeysWrite); err != nil {
		return err
	}
	if !id.Valid(id.Key, keyID) {
		return errNoKey()
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var name, prefix string
		err := tx.QueryRow(ctx, keyDelete, caller.Tenant(), keyID).Scan(&name, &prefix)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoKey()
		}
		if err != nil {
			return fmt.Errorf("delete key: %w", err)
		}
		return s.Record(ctx, tx, caller, "key.revoked", keyID, map[string]any{"name": name, "prefix": prefix})
	})
}

func errNoKey() error { return fault.New(fault.NotFound, "There is no such key.") }
