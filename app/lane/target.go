package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/app/sender"
	"waybill/app/signing"
	"waybill/db/queries"
)

var sqlTarget = queries.SQL("LaneTarget")

// target is everything a sender must know of an endpoint, at one revision. It never changes: an edit makes a new one.
type target struct {
	rev         int64
	url         string
	scheme      signing.Scheme
	keys        []targetKey // newest first
	headers     []sender.Header
	headerSetID *string
	concurrency int
	rate        int // requests a second; 0: no limit of its own
	preset      string
	policy      *policy.Policy
	verified    bool // some attempt has succeeded before
	// broken says why this endpoint cannot be sent to at all, in words for its tenant: a secret or header that no longer opens.
	broken string
	// lost says that this is only because the key ring lacks a key: once it has it again, all goes on.
	lost bool
}

type targetKey struct {
	key   signing.Key
	until time.Time // zero: no end
}

// signingKeys is the keys in force at now, newest first.
func (t *target) signingKeys(now time.Time) []signing.Key {
	keys := make([]signing.Key, 0, len(t.keys))
	for _, k := range t.keys {
		if k.until.IsZero() || now.Before(k.until) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// loadTargets reads the endpoints ids as they are now. One that no longer exists is missing from the map.
func (e *Engine) loadTargets(ctx context.Context, ids []string) (map[string]*target, error) {
	rows, err := e.pool.Query(ctx, sqlTarget, ids)
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	now := e.Now()
	targets := make(map[string]*target, len(ids))
	for rows.Next() {
		var (
			id, tenantID, scheme, preset string
			t                            target
			rate                         *int32
			headers                      []byte
			keyIDs, kinds                []string
			sealed                       [][]byte
			lives                        []float64
		)
		if err := rows.Scan(&id, &tenantID, &t.rev, &t.url, &scheme, &t.concurrency, &rate, &preset, &t.verified, &t.headerSetID, &headers,
			&keyIDs, &sealed, &kinds, &lives); err != nil {
			rows.Close()
			return nil, fmt.Errorf("read endpoints: %w", err)
		}
		t.scheme = signing.Scheme(scheme)
		if rate != nil {
			t.rate = int(*rate)
		}
		t.preset, t.policy = preset, e.policyFor(preset)
		if t.headers, err = openHeaders(e.Ring, t.headerSetID, headers); err != nil {
			t.broken, t.lost = "the static headers of this endpoint cannot be read; set them again", t.lost || errors.Is(err, seal.ErrUnknownKey)
			e.Logger.Error("endpoint's static headers do not open", "endpoint_id", id, "error", err)
		}
		for i, keyID := range keyIDs {
			plain, err := e.Ring.Open(sealed[i], SecretAAD(keyID))
			if err == nil {
				var key signing.Key
				if key, err = signing.ParseKey(string(plain)); err == nil {
					k := targetKey{key: key}
					if lives[i] >= 0 {
						k.until = now.Add(time.Duration(lives[i] * float64(time.Second)))
					}
					t.keys = append(t.keys, k)
					continue
				}
			}
			t.broken, t.lost = "a signing secret of this endpoint cannot be read; rotate it", t.lost || errors.Is(err, seal.ErrUnknownKey)
			e.Logger.Error("endpoint's signing secret does not open", "endpoint_id", id, "secret_id", keyID, "error", err)
		}
		targets[id] = &t
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	return targets, nil
}

// SecretAAD is the associated data under which a row of signing_secrets is sealed.
func SecretAAD(secretID string) []byte { return []byte("secret:" + secretID) }

// HeadersAAD is the associated data under which a row of header_sets is sealed.
func HeadersAAD(headerSetID string) []byte { return []byte("headers:" + headerSetID) }

func openHeaders(ring *seal.Ring, id *string, sealed []byte) ([]sender.Header, error) {
	if id == nil {
		return nil, nil
	}
	plain, err := ring.Open(sealed, HeadersAAD(*id))
	if err != nil {
		return nil, err
	}
	var pairs [][2]string
	if err := json.Unmarshal(plain, &pairs); err != nil {
		return nil, err
	}
	headers := make([]sender.Header, len(pairs))
	for i, p := range pairs {
		headers[i] = sender.Header{Name: p[0], Value: p[1]}
	}
	return headers, nil
}

// policyFor is the policy of a preset. One that was taken out of the file since it was chosen gives way to the standard.
func (e *Engine) policyFor(preset string) *policy.Policy {
	p := e.Policies.First(preset)
	return &p
}
