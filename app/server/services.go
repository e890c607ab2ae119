package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/alert"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/egress"
	"waybill/app/endpoint"
	"waybill/app/inbox"
	"waybill/app/lane"
	"waybill/app/limit"
	"waybill/app/notice"
	"waybill/app/operator"
	"waybill/app/outbox"
	"waybill/app/seal"
	"waybill/db"
	"waybill/jobs"
	"waybill/web"
	"waybill/web/api"
	"waybill/web/dashboard"
)

// Services are the operations that API, dashboard and demo share.
type Services struct {
	Accounts   *account.Service
	Endpoints  *endpoint.Service
	Types      *catalog.Types
	Events     *catalog.Events
	Consumers  *catalog.Consumers
	Deliveries *delivery.Service
	Limits     *limit.Service
	Mails      *notice.Outbox
	Inboxes    *inbox.Service
	Alerts     *alert.Service
	Operators  *operator.Service // nil in a process without the web
}

// lanes is package lane as app/endpoint sees it.
type lanes struct {
	*lane.Waker
	pool db.Pool
}

func (l lanes) Lock(ctx context.Context, tx pgx.Tx, ids ...string) error {
	return lane.Lock(ctx, tx, ids...)
}

func (l lanes) Settle(ctx context.Context, endpointID string, rev int64) error {
	return lane.Settle(ctx, l.pool, endpointID, rev)
}

// tests is package outbox as app/endpoint sees it.
type tests struct{}

func (tests) AddTest(ctx context.Context, tx pgx.Tx, t endpoint.Test) (eventID, deliveryID string, err error) {
	return outbox.AddTest(ctx, tx, time.Now(), outbox.Test{
		TenantID: t.TenantID, EndpointID: t.EndpointID, Type: t.Type, Data: t.Data, RequestedBy: t.RequestedBy})
}

func (s *Server) startServices(ctx context.Context) (err error) {
	if s.Inserter, err = jobs.NewInserter(s.Pool, s.Logger); err != nil {
		return err
	}
	s.Waker = &lane.Waker{Tickets: s.Inserter}
	knows := func(name string) bool {
		_, ok := s.Policies.Preset(name)
		return ok
	}
	if err := s.startMails(); err != nil {
		return err
	}
	s.Services.Accounts = &account.Service{DB: s.Pool, Now: time.Now, KnowsPreset: knows, Mails: s.Services.Mails, Ring: s.Ring}
	s.Services.Endpoints = &endpoint.Service{DB: s.Pool, Audit: s.Services.Accounts, Ring: s.Ring, Lanes: lanes{s.Waker, s.Pool}, Tests: tests{},
		URLs: egress.URLOptions{AllowHTTP: s.Config.AllowHTTP, Allow: s.Config.EgressAllow}, KnowsPreset: knows, Now: time.Now, Log: s.Logger}
	s.Services.Types = &catalog.Types{DB: s.Pool, Accounts: s.Services.Accounts, Operations: s.Config.OperationsTenant}
	s.Services.Events = &catalog.Events{DB: s.Pool, Feed: catalog.NewFeed(s.Pool, s.Logger, s.Services.Accounts.KeysAlive)}
	s.Services.Consumers = &catalog.Consumers{Events: s.Services.Events, Accounts: s.Services.Accounts}
	s.Services.Deliveries = &delivery.Service{DB: s.Pool, Ring: s.Ring, Policies: s.Policies, Lanes: lanes{s.Waker, s.Pool}, Audit: s.Services.Accounts, Recoveries: s.Inserter, Files: s.Inserter}
	s.Services.Inboxes = &inbox.Service{DB: s.Pool, Ring: s.Ring, Audit: s.Services.Accounts, URL: s.inboxURL(), Now: time.Now}
	s.Services.Alerts = &alert.Service{Accounts: s.Services.Accounts, Mails: s.Services.Mails, Operations: s.Config.OperationsTenant, Window: s.Policies.First("").ResendWindow}
	s.Services.Limits = &limit.Service{DB: s.Pool, Audit: s.Services.Accounts, Now: time.Now, MinDays: s.Policies.ResendWindowDays(), MaxDays: int(s.Policies.Retention().Events.Hours() / 24)}
	if err := s.Services.Alerts.EnsureOperations(ctx); err != nil {
		return fmt.Errorf("WAYBILL_OPERATIONS_TENANT: %w", err)
	}
	s.lookAtSeals(ctx)
	if !s.Config.Has(Web) {
		return nil
	}
	key, err := keptSecret(s.Config.PlatformKey, s.Config.Data, "platform_key", seal.NewKey)
	if err != nil {
		return err
	}
	s.PlatformKey = key
	return s.Services.Accounts.Bootstrap(ctx, key)
}

// inboxURL is where inboxes are reached, spelled as an endpoint's URL is stored.
func (s *Server) inboxURL() string {
	base := cmp.Or(s.Config.InboxURL, s.Config.URL)
	if normal, refused := egress.CheckURL(base+"/", s.Services.Endpoints.URLs); refused == nil {
		return strings.TrimRight(normal, "/")
	}
	return base // the pages say that no endpoint can have it
}

