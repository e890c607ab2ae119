package delivery

import (
	"context"
	"fmt"

	"waybill/app/account"
	"waybill/db"
	"waybill/db/queries"
)

var sqlEndpointIsOwn = queries.SQL("EndpointIsOwn")

// MaxCount is how far deliveries are counted.
const MaxCount = 10_000

// Count is how many deliveries match a filter: exactly N or, with More, at least N; of MaxCount there are more for sure.
type Count struct {
	N    int
	More bool
}

// Count counts the deliveries of the caller's tenant that match the filter, up to MaxCount and within List's bounds. It needs
// deliveries:read.
func (s *Service) Count(ctx context.Context, caller account.Caller, f Filter) (Count, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Count{}, err
	}
	if err := f.check(); err != nil {
		return Count{}, err
	}
	only, f, err := s.resolve(ctx, caller.Tenant(), f)
	if err != nil {
		return Count{}, err
	}
	if only != nil {
		page, err := s.one(ctx, caller.Tenant(), f, *only)
		return Count{N: len(page.Deliveries)}, err
	}
	src, err := s.choose(ctx, caller.Tenant(), f)
	if err != nil {
		return Count{}, err
	}
	if src.rest != "" {
		return s.countRead(ctx, src, caller.Tenant(), f.start())
	}
	return s.countKeys(ctx, src, f.start())
}

// countKeys counts the keys of a source in one statement.
func (s *Service) countKeys(ctx context.Context, src source, from place) (Count, error) {
	of := "q.id"
	if src.noDay {
		of = "distinct q.id" // a delivery may come several times
	}
	sql := "select count(" + of + ") filter (where q.matches), coalesce(bool_or(q.edge), false) from (\n" + src.sql + "\n) q"
	if src.sums != "" {
		sql = src.sums
	}
	var c Count
	args := src.arguments(from, MaxCount+1)
	if src.name == "endpoint" {
		// An endpoint's deliveries are its tenant's. Once the endpoint is found behind the wall, its index can be counted without a look at each row's tenant.
		var own bool
		if err := s.DB.QueryRow(ctx, sqlEndpointIsOwn, args["tenant"], args["endpoint"]).Scan(&own); err != nil {
			return Count{}, fmt.Errorf("count deliveries by %s: %w", src.name, err)
		}
		if !own {
			return Count{}, nil
		}
		ctx = db.BeyondTenants(ctx)
	}
	if err := s.DB.QueryRow(ctx, sql, args).Scan(&c.N, &c.More); err != nil {
		return Count{}, fmt.Errorf("count deliveries by %s: %w", src.name, err)
	}
	if c.N > MaxCount {
		c = Count{N: MaxCount, More: true}
	}
	return c, nil
}

// countRead counts what a source's keys lead to and meets its remaining conditions.
func (s *Service) countRead(ctx context.Context, src source, tenant string, from place) (Count, error) {
	var c Count
	sql := filled(sqlRowsCount, []string{src.rest})
	most := s.bounds.orUsual().read
	for read := 0; read < most; {
		step, err := s.step(ctx, src, from, most)
		if err != nil {
			return Count{}, err
		}
		if n := 0; len(step.keys) > 0 {
			if err := s.DB.QueryRow(ctx, sql, src.rowArguments(tenant, step.keys)).Scan(&n); err != nil {
				return Count{}, fmt.Errorf("count deliveries by %s: %w", src.name, err)
			}
			c.N += n
		}
		if step.end {
			return c, nil
		}
		if from = step.last; step.bound {
			break
		}
		read += most
	}
	c.More = true
	return c, nil
}
