package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/lane"
	"waybill/db"
	"waybill/jobs"
)

// Services are the operations that API, dashboard and demo share.
type Services struct {
	Accounts *account.Service
}

func (s *Server) startServices(ctx context.Context) (err error) {
	if s.Inserter, err = jobs.NewInserter(s.Pool, s.Logger); err != nil {
		return err
	}
	s.Waker = &lane.Waker{Tickets: s.Inserter}
	s.Services.Accounts = &account.Service{DB: s.Pool, Now: time.Now, KnowsPreset: func(name string) bool {
		_, ok := s.Policies.Preset(name)
		return ok
	}}
	return nil
}

// health answers /healthz (alive) and /readyz (the database answers and its schema is ours).
func (s *Server) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		state, err := db.SchemaState(ctx, s.Pool)
		switch {
		case err != nil:
			w.Header().Set("Retry-After", "2")
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		case state != db.Current:
			http.Error(w, "the database's schema is not this program's; run waybill migrate", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ready")
		}
	})
}

func (s *Server) startHTTP(context.Context) (err error) {
	mux := http.NewServeMux()
	s.health(mux)
	if s.listener, err = net.Listen("tcp", s.Config.Addr); err != nil {
		return fmt.Errorf("WAYBILL_ADDR: %w", err)
	}
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		if err := s.http.Serve(s.listener); err != nil && err != http.ErrServerClosed {
			s.failed <- fmt.Errorf("HTTP server: %w", err)
		}
	}()
	s.onStop(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, stopGrace)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			_ = s.http.Close() // streams that did not end in time
		}
	})
	return nil
}
