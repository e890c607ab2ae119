-- What the console reads across tenants. Each says what it costs; none is counted without a limit, and none asks the big tables for what they have no
-- index for.

-- name: ConsoleTenants
-- all tenants: the operators' list, by uid from behind @after. Without words tenants_uid_unique and no more rows than the page has; with words one pass over
-- tenants, of which there are thousands. For each row of the page an index count of its endpoints and of what is parked, up to @most.
select t.id, t.uid, t.name, t.concurrency, coalesce(t.preset, ''), t.time_zone, t.suspended_at, t.created_at, t.updated_at,
       (select count(*) from (select from endpoints e where e.tenant_id = t.id and e.deleted_at is null limit @most) x),
       (select count(*) from (select from parked p where p.tenant_id = t.id and p.status = 'undelivered' limit @most) x),
       (select count(*) from (select from parked p where p.tenant_id = t.id and p.status = 'held' limit @most) x)
from (
    select *
    from tenants
    where uid > @after and (@words::text = '' or uid ilike @words or name ilike @words or id = @id)
    order by uid
    limit @limit
) t
order by t.uid;

-- name: ConsoleTenantEndpoints
-- A tenant's endpoints, so that their lanes can be locked, in the order of ids: index endpoints_by_tenant.
select id from endpoints where tenant_id = $1 and deleted_at is null order by id;

-- name: ConsoleTenantSuspend
-- all tenants: the operators', by id. The row is locked. No row: it is in that state already.
update tenants
set suspended_at = case when $2 then statement_timestamp() end, updated_at = statement_timestamp()
where id = $1 and (suspended_at is null) = $2
returning suspended_at;

-- name: ConsoleTenantTouch
-- The lanes are locked. A running one must read its endpoint again.
update endpoints set rev = rev + 1 where tenant_id = $1 and deleted_at is null;

-- name: ConsoleTenantSettled
-- Whether no running lane of a tenant works on an older revision: index lanes_running.
select not exists (
    select from lanes l
    join endpoints e on e.id = l.endpoint_id
    where l.tenant_id = $1 and l.state = 'running' and l.seen < e.rev);

-- name: ConsoleAttention
-- all tenants: endpoints that need somebody, the worst first: circuit open, failing, kept from being sent to by their own settings, disabled by us, and
-- those whose work has waited for its turn for longer than a minute. One pass each over endpoint_health and endpoints (a row an endpoint) and the
-- indexes lanes_queued and lanes_blocked; then, for the rows of the page alone, three probes of due_by_lane and an index count of parked up to @most.
with need as materialized (
    select h.endpoint_id, case when h.phase <> 'closed' then 1 when h.failing_since is not null then 2 else 3 end as rank,
           coalesce(h.failing_since, h.phase_at, h.last_at, 'epoch') as since
    from endpoint_health h
    join endpoints e on e.id = h.endpoint_id
    where (h.phase <> 'closed' or h.failing_since is not null or h.flagged) and e.deleted_at is null and e.state = 'active'
    union all
    select e.id, 4, e.state_at
    from endpoints e
    where e.deleted_at is null and e.state = 'disabled' and e.reason <> 'manual'
    union all
    select l.endpoint_id, 5, l.since
    from lanes l
    where l.state in ('queued', 'blocked') and l.since < statement_timestamp() - interval '1 minute'
), worst as (
    select n.endpoint_id, min(n.rank) as rank, (array_agg(n.since order by n.rank))[1] as since
    from need n
    group by n.endpoint_id
)
select e.id, e.url, e.description, e.state, coalesce(e.reason, ''), t.uid, t.name, w.rank, w.since, coalesce(h.phase, 'closed'),
       coalesce(h.last_class, ''), coalesce(h.last_code, 0), coalesce(h.last_delivery, ''), h.disable_at, coalesce(cardinality(h.failed), 0),
       coalesce(l.state, ''), d.next_at,
       (select count(*) from (select from parked p where p.endpoint_id = e.id and p.status = 'undelivered' limit @most) x),
       (select count(*) from (select from parked p where p.endpoint_id = e.id and p.status = 'held' limit @most) x)
