package operator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/db/queries"
)

// Lag is how far behind the whole system is, and whose work that is.
type Lag struct {
	Outbox     int           // events that wait for the dispatcher, up to MaxOutbox
	OutboxAge  time.Duration // how long the oldest has
	Late       time.Duration // how late the latest due delivery is at a lane that could send it
	Lanes      map[string]int
	Shares     []TenantShare
	Verdicts   Verdicts
	Mails      MailQueue
	Tables     []Table
	TablesAt   time.Time // when the sizes were asked for
	History    []Sample  // of this process since its start, the oldest first
	HistoryGap time.Duration
}

// MaxOutbox and maxMails are how far what waits is counted.
const (
	MaxOutbox = 10_000
	maxMails  = 1_000
)

// TenantShare is what a tenant holds of the slots, and what of it waits.
type TenantShare struct {
	TenantUID, TenantName              string
	Concurrency                        int
	Slots                              int64
	Running, Queued, Blocked, Sleeping int
	Waiting                            int64 // due now, counted up to MaxWaiting at each of its newest maxLanes endpoints
}

// MaxWaiting is how far what is due at one endpoint is counted, and maxLanes at how many endpoints of a tenant.
const (
	MaxWaiting = 1_000
	maxLanes   = 20
	maxShares  = 20
)

// Verdicts is how attempts ended since a time.
type Verdicts struct {
	Since                                                                                  time.Time
	Delivered, Redirected, Refused, Broken, Odd, TimedOut, Unreachable, TLS, Blocked, Ours int64
}

// Attempted is all of them.
func (v Verdicts) Attempted() int64 {
	return v.Delivered + v.Redirected + v.Refused + v.Broken + v.Odd + v.TimedOut + v.Unreachable + v.TLS + v.Blocked + v.Ours
}

// MailQueue is the mails that wait.
type MailQueue struct {
	Waiting int // up to 1,000
	Tried   int // of them, those that could not be sent at least once
	Since   *time.Time
}

// Table is a table with its indexes and, if it has some, its daily partitions.
type Table struct {
	Name        string
	Files       int // partitions, or 1
	Bytes       int64
	Rows        int64  // as the planner believes
	First, Last string // days of its partitions, as 20261130; empty: it has none
}

// Sample is how it was at a moment.
type Sample struct {
	At              time.Time
	OutboxAge, Late time.Duration
	Outbox          int
	Missing         bool // the database did not answer
}

var (
	metricLanes     = queries.SQL("MetricLanes")
	metricOutbox    = queries.SQL("MetricOutbox")
	metricLate      = queries.SQL("MetricLate")
	consoleShares   = queries.SQL("ConsoleShares")
	consoleVerdicts = queries.SQL("ConsoleVerdicts")
	consoleMails    = queries.SQL("ConsoleMails")
	consoleTables   = queries.SQL("ConsoleTables")
)

// lateLanes is at how many of the lanes that have waited longest lateness is looked for.
const lateLanes = 200

// Lag is how the system is now.
func (s *Service) Lag(ctx context.Context, caller account.Caller) (Lag, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return Lag{}, err
	}
	var l Lag
	now, err := sample(ctx, s.DB, s.Now())
	if err != nil {
		return Lag{}, err
	}
	l.Outbox, l.OutboxAge, l.Late, l.Lanes = now.Outbox, now.OutboxAge, now.Late, map[string]int{}
	rows, err := s.DB.Query(ctx, metricLanes)
	if err != nil {
		return Lag{}, fmt.Errorf("count lanes: %w", err)
	}
	var state string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error { l.Lanes[state] = n; return nil }); err != nil {
		return Lag{}, fmt.Errorf("count lanes: %w", err)
	}
	if l.Shares, err = s.shares(ctx); err != nil {
		return Lag{}, err
	}
	if l.Verdicts, err = s.verdicts(ctx); err != nil {
		return Lag{}, err
	}
	if err := s.DB.QueryRow(ctx, consoleMails, maxMails).Scan(&l.Mails.Waiting, &l.Mails.Tried, &l.Mails.Since); err != nil {
		return Lag{}, fmt.Errorf("count mails: %w", err)
	}
	if s.Watch != nil {
		l.History, l.HistoryGap = s.Watch.past(), watchEvery
		if l.Tables, l.TablesAt, err = s.Watch.sizes(ctx, s.Now()); err != nil {
			return Lag{}, err
		}
	}
	return l, nil
}

