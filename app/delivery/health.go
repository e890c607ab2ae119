package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/id"
	"waybill/app/verdict"
	"waybill/db/queries"
)

var (
	sqlEndpointHealth   = queries.SQL("EndpointHealth")
	sqlParkedCount      = queries.SQL("ParkedCount")
	sqlUndeliveredCount = queries.SQL("UndeliveredCount")
)

// HealthAttempts is how many attempts of an endpoint Health looks back at: of deliveries that were made in the last week.
const HealthAttempts = 50

const (
	healthDays = 7
	healthScan = 200 // deliveries of an endpoint that are passed over because nothing was attempted yet
)

// waitingMost is how far Health counts what is due of each of n endpoints: a page of them is to cost no more than one that has much.
func waitingMost(n int) int { return min(MaxCount, max(500, 4*MaxCount/max(n, 1))) }

// Health is how an endpoint fares.
type Health struct {
	Last    []Outcome // its last attempts, the newest first, tests left out
	Waiting Count     // deliveries that are due, now or later; of many endpoints at once it is counted less far
	Oldest  time.Time // when the oldest of them was made; zero when none waits, or too many to look at
}

// Outcome is how one attempt ended.
type Outcome struct {
	Class string // a word of package verdict, of those that a tenant may be told
	Code  int    // HTTP status; 0: no answer
	At    time.Time
}

// Counts says whether the outcome says anything about the endpoint.
func (o Outcome) Counts() bool {
	return o.Class == string(verdict.Delivered) || verdict.Explain(verdict.Facts{Class: verdict.Class(o.Class), Code: o.Code}).Counts
}

// Failing is how many of the last attempts failed in a row, and when the first of them was made. Attempts whose end says nothing about the
// endpoint are passed over. Of no failure the time is zero.
func (h Health) Failing() (failures int, since time.Time) {
	for _, outcome := range h.Last {
		switch {
		case !outcome.Counts():
		case outcome.Class == string(verdict.Delivered):
			return failures, since
		default:
			failures, since = failures+1, outcome.At
		}
	}
	return failures, since
}

// Health is how endpoints of the caller's tenant fare, by their ids; others are missing. It needs deliveries:read.
func (s *Service) Health(ctx context.Context, caller account.Caller, endpointIDs []string) (map[string]Health, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	most, today := waitingMost(len(endpointIDs)), day(time.Now())
	args := pgx.NamedArgs{"tenant": caller.Tenant(), "endpoints": endpointIDs, "attempts": HealthAttempts, "due": most + 1, "scan": healthScan,
		"from_day": today.AddDate(0, 0, -healthDays), "until_day": today.AddDate(0, 0, 1)} // the days are the database's, whose clock may be ahead of ours
	rows, err := s.DB.Query(ctx, sqlEndpointHealth, args)
	if err != nil {
		return nil, fmt.Errorf("read health: %w", err)
	}
	all := make(map[string]Health, len(endpointIDs))
	var endpointID, oldest string
	var classes []string
	var codes []int
	var times []time.Time
	var due int
	_, err = pgx.ForEachRow(rows, []any{&endpointID, &classes, &codes, &times, &due, &oldest}, func() error {
		h := Health{Waiting: Count{N: min(due, most), More: due > most}}
		for i, class := range classes {
			h.Last = append(h.Last, Outcome{Class: public(class), Code: codes[i], At: times[i]})
		}
		if made, err := id.Time(oldest); err == nil && !h.Waiting.More {
			h.Oldest = made
		}
		all[endpointID] = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read health: %w", err)
	}
	return all, nil
}

// Parked is what waits for somebody: the undelivered and what endpoints that are off hold.
type Parked struct {
	Undelivered, Held Count
	Groups            []ParkedGroup // the largest first; of no more than MaxCount of each status
}

// ParkedGroup is what is parked of one endpoint for one reason.
type ParkedGroup struct {
	EndpointID   string
	EndpointURL  string // empty: it is not known any more
	EndpointName string // its description
	Status       Status
	Reason       string
	N            int
	Oldest       time.Time // when the oldest of them was made
}

// Parked counts what is parked of the caller's tenant, test events left out. It needs deliveries:read.
func (s *Service) Parked(ctx context.Context, caller account.Caller) (Parked, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Parked{}, err
	}
	rows, err := s.DB.Query(ctx, sqlParkedCount, pgx.NamedArgs{"tenant": caller.Tenant(), "most": MaxCount + 1})
	if err != nil {
		return Parked{}, fmt.Errorf("count what is parked: %w", err)
	}
	var all Parked
	all.Groups, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ParkedGroup, error) {
		var g ParkedGroup
		var oldest string
		err := row.Scan(&g.EndpointID, &g.Status, &g.Reason, &g.N, &oldest, &g.EndpointURL, &g.EndpointName)
		g.Oldest, _ = id.Time(oldest) // ours: it holds its time
		return g, err
	})
	if err != nil {
		return Parked{}, fmt.Errorf("count what is parked: %w", err)
	}
	for _, g := range all.Groups {
		if g.Status == Undelivered {
			all.Undelivered.N += g.N
		} else {
			all.Held.N += g.N
		}
	}
	all.Undelivered, all.Held = capped(all.Undelivered.N), capped(all.Held.N)
	return all, nil
}

func capped(n int) Count { return Count{N: min(n, MaxCount), More: n > MaxCount} }

// UndeliveredCount is how many deliveries of the caller's tenant are undelivered, up to most. It needs deliveries:read.
func (s *Service) UndeliveredCount(ctx context.Context, caller account.Caller, most int) (int, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return 0, err
	}
	var n int
	if err := s.DB.QueryRow(ctx, sqlUndeliveredCount, pgx.NamedArgs{"tenant": caller.Tenant(), "most": most}).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the undelivered: %w", err)
	}
	return n, nil
}
