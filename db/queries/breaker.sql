-- The health of endpoints: circuit breaker, throttle and what follows from failing for long.

-- name: HealthLook
-- all tenants: by endpoint; after LaneLock, as a statement of its own whose snapshot is taken under the locks.
select l.endpoint_id, l.tenant_id, e.url, e.state = 'active' and e.deleted_at is null, clock_timestamp(), l.limit_now, l.not_before, to_jsonb(h)
from lanes l
join endpoints e on e.id = l.endpoint_id
left join endpoint_health h on h.endpoint_id = l.endpoint_id
where l.endpoint_id = any($1);

-- name: HealthWrite
-- all tenants: by endpoint; the caller holds the lanes rows. Health beside the lane and the pace in it.
with x as materialized (
    select *
    from jsonb_to_recordset($1::jsonb) as r(
        endpoint_id text, tenant_id text, phase text, phase_at timestamptz, step integer, failed bigint[], failing_since timestamptz, disable_at timestamptz,
        warned_at timestamptz, told boolean, told_at timestamptz, flagged boolean, throttled_at timestamptz, passed integer, last_at timestamptz,
        last_class text, last_code integer, last_delivery text, limit_now integer, not_before timestamptz, ailing boolean)
), kept as (
    insert into endpoint_health (endpoint_id, tenant_id, phase, phase_at, step, failed, failing_since, disable_at, warned_at, told, told_at, flagged,
                                 throttled_at, passed, last_at, last_class, last_code, last_delivery)
    select endpoint_id, tenant_id, phase, phase_at, step, failed, failing_since, disable_at, warned_at, told, told_at, flagged,
           throttled_at, passed, last_at, last_class, last_code, last_delivery
    from x
    order by endpoint_id
    on conflict (endpoint_id) do update
        set phase = excluded.phase, phase_at = excluded.phase_at, step = excluded.step, failed = excluded.failed, failing_since = excluded.failing_since,
            disable_at = excluded.disable_at, warned_at = excluded.warned_at, told = excluded.told, told_at = excluded.told_at, flagged = excluded.flagged,
            throttled_at = excluded.throttled_at, passed = excluded.passed, last_at = excluded.last_at, last_class = excluded.last_class,
            last_code = excluded.last_code, last_delivery = excluded.last_delivery
)
update lanes l
set limit_now = x.limit_now, not_before = x.not_before, ailing = x.ailing
from x
where l.endpoint_id = x.endpoint_id;

-- name: HealthPull
-- all tenants: by endpoint; the caller holds the lanes rows. The endpoint answers again: deliveries that wait for a retry are due now, so far as they have
-- used no more than $2 steps of their schedule; the rest of it is theirs to wait out, however often the endpoint comes and goes. Up to $3.
update due d
set next_at = statement_timestamp()
where d.delivery_id in (
    select x.delivery_id
    from due x
    where x.endpoint_id = $1 and x.priority = 1 and x.trigger = 'retry' and x.next_at > statement_timestamp() and x.failures <= $2
    order by x.next_at
    limit $3);

-- name: HealthForget
-- The caller holds the lanes row. An endpoint that is enabled, or has got another address, starts clean.
with forgotten as (
    delete from endpoint_health where tenant_id = $1 and endpoint_id = $2
)
update lanes set limit_now = default, not_before = null, ailing = false, suspect = false
where tenant_id = $1 and endpoint_id = $2;

-- name: EndpointFailed
-- all tenants: by endpoint; the caller holds its lanes row. Disables an active endpoint at $2 for reason $3, once; no row when it no longer was, or has
-- been given another address meanwhile.
update endpoints
set state = 'disabled', reason = $3, state_by = 'system', state_at = statement_timestamp(), rev = rev + 1, updated_at = statement_timestamp()
where id = $1 and url = $2 and state = 'active' and deleted_at is null
returning rev;

-- name: DueOldest
-- all tenants: by endpoint. Deliveries that have waited at a closed door for longer than $2, the oldest $3: the front of index due_by_lane. Tests and manual resends have no
-- schedule.
select w.delivery_id
from (values (1::smallint), (2::smallint)) as p(priority)
cross join lateral (
    select d.delivery_id
    from due d
    where d.endpoint_id = $1 and d.priority = p.priority and d.next_at < statement_timestamp() - $2::interval and d.trigger in ('first', 'retry', 'recover')
    order by d.next_at
    limit $3::integer
) w
limit $3::integer;

-- name: DueWalk
-- all tenants: by endpoint. The next $4 rows behind ($5, $6, $7) in the order of index due_by_lane: those that have waited at a closed door until their schedule was over, and the
-- last one, if there may be more behind it (edge). $2 lists what a schedule has left after so many failures, $3 is a grace in which the door may open once more.
select w.priority, w.next_at, w.delivery_id, w.over, w.edge
from (
    select k.priority, k.next_at, k.delivery_id, row_number() over () >= $4::bigint as edge,
           k.trigger in ('first', 'retry', 'recover')
           and k.next_at < statement_timestamp() - $3::interval - ($2::interval[])[least(k.failures, cardinality($2::interval[]) - 1) + 1] as over
    from (
        select d.priority, d.next_at, d.delivery_id, d.failures, d.trigger
        from due d
        where d.endpoint_id = $1 and (d.priority, d.next_at, d.delivery_id collate "POSIX") > ($5::smallint, $6::timestamptz, $7::text)
        order by d.priority, d.next_at, d.delivery_id collate "POSIX"
        limit $4
    ) k
) w
where w.over or w.edge;

-- name: DueOutlived
-- all tenants: by endpoint. Those of $4 that have waited at a closed door until their schedule was over, as DueWalk says it, end undelivered.
with over as materialized (
    select d.delivery_id, d.day
    from due d
    where d.delivery_id = any($4::text[]) and d.endpoint_id = $1 and d.trigger in ('first', 'retry', 'recover')
      and d.next_at < statement_timestamp() - $3::interval - ($2::interval[])[least(d.failures, cardinality($2::interval[]) - 1) + 1]
    order by d.delivery_id
    for update skip locked
), gone as (
    delete from due d using over o where d.delivery_id = o.delivery_id
), changed as (
    update deliveries d
    set status = 'undelivered', reason = 'schedule_exhausted', finished_at = statement_timestamp()
    from over o
    where d.id = o.delivery_id and d.day = o.day and d.status = 'pending'
    returning d.id, d.day, d.tenant_id, d.endpoint_id, coalesce(d.last_class, '') as class, coalesce(d.last_code, 0) as code
), put as (
    insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since)
    select id, day, tenant_id, endpoint_id, 'undelivered', 'schedule_exhausted', statement_timestamp()
    from changed
    on conflict (delivery_id) do nothing
)
select c.id, c.tenant_id, c.class, c.code from changed c;
