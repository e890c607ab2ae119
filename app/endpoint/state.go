package endpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/queries"
)

var (
	endpointSetState = queries.SQL("EndpointSetState")
	endpointDelete   = queries.SQL("EndpointDelete")
	healthForget     = queries.SQL("HealthForget")
)

// Follows says whether a state may be put in place of another by hand. A state may always follow itself, and then nothing changes.
func (to State) Follows(from State) bool {
	switch to {
	case from, Active, Disabled:
		return true
	case Paused:
		return from == Active // what is disabled does not come half-way back
	default:
		return false
	}
}

// Pause stops sending for a while: what is due, and what comes, is held. When it returns, no new request starts. An endpoint that is disabled is
// a Conflict. It needs endpoints:write.
func (s *Service) Pause(ctx context.Context, caller account.Caller, endpointID string) (Endpoint, error) {
	return s.setState(ctx, caller, endpointID, Paused, "endpoint.paused")
}

// Disable stops sending until somebody enables the endpoint again: what is due, and what comes, is held. When it returns, no new request
// starts. It needs endpoints:write.
func (s *Service) Disable(ctx context.Context, caller account.Caller, endpointID string) (Endpoint, error) {
	return s.setState(ctx, caller, endpointID, Disabled, "endpoint.disabled")
}

// Enable sends again what comes from now on, without regard to what failed before. What is held stays held until it is recovered. It needs
// endpoints:write.
func (s *Service) Enable(ctx context.Context, caller account.Caller, endpointID string) (Endpoint, error) {
	return s.setState(ctx, caller, endpointID, Active, "endpoint.enabled")
}

func (s *Service) setState(ctx context.Context, caller account.Caller, endpointID string, to State, action string) (Endpoint, error) {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return Endpoint{}, err
	}
	return s.change(ctx, caller, endpointID, func(tx pgx.Tx, found Endpoint) (int64, error) {
		switch {
		case found.State == to:
			return 0, nil
		case !to.Follows(found.State):
			return 0, fault.Newf(fault.Conflict, "This endpoint is %s: enable it first.", found.State)
		}
		reason := ReasonManual
		if to == Active {
			reason = ""
		}
		var rev int64
		err := tx.QueryRow(ctx, endpointSetState, found.TenantID, found.ID, found.State, to, reason, caller.Actor()).Scan(&rev)
		if errors.Is(err, pgx.ErrNoRows) {
			// Whoever changed it did not take its lane's row first.
			return 0, fault.New(fault.Conflict, "This endpoint was changed at the same time. Look at it again.")
		}
		if err != nil {
			return 0, fmt.Errorf("set state of endpoint: %w", err)
		}
		if to == Active {
			if err := forgetHealth(ctx, tx, found); err != nil {
				return 0, err
			}
		}
		return rev, s.Audit.Record(ctx, tx, caller, action, found.ID, map[string]any{"state": [2]any{found.State, to}})
	})
}

// forgetHealth makes an endpoint start clean: no failure of before counts, no circuit is open, nothing is held back.
func forgetHealth(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	if _, err := tx.Exec(ctx, healthForget, e.TenantID, e.ID); err != nil {
		return fmt.Errorf("forget health of endpoint: %w", err)
	}
	return nil
}

// Delete ends an endpoint: what is due to it or held for it is cancelled, its history stays, its secrets are gone. It needs endpoints:write.
func (s *Service) Delete(ctx context.Context, caller account.Caller, endpointID string) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	_, err := s.change(ctx, caller, endpointID, func(tx pgx.Tx, found Endpoint) (int64, error) {
		if err := unsubscribe(ctx, tx, found); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, secretDeleteAll, found.TenantID, found.ID); err != nil {
			return 0, fmt.Errorf("delete secrets: %w", err)
		}
		var rev int64
		if err := tx.QueryRow(ctx, endpointDelete, found.TenantID, found.ID, caller.Actor()).Scan(&rev); err != nil {
			return 0, fmt.Errorf("delete endpoint: %w", err)
		}
		return rev, s.Audit.Record(ctx, tx, caller, "endpoint.deleted", found.ID, map[string]any{"url": shownURL(found.URL)})
	})
	return err
}
