-- Lists of deliveries are made in two steps: a statement *Keys finds which rows a page has, newest first, and DeliveryRows reads them.
--
-- Each *Keys statement walks one index from @before_day, @before_id down to @from_day, @from_id and returns at most @limit keys. Where it has
-- to leave rows out, it looks at no more than @scan of them and returns the last one that it looked at with edge = true, so that the page can be
-- continued from there: no filter can make it slow. `/* filter */ true` is replaced by the conditions of a filter on deliveries as v. The order is
-- repeated at each level so that the planner sees that it is kept, and reads no further than the page needs.

-- name: DeliveryKeys
-- Index deliveries_by_tenant; without conditions it is an index-only scan.
select s.id, s.day, s.position, s.edge, s.matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select v.id, v.day, v.position, coalesce((/* filter */ true), false) as matches
        from deliveries v
        where v.tenant_id = @tenant and v.day between @from_day and @before_day
          and (v.day, v.id) < (@before_day::date, @before_id::text) and v.id >= @from_id
        order by v.day desc, v.id desc
        limit @scan
    ) k
    order by k.day desc, k.id desc
) s
where s.matches or s.edge
order by s.day desc, s.id desc
limit @limit;

-- name: DeliveryCount
-- How many of the same match, and whether @scan were looked at: deliveries_by_tenant. Half the work of counting the keys.
select count(*) filter (where k.matches), count(*) >= @scan::bigint
from (
    select coalesce((/* filter */ true), false) as matches
    from deliveries v
    where v.tenant_id = @tenant and v.day between @from_day and @before_day
      and (v.day, v.id) < (@before_day::date, @before_id::text) and v.id >= @from_id
    order by v.day desc, v.id desc
    limit @scan
) k;

-- name: DeliveryKeysOfEndpoint
-- Index deliveries_by_endpoint.
select s.id, s.day, s.position, s.edge, s.matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select v.id, v.day, v.position, coalesce(v.tenant_id = @tenant and (/* filter */ true), false) as matches
        from deliveries v
        where v.endpoint_id = @endpoint and v.day between @from_day and @before_day
          and (v.day, v.id) < (@before_day::date, @before_id::text) and v.id >= @from_id
          and exists (select from endpoints e where e.id = @endpoint and e.tenant_id = @tenant)
        order by v.day desc, v.id desc
        limit @scan
    ) k
    order by k.day desc, k.id desc
) s
where s.matches or s.edge
order by s.day desc, s.id desc
limit @limit;

-- name: DeliveryCountOfEndpoint
-- How many of the same match, and whether @scan were looked at: deliveries_by_endpoint, and alone where nothing else is asked: an
-- endpoint's deliveries are its tenant's.
select count(*) filter (where k.matches), count(*) >= @scan::bigint
from (
    select coalesce((/* filter */ true), false) as matches
    from deliveries v
    where v.endpoint_id = @endpoint and v.day between @from_day and @before_day
      and (v.day, v.id) < (@before_day::date, @before_id::text) and v.id >= @from_id
      and exists (select from endpoints e where e.id = @endpoint and e.tenant_id = @tenant)
    order by v.day desc, v.id desc
    limit @scan
) k;

-- name: EndpointIsOwn
-- Whether an endpoint is the tenant's, deleted or not.
select exists (select from endpoints where tenant_id = $1 and id = $2);

-- name: DeliveryKeysOfTests
-- Index deliveries_tests.
select s.id, s.day, s.position, s.edge, s.matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select v.id, v.day, v.position, coalesce((/* filter */ true), false) as matches
        from deliveries v
        where v.tenant_id = @tenant and v.test and v.day between @from_day and @before_day
          and (v.day, v.id) < (@before_day::date, @before_id::text) and v.id >= @from_id
        order by v.day desc, v.id desc
        limit @scan
    ) k
    order by k.day desc, k.id desc
) s
where s.matches or s.edge
order by s.day desc, s.id desc
limit @limit;

