package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/id"
	"waybill/db/queries"
)

// Need is why an endpoint needs somebody.
type Need int

// The needs, the worst first.
const (
	NeedOpen     Need = 1 // so many deliveries failed that its circuit is open
	NeedFailing  Need = 2 // its last attempts failed
	NeedSettings Need = 3 // its own settings keep it from being sent to
	NeedDisabled Need = 4 // we have disabled it: it failed for long, or said 410
	NeedWaiting  Need = 5 // its work has waited for its turn for longer than a minute
)

// Needs lists the needs, the worst first.
func Needs() []Need {
	return []Need{NeedOpen, NeedFailing, NeedSettings, NeedDisabled, NeedWaiting}
}

// Patient is an endpoint that needs somebody.
type Patient struct {
	EndpointID, URL, Description, State, Reason string
	TenantUID, TenantName                       string
	Need                                        Need
	Since                                       time.Time
	LastClass                                   string // of the last attempt: a word of package verdict
	LastCode                                    int
	LastDelivery                                string
	DisableAt                                   *time.Time
	Failed                                      int // different deliveries since the last success
	Lane                                        string
	NextAt                                      *time.Time // when what is due longest is, or was
	Undelivered, Held                           int        // up to MaxCount
}

var (
	consoleAttention      = queries.SQL("ConsoleAttention")
	consoleAttentionCount = queries.SQL("ConsoleAttentionCount")
)

const attentionCursor = "console-attention"

// Attention is a page of at most limit endpoints of all tenants that need somebody, the worst and longest first; all, or those with one need; and the
// cursor of the next page or "".
func (s *Service) Attention(ctx context.Context, caller account.Caller, need Need, after string, limit int) ([]Patient, string, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return nil, "", err
	}
	args := pgx.NamedArgs{"rank": int(need), "after_rank": 0, "after_since": time.Time{}, "after_id": "", "limit": limit + 1, "most": MaxCount}
	if after != "" {
		keys, err := cursor.Decode(attentionCursor, after, 3)
		if err != nil {
			return nil, "", err
		}
		rank, err1 := strconv.Atoi(keys[0])
		micros, err2 := strconv.ParseInt(keys[1], 10, 64)
		if err1 != nil || err2 != nil || rank < 0 || rank > 9 || micros < 0 || micros > 1<<54 || !id.Valid(id.Endpoint, keys[2]) {
			return nil, "", cursor.ErrForeign()
		}
		args["after_rank"], args["after_since"], args["after_id"] = rank, time.UnixMicro(micros), keys[2]
	}
	rows, err := s.DB.Query(ctx, consoleAttention, args)
	if err != nil {
		return nil, "", fmt.Errorf("list endpoints that need attention: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Patient, error) {
		var p Patient
		var phase string
		err := row.Scan(&p.EndpointID, &p.URL, &p.Description, &p.State, &p.Reason, &p.TenantUID, &p.TenantName, &p.Need, &p.Since, &phase,
			&p.LastClass, &p.LastCode, &p.LastDelivery, &p.DisableAt, &p.Failed, &p.Lane, &p.NextAt, &p.Undelivered, &p.Held)
		return p, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list endpoints that need attention: %w", err)
	}
	if len(found) <= limit {
		return found, "", nil
	}
	last := found[limit-1]
	return found[:limit], cursor.Encode(attentionCursor, strconv.Itoa(int(last.Need)), strconv.FormatInt(last.Since.UnixMicro(), 10), last.EndpointID), nil
}

// AttentionCount is how many endpoints need somebody, by need.
func (s *Service) AttentionCount(ctx context.Context, caller account.Caller) (map[Need]int, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return nil, err
	}
	var n [5]int
	if err := s.DB.QueryRow(ctx, consoleAttentionCount).Scan(&n[0], &n[1], &n[2], &n[3], &n[4]); err != nil {
		return nil, fmt.Errorf("count endpoints that need attention: %w", err)
	}
	counts := map[Need]int{}
	for i, need := range Needs() {
		counts[need] = n[i]
	}
	return counts, nil
}
