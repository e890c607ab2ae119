package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/app/signing"
	"waybill/db"
	"waybill/db/queries"
)

// Rotation.
const (
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 7 * 24 * time.Hour
	MaxSecrets     = 10 // live ones of a kind
)

// SecretKind says what a secret is, as signing_secrets stores it.
type SecretKind string

// The kinds.
const (
	HMAC    SecretKind = "hmac"    // whsec_…: signs v1 and hex
	Ed25519 SecretKind = "ed25519" // whsk_…: signs v1a; receivers have its public half
)

// Secret is a live signing secret, without what makes it one.
type Secret struct {
	ID          string // sec_…
	Kind        SecretKind
	Fingerprint string // 8 hexadecimal digits, by which a receiver can find out which one it holds
	PublicKey   string // whpk_… of an ed25519 one
	CreatedAt   time.Time
	ExpiresAt   *time.Time // the end of its overlap; nil: it is in force
}

// Rotation says how to replace the secret in force.
type Rotation struct {
	Overlap *time.Duration // how long the old one goes on signing beside the new one, 0 to 7 days; nil: 24 hours
	Secret  seal.Secret    // a secret of the tenant's own, of the kind to replace; empty: new ones of every kind that the scheme needs
}

// Rotated is an endpoint after a rotation.
type Rotated struct {
	Endpoint Endpoint
	Secret   seal.Secret // the new whsec_…; empty if only an ed25519 pair was replaced
	Secrets  []Secret    // all live ones, newest first
}

var (
	secretInsert        = queries.SQL("SecretInsert")
	secretList          = queries.SQL("SecretList")
	secretRead          = queries.SQL("SecretRead")
	secretOverlap       = queries.SQL("SecretOverlap")
	secretDeleteExpired = queries.SQL("SecretDeleteExpired")
	secretDelete        = queries.SQL("SecretDelete")
	secretDeleteAll     = queries.SQL("SecretDeleteAll")
	secretPrune         = queries.SQL("SecretPrune")
	publicKeyList       = queries.SQL("PublicKeyList")
	endpointTouch       = queries.SQL("EndpointTouch")
)

func kindOf(key signing.Key) SecretKind {
	if key.Kind() == signing.Private {
		return Ed25519
	}
	return HMAC
}

// kindsOf are the kinds that a scheme signs with.
func kindsOf(scheme signing.Scheme) []SecretKind {
	var kinds []SecretKind
	if scheme.Needs(signing.Symmetric) {
		kinds = append(kinds, HMAC)
	}
	if scheme.Needs(signing.Private) {
		kinds = append(kinds, Ed25519)
	}
	return kinds
}

func newKey(kind SecretKind) signing.Key {
	if kind == Ed25519 {
		return signing.NewKeyPair()
	}
	return signing.NewSecret()
}

// firstKeys are the keys of a new endpoint, the symmetric one first: every endpoint has that one, so that its scheme can be changed to and fro.
func firstKeys(scheme signing.Scheme, supplied seal.Secret, wrong *fault.Error) []signing.Key {
	keys := []signing.Key{signing.NewSecret()}
	if scheme.Needs(signing.Private) {
		keys = append(keys, signing.NewKeyPair())
	}
	if supplied == "" {
		return keys
	}
	key := suppliedSecret(supplied.Reveal(), wrong)
	switch {
	case key.Kind() == signing.Symmetric:
		keys[0] = key
	case key.Kind() == signing.Private && len(keys) > 1:
		keys[1] = key
	case key.Kind() == signing.Private:
		wrong.Field("secret", "must be a whsec_ secret: the scheme does not sign with whsk_ keys")
	}
	return keys
}

// insertSecret stores a key under a new id that sorts after the endpoint's newest one ("" for none) even when that was made by a process whose
// clock is ahead of ours: the order of the ids is the order in which the keys sign.
func (s *Service) insertSecret(ctx context.Context, tx pgx.Tx, e Endpoint, key signing.Key, newest string) error {
	now := s.Now()
	if last, err := id.Time(newest); err == nil && !now.After(last) {
		now = last.Add(time.Millisecond)
	}
	secretID := id.New(id.Secret, now)
	sealed := s.Ring.Seal([]byte(key.Reveal()), []byte("secret:"+secretID))
	_, err := tx.Exec(ctx, secretInsert, secretID, e.TenantID, e.ID, kindOf(key), sealed, key.Public().Reveal(), key.Fingerprint())
	if err != nil {
		return fmt.Errorf("insert secret: %w", err)
	}
	return nil
}

