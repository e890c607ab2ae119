-- What the metrics show of the whole system. Each is asked for at most once in some seconds by a process, with a short time-out.

-- name: MetricLanes
-- all tenants: lanes by state: one pass over a table with a row for each endpoint.
select state, count(*) from lanes group by state;

-- name: MetricOutbox
-- all tenants: how many events wait for the dispatcher, counted up to $1, and how long the oldest has; one index scan.
select (select count(*) from (select from outbox limit $1) c),
       coalesce((select extract(epoch from statement_timestamp() - published_at) from outbox order by seq limit 1), 0)::float8;

-- name: MetricLate
-- all tenants: how late the latest due delivery is at a lane that could send it: three index probes (due_by_lane) for each of the $1 lanes that
-- have been in their state the longest. Lanes that sleep wait for a time to come or for an endpoint that has failed too often.
select coalesce(extract(epoch from statement_timestamp() - min(n.next_at)), 0)::float8
from (
    select endpoint_id from lanes where state in ('queued', 'running', 'blocked') order by since limit $1
) l
cross join (values (0), (1), (2)) p(priority)
cross join lateral (
    select d.next_at
    from due d
    where d.endpoint_id = l.endpoint_id and d.priority = p.priority and d.next_at <= statement_timestamp()
    order by d.next_at
    limit 1
) n;

-- name: MetricDispatched
-- all tenants: how many events have ever been dispatched: the counter that gives positions.
select last from positions;
