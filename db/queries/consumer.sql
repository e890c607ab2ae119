-- Named consumers: readers of a tenant whose cursor we keep.

-- name: ConsumerPut
-- Creates, or changes what it wants; where an existing one stands stays. No row: the tenant has as many as it may ($6).
insert into consumers as c (tenant_id, name, types, cursor, position, handed_position, since_position)
select $1, $2, $3, $4, $5::bigint, $5::bigint, $5::bigint
where exists (select from consumers x where x.tenant_id = $1 and x.name = $2)
   or (select count(*) from consumers x where x.tenant_id = $1) < $6
on conflict (tenant_id, name) do update
set types = excluded.types, updated_at = statement_timestamp(),
    since_position = case when c.types = excluded.types then c.since_position else c.position end
returning name, types, cursor, position, case when lease_until > statement_timestamp() then lease_until end, acked_at, created_at, updated_at, xmax = 0;

-- name: ConsumerRead
-- One of a tenant's.
select name, types, cursor, position, case when lease_until > statement_timestamp() then lease_until end, acked_at, created_at, updated_at, false
from consumers
where tenant_id = $1 and name = $2;

-- name: ConsumerList
-- A tenant's, by name, behind $2.
select name, types, cursor, position, case when lease_until > statement_timestamp() then lease_until end, acked_at, created_at, updated_at, false
from consumers
where tenant_id = $1 and name > $2
order by name
limit $3;

-- name: ConsumerDelete
-- One of a tenant's, for good.
delete from consumers where tenant_id = $1 and name = $2;

-- name: ConsumerLease
-- Who gets the row has the lease $3, for $4. No row: another has it, or there is no such consumer.
update consumers
set lease = $3, lease_until = statement_timestamp() + $4::interval, lease_position = position
where tenant_id = $1 and name = $2 and (lease is null or lease_until <= statement_timestamp())
returning types, cursor, lease_until;

-- name: ConsumerHand
-- Notes up to where was handed out under the lease $3. No row: it took so long that another has the lease.
update consumers
set lease_position = $4, handed_position = greatest(handed_position, $4)
where tenant_id = $1 and name = $2 and lease = $3;

-- name: ConsumerPass
-- Nothing was there to be handed out up to $5: the consumer stands behind it, and its lease $3 ends unless it goes on reading ($6).
update consumers
set cursor = $4, position = greatest(position, $5), handed_position = greatest(handed_position, $5),
    lease = case when $6 then lease end, lease_until = case when $6 then lease_until end, lease_position = case when $6 then greatest(position, $5) end
where tenant_id = $1 and name = $2 and lease = $3;

-- name: ConsumerRelease
-- Gives the lease $3 back.
update consumers
set lease = null, lease_until = null, lease_position = null
where tenant_id = $1 and name = $2 and lease = $3;

-- name: ConsumerAck
-- Everything up to $3 is acknowledged, of what was handed out; never backwards. The lease ends with the last of what it was for.
update consumers
set cursor = $4, position = $3, acked_at = statement_timestamp(),
    lease = case when lease_position > $3 then lease end,
    lease_until = case when lease_position > $3 then lease_until end,
    lease_position = case when lease_position > $3 then lease_position end
where tenant_id = $1 and name = $2 and position <= $3 and handed_position >= $3
returning name, types, cursor, position, case when lease_until > statement_timestamp() then lease_until end, acked_at, created_at, updated_at, false;

-- name: ConsumerSeek
-- Puts it anywhere; whoever reads under a lease has read for nothing.
update consumers
set cursor = $4, position = $3, handed_position = $3, since_position = $3, lease = null, lease_until = null, lease_position = null, updated_at = statement_timestamp()
where tenant_id = $1 and name = $2
returning name, types, cursor, position, case when lease_until > statement_timestamp() then lease_until end, acked_at, created_at, updated_at, false;

-- name: ConsumerRangeClose
-- Keeps what a consumer has acknowledged so far, because it is put elsewhere, or wants other types than $3 (null: whatever it wants).
insert into consumer_ranges (tenant_id, name, types, from_position, to_position)
select tenant_id, name, types, since_position, position
from consumers
where tenant_id = $1 and name = $2 and position > since_position and ($3::text[] is null or types <> $3);

-- name: ConsumerRangePrune
-- all tenants: those that are older than any event is kept.
delete from consumer_ranges where closed_at < statement_timestamp() - interval '400 days';

-- name: ConsumerLags
-- How many events behind each of the consumers $2 it wants, of the next $3 in the order of position, and how many those are.
select c.name, l.wanted, l.seen
from consumers c
cross join lateral (
    select count(*) as seen,
           count(*) filter (where cardinality(c.types) = 0
                                  or exists (select from unnest(c.types) p where w.type = p or right(p, 1) = '*' and starts_with(w.type, left(p, -1)))) as wanted
    from (
        select v.type
        from events v
        where v.tenant_id = $1 and not v.test and v.position > c.position
        order by v.position
        limit $3::bigint
    ) w
) l
where c.tenant_id = $1 and c.name = any ($2::text[]);
