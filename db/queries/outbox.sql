-- name: OutboxAdd
-- all tenants: each row names its own tenant by uid; outbox_add resolves it and checks everything else.
-- One call an item, in order; the first refusal ends the statement and with it the batch.
select i.n::integer, a.event_id, a.repeated
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::integer[], $8::timestamptz[], $9::text[])
         with ordinality as i(tenant, type, resource_type, resource_id, data, sequence, version, occurred_at, id, n)
cross join lateral outbox_add(i.tenant, i.type, i.resource_type, i.resource_id, i.data::json, i.sequence, i.version, i.occurred_at, i.id) a
order by i.n;

-- name: OutboxAddTest
-- A test event goes to one endpoint, named here, and takes no part in idempotency.
insert into outbox (tenant_id, id, type, version, resource_type, resource_id, sequence, occurred_at, data, endpoint_id, delivery_id, requested_by)
values ($1, $2, $3, 1, $4, $5, 1, now(), $6, $7, $8, $9);

-- name: OutboxRing
-- all tenants: wakes the dispatcher if it has said that it sleeps.
select pg_notify('waybill_outbox', '') from dispatcher where asleep;

-- name: OutboxIsWaiting
-- all tenants: the dispatcher's idle question, one index probe.
select exists (select from outbox);

-- name: DispatchLock
-- all tenants: one dispatcher at a time in the whole database.
select pg_try_advisory_xact_lock(hashtextextended('waybill.dispatch', 0));

-- name: OutboxWaiting
-- Up to $2 tenants that have something waiting, after tenant_id $1: one index probe each, however long a queue is.
with recursive waiting(tenant_id) as (
    (select tenant_id from outbox where tenant_id > $1 order by tenant_id limit 1)
    union all
    select (select o.tenant_id from outbox o where o.tenant_id > w.tenant_id order by o.tenant_id limit 1)
    from waiting w
    where w.tenant_id is not null
)
select tenant_id from waiting where tenant_id is not null limit $2;

