package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlMetricLanes      = queries.SQL("MetricLanes")
	sqlMetricOutbox     = queries.SQL("MetricOutbox")
	sqlMetricLate       = queries.SQL("MetricLate")
	sqlMetricDispatched = queries.SQL("MetricDispatched")
)

const (
	gaugesFor     = 5 * time.Second // one answer of the database serves all scrapes for so long
	gaugesWithin  = 2 * time.Second
	outboxCounted = 100_000
	lateLanes     = 2000
)

// figures is what the database said of the whole system at one moment.
type figures struct {
	lanes      map[string]int64
	outbox     int64
	outboxAge  float64
	late       float64
	dispatched int64
}

// databaseGauges asks the database for figures, at most once every gaugesFor, however often and by how many it is scraped.
type databaseGauges struct {
	conn db.Conn
	now  func() time.Time

	mu    sync.Mutex
	asked time.Time
	last  figures
	err   error
}

func (g *databaseGauges) read() (figures, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked.IsZero() && g.now().Sub(g.asked) < gaugesFor {
		return g.last, g.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), gaugesWithin)
	defer cancel()
	g.last, g.err = readFigures(ctx, g.conn)
	g.asked = g.now()
	return g.last, g.err
}

func readFigures(ctx context.Context, conn db.Conn) (f figures, err error) {
	rows, err := conn.Query(ctx, sqlMetricLanes)
	if err != nil {
		return f, fmt.Errorf("count lanes: %w", err)
	}
	f.lanes = map[string]int64{"idle": 0, "sleeping": 0, "queued": 0, "running": 0, "blocked": 0}
	var state string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error { f.lanes[state] = n; return nil }); err != nil {
		return f, fmt.Errorf("count lanes: %w", err)
	}
	if err := conn.QueryRow(ctx, sqlMetricOutbox, outboxCounted).Scan(&f.outbox, &f.outboxAge); err != nil {
		return f, fmt.Errorf("look into the outbox: %w", err)
	}
	if err := conn.QueryRow(ctx, sqlMetricLate, lateLanes).Scan(&f.late); err != nil {
		return f, fmt.Errorf("look for the latest delivery: %w", err)
	}
	if err := conn.QueryRow(ctx, sqlMetricDispatched).Scan(&f.dispatched); err != nil {
		return f, fmt.Errorf("read the last position: %w", err)
	}
	return f, nil
}

// addDatabase adds what the database says. When it does not answer, that is a metric, and its figures are missing: never zero.
func (m *metrics) addDatabase(g *databaseGauges) {
	up := desc("waybill_database_up", "Whether the database answered the questions behind the figures below: 1 or 0.")
	lanes := desc("waybill_lanes", "Endpoints by the state of their lane.", "state")
	outbox := desc("waybill_outbox_events", "Published events that wait for the dispatcher, counted up to 100,000.")
	age := desc("waybill_outbox_oldest_seconds", "How long the oldest of them has waited.")
	late := desc("waybill_due_late_seconds", "How late the latest due delivery is whose lane may send.")
	dispatched := desc("waybill_events_dispatched_total", "Events dispatched since the database was made.")
	m.registry.MustRegister(&collector{[]*prometheus.Desc{up, lanes, outbox, age, late, dispatched}, func(ch chan<- prometheus.Metric) {
		f, err := g.read()
		if err != nil {
			ch <- gauge(up, 0)
			return
		}
		ch <- gauge(up, 1)
		for state, n := range f.lanes {
			ch <- gauge(lanes, float64(n), state)
		}
		ch <- gauge(outbox, float64(f.outbox))
		ch <- gauge(age, max(0, f.outboxAge)) // published a moment after the statement began
		ch <- gauge(late, max(0, f.late))
		ch <- counter(dispatched, f.dispatched)
	}})
}
