-- What one tenant may ask of the platform, and how much of it is used.

-- name: LimitsPut
-- The caller holds the tenant's row. What is null stays; 0 takes a limit away.
insert into tenant_limits as l (tenant_id, events_per_second, events_per_day_soft, events_per_day, endpoints, payload_bytes, retention_days)
values ($1, nullif($2::integer, 0), nullif($3::bigint, 0), nullif($4::bigint, 0), nullif($5::integer, 0), nullif($6::integer, 0), nullif($7::integer, 0))
on conflict (tenant_id) do update
set events_per_second = case when $2::integer is null then l.events_per_second else nullif($2, 0) end,
    events_per_day_soft = case when $3::bigint is null then l.events_per_day_soft else nullif($3, 0) end,
    events_per_day = case when $4::bigint is null then l.events_per_day else nullif($4, 0) end,
    endpoints = case when $5::integer is null then l.endpoints else nullif($5, 0) end,
    payload_bytes = case when $6::integer is null then l.payload_bytes else nullif($6, 0) end,
    retention_days = case when $7::integer is null then l.retention_days else nullif($7, 0) end,
    updated_at = statement_timestamp();

-- name: LimitsRead
-- Those of some tenants that have any.
select tenant_id, coalesce(events_per_second, 0), coalesce(events_per_day_soft, 0), coalesce(events_per_day, 0), coalesce(endpoints, 0), coalesce(payload_bytes, 0),
       coalesce(retention_days, 0)
from tenant_limits
where tenant_id = any($1);

-- name: LimitsUsed
-- How much a tenant uses today.
select coalesce((select d.events from tenant_days d where d.tenant_id = $1 and d.day = (statement_timestamp() at time zone 'UTC')::date), 0),
       (select count(*) from endpoints e where e.tenant_id = $1 and e.deleted_at is null);

-- name: LimitsInForce
-- all tenants: those of tenants that have any, with what was published to them today. Each process asks once in two seconds while it publishes.
select t.uid, coalesce(l.events_per_second, 0), coalesce(l.events_per_day_soft, 0), coalesce(l.events_per_day, 0), coalesce(l.endpoints, 0), coalesce(l.payload_bytes, 0),
       coalesce(l.retention_days, 0), coalesce(d.events, 0), (statement_timestamp() at time zone 'UTC')::date
from tenant_limits l
join tenants t on t.id = l.tenant_id
left join tenant_days d on d.tenant_id = l.tenant_id and d.day = (statement_timestamp() at time zone 'UTC')::date;

-- name: TenantDayAdd
-- The dispatcher counts what it moves, and learns which limits were reached that were not told of yet.
with added as (
    insert into tenant_days as d (tenant_id, day, events)
    select u.tenant_id, (statement_timestamp() at time zone 'UTC')::date, u.n
    from unnest($1::text[], $2::bigint[]) as u(tenant_id, n)
    on conflict (tenant_id, day) do update set events = d.events + excluded.events
    returning d.tenant_id, d.day, d.events, d.told
)
select a.tenant_id, t.uid, t.name, a.day, a.events, coalesce(l.events_per_day_soft, 0), coalesce(l.events_per_day, 0), a.told
from added a
join tenant_limits l on l.tenant_id = a.tenant_id
join tenants t on t.id = a.tenant_id
where l.events_per_day_soft <= a.events and a.told < 1 or l.events_per_day <= a.events and a.told < 2;

-- name: TenantDayTold
-- A limit was told of, once a day.
update tenant_days set told = greatest(told, $3::smallint) where tenant_id = $1 and day = $2;

-- name: TenantDayPrune
-- all tenants: days that nobody asks for any more.
delete from tenant_days where day < (statement_timestamp() at time zone 'UTC')::date - 400;

-- name: EndpointRoom
-- Whether a tenant may have one more endpoint. The row's lock lets one at a time count; no row: there is no limit.
select l.endpoints - (select count(*) from endpoints e where e.tenant_id = l.tenant_id and e.deleted_at is null), l.endpoints
from tenant_limits l
where l.tenant_id = $1 and l.endpoints is not null
for no key update of l;
