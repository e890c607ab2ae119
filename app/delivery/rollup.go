package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/id"
	"waybill/db/queries"
)

var (
	sqlRollupOfTenant   = queries.SQL("RollupOfTenant")
	sqlRollupOfEndpoint = queries.SQL("RollupOfEndpoint")
	sqlRollupTotals     = queries.SQL("RollupTotals")
	sqlRollupPrune      = queries.SQL("RollupPrune")
)

// Attempted is how attempts ended.
type Attempted struct {
	Delivered   int64 // 2xx
	Redirected  int64 // 3xx
	Refused     int64 // 4xx
	Broken      int64 // 5xx
	Odd         int64 // any other status
	TimedOut    int64
	Unreachable int64 // no answer, for another reason
	TLS         int64
	Blocked     int64 // the address or the settings: nothing was sent
	Ours        int64 // our own fault, or nobody knows
}

// Failed is how many were not delivered.
func (a Attempted) Failed() int64 {
	return a.Answered() - a.Delivered + a.NoAnswer() + a.Blocked + a.Ours
}

// Answered is how many got an answer, of whatever status.
func (a Attempted) Answered() int64 {
	return a.Delivered + a.Redirected + a.Refused + a.Broken + a.Odd
}

// NoAnswer is how many were tried and got none.
func (a Attempted) NoAnswer() int64 { return a.TimedOut + a.Unreachable + a.TLS }

// responseBounds are the upper ends of the buckets of response times, as lane.Rollup fills them (see table rollups); what took longer is in one more.
var responseBounds = [...]int{5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 15_000, 30_000, 60_000}

// longestResponse is how long an answer in the last bucket is said to have taken: no policy allows more than a minute for an attempt.
const longestResponse = 60 * time.Second

// Responses is how long answers took, as counts by bucket.
type Responses [len(responseBounds) + 1]int64

// Quantile is the response time within which the share q (0 to 1) of the answers came: exact to the width of its bucket, in which the answers are taken to
// be spread evenly. It is negative when there were none.
func (r *Responses) Quantile(q float64) time.Duration {
	var n int64
	for _, count := range r {
		n += count
	}
	if n == 0 {
		return -1
	}
	rank, before := q*float64(n), int64(0)
	for i, count := range r {
		if count == 0 || float64(before+count) < rank {
			before += count
			continue
		}
		if i == len(responseBounds) {
			return longestResponse
		}
		low := 0.0
		if i > 0 {
			low = float64(responseBounds[i-1])
		}
		high := float64(responseBounds[i])
		within := low + (high-low)*(rank-float64(before))/float64(count)
		return time.Duration(within * float64(time.Millisecond))
	}
	return longestResponse
}

// Bucket is one step of a chart: from From to before Until, an hour or a day of the zone, which may be shorter or longer than usual.
type Bucket struct {
	From, Until time.Time
	Attempted
	Responses Responses
}

// Charted is what was attempted in a range, in steps, and all of it together. Tests are left out.
type Charted struct {
	Buckets []Bucket
	Attempted
	Responses Responses
}

// Span is the range of a chart.
type Span string

// The spans: the last of their buckets is the one that now lies in.
const (
	Day  Span = "24h" // 24 hours of the zone's clock, by hour
	Week Span = "7d"  // 7 days of the zone's calendar, by day
)

// buckets are the steps of a span that ends with the one that now lies in, the oldest first.
func (s Span) buckets(now time.Time, zone *time.Location) []Bucket {
	var edges []time.Time
	if s == Week {
		year, month, day := now.In(zone).Date()
		for back := 6; back >= -1; back-- {
			edges = append(edges, startOfDay(year, month, day-back, zone))
		}
	} else {
		// Where the clock is changed by half an hour, an hour of it is shorter or comes in two parts.
		at := startOfHour(now.Add(-23*time.Hour), zone)
		for len(edges) == 0 || !at.After(now) {
			edges = append(edges, at)
			next := at.Add(slot)
			for startOfHour(next, zone).Equal(at) {
				next = next.Add(slot)
			}
			at = next
		}
		edges = append(edges, at)
	}
	var buckets []Bucket
	for i := range len(edges) - 1 {
		if edges[i].Before(edges[i+1]) {
			buckets = append(buckets, Bucket{From: edges[i], Until: edges[i+1]})
		}
	}
	return buckets
}

// slot is what times of a chart are multiples of, as offsets of zones are.
const slot = 15 * time.Minute

// startOfHour is the first instant of the hour of a zone's clock in which at lies, or the change of the clock, if there was one since.
func startOfHour(at time.Time, zone *time.Location) time.Time {
	at = at.Truncate(slot)
	for {
		before := at.Add(-slot)
		_, now := at.In(zone).Zone()
		if _, then := before.In(zone).Zone(); then != now || before.In(zone).Hour() != at.In(zone).Hour() {
			return at
		}
		at = before
	}
}

