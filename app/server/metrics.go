package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"waybill/app/account"
	"waybill/app/egress"
	"waybill/app/fault"
	"waybill/app/lane"
	"waybill/app/reseal"
	"waybill/app/sender"
)

// metrics is what this process counts and what it says of the whole system, for Prometheus. Labels come from fixed lists (classes, states,
// verdicts, routes of the tables, names of our own pools): no tenant, address or event type is ever one (CASES B68).
//
// Counters are of this process since its start; gauges of the database (see metrics_database.go) are the same in every process.
type metrics struct {
	registry *prometheus.Registry

	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	requests *prometheus.CounterVec
	answers  *prometheus.HistogramVec

	patterns map[string]bool // of the routes, without methods; complete before the first request
}

// engineCounts is what an engine may count beyond what its sender shows.
type engineCounts interface {
	// Settled is how many deliveries have ended, by status.
	Settled() map[string]int64
	// Flushes is how many batches of results were committed, and how many results were in them.
	Flushes() (batches, results int64)
}

// dispatcherCounts is what a dispatcher may count.
type dispatcherCounts interface {
	// Dispatched is how many batches of events were committed, and how many events were in them.
	Dispatched() (batches, events int64)
}

func newMetrics() *metrics {
	seconds := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		patterns: map[string]bool{},
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_attempts_total", Help: "Attempts by how they ended."}, []string{"class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "waybill_attempt_seconds",
			Help: "How long attempts took, from the connection to the end of the answer.", Buckets: seconds}, []string{"result"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_http_requests_total",
			Help: "Requests to the API and the dashboard that were answered."}, []string{"surface", "method", "route", "status"}),
		answers: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "waybill_http_request_seconds",
			Help: "How long answers took. Streams end when their reader leaves.", Buckets: seconds}, []string{"surface"}),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.attempts, m.duration, m.requests, m.answers)
	for _, class := range attemptClasses {
		m.attempts.WithLabelValues(string(class))
	}
	for _, result := range []string{"delivered", "failed"} {
		m.duration.WithLabelValues(result)
	}
	return m
}

var attemptClasses = []sender.Class{sender.BadConfig, sender.Proxy, sender.BlockedAddress, sender.DNS, sender.Refused, sender.ConnectTimeout, sender.TLS,
	sender.Timeout, sender.Reset, sender.NotHTTP, sender.TooLargeHeader, sender.Redirect, sender.Gone, sender.Status, sender.Delivered, sender.Canceled}

// counted is a lane.Sender whose attempts are counted.
type counted struct {
	lane.Sender
	m *metrics
}

func (c counted) Send(ctx context.Context, r sender.Request) sender.Outcome {
	out := c.Sender.Send(ctx, r)
	c.m.attempts.WithLabelValues(string(out.Class)).Inc()
	result := "failed"
	if out.Class == sender.Delivered {
		result = "delivered"
	}
	c.m.duration.WithLabelValues(result).Observe(out.Total.Seconds())
	return out
}

// observe is told of each answered request. A pattern that is in no table is one that a client made up, as are odd methods.
func (m *metrics) observe(surface string) func(method, pattern string, status int, took time.Duration) {
	return func(method, pattern string, status int, took time.Duration) {
		if !m.patterns[pattern] {
			pattern = "other"
		}
		switch method {
		case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead:
		default:
			method = "other"
		}
		m.requests.WithLabelValues(surface, method, pattern, strconv.Itoa(status)).Inc()
		m.answers.WithLabelValues(surface).Observe(took.Seconds())
	}
}

// know adds routes to those that appear by their pattern.
func (m *metrics) know(pattern string) { m.patterns[pattern] = true }

