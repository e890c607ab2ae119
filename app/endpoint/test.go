package endpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/plain"
	"waybill/db"
	"waybill/db/queries"
)

// Limits of a test event's data: those of every event.
const (
	maxTestData  = 256 << 10
	maxTestDepth = 64
)

// usualTest is what is sent for types without an example in the catalog.
const usualTest = `{"message":"This is a test event of Waybill."}`

// TestInput says what a test event is to be.
type TestInput struct {
	Type string // empty: one that the endpoint asked for
	Data []byte // JSON; nil: the type's example in the catalog
}

// Tested is a test event on its way.
type Tested struct {
	EventID    string // evt_…
	DeliveryID string // dlv_…: where the answer will stand
	Type       string
}

var (
	typeExample    = queries.SQL("TypeExample")
	typeForPattern = queries.SQL("TypeForPattern")
)

// SendTest sends a test event to one endpoint of the caller's tenant, paused, disabled or not. It goes first, and counts for nothing. It needs
// endpoints:write.
func (s *Service) SendTest(ctx context.Context, caller account.Caller, endpointID string, in TestInput) (Tested, error) {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return Tested{}, err
	}
	if err := checkTest(in); err != nil {
		return Tested{}, err
	}
	var out Tested
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		found, err := read(ctx, tx, caller.Tenant(), endpointID)
		if err != nil {
			return err
		}
		test := Test{TenantID: found.TenantID, EndpointID: found.ID, Type: in.Type, Data: in.Data, RequestedBy: caller.Actor()}
		if test.Type == "" {
			if test.Type, err = typeToTry(ctx, tx, found.Types); err != nil {
				return err
			}
		}
		if test.Data == nil {
			if test.Data, err = exampleOf(ctx, tx, test.Type); err != nil {
				return err
			}
		}
		out.Type = test.Type
		if out.EventID, out.DeliveryID, err = s.Tests.AddTest(ctx, tx, test); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, caller, "endpoint.tested", found.ID, map[string]any{"type": test.Type, "delivery_id": out.DeliveryID})
	})
	if err != nil {
		return Tested{}, err
	}
	return out, nil
}

func checkTest(in TestInput) error {
	wrong := fault.New(fault.Invalid, "This test event cannot be sent.")
	if in.Type != "" && (len(in.Type) > MaxType || !typeForm.MatchString(in.Type)) {
		wrong.Field("type", "must be words of A-Z a-z 0-9 _ joined by full stops, 128 characters at most")
	}
	switch {
	case in.Data == nil:
	case len(in.Data) > maxTestData:
		wrong.Field("data", fmt.Sprintf("must have at most %d bytes", maxTestData))
	case plain.Depth(in.Data) > maxTestDepth:
		wrong.Field("data", fmt.Sprintf("must nest at most %d levels deep", maxTestDepth))
	case !jsontext.Value(in.Data).IsValid(jsontext.AllowDuplicateNames(true)):
		wrong.Field("data", "must be JSON in UTF-8")
	}
	return wrong.OrNil()
}

// typeToTry is a type that an endpoint with these patterns wants: the first exact one, or one of the catalog that the first pattern covers.
func typeToTry(ctx context.Context, conn db.Conn, patterns []string) (string, error) {
	for _, pattern := range patterns {
		if !strings.HasSuffix(pattern, "*") {
			return pattern, nil
		}
	}
	prefix := strings.TrimSuffix(patterns[0], "*")
	var name string
	err := conn.QueryRow(ctx, typeForPattern, prefix).Scan(&name)
	if errors.Is(err, pgx.ErrNoRows) {
		return prefix + "test", nil
	}
	if err != nil {
		return "", fmt.Errorf("find a type to try: %w", err)
	}
	return name, nil
}

func exampleOf(ctx context.Context, conn db.Conn, eventType string) ([]byte, error) {
	var example string
	err := conn.QueryRow(ctx, typeExample, eventType).Scan(&example)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("read example: %w", err)
	}
	if example == "" {
		example = usualTest
	}
	return []byte(example), nil
}
