-- What streams are fed from: one look for all of them.

-- name: PositionLast
-- all tenants: how far the catalog has got, and the database's day. Who sees a position sees every event up to it.
select last, (statement_timestamp() at time zone 'UTC')::date
from positions;

-- name: EventsBetween
-- The events of the tenants $3 behind position $1, up to $2, in order: the primary key of a few days' partitions ($4 to $5). Some at a time.
select e.tenant_id, e.id, e.day, e.position, e.type, e.version, e.resource_type, e.resource_id, e.sequence, e.occurred_at, e.published_at,
       e.created_at, e.test, e.body
from events e
where e.position > $1 and e.position <= $2 and e.tenant_id = any ($3) and e.day between $4 and $5 and not e.test
order by e.position
limit $6;

-- name: KeysAlive
-- all tenants: which of these keys have neither been revoked nor expired; by id.
select id
from api_keys
where id = any ($1) and coalesce(expires_at > statement_timestamp(), true);

-- name: KeyRotate
-- A tenant's key $2 ends in $3 at the latest; a new one takes its place. One that is over already is not rotated.
with old as (
    update api_keys k
    set expires_at = least(coalesce(k.expires_at, 'infinity'), statement_timestamp() + $3::interval)
    from api_keys o
    where k.tenant_id = $1 and k.id = $2 and o.id = k.id and coalesce(k.expires_at > statement_timestamp(), true)
    returning k.name, k.scopes, k.requests_per_second, statement_timestamp() + (o.expires_at - o.created_at) as expires_at
)
insert into api_keys (id, tenant_id, name, prefix, hash, scopes, requests_per_second, created_by, expires_at)
select $4, $1, old.name, $5, $6, old.scopes, old.requests_per_second, $7, old.expires_at from old
returning name, scopes, requests_per_second, created_at, expires_at;