// collector makes what a function reads at each scrape into metrics.
type collector struct {
	descs   []*prometheus.Desc
	collect func(ch chan<- prometheus.Metric)
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func counter(d *prometheus.Desc, value int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// addEngine adds what a process that sends knows of itself. counts and dispatched may be nil.
func (m *metrics) addEngine(running func() (lanes, hanging int), places int, counts engineCounts, dispatched dispatcherCounts) {
	used := desc("waybill_lane_places_used", "Lanes that hold one of this process's places.")
	most := desc("waybill_lane_places", "How many lanes may run in this process at once.")
	hang := desc("waybill_lanes_hanging", "Lanes of this process that wait for an answer without holding a place.")
	settled := desc("waybill_deliveries_settled_total", "Deliveries that ended, by status.", "status")
	flushes := desc("waybill_flush_batches_total", "Batches of results that were committed.")
	results := desc("waybill_flush_results_total", "Results in those batches.")
	batches := desc("waybill_dispatch_batches_total", "Batches of events that this process dispatched.")
	events := desc("waybill_dispatch_events_total", "Events in those batches.")
	m.registry.MustRegister(&collector{[]*prometheus.Desc{used, most, hang, settled, flushes, results, batches, events}, func(ch chan<- prometheus.Metric) {
		lanes, hanging := running()
		ch <- gauge(used, float64(max(0, lanes-hanging)))
		ch <- gauge(most, float64(places))
		ch <- gauge(hang, float64(hanging))
		if counts != nil {
			for status, n := range counts.Settled() {
				ch <- counter(settled, n, status)
			}
			b, r := counts.Flushes()
			ch <- counter(flushes, b)
			ch <- counter(results, r)
		}
		if dispatched != nil {
			b, e := dispatched.Dispatched()
			ch <- counter(batches, b)
			ch <- counter(events, e)
		}
	}})
}

// addProxy adds what the proxy of this process decided.
func (m *metrics) addProxy(counts func() map[egress.Verdict]int64, tunnels func() int) {
	verdicts := desc("waybill_proxy_connects_total", "Connections that the egress proxy was asked for, by what became of them.", "verdict")
	open := desc("waybill_proxy_tunnels", "Connections through the egress proxy that are open.")
	m.registry.MustRegister(&collector{[]*prometheus.Desc{verdicts, open}, func(ch chan<- prometheus.Metric) {
		for verdict, n := range counts() {
			ch <- counter(verdicts, n, string(verdict))
		}
		ch <- gauge(open, float64(tunnels()))
	}})
}

// addPools adds the use of this process's database pools, by their names.
func (m *metrics) addPools(pools map[string]*pgxpool.Pool) {
	conns := desc("waybill_database_connections", "Connections of a pool: in use, idle, and the most it may have.", "pool", "state")
	waits := desc("waybill_database_waits_total", "How often somebody waited for a connection of a pool.", "pool")
	m.registry.MustRegister(&collector{[]*prometheus.Desc{conns, waits}, func(ch chan<- prometheus.Metric) {
		for name, pool := range pools {
			stat := pool.Stat()
			ch <- gauge(conns, float64(stat.AcquiredConns()), name, "used")
			ch <- gauge(conns, float64(stat.IdleConns()), name, "idle")
			ch <- gauge(conns, float64(stat.MaxConns()), name, "most")
			ch <- counter(waits, stat.EmptyAcquireCount(), name)
		}
	}})
}

func (m *metrics) handler(logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: promLog{logger}, ErrorHandling: promhttp.ContinueOnError})
}

// promLog is where promhttp says that it could not answer in full.
type promLog struct{ logger *slog.Logger }

func (l promLog) Println(v ...any) {
	l.logger.Error("metrics", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}

// withKey lets only a platform's key through. The configured key is known without asking the database.
func (s *Server) withKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		err := errors.New("no key")
		if strings.EqualFold(scheme, "bearer") && token != "" {
			err = s.isPlatform(r.Context(), token)
		}
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case fault.KindOf(err) == fault.Unavailable:
			w.Header().Set("Retry-After", "2")
			http.Error(w, "the database does not answer, and so the key cannot be checked", http.StatusServiceUnavailable)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="waybill"`)
			http.Error(w, "send a platform key as a bearer token", http.StatusUnauthorized)
		}
	})
}

func (s *Server) isPlatform(ctx context.Context, token string) error {
	if key := s.PlatformKey.Reveal(); key != "" && subtle.ConstantTimeCompare([]byte(key), []byte(token)) == 1 {
		return nil
	}
	caller, err := s.Services.Accounts.Authenticate(ctx, token)
	switch {
	case err != nil && fault.KindOf(err) != fault.Unauthenticated:
		return fault.Wrap(fault.Unavailable, "", err)
	case err == nil && caller.Kind != account.PlatformKey:
		return errors.New("a tenant's key")
	}
	return err
}

// startMetrics serves /metrics on an address of its own, to whoever reaches that.
func (s *Server) startMetrics(ctx context.Context) error {
	s.addMetrics()
	if s.Config.MetricsAddr == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Config.MetricsAddr)
	if err != nil {
		return fmt.Errorf("WAYBILL_METRICS_ADDR: %w", err)
	}
	s.metricsAddr = listener.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.handler(s.Logger))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("metrics server: %w", err))
		}
	}()
	s.onStop(func(context.Context) { _ = server.Close() })
	return nil
}

// MetricsAddr is the address on which /metrics is served without a key; empty if there is none.
func (s *Server) MetricsAddr() string { return s.metricsAddr }

// addMetrics adds what the parts of this process have to say.
func (s *Server) addMetrics() {
	if s.proxy != nil {
		s.metrics.addProxy(s.proxy.Counts, s.proxy.Tunnels)
	}
	if s.Pool == nil {
		return
	}
	pools := map[string]*pgxpool.Pool{"web": s.Pool}
	if s.wall != nil && s.wall.Tenants != nil {
		pools["tenants"] = s.wall.Tenants
	}
	if s.Engine != nil {
		pools["lanes"], pools["results"] = s.enginePool, s.flushPool
		counts, _ := any(s.Engine).(engineCounts)
		dispatched, _ := any(s.dispatcher).(dispatcherCounts)
		s.metrics.addEngine(s.Engine.Running, s.Engine.Places, counts, dispatched)
	}
	s.metrics.addPools(pools)
	s.metrics.addDatabase(&databaseGauges{conn: s.Pool, now: time.Now})
	s.metrics.addSeals(func(ctx context.Context) (reseal.Standing, error) { return reseal.Look(ctx, s.Pool, s.Ring) }, time.Now)
}
