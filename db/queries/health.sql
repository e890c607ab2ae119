-- How endpoints fare, and what waits for somebody.

-- name: EndpointHealth
-- For each of a tenant's endpoints: its last attempts, the newest first (index attempts_by_endpoint, in the last days), and how many deliveries
-- are due with the oldest of them (index due_by_lane). Bounded for each endpoint by @attempts and @due.
select e.id, a.classes, a.codes, a.times, u.n, u.oldest
from endpoints e
cross join lateral (
    select coalesce(array_agg(x.class order by x.day desc, x.id desc), '{}') as classes,
           coalesce(array_agg(coalesce(x.code, 0) order by x.day desc, x.id desc), '{}') as codes,
           coalesce(array_agg(x.started_at order by x.day desc, x.id desc), '{}') as times
    from (
        select t.day, t.id, t.class, t.code, t.started_at
        from attempts t
        where t.endpoint_id = e.id and t.tenant_id = e.tenant_id and t.trigger <> 'test'
          and t.day >= (statement_timestamp() at time zone 'UTC')::date - 7
        order by t.day desc, t.id desc
        limit @attempts
    ) x
) a
cross join lateral (
    select count(*) as n, coalesce(min(y.delivery_id), '') as oldest
    from (
        select d.delivery_id
        from due d
        where d.endpoint_id = e.id and d.tenant_id = e.tenant_id and d.trigger <> 'test'
        limit @due
    ) y
) u
where e.tenant_id = @tenant and e.id = any (@endpoints::text[]) and e.deleted_at is null;

-- name: ParkedCount
-- What is parked of a tenant by endpoint, status and reason: index parked_by_tenant, no more than @most of each status.
select p.endpoint_id, p.status, p.reason, count(*), min(p.delivery_id), coalesce(e.url, ''), coalesce(e.description, '')
from (
    (select endpoint_id, status, reason, delivery_id from parked where tenant_id = @tenant and status = 'undelivered' limit @most)
    union all
    (select endpoint_id, status, reason, delivery_id from parked where tenant_id = @tenant and status = 'held' limit @most)
) p
left join endpoints e on e.tenant_id = @tenant and e.id = p.endpoint_id
group by p.endpoint_id, p.status, p.reason, e.url, e.description
order by count(*) desc, p.endpoint_id;

-- name: UndeliveredCount
-- How many undelivered deliveries a tenant has, up to @most: index parked_by_tenant alone. It is asked for with every page.
select count(*)
from (select from parked where tenant_id = @tenant and status = 'undelivered' limit @most) p;