from (
    select *
    from worst
    where (@rank::integer = 0 or rank = @rank) and (rank, since, endpoint_id) > (@after_rank::integer, @after_since::timestamptz, @after_id::text)
    order by rank, since, endpoint_id
    limit @limit
) w
join endpoints e on e.id = w.endpoint_id
join tenants t on t.id = e.tenant_id
left join endpoint_health h on h.endpoint_id = w.endpoint_id
left join lanes l on l.endpoint_id = w.endpoint_id
left join lateral (
    select min(n.next_at) as next_at
    from (values (0), (1), (2)) p(priority)
    cross join lateral (
        select u.next_at from due u where u.endpoint_id = e.id and u.priority = p.priority order by u.next_at limit 1
    ) n
) d on true
order by w.rank, w.since, w.endpoint_id;

-- name: ConsoleAttentionCount
-- all tenants: how many endpoints need somebody, by what they need: the same passes as ConsoleAttention, and nothing for each of them.
select count(*) filter (where n.rank = 1), count(*) filter (where n.rank = 2), count(*) filter (where n.rank = 3), count(*) filter (where n.rank = 4),
       count(*) filter (where n.rank = 5)
from (
    select x.endpoint_id, min(x.rank) as rank
    from (
        select h.endpoint_id, case when h.phase <> 'closed' then 1 when h.failing_since is not null then 2 else 3 end as rank
        from endpoint_health h
        join endpoints e on e.id = h.endpoint_id
        where (h.phase <> 'closed' or h.failing_since is not null or h.flagged) and e.deleted_at is null and e.state = 'active'
        union all
        select e.id, 4
        from endpoints e
        where e.deleted_at is null and e.state = 'disabled' and e.reason <> 'manual'
        union all
        select l.endpoint_id, 5
        from lanes l
        where l.state in ('queued', 'blocked') and l.since < statement_timestamp() - interval '1 minute'
    ) x
    group by x.endpoint_id
) n;

-- name: ConsoleFailing
-- all tenants: the active endpoints that fail, those first that have failed longest, @limit at most, for grouping: one pass over endpoint_health. Of the
-- first 100 whose last attempt met a TLS failure the cause is read from that attempt: the primary key in the three days around it.
select e.id, e.url, t.uid, t.name, f.last_class, f.last_code, f.failing_since, coalesce(c.cause, '')
from (
    select h.endpoint_id, coalesce(h.last_class, '') as last_class, coalesce(h.last_code, 0) as last_code, h.last_delivery, h.last_at,
           coalesce(h.failing_since, h.last_at, 'epoch') as failing_since,
           h.last_class = 'tls' and row_number() over (partition by h.last_class order by h.failing_since, h.endpoint_id) <= 100 as look
    from endpoint_health h
    join endpoints x on x.id = h.endpoint_id
    where (h.failing_since is not null or h.flagged) and x.deleted_at is null and x.state = 'active'
    order by coalesce(h.failing_since, h.last_at, 'epoch'), h.endpoint_id
    limit @limit
) f
join endpoints e on e.id = f.endpoint_id
join tenants t on t.id = e.tenant_id
left join lateral (
    select a.cause
    from attempts a
    where f.look and a.delivery_id = f.last_delivery
      and a.day between (f.last_at at time zone 'UTC')::date - 1 and (f.last_at at time zone 'UTC')::date + 1
    order by a.number desc
    limit 1
) c on true
order by f.failing_since, e.id;

-- name: ConsoleFindEvent
-- all tenants: an event's id, which several tenants may have: index events_by_id in each of the days from @from_day to @until_day.
select t.uid, t.name, e.id, e.type, e.resource_type, e.resource_id, e.sequence, e.created_at, e.test
from events e
join tenants t on t.id = e.tenant_id
where e.id = @id and e.day between @from_day and @until_day
order by e.position desc
limit @limit;

-- name: ConsoleFindDelivery
-- all tenants: a delivery's id: the primary key in each of the days from @from_day to @until_day.
select t.uid, t.name, d.id, d.event_id, d.type, d.resource_id, d.status, d.created_at
from deliveries d
join tenants t on t.id = d.tenant_id
where d.id = @id and d.day between @from_day and @until_day
limit 1;

