-- How endpoints fare, and what waits for somebody.

-- name: EndpointHealth
-- For each of a tenant's endpoints: its last attempts in the days from @from_day to @until_day, the newest first, and how many deliveries are due with the
-- oldest of them. Attempts are found by the deliveries that they were of, which are told by three indexes: the newest that were attempted at all, in front
-- of those that are yet to be (deliveries_by_endpoint, where it is read twice: from the end, and from the first that waits unattempted, be it due or held),
-- and those that wait for another attempt (due_by_lane). Only of deliveries that had several are the attempts themselves read (the primary key); a single one stands
-- in the delivery's row. Bounded for each endpoint: by @due rows of due, @scan deliveries from each of both places, @attempts of those that were attempted
-- and as many that wait, and the last ten attempts of each.
select e.id, a.classes, a.codes, a.times, u.n, u.oldest
from (
    select x.id, x.tenant_id
    from endpoints x
    where x.tenant_id = @tenant and x.id = any (@endpoints::text[]) and x.deleted_at is null
) e
cross join lateral (
    select count(*) as n, coalesce(min(y.delivery_id), '') as oldest,
           min(y.delivery_id) filter (where y.failures = 0) as unattempted,
           (array_agg(y.day order by y.delivery_id) filter (where y.failures = 0))[1] as since,
           (array_agg(y.delivery_id order by y.next_at desc) filter (where y.failures > 0))[1:@attempts::integer] as retried,
           (array_agg(y.day order by y.next_at desc) filter (where y.failures > 0))[1:@attempts::integer] as days
    from (
        select d.delivery_id, d.day, d.failures, d.next_at
        from due d
        where d.endpoint_id = e.id and d.tenant_id = e.tenant_id and d.trigger <> 'test'
        limit @due
    ) y
) u
left join lateral (
    select k.delivery_id as held, k.day as since
    from parked k
    where k.endpoint_id = e.id and k.status = 'held' and k.tenant_id = e.tenant_id
    order by k.delivery_id
    limit 1
) p on true
cross join lateral (
    select coalesce(array_agg(x.class order by x.at desc, x.id desc), '{}') as classes,
           coalesce(array_agg(coalesce(x.code, 0) order by x.at desc, x.id desc), '{}') as codes,
           coalesce(array_agg(x.at order by x.at desc, x.id desc), '{}') as times
    from (
        select o.id, o.class, o.code, o.at
        from (
            select distinct on (c.last_at, c.id) c.id, c.day, c.attempts, c.last_at, c.last_class, c.last_code
            from (
                select w.*
                from (values (@until_day::date + 1, ''), (u.since, u.unattempted), (p.since, p.held)) as f(day, before)
                cross join lateral (
                    select z.id, z.day, z.attempts, z.last_at, z.last_class, z.last_code
                    from (
                        select v.id, v.day, v.attempts, v.test, v.last_at, v.last_class, v.last_code
                        from deliveries v
                        where v.endpoint_id = e.id and v.tenant_id = e.tenant_id and v.day between @from_day and @until_day
                          and (v.day, v.id) < (f.day, f.before)
                        order by v.day desc, v.id desc
                        limit @scan
                    ) z
                    where z.last_at is not null and not z.test
                    limit @attempts
                ) w
                where f.before is not null
                union all
                select v.id, v.day, v.attempts, v.last_at, v.last_class, v.last_code
                from unnest(u.retried, u.days) as k(id, day)
                join deliveries v on v.id = k.id and v.day = k.day and v.day between @from_day and @until_day
                where v.tenant_id = e.tenant_id and v.last_at is not null
            ) c
            order by c.last_at desc, c.id desc
            limit @attempts
        ) c
        cross join lateral (
            select c.id, c.last_class as class, c.last_code as code, c.last_at as at
            where c.attempts = 1
            union all
            (select t.id, t.class, t.code, t.started_at
             from attempts t
             where c.attempts > 1 and t.delivery_id = c.id and t.number > c.attempts - 10 and t.tenant_id = e.tenant_id
               and t.day between c.day - 1 and (c.last_at at time zone 'UTC')::date + 1 and t.day between @from_day and @until_day)
        ) o
        order by o.at desc, o.id desc
        limit @attempts
    ) x
) a;

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
