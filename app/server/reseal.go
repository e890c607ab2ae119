package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill/app/reseal"
)

// lookAtSeals says at the start how the ring stands to what is sealed. A key that is missing keeps nobody else waiting: the endpoints concerned are
// not sent to until it is back, and the program starts.
func (s *Server) lookAtSeals(ctx context.Context) {
	standing, err := reseal.Look(ctx, s.Pool, s.Ring)
	switch {
	case err != nil: // the schema may be older than what is counted
		s.Logger.Warn("what is sealed with which key cannot be counted", "error", err)
	case standing.Lost() != "":
		s.Logger.Error("the key ring is incomplete: "+standing.Lost(), "ring", s.Ring)
	case standing.Newest < standing.Total:
		s.Logger.Info("secrets are to be sealed again: " + standing.Progress())
	}
}

func (s *Server) reseal(ctx context.Context, slice time.Duration) (over bool, err error) {
	return reseal.Run(ctx, s.Pool, s.Ring, s.Logger, slice)
}

// sealsFor is how long one count of what is sealed serves all scrapes: it reads whole tables, and changes slowly.
const sealsFor = time.Minute

// addSeals adds how far a change of keys is. While the database does not answer, the figures are missing.
func (m *metrics) addSeals(look func(ctx context.Context) (reseal.Standing, error), now func() time.Time) {
	var mu sync.Mutex
	var asked time.Time
	var last reseal.Standing
	var failed error
	sealed := desc("waybill_sealed", "Sealed secrets, headers and mails by the key of the ring that sealed them: newest, older, or missing from the ring.", "key")
	m.registry.MustRegister(&collector{[]*prometheus.Desc{sealed}, func(ch chan<- prometheus.Metric) {
		mu.Lock()
		defer mu.Unlock()
		if asked.IsZero() || now().Sub(asked) >= sealsFor {
			ctx, cancel := context.WithTimeout(context.Background(), gaugesWithin)
			defer cancel()
			last, failed = look(ctx)
			asked = now()
		}
		if failed != nil {
			return
		}
		missing := 0
		for _, n := range last.Missing {
			missing += n
		}
		ch <- gauge(sealed, float64(last.Newest), "newest")
		ch <- gauge(sealed, float64(last.Total-last.Newest-missing), "older")
		ch <- gauge(sealed, float64(missing), "missing")
	}})
}