-- name: DeliveryCountOfTests
-- How many of the same match, and whether @scan were looked at: deliveries_tests. Half the work of counting the keys.
select count(*) filter (where k.matches), count(*) >= @scan::bigint
from (
    select coalesce((/* filter */ true), false) as matches
    from deliveries v
    where v.tenant_id = @tenant and v.test and v.day between @from_day and @before_day
      and (v.day, v.id) < (@before_day::date, @before_id::text) and v.id >= @from_id
    order by v.day desc, v.id desc
    limit @scan
) k;

-- name: EventKeys
-- The deliveries of one event: as many as it had endpoints. Index deliveries_by_event, in every day: an event's id may hold no time.
-- Materialized, because with an order and a limit to meet the planner would rather walk the tenant's whole history in its order.
with v as materialized (
    select d.*
    from deliveries d
    where d.tenant_id = @tenant and d.event_id = @event and d.day between @from_day and @before_day
)
select v.id, v.day, v.position, false as edge, true as matches
from v
where (v.day, v.id) < (@before_day::date, @before_id::text) and v.id >= @from_id and (/* filter */ true)
order by v.day desc, v.id desc
limit @limit;

-- name: ResourceKeys
-- The deliveries of one resource's events, in the order of dispatch: index events_by_resource, then deliveries_by_event. @scan counts events.
select coalesce(w.id, '') as id, e.day, e.position, e.edge, w.id is not null as matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select x.id, x.day, x.position
        from events x
        where x.tenant_id = @tenant and x.resource_id = @resource and (@resource_type::text = '' or x.resource_type = @resource_type)
          and x.day between @from_day and @before_day and x.position <= @before_position
        order by x.position desc
        limit @scan
    ) k
    order by k.position desc
) e
left join lateral (
    select v.id
    from deliveries v
    where v.tenant_id = @tenant and v.event_id = e.id and v.day = e.day and v.position = e.position
      and (v.position, v.id) < (@before_position::bigint, @before_id::text)
      and v.id >= @from_id and v.id < @until_id and (/* filter */ true)
    order by v.id desc
) w on true
where w.id is not null or e.edge
order by e.position desc, w.id desc
limit @limit;

-- name: ResourceCount
-- How many of the same there are, and whether @scan events were looked at: the same indexes, and nothing is brought into order.
select coalesce(sum(w.n), 0)::bigint, count(*) >= @scan::bigint
from (
    select x.id, x.day, x.position
    from events x
    where x.tenant_id = @tenant and x.resource_id = @resource and (@resource_type::text = '' or x.resource_type = @resource_type)
      and x.day between @from_day and @before_day and x.position <= @before_position
    order by x.position desc
    limit @scan
) e
cross join lateral (
    select count(*) as n
    from deliveries v
    where v.tenant_id = @tenant and v.event_id = e.id and v.day = e.day and v.position = e.position
      and (v.position, v.id) < (@before_position::bigint, @before_id::text)
      and v.id >= @from_id and v.id < @until_id and (/* filter */ true)
) w;

-- name: ParkedKeys
-- The undelivered or held of a tenant, from the list itself: index parked_by_tenant. Tests that failed are on no list; they are few.
select k.id, k.day, 0::bigint as position, false as edge, true as matches
from (
    (select p.delivery_id as id, p.day
     from parked p
     where p.tenant_id = @tenant and p.status = @status and p.delivery_id < @before_id and p.delivery_id >= @from_id
     order by p.delivery_id desc
     limit @limit)
    union all
    (select v.id, v.day
     from deliveries v
     where v.tenant_id = @tenant and v.test and v.status = @status and v.day between @from_day and @before_day
       and v.id < @before_id and v.id >= @from_id
     order by v.day desc, v.id desc
     limit @limit)
) k
order by k.id desc
limit @limit;

-- name: ParkedKeysOfEndpoint
-- The same for one endpoint: index parked_by_endpoint.
select k.id, k.day, 0::bigint as position, false as edge, true as matches
from (
    (select p.delivery_id as id, p.day
     from parked p
     where p.endpoint_id = @endpoint and p.tenant_id = @tenant and p.status = @status and p.delivery_id < @before_id and p.delivery_id >= @from_id
     order by p.delivery_id desc
     limit @limit)
    union all
    (select v.id, v.day
     from deliveries v
     where v.tenant_id = @tenant and v.test and v.endpoint_id = @endpoint and v.status = @status and v.day between @from_day and @before_day
       and v.id < @before_id and v.id >= @from_id
     order by v.day desc, v.id desc
     limit @limit)
) k
order by k.id desc
limit @limit;

