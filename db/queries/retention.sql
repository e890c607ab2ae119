-- What is no longer kept. Whole days go by dropping their partitions; a tenant's own shorter time by deleting its rows, some at a time.

-- name: RetentionPartitions
-- all tenants: the days of one table ($1) that have a partition, before day $2, the oldest first.
select (regexp_match(c.relname, '_(\d{8})$'))[1]::date
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = to_regclass($1) and (regexp_match(c.relname, '_(\d{8})$'))[1]::date < $2::date
order by 1;

-- name: RetentionBusy
-- all tenants: whether something of day $1 is still to be attempted: then its partitions stay. A few rows are due that are so old, if any: the table is small.
select exists (select from due where day = $1);

-- name: RetentionUnpark
-- all tenants: the time of what waited for somebody since day $1 is over.
delete from parked where delivery_id in (select delivery_id from parked where day = $1 limit 5000);

-- name: RetentionEventIds
-- all tenants: ids of events that are no longer kept can be used again: some of those before day $1.
delete from event_ids where ctid = any (array (select ctid from event_ids where day < $1 order by day limit 5000));

-- name: RetentionTenants
-- all tenants: who keeps things for less than all, and for how many days.
select tenant_id, retention_days from tenant_limits where retention_days is not null order by tenant_id;

-- name: RetentionDeliveries
-- Up to 500 of a tenant's deliveries of day $2, with their attempts, but for those that something is due of.
with gone as materialized (
    delete from deliveries_{day} d
    where d.tenant_id = $1 and d.day = $2 and d.id in (
        select x.id
        from deliveries_{day} x
        where x.tenant_id = $1 and x.day = $2 and not exists (select from due u where u.delivery_id = x.id)
        order by x.id
        limit 500)
    returning d.id
), unparked as (
    delete from parked p using gone g where p.delivery_id = g.id and p.tenant_id = $1
), attempted as (
    delete from attempts a using gone g where a.delivery_id = g.id and a.tenant_id = $1 and a.day >= $2::date - 1
)
select count(*)::integer from gone;

-- name: RetentionEvents
-- Up to 500 of a tenant's events of day $2, tests left out: index events_by_tenant. Nothing while a delivery of that day is left.
with gone as (
    delete from events_{day} e
    where e.tenant_id = $1 and e.day = $2 and e.position in (
        select x.position from events_{day} x where x.tenant_id = $1 and not x.test order by x.position limit 500)
      and not exists (select from deliveries d where d.tenant_id = $1 and d.day = $2)
    returning 1
)
select count(*)::integer from gone;