// startMails makes the outbox of mails and, where there is a mail server, what takes them there. Without one they wait, and on a development
// machine are read on a page.
func (s *Server) startMails() (err error) {
	s.Services.Mails = &notice.Outbox{DB: s.Pool, Ring: s.Ring, URL: s.Config.URL, Now: time.Now}
	if s.Config.SMTPURL == "" {
		if !s.Config.Development() {
			s.Logger.Warn("WAYBILL_SMTP_URL is not set: no mail is sent, and nobody can set a new password by mail")
		}
		return nil
	}
	if s.smtp, err = notice.ParseSMTP(s.Config.SMTPURL, s.Config.URL); err != nil {
		return fmt.Errorf("WAYBILL_SMTP_URL: %w", err)
	}
	s.Services.Mails.Wake = s.Inserter.WakeMails
	return nil
}

// mailbox is shown to everybody, and so on a development machine alone.
func (s *Server) mailbox() *notice.Outbox {
	if !s.Config.Development() {
		return nil
	}
	return s.Services.Mails
}

// mailJob is what the mail job of this process works with; nil without a mail server.
func (s *Server) mailJob() *jobs.Mails {
	if s.smtp == nil {
		return nil
	}
	return &jobs.Mails{Outbox: s.Services.Mails, Carrier: s.smtp, Logger: s.Logger}
}

// retention removes what no preset keeps any longer.
func (s *Server) retention() *jobs.Retention {
	kept := s.Policies.Retention()
	return &jobs.Retention{Pool: s.Pool, Events: kept.Events, Deliveries: kept.Deliveries, Logger: s.Logger, Now: time.Now}
}

// health answers /healthz (alive) and /readyz: the database answers, its schema has what we need, and this process is not about to stop. A schema
// that has become newer since the start is no reason not to be ready: migrations leave the running program what it needs.
func (s *Server) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.leaving.Load() {
			http.Error(w, "this process is stopping", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		state, err := db.SchemaState(ctx, s.Pool)
		switch {
		case err != nil:
			w.Header().Set("Retry-After", "2")
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		case state == db.Behind:
			http.Error(w, "the database's schema is older than this program; run waybill migrate", http.StatusServiceUnavailable)
		case state == db.Newer:
			fmt.Fprintln(w, "ready, on the schema of a newer program")
		default:
			fmt.Fprintln(w, "ready")
		}
	})
}

// passing answers requests, and while the process stops lets no connection be used again: whoever sends the next request opens one to another process.
func (s *Server) passing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// stopHTTP serves on until those who balance the load have seen that we stop, ends streams, and waits for the last answers.
func (s *Server) stopHTTP(ctx context.Context) {
	if drain := s.drain(); drain > 0 {
		s.Logger.Info("not ready any more; serving on for the drain", "drain", drain.String())
		select {
		case <-time.After(drain):
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // streams that did not end in time
	}
}

// web adds what only a process with the web role serves.
func (s *Server) web(ctx context.Context, mux *http.ServeMux) (*web.Web, error) {
	operators, err := s.startConsole(ctx)
	if err != nil {
		return nil, err
	}
	served := s.walled()
	programs := api.New(api.Config{URL: s.Config.URL, Log: s.Logger, Now: time.Now, DB: s.Pool, Ring: s.Ring, Accounts: served.Accounts, Endpoints: served.Endpoints,
		Types: served.Types, Events: served.Events, Consumers: served.Consumers, Deliveries: served.Deliveries, Limits: served.Limits,
		Observe: s.metrics.observe("api")})
	pages, err := web.New(web.Config{
		API:     programs,
		Observe: s.metrics.observe("dashboard"), ObserveConsole: s.metrics.observe("console"), Console: operators,
		Dashboard: dashboard.Config{URL: s.Config.URL, Platform: "Your platform", Log: s.Logger, Now: time.Now, Accounts: served.Accounts,
			Endpoints: served.Endpoints, Types: served.Types, Events: served.Events, Deliveries: served.Deliveries, Inboxes: served.Inboxes, Limits: served.Limits, Policies: s.Policies,
			Reference: programs.Reference, Rollups: lane.RollupsKept, Sources: s.Config.Sources, Check: s.sender.CheckConnection, Mailbox: s.mailbox(), NoMail: s.smtp == nil && !s.Config.Development()},
		Ring: s.Ring, Development: s.Config.Development(),
	})
	if err != nil {
		return nil, err
	}
	for _, route := range programs.Routes() {
		s.metrics.know(route.Pattern)
	}
	for _, route := range pages.Routes() {
		s.metrics.know(route.Pattern)
	}
	for _, route := range pages.ConsoleRoutes() {
		s.metrics.know(route.Pattern)
	}
	s.metrics.know(web.InboxPattern)
	mux.Handle("/", pages)
	return pages, nil
}

func (s *Server) startHTTP(ctx context.Context) (err error) {
	mux := http.NewServeMux()
	s.health(mux)
	mux.Handle("GET /metrics", s.withKey(s.metrics.handler(s.Logger)))
	var pages *web.Web
	if s.Config.Has(Web) {
		if pages, err = s.web(ctx, mux); err != nil {
			return err
		}
	}
	if s.listener = s.Config.Listener; s.listener == nil {
		if s.listener, err = listen(ctx, s.Config.Addr); err != nil {
			return fmt.Errorf("WAYBILL_ADDR: %w", err)
		}
	}
	s.http = &http.Server{Handler: s.passing(mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 64 << 10}
	if pages != nil {
		s.http.RegisterOnShutdown(pages.Close) // live pages would hold the stop up
		s.http.RegisterOnShutdown(s.Services.Events.Feed.Close)
	}
	go func() {
		if err := s.http.Serve(s.listener); err != nil && err != http.ErrServerClosed {
			s.fail(fmt.Errorf("HTTP server: %w", err))
		}
	}()
	s.onStop(s.stopHTTP)
	return nil
}
