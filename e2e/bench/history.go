package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"waybill/app/id"
)

// history is what the tables hold before the measurement: n old deliveries with an event and an attempt each, over the past days, one in oldShare of them
// of one tenant. They are written by SQL, as they would be after a month.
type history struct {
	uid      string // of the tenant with many
	endpoint string
	of       int // deliveries of it
}

const (
	oldDays  = 29 // with today that is the whole of what is kept
	oldShare = 5
)

// fill writes the history. Its events take the places of the catalog that newSystem kept free.
func (s *system) fill(ctx context.Context, n int) (h history, err error) {
	h = history{uid: "bench-old", of: n / oldShare}
	var made struct{ ID string }
	if err := s.Call(ctx, "PUT", "/v1/tenants/"+h.uid, map[string]any{"name": "Old customer"}, nil); err != nil {
		return h, err
	}
	if err := s.Call(ctx, "POST", "/v1/tenants/"+h.uid+"/endpoints", map[string]any{"url": s.target + "/ok/none", "types": []string{"bench.old.*"}}, &made); err != nil {
		return h, err
	}
	h.endpoint = made.ID
	const others = 50
	tenants, endpoints := make([]string, others), make([]string, others)
	for i := range others {
		uid := fmt.Sprintf("bench-old-%d", i)
		if err := s.Call(ctx, "PUT", "/v1/tenants/"+uid, map[string]any{"name": uid}, nil); err != nil {
			return h, err
		}
		if err := s.Call(ctx, "POST", "/v1/tenants/"+uid+"/endpoints", map[string]any{"url": s.target + "/ok/none", "types": []string{"bench.old.*"}}, &made); err != nil {
			return h, err
		}
		endpoints[i] = made.ID
		if err := s.Pool.QueryRow(ctx, `select id from tenants where uid = $1`, uid).Scan(&tenants[i]); err != nil {
			return h, err
		}
	}
	var tenant string
	if err := s.Pool.QueryRow(ctx, `select id from tenants where uid = $1`, h.uid).Scan(&tenant); err != nil {
		return h, err
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	if _, err := s.Pool.Exec(ctx, `select make_partitions($1::date, $2::date)`, today.AddDate(0, 0, -oldDays), today); err != nil {
		return h, err
	}
	per := n / oldDays
	for d := range oldDays {
		day := today.AddDate(0, 0, d-oldDays)
		prefixes := make([]string, 1000) // the time in an id, in steps of 86 s
		for i := range prefixes {
			prefixes[i] = id.New(id.Delivery, day.Add(time.Duration(i)*86*time.Second))[4:14]
		}
		if err := s.fillDay(ctx, day, d*per, per, prefixes, tenant, h.endpoint, tenants, endpoints); err != nil {
			return h, fmt.Errorf("fill %s: %w", day.Format(time.DateOnly), err)
		}
	}
	fmt.Fprintf(os.Stderr, "%d old deliveries written\n", oldDays*per)
	conn, err := s.Pool.Acquire(ctx)
	if err != nil {
		return h, err
	}
	defer conn.Release()
	for _, sql := range []string{"set statement_timeout = 0", "vacuum analyze events", "vacuum analyze deliveries", "vacuum analyze attempts", "vacuum analyze parked",
		"vacuum analyze rollups", "checkpoint", "reset statement_timeout"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (s *system) fillDay(ctx context.Context, day time.Time, base, n int, prefixes []string, tenant, endpoint string, tenants, endpoints []string) error {
	tx, err := s.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `set local statement_timeout = 0`); err != nil {
		return err
	}
	suffix := day.Format("_20060102")
	// One row an event; one in oldShare is the large tenant's. Every twentieth of the large tenant's was answered 503 and ended undelivered.
	if _, err := tx.Exec(ctx, `create temporary table old on commit drop as
		select n, $1::date as day, $2 + n as position, p.prefix || lpad(n::text, 16, '0') as ulid,
		       case when n % $7 = 0 then $3 else ($5::text[])[1 + n % 50] end as tenant_id,
		       case when n % $7 = 0 then $4 else ($6::text[])[1 + n % 50] end as endpoint_id,
		       $1::date + (n::float8 / $8 * interval '86000 s') as at, 'C-' || n % 5000 as resource, n % 100 = 5 as failed, 'bench.old.t' || n % 10 as type
		from generate_series(1, $8) n
		cross join lateral (select ($9::text[])[1 + n::bigint * 999 / $8]) p(prefix)`,
		day, base, tenant, endpoint, tenants, endpoints, oldShare, n, prefixes); err != nil {
		return err
	}
	for _, sql := range []string{
		`insert into events` + suffix + ` (position, day, tenant_id, id, type, version, resource_type, resource_id, sequence, occurred_at, published_at, created_at, test, body)
		 select position, day, tenant_id, 'evt_' || ulid, type, 1, 'consignment', resource, position, at, at, at, false,
		        '{"id":"evt_' || ulid || '","type":"' || type || '","version":1,"data":` + body + `}' from old`,
		`insert into deliveries` + suffix + ` (id, day, tenant_id, endpoint_id, position, event_id, type, resource_type, resource_id, form, test, created_at, status, reason, attempts,
		        failures, last_at, last_class, last_code, last_ms, finished_at)
		 select 'dlv_' || ulid, day, tenant_id, endpoint_id, position, 'evt_' || ulid, type, 'consignment', resource, 'full', false, at,
		        case when failed then 'undelivered' else 'delivered' end, case when failed then 'schedule_exhausted' end, 1, failed::integer, at,
		        case when failed then 'status' else 'delivered' end, case when failed then 503 else 200 end, 12, at from old`,
		`insert into attempts` + suffix + ` (id, day, tenant_id, endpoint_id, delivery_id, number, trigger, started_at, class, code, url, request_headers, body_size,
		        response_headers, response_body, response_size, proto, remote, connect_us, wait_us, read_us, total_us, worker_id)
		 select 'att_' || ulid, day, tenant_id, endpoint_id, 'dlv_' || ulid, 1, 'first', at, case when failed then 'status' else 'delivered' end,
		        case when failed then 503 else 200 end, 'http://127.0.0.2/ok/none', '[["Content-Type","application/json"],["webhook-id","evt_' || ulid || '"]]', 370,
		        '[["Content-Length","0"]]', '', 0, 'HTTP/1.1', '127.0.0.2:80', 200, 9000, 100, 12000, 'wrk_old' from old`,
		`insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since)
		 select 'dlv_' || ulid, day, tenant_id, endpoint_id, 'undelivered', 'schedule_exhausted', at from old where failed`,
		// As the results' batches would have added them up; all answers took 12 ms. What is older than the longest chart is kept for no long time anyway.
		`insert into rollups (endpoint_id, slot, tenant_id, delivered, broken, t02)
		 select endpoint_id, date_bin('15 minutes', at, 'epoch'), tenant_id, count(*) filter (where not failed), count(*) filter (where failed), count(*)
		 from old
		 where day >= (statement_timestamp() at time zone 'UTC')::date - 9
		 group by 1, 2, 3`,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// oldRows measures the wide throughput with the tables empty but for the runs before, fills them, and measures it again.
func oldRows(ctx context.Context, s *system, f *figures) error {
	if s.o.old == 0 {
		return nil
	}
	label := fmt.Sprintf("%d endpoints beside %d old deliveries", s.o.endpoints, s.o.old)
	if s.past.uid == "" {
		past, err := s.fill(ctx, s.o.old)
		if err != nil {
			return err
		}
		s.past = past
	}
	return throughput(ctx, s, f, label, s.o.tenants, s.o.endpoints)
}