// completeKeys makes the keys that a changed scheme needs and the endpoint lacks.
func (s *Service) completeKeys(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	live, err := listSecrets(ctx, tx, e.TenantID, e.ID)
	if err != nil {
		return err
	}
	for _, kind := range kindsOf(e.Scheme) {
		if inForce(live, kind) == "" {
			if err := s.insertSecret(ctx, tx, e, newKey(kind), newestID(live)); err != nil {
				return err
			}
		}
	}
	return nil
}

func listSecrets(ctx context.Context, conn db.Conn, tenantID, endpointID string) ([]Secret, error) {
	rows, err := conn.Query(ctx, secretList, tenantID, endpointID)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	secrets, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Secret, error) {
		var k Secret
		err := row.Scan(&k.ID, &k.Kind, &k.PublicKey, &k.Fingerprint, &k.CreatedAt, &k.ExpiresAt)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return secrets, nil
}

// inForce is the id of the secret of a kind that has no end, or empty.
func inForce(live []Secret, kind SecretKind) string {
	for _, secret := range live {
		if secret.Kind == kind && secret.ExpiresAt == nil {
			return secret.ID
		}
	}
	return ""
}

func newestID(live []Secret) string {
	if len(live) == 0 {
		return ""
	}
	return live[0].ID
}

func count(live []Secret, kind SecretKind) int {
	n := 0
	for _, secret := range live {
		if secret.Kind == kind {
			n++
		}
	}
	return n
}

// Secrets lists an endpoint's live secrets, newest first, 20 at most. It needs endpoints:read.
func (s *Service) Secrets(ctx context.Context, caller account.Caller, endpointID string) ([]Secret, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return nil, err
	}
	if _, err := read(ctx, s.DB, caller.Tenant(), endpointID); err != nil {
		return nil, err
	}
	return listSecrets(ctx, s.DB, caller.Tenant(), endpointID)
}

// Rotate puts a new secret into force; the old one signs beside it for the overlap. Several overlaps may run at once. Of rotations that start at the
// same moment one is made, and the others are a Conflict, so that nobody is handed a secret that another call has ended already. It needs
// endpoints:write.
func (s *Service) Rotate(ctx context.Context, caller account.Caller, endpointID string, in Rotation) (Rotated, error) {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return Rotated{}, err
	}
	overlap, supplied, err := checkRotation(in)
	if err != nil {
		return Rotated{}, err
	}
	seen, err := s.Secrets(ctx, caller, endpointID)
	if err != nil {
		return Rotated{}, err
	}
	var out Rotated
	out.Endpoint, err = s.change(ctx, caller, endpointID, func(tx pgx.Tx, found Endpoint) (int64, error) {
		live, err := listSecrets(ctx, tx, found.TenantID, found.ID)
		if err != nil {
			return 0, err
		}
		keys, err := replacements(found.Scheme, supplied, live)
		if err != nil {
			return 0, err
		}
		if newestID(live) != newestID(seen) {
			return 0, fault.New(fault.Conflict, "The secret was rotated by another call at the same moment.")
		}
		if _, err := tx.Exec(ctx, secretDeleteExpired, found.TenantID, found.ID); err != nil {
			return 0, fmt.Errorf("delete expired secrets: %w", err)
		}
		return s.replace(ctx, tx, caller, found, keys, live, overlap, &out)
	})
	if err != nil {
		return Rotated{}, err
	}
	return out, nil
}

// checkRotation also gives the overlap its default.
func checkRotation(in Rotation) (time.Duration, signing.Key, error) {
	wrong := fault.New(fault.Invalid, "The secret cannot be rotated like this.")
	overlap := DefaultOverlap
	if in.Overlap != nil {
		overlap = *in.Overlap
	}
	if overlap < 0 || overlap > MaxOverlap {
		wrong.Field("overlap_seconds", fmt.Sprintf("must be 0 to %d (7 days)", int(MaxOverlap.Seconds())))
	}
	var supplied signing.Key
	if in.Secret != "" {
		supplied = suppliedSecret(in.Secret.Reveal(), wrong)
	}
	return overlap, supplied, wrong.OrNil()
}

