package server

import (
	"context"
	"errors"
	"fmt"

	"waybill/app/limit"
	"waybill/db"
)

// startWall opens the pool as which tenants are served. On a schema that is older than the wall there is none, and the program's own serves them.
func (s *Server) startWall(ctx context.Context) error {
	s.wall = &db.Wall{All: s.Pool}
	if s.Config.NoWall {
		return nil
	}
	switch err := db.WallReady(ctx, s.Pool); {
	case errors.Is(err, db.ErrNoWall):
		s.Logger.Warn("there is no second wall between tenants until `waybill migrate` has run and this process was started again")
		return nil
	case err != nil:
		return err
	}
	pool, err := db.OpenTenants(ctx, s.DatabaseURL, db.Options{AppName: "waybill tenants", MaxConns: tenantConns, Params: planOnce})
	if err != nil {
		return fmt.Errorf("open the tenants' side: %w", err)
	}
	s.closeAtStop(pool)
	s.wall.Tenants = pool
	return nil
}

// walled are the services as those who ask from outside get them: they see the rows of the tenant that a request is for. Jobs and the rest of the
// program work for all tenants and have Services; so has the catalog of types, which is one for all.
func (s *Server) walled() Services {
	all, out := s.Services, s.Services
	accounts, mails, endpoints, events, consumers, deliveries, inboxes := *all.Accounts, *all.Mails, *all.Endpoints, *all.Events, *all.Consumers, *all.Deliveries, *all.Inboxes
	mails.DB = s.wall
	accounts.DB, accounts.Mails = s.wall, &mails
	endpoints.DB, endpoints.Audit, endpoints.Lanes = s.wall, &accounts, lanes{s.Waker, s.wall}
	events.DB = s.wall
	consumers.Events, consumers.Accounts = &events, &accounts
	deliveries.DB, deliveries.Audit, deliveries.Lanes = s.wall, &accounts, lanes{s.Waker, s.wall}
	inboxes.DB, inboxes.Audit = s.wall, &accounts
	out.Accounts, out.Mails, out.Endpoints, out.Events, out.Consumers, out.Deliveries, out.Inboxes = &accounts, &mails, &endpoints, &events, &consumers, &deliveries, &inboxes
	out.Limits = &limit.Service{DB: s.wall, Audit: &accounts, MinDays: all.Limits.MinDays, MaxDays: all.Limits.MaxDays, Now: all.Limits.Now}
	return out
}