-- name: DueCount
-- How many deliveries of a tenant, or of one endpoint, are due now or later, counted up to @limit: whether DueKeys may read them all.
select count(*)
from (
    select from endpoints e
    join due u on u.endpoint_id = e.id
    where e.tenant_id = @tenant and u.tenant_id = @tenant and (@endpoint::text = '' or e.id = @endpoint)
    limit @limit
) c;

-- name: DueKeys
-- The pending deliveries: those in due, but for resends of what is finished. It reads every due row of the tenant (index due_by_lane, an
-- endpoint at a time) and sorts them, which is right while there are few: see DueCount.
select u.delivery_id as id, u.day, 0::bigint as position, false as edge, true as matches
from endpoints e
join due u on u.endpoint_id = e.id
where e.tenant_id = @tenant and u.tenant_id = @tenant and (@endpoint::text = '' or e.id = @endpoint)
  and (u.trigger in ('first', 'retry', 'test') or u.resume_at is not null)
  and (not @retrying::boolean or u.failures > 0)
  and u.delivery_id < @before_id and u.delivery_id >= @from_id
order by u.delivery_id desc
limit @limit;

-- name: AttemptKeys
-- Deliveries by what one of their attempts was: index attempts_notable, without the table. An attempt matches if its answer is in
-- @code_from to @code_to (@code: whether that is asked; @no_answer: none came), its class one of @classes and its trigger @trigger, if given. All
-- attempts of a delivery are looked at and come back together (with ties). The last condition on attempts is the index's own.
select s.id, s.edge, s.matches
from (
    select k.delivery_id as id, row_number() over () >= @scan::bigint as edge,
           (not @code::boolean or coalesce(k.code between @code_from::integer and @code_to::integer, false))
           and (not @no_answer::boolean or k.code is null)
           and (cardinality(@classes::text[]) = 0 or k.class = any (@classes)) and (@trigger::text = '' or k.trigger = @trigger) as matches
    from (
        select a.delivery_id, a.code, a.class, a.trigger
        from attempts a
        where a.tenant_id = @tenant and a.day >= @from_day and a.delivery_id < @before_id and a.delivery_id >= @from_id
          and (a.trigger <> 'first' or a.code is null or a.code not between 200 and 299)
        order by a.delivery_id desc
        fetch first (@scan) rows with ties
    ) k
    order by k.delivery_id desc
) s
where s.matches or s.edge
order by s.id desc
fetch first (@limit) rows with ties;

-- name: DeliveryRows
-- Deliveries by id, in the order given, with what is due of them and the endpoint's name. A test's row may be of the day after its id's.
-- @first_day and @last_day are those of @days: known before the first row, they keep all other partitions out of the plan.
select v.id, v.day, v.position, v.event_id, v.endpoint_id, v.type, v.resource_type, v.resource_id, v.form, v.test, v.created_at,
       v.status, coalesce(v.reason, ''), v.attempts, v.failures, v.last_at, coalesce(v.last_class, ''), coalesce(v.last_code, 0),
       coalesce(v.last_ms, 0), v.finished_at, u.next_at, coalesce(u.trigger, ''), coalesce(u.requested_by, ''),
       coalesce(e.url, ''), coalesce(e.description, ''), coalesce(e.preset, t.preset, '')
from unnest(@ids::text[], @days::date[]) with ordinality as k(id, day, n)
cross join lateral (
    select d.*
    from deliveries d
    where d.id = k.id and d.day between k.day and k.day + 1 and d.day between @first_day and @last_day::date + 1 and d.tenant_id = @tenant
    limit 1
) v
join tenants t on t.id = v.tenant_id
left join due u on u.delivery_id = v.id and u.tenant_id = v.tenant_id
left join endpoints e on e.id = v.endpoint_id and e.tenant_id = v.tenant_id
where (/* filter */ true)
order by k.n;