-- name: OutboxDispatch
-- Moves up to $2 rows of each tenant in $1 to events, deliveries and due. $3 the day, $4 the ten time characters
-- of a ULID of that day, $5 the public base URL. Returns the endpoints that now have something due and, on each row, how many events moved.
-- A tenant with many subscriptions gets fewer rows, so that one statement never makes more than some ten thousand deliveries for it.
with taken as materialized (
    select o.*
    from unnest($1::text[]) as w(tenant_id)
    cross join lateral (
        select x.*
        from outbox x
        where x.tenant_id = w.tenant_id
        order by x.seq
        limit greatest(1, least($2::bigint, 20000 / greatest(1, (
            select count(*) from (select from subscriptions s where s.tenant_id = w.tenant_id limit 20000) c))))
    ) o
), counted as (
    select t.*,
           row_number() over (order by t.seq) as n,
           count(*) filter (where t.sequence is null) over (
               partition by t.tenant_id, t.resource_type, t.resource_id, t.endpoint_id is null order by t.seq) as absent
    from taken t
), numbered as materialized (
    -- An absent sequence is one more than the highest before it: a = absent ones so far, then a + max(last, given - a at that row).
    select c.*,
           p.last + c.n as position,
           case when c.endpoint_id is not null then coalesce(c.sequence, 1)
                else coalesce(c.sequence, c.absent + greatest(coalesce(r.sequence, 0), max(c.sequence - c.absent) over (
                    partition by c.tenant_id, c.resource_type, c.resource_id, c.endpoint_id is null order by c.seq)))
           end as final_sequence,
           to_char(c.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as occurred
    from counted c
    cross join positions p
    left join resources r on r.tenant_id = c.tenant_id and r.type = c.resource_type and r.id = c.resource_id
), pairs as materialized (
    select n.*, e.id as target_id, e.payload as form,
           'dlv_' || $4::text || lpad(upper(to_hex(row_number() over (order by n.seq, e.id))), 5, '0')
                  || upper(substr(replace(gen_random_uuid()::text, '-', ''), 1, 11)) as made_id
    from numbered n
    cross join lateral (
        select s.endpoint_id
        from subscriptions s
        where n.endpoint_id is null and s.tenant_id = n.tenant_id and s.pattern = any (type_patterns(n.type))
        union
        select n.endpoint_id where n.endpoint_id is not null
    ) s
    cross join lateral (
        -- limit: the endpoint is looked up for a subscription, never the other way round, whatever the planner believes.
        select x.id, x.payload
        from endpoints x
        where x.id = s.endpoint_id and x.tenant_id = n.tenant_id and x.deleted_at is null
        limit 1
    ) e
), made_events as (
    insert into events (position, day, tenant_id, id, type, version, resource_type, resource_id, sequence, occurred_at, published_at,
                        created_at, test, body, thin)
    select n.position, $3::date, n.tenant_id, n.id, n.type, n.version, n.resource_type, n.resource_id, n.final_sequence, n.occurred_at,
           n.published_at, statement_timestamp(), n.endpoint_id is not null,
           event_body(n.id, n.type, n.version, n.occurred, n.resource_type, n.resource_id, null, n.final_sequence, n.endpoint_id is not null,
                      n.data::text),
           case when n.position in (select p.position from pairs p where p.form = 'thin')
                then event_body(n.id, n.type, n.version, n.occurred, n.resource_type, n.resource_id,
                                $5::text || '/v1/resources/' || n.resource_type || '/' || url_segment(n.resource_id), n.final_sequence,
                                n.endpoint_id is not null, '{"id":' || to_json(n.resource_id)::text || '}')
           end
    from numbered n
), made_resources as (
    insert into resources as r (tenant_id, type, id, sequence, position, day)
    select distinct on (n.tenant_id, n.resource_type, n.resource_id)
           n.tenant_id, n.resource_type, n.resource_id, n.final_sequence, n.position, $3::date
    from numbered n
    where n.endpoint_id is null
    order by n.tenant_id, n.resource_type, n.resource_id, n.final_sequence desc, n.position desc
    on conflict (tenant_id, type, id) do update
        set sequence = excluded.sequence, position = excluded.position, day = excluded.day
        where excluded.sequence >= r.sequence
), made_deliveries as (
    insert into deliveries (id, day, tenant_id, endpoint_id, position, event_id, type, resource_type, resource_id, form, test, created_at)
    select coalesce(p.delivery_id, p.made_id), $3::date, p.tenant_id, p.target_id, p.position, p.id, p.type, p.resource_type, p.resource_id,
           p.form, p.endpoint_id is not null, statement_timestamp()
    from pairs p
), made_due as (
    insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger, requested_by)
    select coalesce(p.delivery_id, p.made_id), $3::date, p.tenant_id, p.target_id, p.position, p.id, p.form,
           case when p.endpoint_id is null then 1 else 0 end, statement_timestamp(),
           case when p.endpoint_id is null then 'first' else 'test' end, p.requested_by
    from pairs p
), counted_up as (
    update positions set last = last + (select count(*) from taken)
), gone as (
    delete from outbox o using taken t where o.seq = t.seq
)
select total.events, total.oldest, woken.endpoint_id, woken.test, woken.deliveries
from (select count(*)::integer as events, min(published_at) as oldest from taken) total
left join (
    select p.target_id as endpoint_id, bool_or(p.endpoint_id is not null) as test, count(*)::integer as deliveries
    from pairs p
    group by p.target_id
) woken on true;

-- name: DispatcherSleep
-- all tenants: from now on publish() rings.
update dispatcher set asleep = $1 where asleep <> $1;

-- name: PartitionsMake
-- all tenants: the daily partitions from today on, $1 days ahead, that are missing.
select make_partitions((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date + $1::integer);

-- name: PartitionsAhead
-- all tenants: how many days after today have all three partitions.
select count(*)::integer
from generate_series(1, 60) as ahead
where ahead <= (
    select coalesce(min(days), 0)
    from unnest(array ['events', 'deliveries', 'attempts']) as parent
    cross join lateral (
        select coalesce(min(d) - 1, 60) as days
        from generate_series(1, 60) as d
        where to_regclass(parent || '_' || to_char((now() at time zone 'UTC')::date + d, 'YYYYMMDD')) is null
    ) missing
);