-- name: ConsoleFindEndpoint
-- all tenants: an endpoint's id, also of a deleted one: the primary key.
select t.uid, t.name, e.id, e.url, e.state, e.deleted_at is not null
from endpoints e
join tenants t on t.id = e.tenant_id
where e.id = $1;

-- name: ConsoleFindResource
-- all tenants: an object's id in the catalogs of all tenants, without an index on it alone: the primary key of resources begins with tenant and type, so
-- its pairs of those are stepped over, one probe each (@most at most, from behind @tenant and @type), and the id is probed for in each. Two probes a pair:
-- some 20 microseconds. The last row says how many pairs were looked at, and where that ended.
with recursive pairs (tenant_id, type, n) as (
    (select r.tenant_id, r.type, 1
     from resources r
     where (r.tenant_id, r.type) > (@tenant::text, @type::text)
     order by r.tenant_id, r.type
     limit 1)
    union all
    select x.tenant_id, x.type, p.n + 1
    from pairs p
    cross join lateral (
        select r.tenant_id, r.type
        from resources r
        where (r.tenant_id, r.type) > (p.tenant_id, p.type)
        order by r.tenant_id, r.type
        limit 1
    ) x
    where p.n < @most
), hits as (
    select r.tenant_id, r.type, r.id, r.sequence, p.n
    from pairs p
    join resources r on r.tenant_id = p.tenant_id and r.type = p.type and r.id = @id
    order by p.n
    limit @limit
)
select t.uid, t.name, h.type, h.id, h.sequence, 0 as looked, '' as last_tenant, '' as last_type
from hits h
join tenants t on t.id = h.tenant_id
union all
(select '', '', '', '', 0, p.n, p.tenant_id, p.type from pairs p order by p.n desc limit 1);

-- name: ConsoleResourceOfTenant
-- An object's id in one tenant: the same pairs, of this tenant alone.
with recursive kinds (type) as (
    (select r.type from resources r where r.tenant_id = @tenant order by r.type limit 1)
    union all
    select x.type
    from kinds k
    cross join lateral (select r.type from resources r where r.tenant_id = @tenant and r.type > k.type order by r.type limit 1) x
)
select r.type, r.id, r.sequence
from kinds k
join resources r on r.tenant_id = @tenant and r.type = k.type and r.id = @id
limit @limit;

-- name: ConsoleShares
-- all tenants: whose lanes run, wait or are blocked: one pass over lanes, a row an endpoint; then, for the tenants of the page, what is due is counted in
-- due_by_lane, up to @most at each of its newest @lanes endpoints (endpoints_by_tenant).
select t.uid, t.name, t.concurrency, s.slots, s.running, s.queued, s.blocked, s.sleeping,
       (select coalesce(sum(w.n), 0)::bigint
        from (select e.id from endpoints e where e.tenant_id = s.tenant_id and e.deleted_at is null order by e.id desc limit @lanes) k
        cross join lateral (
            select count(*) as n
            from (select from due d where d.endpoint_id = k.id and d.next_at <= statement_timestamp() limit @most) x
        ) w)
from (
    select l.tenant_id, sum(l.slots)::bigint as slots, count(*) filter (where l.state = 'running') as running, count(*) filter (where l.state = 'queued') as queued,
           count(*) filter (where l.state = 'blocked') as blocked, count(*) filter (where l.state = 'sleeping') as sleeping
    from lanes l
    where l.state <> 'idle'
    group by l.tenant_id
    order by sum(l.slots) desc, count(*) filter (where l.state in ('queued', 'blocked')) desc, l.tenant_id
    limit @limit
) s
join tenants t on t.id = s.tenant_id
order by s.slots desc, s.queued + s.blocked desc, t.uid;

-- name: ConsoleVerdicts
-- all tenants: how attempts ended since @from, over all endpoints: index rollups_by_slot, a row for each endpoint and quarter of an hour in which anything
-- was attempted; the page asks for the last two quarters.
select coalesce(sum(delivered), 0)::bigint, coalesce(sum(redirected), 0)::bigint, coalesce(sum(refused), 0)::bigint, coalesce(sum(broken), 0)::bigint,
       coalesce(sum(odd), 0)::bigint, coalesce(sum(timed_out), 0)::bigint, coalesce(sum(unreachable), 0)::bigint, coalesce(sum(tls), 0)::bigint,
       coalesce(sum(blocked), 0)::bigint, coalesce(sum(ours), 0)::bigint