// replacements are the new keys of a rotation.
func replacements(scheme signing.Scheme, supplied signing.Key, live []Secret) ([]signing.Key, error) {
	var keys []signing.Key
	if supplied.Kind() != "" {
		if !scheme.Needs(supplied.Kind()) {
			return nil, fault.New(fault.Invalid, "The secret cannot be rotated like this.").
				Field("secret", "must be of a kind that the endpoint's scheme, "+string(scheme)+", signs with")
		}
		keys = append(keys, supplied)
	} else {
		for _, kind := range kindsOf(scheme) {
			keys = append(keys, newKey(kind))
		}
	}
	for _, key := range keys {
		if count(live, kindOf(key)) >= MaxSecrets {
			return nil, fault.Newf(fault.Conflict, "%d secrets are live, which is the most. End an old one first.", MaxSecrets)
		}
		for _, other := range live {
			if other.Fingerprint == key.Fingerprint() {
				return nil, fault.New(fault.Invalid, "The secret cannot be rotated like this.").Field("secret", "must be a new one: this one is in use already")
			}
		}
	}
	return keys, nil
}

// replace ends the secrets in force of the keys' kinds after the overlap and inserts the keys.
func (s *Service) replace(ctx context.Context, tx pgx.Tx, caller account.Caller, e Endpoint, keys []signing.Key, live []Secret,
	overlap time.Duration, out *Rotated,
) (int64, error) {
	fingerprints, newest := []string{}, newestID(live)
	for _, key := range keys {
		if _, err := tx.Exec(ctx, secretOverlap, e.TenantID, e.ID, kindOf(key), overlap); err != nil {
			return 0, fmt.Errorf("end the old secret: %w", err)
		}
		if err := s.insertSecret(ctx, tx, e, key, newest); err != nil {
			return 0, err
		}
		if kindOf(key) == HMAC {
			out.Secret = seal.Secret(key.Reveal())
		}
		fingerprints = append(fingerprints, key.Fingerprint())
	}
	if overlap == 0 {
		if _, err := tx.Exec(ctx, secretDeleteExpired, e.TenantID, e.ID); err != nil {
			return 0, fmt.Errorf("delete expired secrets: %w", err)
		}
	}
	rev, err := touch(ctx, tx, e)
	if err != nil {
		return 0, err
	}
	if out.Secrets, err = listSecrets(ctx, tx, e.TenantID, e.ID); err != nil {
		return 0, err
	}
	detail := map[string]any{"overlap_seconds": int(overlap.Seconds()), "fingerprints": fingerprints}
	return rev, s.Audit.Record(ctx, tx, caller, "secret.rotated", e.ID, detail)
}

func touch(ctx context.Context, tx pgx.Tx, e Endpoint) (int64, error) {
	var rev int64
	if err := tx.QueryRow(ctx, endpointTouch, e.TenantID, e.ID).Scan(&rev); err != nil {
		return 0, fmt.Errorf("touch endpoint: %w", err)
	}
	return rev, nil
}

// SecretExpire ends a secret that is in its overlap now. The one in force is a Conflict: rotate it. It needs endpoints:write.
func (s *Service) SecretExpire(ctx context.Context, caller account.Caller, endpointID, secretID string) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	_, err := s.change(ctx, caller, endpointID, func(tx pgx.Tx, found Endpoint) (int64, error) {
		secret, err := readSecret(ctx, tx, found.TenantID, found.ID, secretID)
		if err != nil {
			return 0, err
		}
		if secret.inForce {
			return 0, fault.New(fault.Conflict, "This is the secret in force. Rotate with an overlap of 0 to end it at once.")
		}
		if _, err := tx.Exec(ctx, secretDelete, found.TenantID, found.ID, secretID); err != nil {
			return 0, fmt.Errorf("delete secret: %w", err)
		}
		rev, err := touch(ctx, tx, found)
		if err != nil {
			return 0, err
		}
		return rev, s.Audit.Record(ctx, tx, caller, "secret.expired", found.ID, map[string]any{"fingerprint": secret.fingerprint})
	})
	return err
}

