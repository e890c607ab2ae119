package server

import (
	"context"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/operator"
	"waybill/db"
	"waybill/web/console"
	"waybill/web/path"
)

// consoleConns is the most connections of the console's own pool: operators see all tenants, and what they look at takes nothing from what tenants do.
const consoleConns = 4

// startConsole makes what the operators' console works with.
func (s *Server) startConsole(ctx context.Context) (*console.Config, error) {
	planOnce := map[string]string{"plan_cache_mode": "force_generic_plan"} // as the dashboard's
	pool, err := db.Open(ctx, s.DatabaseURL, db.Options{AppName: "waybill console", MaxConns: consoleConns, Params: planOnce})
	if err != nil {
		return nil, err
	}
	s.closeAtStop(pool)
	watch := &operator.Watch{DB: pool, Now: time.Now, Log: s.Logger}
	s.goLoop(watch.Run)
	accounts := &account.Service{DB: pool, Now: time.Now, KnowsPreset: s.Services.Accounts.KnowsPreset, Mails: s.Services.Mails, Ring: s.Ring}
	s.Services.Operators = &operator.Service{DB: pool, Now: time.Now, Accounts: accounts, Lanes: lanes{s.Waker, pool}, Watch: watch}
	jobs, err := s.Inserter.Pages(path.ConsoleJobs(), s.Logger)
	if err != nil {
		return nil, err
	}
	deliveries := *s.Services.Deliveries
	deliveries.DB, deliveries.Lanes, deliveries.Audit = pool, lanes{s.Waker, pool}, accounts
	endpoints := *s.Services.Endpoints
	endpoints.DB, endpoints.Lanes, endpoints.Audit = pool, lanes{s.Waker, pool}, accounts
	return &console.Config{URL: s.Config.URL, Log: s.Logger, Now: time.Now, Operators: s.Services.Operators, Accounts: accounts, Endpoints: &endpoints,
		Types: &catalog.Types{DB: pool, Accounts: accounts}, Events: &catalog.Events{DB: pool}, Deliveries: &deliveries, Policies: s.Policies, Jobs: jobs}, nil
}