from rollups
where slot >= @from;

-- name: ConsoleMails
-- all tenants: the mails that wait, counted up to $1, with how many of them have been tried and since when the first has waited: index mails_waiting.
select count(*), count(*) filter (where x.tries > 0), min(x.created_at)
from (select tries, created_at from mails where sent_at is null and dropped_at is null order by next_at, id limit $1) x;

-- name: ConsoleTables
-- all tenants: how large the tables are on disk with their indexes, partitions added to their parent: each file is asked for its size, some thousand
-- files, so the page keeps the answer for a minute.
select coalesce(p.relname, c.relname), count(*), sum(pg_total_relation_size(c.oid))::bigint, sum(greatest(c.reltuples, 0))::bigint,
       coalesce(min(right(c.relname, 8)) filter (where p.oid is not null), ''), coalesce(max(right(c.relname, 8)) filter (where p.oid is not null), '')
from pg_class c
join pg_namespace s on s.oid = c.relnamespace and s.nspname = 'waybill'
left join pg_inherits i on i.inhrelid = c.oid
left join pg_class p on p.oid = i.inhparent
where c.relkind = 'r'
group by 1
order by 3 desc
limit $1;

-- name: ConsoleUsage
-- What was attempted for a tenant by UTC day since @from, test events left out: index rollups_by_tenant, a row for each endpoint and quarter of an hour.
select (r.slot at time zone 'UTC')::date, sum(r.delivered)::bigint,
       sum(r.delivered + r.redirected + r.refused + r.broken + r.odd + r.timed_out + r.unreachable + r.tls + r.blocked + r.ours)::bigint
from rollups r
where r.tenant_id = @tenant and r.slot >= @from
group by 1
order by 1;

-- name: ConsoleEventsOfDay
-- How many events a tenant published on a day, counted up to @most: index events_by_tenant of one partition.
select count(*) from (select from events e where e.tenant_id = @tenant and e.day = @day and not e.test limit @most) x;

-- name: ConsoleUsageDays
-- A tenant's whole days since @from: the primary key.
select day, events, delivered, attempted
from usage_days
where tenant_id = @tenant and day >= @from
order by day;

-- name: UsageDue
-- all tenants: the first whole day that is not written yet: of those whose counts are still kept, and over for half an hour.
select d::date
from generate_series((statement_timestamp() at time zone 'UTC')::date - 8, ((statement_timestamp() - interval '30 minutes') at time zone 'UTC')::date - 1, interval '1 day') d
where not exists (select from usage_rolled u where u.day = d::date)
order by d
limit 1;

-- name: UsageClaim
-- all tenants: of several processes one writes the day; the others wait, and find it done.
insert into usage_rolled (day) values ($1) on conflict (day) do nothing;

-- name: UsageWrite
-- all tenants: one day, once: the day's events counted in the index events_by_tenant of its partition, the attempts in rollups_by_slot.
insert into usage_days (tenant_id, day, events, delivered, attempted)
select coalesce(e.tenant_id, r.tenant_id), $1, coalesce(e.n, 0), coalesce(r.delivered, 0), coalesce(r.attempted, 0)
from (select tenant_id, count(*) as n from events where day = $1 and not test group by tenant_id) e
full join (
    select tenant_id, sum(delivered) as delivered, sum(delivered + redirected + refused + broken + odd + timed_out + unreachable + tls + blocked + ours) as attempted
    from rollups
    where slot >= $1::date::timestamp at time zone 'UTC' and slot < ($1::date + 1)::timestamp at time zone 'UTC'
    group by tenant_id
) r on r.tenant_id = e.tenant_id
on conflict (tenant_id, day) do nothing;

-- name: UsagePrune
-- all tenants: days older than a year and a month: index usage_days_by_day.
with old as (delete from usage_rolled where day < (statement_timestamp() at time zone 'UTC')::date - 400)
delete from usage_days where day < (statement_timestamp() at time zone 'UTC')::date - 400;

-- name: ConsolePresets
-- all tenants: how many tenants have each preset: one pass over tenants.
select coalesce(preset, ''), count(*) from tenants group by 1 order by 2 desc limit 100;
