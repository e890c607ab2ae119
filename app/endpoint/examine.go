package endpoint

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/seal"
	"waybill/app/signing"
	"waybill/app/signing/lab"
	"waybill/db/queries"
)

var (
	secretTry       = queries.SQL("SecretTry")
	secretTryOthers = queries.SQL("SecretTryOthers")
)

// Examine says whether a request that an endpoint was sent verifies, and if not, why: by its scheme and its stored secrets, and by those of the tenant's
// other endpoints. in's Scheme and Keys are filled here. No secret leaves it; they are named by their fingerprints. It needs endpoints:read.
func (s *Service) Examine(ctx context.Context, caller account.Caller, endpointID string, in lab.Input) (lab.Report, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return lab.Report{}, err
	}
	found, err := read(ctx, s.DB, caller.Tenant(), endpointID)
	if err != nil {
		return lab.Report{}, err
	}
	in.Scheme, in.Keys = found.Scheme, nil
	rows, err := s.DB.Query(ctx, secretTry, found.TenantID, found.ID)
	if err != nil {
		return lab.Report{}, fmt.Errorf("read secrets: %w", err)
	}
	var id string
	var sealed []byte
	var key lab.Key
	if _, err := pgx.ForEachRow(rows, []any{&id, &sealed, &key.Ends}, func() error {
		if k, ok := opened(s.Ring, id, sealed); ok {
			in.Keys = append(in.Keys, lab.Key{Key: k, Ends: key.Ends})
		}
		return nil
	}); err != nil {
		return lab.Report{}, fmt.Errorf("read secrets: %w", err)
	}
	if rows, err = s.DB.Query(ctx, secretTryOthers, found.TenantID, found.ID); err != nil {
		return lab.Report{}, fmt.Errorf("read other secrets: %w", err)
	}
	var address, description string
	if _, err := pgx.ForEachRow(rows, []any{&id, &sealed, &address, &description}, func() error {
		if k, ok := opened(s.Ring, id, sealed); ok {
			in.Keys = append(in.Keys, lab.Key{Key: k, Endpoint: called(address, description)})
		}
		return nil
	}); err != nil {
		return lab.Report{}, fmt.Errorf("read other secrets: %w", err)
	}
	return lab.Examine(in), nil
}

// opened is a stored key; false if the key ring no longer opens it: it signs nothing then.
func opened(ring *seal.Ring, id string, sealed []byte) (signing.Key, bool) {
	plain, err := ring.Open(sealed, []byte("secret:"+id))
	if err != nil {
		return signing.Key{}, false
	}
	key, err := signing.ParseKey(string(plain))
	return key, err == nil
}

// called is what people call an endpoint: its description, or where it is, without user, password and query, which may be secret.
func called(address, description string) string {
	parsed, err := url.Parse(address)
	if description != "" || err != nil {
		return description
	}
	return parsed.Host + parsed.EscapedPath()
}