-- name: DeliveryRowsCount
-- How many of these deliveries match: the same without what is only to be shown.
select count(*)
from unnest(@ids::text[], @days::date[]) as k(id, day)
cross join lateral (
    select d.*
    from deliveries d
    where d.id = k.id and d.day between k.day and k.day + 1 and d.day between @first_day and @last_day::date + 1 and d.tenant_id = @tenant
    limit 1
) v
where (/* filter */ true);

-- name: DeliveryDay
-- In which partition a delivery is, when its id does not say: one index probe a day.
select day from deliveries where tenant_id = @tenant and id = @id;

-- name: AttemptList
-- The attempts of one delivery, the last first: the primary key. A worker's clock may have been a little before the database's day.
select a.id, a.number, a.trigger, coalesce(a.requested_by, ''), a.started_at, a.class, coalesce(a.cause, ''), coalesce(a.detail, ''),
       coalesce(a.code, 0), a.url, a.request_headers, a.body_size, a.response_headers, a.response_body, coalesce(a.response_size, 0),
       coalesce(a.response_note, ''), coalesce(a.proto, ''), coalesce(a.remote, ''), a.tls, coalesce(a.connect_us, 0), coalesce(a.tls_us, 0),
       coalesce(a.wait_us, 0), coalesce(a.read_us, 0), coalesce(a.total_us, 0), coalesce(h.id, ''), h.names, h.sealed
from attempts a
left join header_sets h on h.id = a.header_set_id and h.tenant_id = a.tenant_id
where a.tenant_id = @tenant and a.delivery_id = @delivery and a.day >= @day::date - 1 and a.number < @before
order by a.number desc
limit @limit;

-- name: DeliveryBody
-- The bytes that every attempt of a delivery sends.
select case when @form::text = 'thin' then e.thin else e.body end
from events e
where e.position = @position and e.day = @day and e.tenant_id = @tenant;

-- name: DeliveryLock
-- Keeps the results of attempts out while a resend decides. After the lanes, in the order of ids.
select d.id
from deliveries d
where d.id = any(@ids::text[]) and d.day between @from_day and @to_day::date + 1 and d.tenant_id = @tenant
order by d.id
for no key update;

-- name: ResendLook
-- What decides whether each of these deliveries can be sent again, by the database's clock. After DeliveryLock, in a statement of its own.
select d.id, d.endpoint_id, d.event_id, d.status, d.attempts,
       extract(epoch from statement_timestamp() - d.created_at)::float8 as age,
       coalesce(u.trigger, '') as trigger,
       coalesce(u.next_at <= statement_timestamp(), false) as waiting,
       coalesce(u.next_at <= l.handed_at and l.state = 'running' and u.delivery_id = any (l.handed), false) as on_wire,
       coalesce(l.not_before > statement_timestamp(), false) as shut,
       coalesce(p.again, false) as again,
       e.state, coalesce(e.reason, ''), e.deleted_at is not null as deleted, t.suspended_at is not null as suspended,
       coalesce(d.reason = 'event_expunged', false) as expunged, coalesce(e.preset, t.preset, '') as preset
from deliveries d
join endpoints e on e.id = d.endpoint_id and e.tenant_id = d.tenant_id
join tenants t on t.id = d.tenant_id
left join lanes l on l.endpoint_id = d.endpoint_id and l.tenant_id = d.tenant_id
left join due u on u.delivery_id = d.id and u.tenant_id = d.tenant_id
left join lateral (
    select a.trigger = 'manual'
           and a.started_at + interval '1 microsecond' * coalesce(a.total_us, 0) > statement_timestamp() - interval '1 second' as again
    from attempts a
    where a.delivery_id = d.id and a.tenant_id = d.tenant_id and a.day >= (statement_timestamp() at time zone 'UTC')::date - 1
    order by a.number desc
    limit 1
) p on true
where d.id = any(@ids::text[]) and d.day between @from_day and @to_day::date + 1 and d.tenant_id = @tenant;

