package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/queries"
)

// Header is one static header. Its value is a secret as far as we know.
type Header = sender.Header

var (
	headerSetInsert = queries.SQL("HeaderSetInsert")
	headerSetRead   = queries.SQL("HeaderSetRead")
)

func headerNames(headers []Header) []string {
	names := []string{}
	for _, header := range headers {
		names = append(names, header.Name)
	}
	return names
}

// insertHeaders stores a new set, sealed, and returns its id; nil for no headers. Sets never change: attempts point at the one they were sent with.
func (s *Service) insertHeaders(ctx context.Context, tx pgx.Tx, tenantID string, headers []Header) (*string, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	pairs := make([][2]string, len(headers))
	for i, header := range headers {
		pairs[i] = [2]string{header.Name, header.Value}
	}
	plain, err := json.Marshal(pairs)
	if err != nil {
		return nil, fmt.Errorf("write headers: %w", err)
	}
	setID := id.New(id.HeaderSet, s.Now())
	_, err = tx.Exec(ctx, headerSetInsert, setID, tenantID, headerNames(headers), s.Ring.Seal(plain, []byte("headers:"+setID)))
	if err != nil {
		return nil, fmt.Errorf("insert headers: %w", err)
	}
	return &setID, nil
}

// HeadersReveal is an endpoint's static headers with their values, and recorded. It needs secrets:reveal.
func (s *Service) HeadersReveal(ctx context.Context, caller account.Caller, endpointID string) ([]Header, error) {
	if err := caller.Can(account.SecretsReveal); err != nil {
		return nil, err
	}
	var headers []Header
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := read(ctx, tx, caller.Tenant(), endpointID); err != nil {
			return err
		}
		var err error
		if headers, err = s.readHeaders(ctx, tx, caller.Tenant(), endpointID); err != nil || len(headers) == 0 {
			return err
		}
		return s.Audit.Record(ctx, tx, caller, "endpoint.headers_revealed", endpointID, nil)
	})
	if err != nil {
		return nil, err
	}
	return headers, nil
}

// readHeaders opens the static headers in force.
func (s *Service) readHeaders(ctx context.Context, conn db.Conn, tenantID, endpointID string) ([]Header, error) {
	headers := []Header{}
	var setID string
	var sealed []byte
	err := conn.QueryRow(ctx, headerSetRead, tenantID, endpointID).Scan(&setID, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return headers, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	plain, err := s.Ring.Open(sealed, []byte("headers:"+setID))
	if err != nil {
		return nil, unreadable("header set", err)
	}
	var pairs [][2]string
	if err := json.Unmarshal(plain, &pairs); err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	for _, pair := range pairs {
		headers = append(headers, Header{Name: pair[0], Value: pair[1]})
	}
	return headers, nil
}

// kept is headers with the stored values put in where a name is to keep its own.
func (s *Service) kept(ctx context.Context, tx pgx.Tx, found Endpoint, headers []Header, names []string) ([]Header, error) {
	if len(names) == 0 {
		return headers, nil
	}
	stored, err := s.readHeaders(ctx, tx, found.TenantID, found.ID)
	if err != nil {
		return nil, err
	}
	filled := slices.Clone(headers)
	for i, header := range filled {
		for _, old := range stored {
			if header.Value == "" && header.Name == old.Name && slices.Contains(names, old.Name) {
				filled[i].Value = old.Value
			}
		}
	}
	return filled, nil
}

func checkHeaders(headers []Header, wrong *fault.Error) {
	if refused := sender.CheckHeaders(headers); refused != nil {
		wrong.Fields = append(wrong.Fields, refused.Fields...)
	}
}
