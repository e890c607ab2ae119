package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/id"
	"waybill/db"
	"waybill/db/queries"
)

// Entry is one thing that an operator did.
type Entry struct {
	ID                    string // aud_…, the same as in the tenant's log, where it stands there too
	At                    time.Time
	OperatorID, Operator  string // the mail address as it was then; "waybill operator" for the command
	TenantUID, TenantName string // empty: it concerned none
	Action, Object        string
	Detail                jsontext.Value
}

var operatorLogList = queries.SQL("OperatorLogList")

// note writes into the operators' log what concerns no tenant, in the transaction that does it.
func (s *Service) note(ctx context.Context, tx pgx.Tx, caller account.Caller, action, object string, detail map[string]any) error {
	if detail == nil {
		detail = map[string]any{}
	}
	text, err := json.Marshal(detail, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("note %s: %w", action, err)
	}
	if _, err := tx.Exec(ctx, operatorLogInsert, id.New(id.Audit, s.Now()), caller.ID, caller.Name, "", action, object, string(text)); err != nil {
		return fmt.Errorf("note %s: %w", action, err)
	}
	return nil
}

// Note writes into the operators' log what an operator did beside these operations: to the job queue.
func (s *Service) Note(ctx context.Context, caller account.Caller, action, object string, detail map[string]any) error {
	if err := may(caller, account.TenantsRead); err != nil {
		return err
	}
	return db.Tx(ctx, s.DB, func(tx pgx.Tx) error { return s.note(ctx, tx, caller, action, object, detail) })
}

const logCursor = "operator-log"

// Log is a page of at most limit entries of the operators' log, newest first: all, or with an id one operator's; and the cursor of the next page or "".
// Every operator reads what all of them did.
func (s *Service) Log(ctx context.Context, caller account.Caller, operatorID, after string, limit int) ([]Entry, string, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return nil, "", err
	}
	if operatorID != "" && !id.Valid(prefixOperator, operatorID) {
		return nil, "", nil
	}
	before := ""
	if after != "" {
		keys, err := cursor.Decode(logCursor, after, 1)
		if err != nil {
			return nil, "", err
		}
		if before = keys[0]; !id.Valid(id.Audit, before) {
			return nil, "", cursor.ErrForeign()
		}
	}
	rows, err := s.DB.Query(ctx, operatorLogList, pgx.NamedArgs{"operator": operatorID, "before": before, "limit": limit + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list the operators' log: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Entry, error) {
		var e Entry
		var detail []byte
		err := row.Scan(&e.ID, &e.At, &e.OperatorID, &e.Operator, &e.TenantUID, &e.TenantName, &e.Action, &e.Object, &detail)
		e.Detail = detail
		return e, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the operators' log: %w", err)
	}
	if len(found) <= limit {
		return found, "", nil
	}
	return found[:limit], cursor.Encode(logCursor, found[limit-1].ID), nil
}
