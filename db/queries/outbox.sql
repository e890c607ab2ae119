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
-- Up to $2 tenants that have something waiting, after tenant_id $1, and how many rows, counted up to $3: a few index probes each, however long a
-- queue is. Those of $4 are known to have as many.
with recursive waiting(tenant_id) as (
    (select tenant_id from outbox where tenant_id > $1 order by tenant_id limit 1)
    union all
    select (select o.tenant_id from outbox o where o.tenant_id > w.tenant_id order by o.tenant_id limit 1)
    from waiting w
    where w.tenant_id is not null
)
select w.tenant_id, case when w.tenant_id = any($4::text[]) then $3::integer
                         else (select count(*)::integer from (select from outbox o where o.tenant_id = w.tenant_id limit $3::integer) x) end
from (select tenant_id from waiting where tenant_id is not null limit $2) w;

-- name: OutboxTake
-- Up to $2 rows of each tenant in $1, oldest first, without their data. Rows stay: the caller alone dispatches, and deletes them in the same
-- transaction. A tenant with many subscriptions gives fewer rows, so that one batch makes some ten thousand deliveries for it at most.
select o.at::text, o.seq, o.tenant_id, o.id, o.type, o.version, o.resource_type, o.resource_id, o.sequence, o.occurred_at, o.endpoint_id, o.delivery_id,
       o.requested_by, o.published_at
from unnest($1::text[]) as w(tenant_id)
cross join lateral (
    select x.ctid as at, x.*
    from outbox x
    where x.tenant_id = w.tenant_id
    order by x.seq
    limit greatest(1, least($2::bigint, 20000 / greatest(1, (
        select count(*) from (select from subscriptions s where s.tenant_id = w.tenant_id limit 20000) c))))
) o;

-- name: SubscriptionMatch
-- Who wants what: for each tenant ($1) with a list of patterns, joined by spaces ($2), the endpoints that subscribe to one of them, each once. $1 and $2
-- are the distinct pairs of a batch, so that a thousand events of one type ask once. The limit keeps the look-up of an endpoint behind
-- its subscription, whatever the planner believes.
select k.n::integer, e.id, e.payload
from unnest($1::text[], $2::text[]) with ordinality as k(tenant_id, patterns, n)
cross join lateral (
    select distinct s.endpoint_id from subscriptions s
    where s.tenant_id = k.tenant_id and s.pattern = any (string_to_array(k.patterns, ' '))
) s
cross join lateral (
    select x.id, x.payload from endpoints x
    where x.id = s.endpoint_id and x.tenant_id = k.tenant_id and x.deleted_at is null
    limit 1
) e
order by k.n, e.id;

-- name: EndpointForm
-- all tenants: how a test event's one endpoint wants it. Gone: no row.
select x.id, x.payload from endpoints x where x.id = any($1) and x.deleted_at is null;

-- name: ResourceSequence
-- The highest sequence so far of resources: tenant $1, type $2, id $3.
select u.n::integer, r.sequence
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as u(tenant_id, type, id, n)
cross join lateral (
    select x.sequence from resources x where x.tenant_id = u.tenant_id and x.type = u.type and x.id = u.id limit 1
) r;

-- name: PositionTake
-- all tenants: the next $1 places of the catalog; the last of them is returned. Held until commit, so positions are visible in order.
update positions set last = last + $1 returning last;

-- name: EventInsert
-- all tenants: outbox rows become events of day $1 at positions $3 with sequences $4. $2 is where they stand (ctid): nobody changes a row of the outbox, and only
-- the dispatcher removes one, so that is as good as a key, and no statistics can mislead it. The text on the wire is $5, the envelope's head, then data byte for
-- byte as it was published, which never leaves the database for this, then a brace. $6 is the thin form or null.
insert into events_{day} (position, day, tenant_id, id, type, version, resource_type, resource_id, sequence, occurred_at, published_at, created_at,
                    test, body, thin)
select u.position, $1::date, o.tenant_id, o.id, o.type, o.version, o.resource_type, o.resource_id, u.sequence, o.occurred_at, o.published_at,
       statement_timestamp(), o.endpoint_id is not null, u.head || o.data::text || '}', u.thin
from unnest($2::text[]::tid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[]) as u(at, position, sequence, head, thin)
cross join lateral (select x.* from outbox x where x.ctid = u.at limit 1) o;

-- name: ResourceRaise
-- The highest sequence of each resource in a batch, and the event that carries it ($5 position, $6 day).
insert into resources as r (tenant_id, type, id, sequence, position, day)
select u.tenant_id, u.type, u.id, u.sequence, u.position, $6::date
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) as u(tenant_id, type, id, sequence, position)
on conflict (tenant_id, type, id) do update
    set sequence = excluded.sequence, position = excluded.position, day = excluded.day
    where excluded.sequence >= r.sequence;

-- name: OutboxDelete
-- all tenants: what has been dispatched, by where it stands.
delete from outbox where ctid = any($1::text[]::tid[]);

-- name: DispatcherSleep
-- all tenants: from now on publish() rings.
update dispatcher set asleep = $1 where asleep <> $1;

-- name: DispatcherLeave
-- all tenants: whoever waits for the right to dispatch looks at once.
select pg_notify('waybill_outbox', '');

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

-- name: OutboxTidy
-- all tenants: forgets the entries of rows that are gone, in the two tables that are always emptied again: an index scan from their front passes every one
-- of them, and the server's own vacuum comes once a minute at most. Pages are kept for the next rows.
vacuum (skip_locked, truncate off) outbox, due;