type storedSecret struct {
	kind        SecretKind
	sealed      []byte
	fingerprint string
	inForce     bool
}

func readSecret(ctx context.Context, conn db.Conn, tenantID, endpointID, secretID string) (storedSecret, error) {
	missing := fault.New(fault.NotFound, "There is no such secret, or it has expired.")
	if !id.Valid(id.Endpoint, endpointID) {
		return storedSecret{}, errNoEndpoint()
	}
	if !id.Valid(id.Secret, secretID) {
		return storedSecret{}, missing
	}
	var secret storedSecret
	err := conn.QueryRow(ctx, secretRead, tenantID, endpointID, secretID).Scan(&secret.kind, &secret.sealed, &secret.fingerprint, &secret.inForce)
	if errors.Is(err, pgx.ErrNoRows) {
		return storedSecret{}, missing
	}
	if err != nil {
		return storedSecret{}, fmt.Errorf("read secret: %w", err)
	}
	return secret, nil
}

// SecretReveal is the text of a live whsec_ secret, and recorded. Private ed25519 keys are not shown: receivers verify with the public half.
// It needs secrets:reveal.
func (s *Service) SecretReveal(ctx context.Context, caller account.Caller, endpointID, secretID string) (seal.Secret, error) {
	if err := caller.Can(account.SecretsReveal); err != nil {
		return "", err
	}
	var text seal.Secret
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		secret, err := readSecret(ctx, tx, caller.Tenant(), endpointID, secretID)
		if err != nil {
			return err
		}
		if secret.kind != HMAC {
			return fault.New(fault.Conflict, "A private key is not shown. Receivers verify with the public key.")
		}
		plain, err := s.Ring.Open(secret.sealed, []byte("secret:"+secretID))
		if err != nil {
			return unreadable("secret", err)
		}
		text = seal.Secret(plain)
		return s.Audit.Record(ctx, tx, caller, "secret.revealed", endpointID, map[string]any{"fingerprint": secret.fingerprint})
	})
	if err != nil {
		return "", err
	}
	return text, nil
}

// unreadable says what the seller can do about something sealed that does not open.
func unreadable(what string, err error) error {
	if errors.Is(err, seal.ErrUnknownKey) || errors.Is(err, seal.ErrDamaged) {
		return fault.Wrap(fault.Conflict, "This "+what+" can no longer be read by us. Replace it.", err)
	}
	return fmt.Errorf("open %s: %w", what, err)
}

// PublicKey is one public key of an endpoint.
type PublicKey struct {
	Key       string // whpk_…
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: it is in force
}

// PublicKeys lists the public keys that verify an endpoint's v1a signatures, newest first, for everybody who knows its id. An endpoint without any
// is not found.
func (s *Service) PublicKeys(ctx context.Context, endpointID string) ([]PublicKey, error) {
	if !id.Valid(id.Endpoint, endpointID) {
		return nil, errNoPublicKey()
	}
	rows, err := s.DB.Query(db.BeyondTenants(ctx), publicKeyList, endpointID)
	if err != nil {
		return nil, fmt.Errorf("list public keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[PublicKey])
	if err != nil {
		return nil, fmt.Errorf("list public keys: %w", err)
	}
	if len(keys) == 0 {
		return nil, errNoPublicKey()
	}
	return keys, nil
}

func errNoPublicKey() error {
	return fault.New(fault.NotFound, "There is no endpoint with this id that signs with a key pair.")
}

// Prune removes the expired secrets of all endpoints, and says how many. A job calls it; nothing that has expired signs before that.
func (s *Service) Prune(ctx context.Context) (int, error) {
	removed := 0
	for {
		tag, err := s.DB.Exec(ctx, secretPrune)
		if err != nil {
			return removed, fmt.Errorf("prune secrets: %w", err)
		}
		removed += int(tag.RowsAffected())
		if tag.RowsAffected() < 1000 {
			return removed, nil
		}
	}
}