// verdicts are at most half a minute old: they are summed over every endpoint that was sent to.
func (s *Service) verdicts(ctx context.Context) (Verdicts, error) {
	now := s.Now()
	if s.Watch != nil {
		s.Watch.mu.Lock()
		known, at := s.Watch.verdicts, s.Watch.verdictsAt
		s.Watch.mu.Unlock()
		if now.Sub(at) < verdictsEvery {
			return known, nil
		}
	}
	v := Verdicts{Since: now.Truncate(15 * time.Minute).Add(-15 * time.Minute)}
	if err := s.DB.QueryRow(ctx, consoleVerdicts, pgx.NamedArgs{"from": v.Since}).Scan(&v.Delivered, &v.Redirected, &v.Refused, &v.Broken, &v.Odd, &v.TimedOut,
		&v.Unreachable, &v.TLS, &v.Blocked, &v.Ours); err != nil {
		return Verdicts{}, fmt.Errorf("count verdicts: %w", err)
	}
	if s.Watch != nil {
		s.Watch.mu.Lock()
		defer s.Watch.mu.Unlock()
		s.Watch.verdicts, s.Watch.verdictsAt = v, now
	}
	return v, nil
}

func (s *Service) shares(ctx context.Context) ([]TenantShare, error) {
	rows, err := s.DB.Query(ctx, consoleShares, pgx.NamedArgs{"limit": maxShares, "lanes": maxLanes, "most": MaxWaiting})
	if err != nil {
		return nil, fmt.Errorf("read the tenants' shares: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (TenantShare, error) {
		var t TenantShare
		err := row.Scan(&t.TenantUID, &t.TenantName, &t.Concurrency, &t.Slots, &t.Running, &t.Queued, &t.Blocked, &t.Sleeping, &t.Waiting)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the tenants' shares: %w", err)
	}
	return found, nil
}

// sample asks how it is now.
func sample(ctx context.Context, pool *pgxpool.Pool, at time.Time) (Sample, error) {
	out := Sample{At: at}
	var age, late float64
	if err := pool.QueryRow(ctx, metricOutbox, MaxOutbox).Scan(&out.Outbox, &age); err != nil {
		return out, fmt.Errorf("look at the outbox: %w", err)
	}
	if err := pool.QueryRow(ctx, metricLate, lateLanes).Scan(&late); err != nil {
		return out, fmt.Errorf("look at what is late: %w", err)
	}
	out.OutboxAge, out.Late = time.Duration(age*float64(time.Second)), time.Duration(late*float64(time.Second))
	return out, nil
}

// How the past is kept: an hour of it, in memory.
const (
	watchEvery    = 30 * time.Second
	watchKept     = 120
	tablesEvery   = time.Minute
	verdictsEvery = 30 * time.Second
	tablesMost    = 15
)

// Watch keeps the last hour of what lags, as this process has seen it, and the sizes of tables, which take long to ask for.
type Watch struct {
	DB  *pgxpool.Pool
	Now func() time.Time
	Log *slog.Logger

	mu       sync.Mutex
	samples  []Sample
	tables   []Table
	tablesAt time.Time

	verdicts   Verdicts
	verdictsAt time.Time
}

// Run samples until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	now, err := sample(ctx, w.DB, w.Now())
	if err != nil {
		now.Missing = true
		if ctx.Err() == nil {
			w.Log.WarnContext(ctx, "how far the system lags could not be looked at", "error", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, now)
	w.samples = w.samples[max(0, len(w.samples)-watchKept):]
}

func (w *Watch) past() []Sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Sample(nil), w.samples...)
}

// sizes are at most a minute old.
func (w *Watch) sizes(ctx context.Context, now time.Time) ([]Table, time.Time, error) {
	w.mu.Lock()
	known, at := w.tables, w.tablesAt
	w.mu.Unlock()
	if known != nil && now.Sub(at) < tablesEvery {
		return known, at, nil
	}
	rows, err := w.DB.Query(ctx, consoleTables, tablesMost)
	if err != nil {
		return nil, now, fmt.Errorf("ask for the sizes of tables: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Table, error) {
		var t Table
		err := row.Scan(&t.Name, &t.Files, &t.Bytes, &t.Rows, &t.First, &t.Last)
		return t, err
	})
	if err != nil {
		return nil, now, fmt.Errorf("ask for the sizes of tables: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tables, w.tablesAt = found, now
	return found, now, nil
}