-- name: DueResume
-- Resends pending deliveries now; their schedules go on at resume_at. A row that came due or was moved meanwhile is left, and missing from
-- what is returned.
update due
set trigger = 'manual', priority = 1, resume_at = next_at, next_at = statement_timestamp(), requested_by = @by
where delivery_id = any(@ids::text[]) and tenant_id = @tenant and trigger in ('first', 'retry') and next_at > statement_timestamp()
returning delivery_id;

-- name: DueAgain
-- Resends deliveries that are not due.
insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger, failures, requested_by)
select d.id, d.day, d.tenant_id, d.endpoint_id, d.position, d.event_id, d.form, 1, statement_timestamp(), 'manual', d.failures, @by
from deliveries d
where d.id = any(@ids::text[]) and d.day between @from_day and @to_day::date + 1 and d.tenant_id = @tenant
on conflict (delivery_id) do nothing
returning delivery_id;

-- name: DeliveryEventExists
-- Whether a search text is an event's id: one index probe a day.
select exists (select from deliveries where tenant_id = $1 and event_id = $2);

-- name: WhyLines
-- What became of one event at each endpoint of its tenant, at most @limit of them. The event's deliveries are found once, by deliveries_by_event,
-- and joined to the endpoints; how many wait before one that is due is counted up to 1,000.
with v as materialized (
    select d.id, d.endpoint_id, d.status, d.reason, d.attempts, d.failures, d.last_class, d.last_code, d.finished_at, d.created_at
    from deliveries d
    where d.tenant_id = @tenant and d.event_id = @event and d.day = @day
)
select e.id, e.url, e.description, e.state, coalesce(e.reason, ''), coalesce(e.state_by, ''), e.state_at, e.deleted_at is not null,
       e.created_at > @created_at,
       exists (select from subscriptions s
               where s.tenant_id = e.tenant_id and s.endpoint_id = e.id
                 and (s.pattern in ('*', @type) or (right(s.pattern, 2) = '.*' and starts_with(@type, left(s.pattern, -1))))) as subscribed,
       coalesce(e.preset, t.preset, '') as preset,
       to_regclass('deliveries_' || to_char(@day::date, 'YYYYMMDD')) is null as gone,
       coalesce(v.id, ''), coalesce(v.status, ''), coalesce(v.reason, ''), coalesce(v.attempts, 0), coalesce(v.failures, 0),
       coalesce(v.last_class, ''), coalesce(v.last_code, 0), v.finished_at,
       coalesce(extract(epoch from statement_timestamp() - v.created_at), 0)::float8 as age,
       u.next_at, coalesce(u.next_at <= statement_timestamp(), false) as due,
       coalesce(u.next_at <= l.handed_at and l.state = 'running' and u.delivery_id = any (l.handed), false) as on_wire,
       case when l.not_before > statement_timestamp() then l.not_before end as shut_until,
       coalesce(b.n, 0) as ahead
from endpoints e
join tenants t on t.id = e.tenant_id
left join v on v.endpoint_id = e.id
left join due u on u.delivery_id = v.id and u.tenant_id = e.tenant_id
left join lanes l on l.endpoint_id = e.id and l.tenant_id = e.tenant_id
left join lateral (
    select count(*) as n
    from (
        select from due x
        where x.endpoint_id = u.endpoint_id and u.next_at <= statement_timestamp()
          and (x.priority, x.next_at, x.delivery_id) < (u.priority, u.next_at, u.delivery_id)
        limit 1000
    ) c
) b on true
where e.tenant_id = @tenant and (v.id is not null or (e.deleted_at is null and not @test::boolean))
order by e.id desc
limit @limit;

-- name: EventOutcomes
-- How many deliveries of each of a page's events have which status.
select k.id, v.status, count(*)::integer
from unnest(@ids::text[], @days::date[]) as k(id, day)
cross join lateral (
    select d.status
    from deliveries d
    where d.tenant_id = @tenant and d.event_id = k.id and d.day = k.day and d.day between @first_day and @last_day
    limit 10000
) v
group by k.id, v.status;