// startOfDay is the first instant of a day of a zone's calendar: not midnight where the clock jumps over it. A day that the calendar has not at all, as
// Samoa's 30 December 2011, begins with the next.
func startOfDay(year int, month time.Month, day int, zone *time.Location) time.Time {
	utc := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	wanted := utc.Format(time.DateOnly)
	at := utc.Add(-15 * time.Hour) // no zone is farther ahead
	for at.In(zone).Format(time.DateOnly) < wanted {
		at = at.Add(slot)
	}
	return at
}

// Chart is what was attempted to an endpoint of the caller's tenant, or to all of them (endpointID empty), as of now by the clock and calendar of zone. An
// error is never to be shown as zeros. It needs deliveries:read.
func (s *Service) Chart(ctx context.Context, caller account.Caller, endpointID string, span Span, now time.Time, zone *time.Location) (Charted, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Charted{}, err
	}
	if span != Day && span != Week {
		return Charted{}, errors.New("delivery: an unknown span of a chart")
	}
	if endpointID != "" && !id.Valid(id.Endpoint, endpointID) {
		return Charted{}, errNoEndpoint()
	}
	out := Charted{Buckets: span.buckets(now, zone)}
	sql := sqlRollupOfTenant
	if endpointID != "" {
		sql = sqlRollupOfEndpoint
	}
	rows, err := s.DB.Query(ctx, sql, pgx.NamedArgs{"tenant": caller.Tenant(), "endpoint": endpointID,
		"from": out.Buckets[0].From, "until": out.Buckets[len(out.Buckets)-1].Until})
	if err != nil {
		return Charted{}, fmt.Errorf("read rollups: %w", err)
	}
	var from time.Time
	var a Attempted
	var r Responses
	at := 0
	_, err = pgx.ForEachRow(rows, append([]any{&from}, columns(&a, &r)...), func() error {
		for at < len(out.Buckets)-1 && !from.Before(out.Buckets[at].Until) {
			at++
		}
		b := &out.Buckets[at]
		b.Attempted.add(a)
		b.Responses.add(&r)
		out.Attempted.add(a)
		out.Responses.add(&r)
		return nil
	})
	if err != nil {
		return Charted{}, fmt.Errorf("read rollups: %w", err)
	}
	return out, nil
}

// Total is what was attempted in a range, as one sum.
type Total struct {
	Attempted
	Responses Responses
}

// Totals is what was attempted to each of some endpoints of the caller's tenant in the range of a Chart as of now; those to which nothing was are missing. An
// error is never to be shown as zeros. It needs deliveries:read.
func (s *Service) Totals(ctx context.Context, caller account.Caller, endpointIDs []string, span Span, now time.Time, zone *time.Location) (map[string]Total, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	if span != Day && span != Week {
		return nil, errors.New("delivery: an unknown span of a chart")
	}
	totals := make(map[string]Total, len(endpointIDs))
	if len(endpointIDs) == 0 {
		return totals, nil
	}
	buckets := span.buckets(now, zone)
	rows, err := s.DB.Query(ctx, sqlRollupTotals, pgx.NamedArgs{"tenant": caller.Tenant(), "endpoints": endpointIDs,
		"from": buckets[0].From, "until": buckets[len(buckets)-1].Until})
	if err != nil {
		return nil, fmt.Errorf("add up rollups: %w", err)
	}
	var endpointID string
	var t Total
	if _, err = pgx.ForEachRow(rows, append([]any{&endpointID}, columns(&t.Attempted, &t.Responses)...), func() error {
		totals[endpointID] = t
		return nil
	}); err != nil {
		return nil, fmt.Errorf("add up rollups: %w", err)
	}
	return totals, nil
}

// columns are the counts of a row of table rollups.
func columns(a *Attempted, r *Responses) []any {
	into := []any{&a.Delivered, &a.Redirected, &a.Refused, &a.Broken, &a.Odd, &a.TimedOut, &a.Unreachable, &a.TLS, &a.Blocked, &a.Ours}
	for i := range r {
		into = append(into, &r[i])
	}
	return into
}

func (a *Attempted) add(b Attempted) {
	a.Delivered += b.Delivered
	a.Redirected += b.Redirected
	a.Refused += b.Refused
	a.Broken += b.Broken
	a.Odd += b.Odd
	a.TimedOut += b.TimedOut
	a.Unreachable += b.Unreachable
	a.TLS += b.TLS
	a.Blocked += b.Blocked
	a.Ours += b.Ours
}

func (r *Responses) add(more *Responses) {
	for i, n := range more {
		r[i] += n
	}
}

const (
	keptRollups  = 9 * 24 * time.Hour // a week of any zone, and the day that is cut
	rollupsPrune = 20_000
)

// PruneRollups forgets what no chart shows any more, and says how many rows.
func (s *Service) PruneRollups(ctx context.Context) (int, error) {
	all := 0
	for {
		tag, err := s.DB.Exec(ctx, sqlRollupPrune, keptRollups, rollupsPrune)
		if err != nil {
			return all, fmt.Errorf("forget old rollups: %w", err)
		}
		all += int(tag.RowsAffected())
		if tag.RowsAffected() < rollupsPrune {
			return all, nil
		}
	}
}
