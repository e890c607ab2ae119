package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/signing"
	"waybill/db/queries"
)

var (
	endpointFind   = queries.SQL("EndpointFind")
	endpointListBy = queries.SQL("EndpointListBy")
	endpointCount  = queries.SQL("EndpointCount")
	endpointAt     = queries.SQL("EndpointAt")
	secretsSealed  = queries.SQL("SecretsSealed")
)

// Filter narrows a list of endpoints. Zero fields ask for everything.
type Filter struct {
	Text string // its name or URL holds this, whatever the case
	Show string // a State; Attention or Unverified
}

// The words of Filter.Show that are no State.
const (
	Attention  = "attention"  // it is off, or has failed since its last success
	Unverified = "unverified" // it is on, and nothing was delivered to it yet
)

// ListBy is List under a filter. It needs endpoints:read. A word of Show that is none is an Invalid fault.
func (s *Service) ListBy(ctx context.Context, caller account.Caller, f Filter, after string, limit int) ([]Endpoint, string, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return nil, "", err
	}
	switch f.Show {
	case "", Attention, Unverified, string(Active), string(Paused), string(Disabled):
	default:
		return nil, "", fault.New(fault.Invalid, "A filter is not valid.").Field("show", "must be attention, unverified, active, paused or disabled")
	}
	from, err := listFrom(after)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.DB.Query(ctx, endpointListBy, caller.Tenant(), from, strings.ToLower(strings.TrimSpace(f.Text)), f.Show, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list endpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanEndpoint)
	if err != nil {
		return nil, "", fmt.Errorf("list endpoints: %w", err)
	}
	if len(found) <= limit {
		return found, "", nil
	}
	return found[:limit], cursor.Encode(listCursor, found[limit-1].ID), nil
}

// MaxCount is how far endpoints are counted.
const MaxCount = 10_000

// Count is how many endpoints the caller's tenant has, and how many of them need attention; counted up to MaxCount. It needs endpoints:read.
func (s *Service) Count(ctx context.Context, caller account.Caller) (all, attention int, err error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return 0, 0, err
	}
	if err := s.DB.QueryRow(ctx, endpointCount, caller.Tenant(), MaxCount).Scan(&all, &attention); err != nil {
		return 0, 0, fmt.Errorf("count endpoints: %w", err)
	}
	return all, attention, nil
}

// Name is what lists call an endpoint.
type Name struct {
	ID, URL, Description string
}

// Find is at most limit endpoints of the caller's tenant whose name or URL holds the text, whatever the case, newest first. It needs endpoints:read.
func (s *Service) Find(ctx context.Context, caller account.Caller, text string, limit int) ([]Name, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return nil, err
	}
	return s.names(ctx, endpointFind, caller.Tenant(), strings.ToLower(strings.TrimSpace(text)), limit)
}

// At is at most limit endpoints of the caller's tenant that have this URL, whatever query is behind it, newest first. It needs endpoints:read.
func (s *Service) At(ctx context.Context, caller account.Caller, url string, limit int) ([]Name, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return nil, err
	}
	return s.names(ctx, endpointAt, caller.Tenant(), url, limit)
}

func (s *Service) names(ctx context.Context, sql, tenant, text string, limit int) ([]Name, error) {
	rows, err := s.DB.Query(ctx, sql, tenant, text, limit)
	if err != nil {
		return nil, fmt.Errorf("find endpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Name])
	if err != nil {
		return nil, fmt.Errorf("find endpoints: %w", err)
	}
	return found, nil
}

// Verified says what became of a check of a signature.
type Verified struct {
	OK          bool
	Fingerprint string // of the secret that signed it
	Scheme      signing.Scheme
	Reason      signing.Reason // why not
	Detail      string         // in words; empty when OK
}

// Verify checks a request that was received at some time against the live secrets of an endpoint of the caller's tenant, as its receiver would have done
// then. It needs endpoints:read and shows no secret.
func (s *Service) Verify(ctx context.Context, caller account.Caller, endpointID string, header http.Header, body []byte, at time.Time) (Verified, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return Verified{}, err
	}
	if !id.Valid(id.Endpoint, endpointID) {
		return Verified{}, errNoEndpoint()
	}
	if _, err := read(ctx, s.DB, caller.Tenant(), endpointID); err != nil {
		return Verified{}, err
	}
	rows, err := s.DB.Query(ctx, secretsSealed, caller.Tenant(), endpointID)
	if err != nil {
		return Verified{}, fmt.Errorf("read secrets: %w", err)
	}
	var secretID string
	var sealed []byte
	var keys []signing.Key
	_, err = pgx.ForEachRow(rows, []any{&secretID, &sealed}, func() error {
		plain, err := s.Ring.Open(sealed, []byte("secret:"+secretID))
		if err != nil {
			return nil // it signs nothing either
		}
		key, err := signing.ParseKey(string(plain))
		if err != nil {
			return fmt.Errorf("a stored secret: %w", err)
		}
		if key.Kind() == signing.Private {
			key = key.Public() // what a receiver has
		}
		keys = append(keys, key)
		return nil
	})
	if err != nil {
		return Verified{}, fmt.Errorf("read secrets: %w", err)
	}
	match, err := signing.Verify(header, body, keys, at, signing.Tolerance)
	if refusal, ok := errors.AsType[*signing.Refusal](err); ok {
		return Verified{Reason: refusal.Reason, Detail: refusal.Detail}, nil
	}
	if err != nil {
		return Verified{}, err
	}
	return Verified{OK: true, Fingerprint: keys[match.Key].Fingerprint(), Scheme: match.Scheme}, nil
}
