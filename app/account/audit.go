package account

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"waybill/app/cursor"
	"waybill/app/id"
	"waybill/db/queries"
)

// Entry is one line of a tenant's activity log.
type Entry struct {
	ID      string // aud_…
	At      time.Time
	Kind    Kind           // of the caller
	Actor   string         // in words, as it was called then
	ActorID string         // key_… or ses_…; empty for Waybill itself
	Action  string         // "endpoint.rotated": a noun, a full stop, a word in the past tense
	Object  string         // the id of what it was done to
	Detail  jsontext.Value // an object; never a secret or a payload
}

// AuditFilter narrows an activity log. Empty fields ask for everything.
type AuditFilter struct {
	Object  string // an id
	ActorID string // key_… or ses_…
	Noun    string // the first word of the action: "endpoint", "secret", "key", "session", …
}

var (
	auditInsert       = queries.SQL("AuditInsert")
	auditList         = queries.SQL("AuditList")
	operatorLogInsert = queries.SQL("OperatorLogInsert")
)

// Record writes into the log of the caller's tenant what the caller did, in the transaction that does it. detail must marshal to a JSON
// object of at most 8 KiB and hold no secret; nil is an empty one. What an operator did stands in the operators' own log as well.
func (s *Service) Record(ctx context.Context, tx pgx.Tx, caller Caller, action, object string, detail map[string]any) error {
	if detail == nil {
		detail = map[string]any{}
	}
	text, err := json.Marshal(detail, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	entry := id.New(id.Audit, s.Now())
	_, err = tx.Exec(ctx, auditInsert, entry, caller.Tenant(), caller.Kind, caller.Actor(), caller.ID, action, object, string(text))
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	if caller.Kind != Operator {
		return nil
	}
	if _, err = tx.Exec(ctx, operatorLogInsert, entry, caller.ID, caller.Name, caller.Tenant(), action, object, string(text)); err != nil {
		return fmt.Errorf("record %s of an operator: %w", action, err)
	}
	return nil
}

const auditCursor = "audit"

// AuditList is a page of at most limit entries of the caller's tenant, newest first, and the cursor of the next page or "". It needs
// audit:read.
func (s *Service) AuditList(ctx context.Context, caller Caller, filter AuditFilter, after string, limit int) ([]Entry, string, error) {
	if err := caller.Can(AuditRead); err != nil {
		return nil, "", err
	}
	from, err := idCursor(auditCursor, after, id.Audit)
	if err != nil {
		return nil, "", err
	}
	for _, text := range []string{filter.Object, filter.ActorID, filter.Noun} {
		if text != "" && !plausible(text) {
			return nil, "", nil // no entry holds it, and the database might refuse to be asked
		}
	}
	rows, err := s.DB.Query(ctx, auditList, caller.Tenant(), filter.Object, filter.ActorID, filter.Noun, from, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list audit: %w", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Entry, error) {
		var e Entry
		var detail []byte
		err := row.Scan(&e.ID, &e.At, &e.Kind, &e.Actor, &e.ActorID, &e.Action, &e.Object, &detail)
		e.Detail = detail
		return e, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list audit: %w", err)
	}
	entries, next := page(entries, limit, func(e Entry) string { return cursor.Encode(auditCursor, e.ID) })
	return entries, next, nil
}

// idCursor reads the cursor of a list that is ordered by ids of one kind; no cursor is the empty id.
func idCursor(kind, after string, prefix id.Prefix) (string, error) {
	if after == "" {
		return "", nil
	}
	keys, err := cursor.Decode(kind, after, 1)
	if err != nil {
		return "", err
	}
	if !id.Valid(prefix, keys[0]) {
		return "", cursor.ErrForeign()
	}
	return keys[0], nil
}
