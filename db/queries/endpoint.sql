-- Endpoints, their subscriptions, static headers and signing secrets.

-- name: EndpointRead
-- One endpoint of a tenant, unless deleted.
select e.id, e.tenant_id, e.url, e.description, e.state, coalesce(e.reason, ''), coalesce(e.state_by, ''), e.state_at, e.verified_at, e.scheme, e.payload,
       coalesce(h.names, '{}'), e.concurrency, e.rate_per_second, coalesce(e.preset, ''), e.rev, e.created_at, e.updated_at,
       array(select s.pattern from subscriptions s where s.tenant_id = e.tenant_id and s.endpoint_id = e.id order by s.ordinal),
       coalesce((select k.public from signing_secrets k
                 where k.tenant_id = e.tenant_id and k.endpoint_id = e.id and k.kind = 'ed25519' and k.expires_at is null
                 order by k.id desc limit 1), ''),
       coalesce(g.phase, 'closed'), coalesce(g.flagged, false), g.failing_since, g.disable_at, coalesce(cardinality(g.failed), 0),
       case when g.phase = 'open' then l.not_before end
from endpoints e
left join header_sets h on h.tenant_id = e.tenant_id and h.id = e.header_set_id
left join endpoint_health g on g.tenant_id = e.tenant_id and g.endpoint_id = e.id
left join lanes l on l.tenant_id = e.tenant_id and l.endpoint_id = e.id
where e.tenant_id = $1 and e.id = $2 and e.deleted_at is null;

-- name: EndpointList
-- A tenant's endpoints, newest first: all or those in state $2, from below id $3.
select e.id, e.tenant_id, e.url, e.description, e.state, coalesce(e.reason, ''), coalesce(e.state_by, ''), e.state_at, e.verified_at, e.scheme, e.payload,
       coalesce(h.names, '{}'), e.concurrency, e.rate_per_second, coalesce(e.preset, ''), e.rev, e.created_at, e.updated_at,
       array(select s.pattern from subscriptions s where s.tenant_id = e.tenant_id and s.endpoint_id = e.id order by s.ordinal),
       coalesce((select k.public from signing_secrets k
                 where k.tenant_id = e.tenant_id and k.endpoint_id = e.id and k.kind = 'ed25519' and k.expires_at is null
                 order by k.id desc limit 1), ''),
       coalesce(g.phase, 'closed'), coalesce(g.flagged, false), g.failing_since, g.disable_at, coalesce(cardinality(g.failed), 0),
       case when g.phase = 'open' then l.not_before end
from endpoints e
left join header_sets h on h.tenant_id = e.tenant_id and h.id = e.header_set_id
left join endpoint_health g on g.tenant_id = e.tenant_id and g.endpoint_id = e.id
left join lanes l on l.tenant_id = e.tenant_id and l.endpoint_id = e.id
where e.tenant_id = $1 and e.deleted_at is null and ($2 = '' or e.state = $2) and ($3 = '' or e.id < $3)
order by e.id desc
limit $4;

-- name: EndpointInsert
-- A new endpoint with its lane. The lane is idle: nothing is due yet.
with made as (
    insert into endpoints (id, tenant_id, url, description, scheme, payload, header_set_id, concurrency, rate_per_second, preset, state_by)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, nullif($10, ''), $11)
    returning id, tenant_id
)
insert into lanes (endpoint_id, tenant_id)
select id, tenant_id from made;

-- name: EndpointUpdate
-- The caller holds the lanes row and has read the endpoint under it. A changed URL has yet to prove itself.
update endpoints
set url = $3, description = $4, scheme = $5, payload = $6, header_set_id = case when $11 then $7 else header_set_id end,
    concurrency = $8, rate_per_second = $9, preset = nullif($10, ''),
    verified_at = case when url = $3 then verified_at end,
    rev = rev + 1, updated_at = statement_timestamp()
where tenant_id = $1 and id = $2 and deleted_at is null
returning rev;

-- name: EndpointSetState
-- The caller holds the lanes row. No row: the endpoint is not in the state ($3) that it was found in.
update endpoints
set state = $4, reason = nullif($5, ''), state_by = $6, state_at = statement_timestamp(), rev = rev + 1, updated_at = statement_timestamp()
where tenant_id = $1 and id = $2 and state = $3 and deleted_at is null
returning rev;

-- name: EndpointDelete
-- The caller holds the lanes row. The row stays, for the history that points at it.
update endpoints
set deleted_at = statement_timestamp(), state = 'disabled', reason = 'deleted', state_by = $3, state_at = statement_timestamp(),
    rev = rev + 1, updated_at = statement_timestamp()
where tenant_id = $1 and id = $2 and deleted_at is null
returning rev;

-- name: EndpointTouch
-- The caller holds the lanes row. Secrets or headers have changed: a running lane must read them again.
update endpoints set rev = rev + 1, updated_at = statement_timestamp()
where tenant_id = $1 and id = $2 and deleted_at is null
returning rev;

-- name: SubscriptionInsert
-- What an endpoint wants, in the order it was given.
insert into subscriptions (tenant_id, pattern, endpoint_id, ordinal)
select $1, p.pattern, $2, p.n
from unnest($3::text[]) with ordinality as p(pattern, n);

-- name: SubscriptionDelete
-- All of an endpoint's, before new ones or with the endpoint.
delete from subscriptions where tenant_id = $1 and endpoint_id = $2;

-- name: HeaderSetInsert
-- Static headers, sealed; the names stay readable, for the pages.
insert into header_sets (id, tenant_id, names, sealed) values ($1, $2, $3, $4);

-- name: HeaderSetRead
-- The static headers in force.
select h.id, h.sealed
from endpoints e
join header_sets h on h.tenant_id = e.tenant_id and h.id = e.header_set_id
where e.tenant_id = $1 and e.id = $2 and e.deleted_at is null;

-- name: SecretInsert
-- A signing secret, sealed.
insert into signing_secrets (id, tenant_id, endpoint_id, kind, sealed, public, fingerprint)
values ($1, $2, $3, $4, $5, nullif($6, ''), $7);

-- name: SecretList
-- An endpoint's live secrets, newest first; there are twenty at most.
select k.id, k.kind, coalesce(k.public, ''), k.fingerprint, k.created_at, k.expires_at
from signing_secrets k
join endpoints e on e.tenant_id = k.tenant_id and e.id = k.endpoint_id and e.deleted_at is null
where k.tenant_id = $1 and k.endpoint_id = $2 and (k.expires_at is null or k.expires_at > statement_timestamp())
order by k.id desc;

-- name: SecretRead
-- One live secret, sealed.
select k.kind, k.sealed, k.fingerprint, k.expires_at is null
from signing_secrets k
join endpoints e on e.tenant_id = k.tenant_id and e.id = k.endpoint_id and e.deleted_at is null
where k.tenant_id = $1 and k.endpoint_id = $2 and k.id = $3 and (k.expires_at is null or k.expires_at > statement_timestamp());

-- name: SecretTry
-- An endpoint's secrets, sealed, newest first, those too that have ended and are not pruned yet.
select k.id, k.sealed, k.expires_at
from signing_secrets k
join endpoints e on e.tenant_id = k.tenant_id and e.id = k.endpoint_id and e.deleted_at is null
where k.tenant_id = $1 and k.endpoint_id = $2
order by k.id desc
limit 40;

-- name: SecretTryOthers
-- The newest secrets of the tenant's other endpoints, sealed: two of each (index signing_secrets_by_endpoint) of its hundred newest.
select k.id, k.sealed, e.url, e.description
from (
    select x.id, x.url, x.description
    from endpoints x
    where x.tenant_id = $1 and x.id <> $2 and x.deleted_at is null
    order by x.id desc
    limit 100
) e
cross join lateral (
    select y.id, y.sealed
    from signing_secrets y
    where y.endpoint_id = e.id and y.tenant_id = $1 and (y.expires_at is null or y.expires_at > statement_timestamp())
    order by y.id desc
    limit 2
) k;

-- name: SecretOverlap
-- The secrets in force of one kind get an end.
update signing_secrets
set expires_at = statement_timestamp() + $4::interval
where tenant_id = $1 and endpoint_id = $2 and kind = $3 and expires_at is null;

-- name: SecretDeleteExpired
-- Of one endpoint. What signs nothing any more is not kept.
delete from signing_secrets
where tenant_id = $1 and endpoint_id = $2 and expires_at <= statement_timestamp();

-- name: SecretDelete
-- One that is in its overlap; the one in force ends by a rotation only.
delete from signing_secrets
where tenant_id = $1 and endpoint_id = $2 and id = $3 and expires_at is not null
returning fingerprint;

-- name: SecretDeleteAll
-- With the endpoint.
delete from signing_secrets where tenant_id = $1 and endpoint_id = $2;

-- name: SecretPrune
-- all tenants: expired secrets of all endpoints, a thousand at a time.
delete from signing_secrets
where id in (select id from signing_secrets where expires_at <= statement_timestamp() limit 1000);

-- name: PublicKeyList
-- all tenants: public keys are for everybody who knows the endpoint's id.
select k.public, k.created_at, k.expires_at
from signing_secrets k
join endpoints e on e.id = k.endpoint_id and e.deleted_at is null
where k.endpoint_id = $1 and k.kind = 'ed25519' and (k.expires_at is null or k.expires_at > statement_timestamp())
order by k.id desc;

-- name: TypeExample
-- all tenants: the catalog of event types is the platform's. The example of one type.
select coalesce(example::text, '') from event_types where name = $1;

-- name: TypeForPattern
-- all tenants: the catalog of event types is the platform's. A type to try an endpoint with that asked for a prefix ($1, as "order.") or for all (empty).
select name from event_types
where starts_with(name, $1) and deprecated_at is null
order by example is null, name
limit 1;

-- name: EndpointFind
-- Endpoints whose name or address holds a text, newest first: a walk through the tenant's own, of which there are thousands at most.
select e.id, e.url, e.description
from endpoints e
where e.tenant_id = $1 and e.deleted_at is null and (strpos(lower(e.description), $2) > 0 or strpos(lower(e.url), $2) > 0)
order by e.id desc
limit $3;

-- name: EndpointAt
-- Endpoints with one address, whatever query is behind it.
select e.id, e.url, e.description
from endpoints e
where e.tenant_id = $1 and e.deleted_at is null and (e.url = $2 or starts_with(e.url, $2 || '?'))
order by e.id desc
limit $3;

-- name: SecretsSealed
-- An endpoint's live secrets, sealed, newest first; there are twenty at most.
select k.id, k.sealed
from signing_secrets k
join endpoints e on e.tenant_id = k.tenant_id and e.id = k.endpoint_id and e.deleted_at is null
where k.tenant_id = $1 and k.endpoint_id = $2 and (k.expires_at is null or k.expires_at > statement_timestamp())
order by k.id desc;

-- name: EndpointListBy
-- A tenant's endpoints under a filter, newest first, from below id $2: whose name or address holds $3, and of $4 those in that state, or, for
-- "attention", those that are off or have failed since their last success. It walks through the tenant's own (index endpoints_by_tenant) until the page is full.
select e.id, e.tenant_id, e.url, e.description, e.state, coalesce(e.reason, ''), coalesce(e.state_by, ''), e.state_at, e.verified_at, e.scheme, e.payload,
       coalesce(h.names, '{}'), e.concurrency, e.rate_per_second, coalesce(e.preset, ''), e.rev, e.created_at, e.updated_at,
       array(select s.pattern from subscriptions s where s.tenant_id = e.tenant_id and s.endpoint_id = e.id order by s.ordinal),
       coalesce((select k.public from signing_secrets k
                 where k.tenant_id = e.tenant_id and k.endpoint_id = e.id and k.kind = 'ed25519' and k.expires_at is null
                 order by k.id desc limit 1), ''),
       coalesce(g.phase, 'closed'), coalesce(g.flagged, false), g.failing_since, g.disable_at, coalesce(cardinality(g.failed), 0),
       case when g.phase = 'open' then l.not_before end
from endpoints e
left join header_sets h on h.tenant_id = e.tenant_id and h.id = e.header_set_id
left join endpoint_health g on g.tenant_id = e.tenant_id and g.endpoint_id = e.id
left join lanes l on l.tenant_id = e.tenant_id and l.endpoint_id = e.id
where e.tenant_id = $1 and e.deleted_at is null and ($2 = '' or e.id < $2)
  and ($3 = '' or strpos(lower(e.description), $3) > 0 or strpos(lower(e.url), $3) > 0)
  and case $4
          when '' then true
          when 'attention' then e.state <> 'active' or g.failing_since is not null or coalesce(g.flagged, false)
          when 'unverified' then e.state = 'active' and e.verified_at is null
          else e.state = $4
      end
order by e.id desc
limit $5;

-- name: EndpointCount
-- How many endpoints a tenant has, counted up to $2, and how many of those are off or have failed since their last success.
select count(*)::integer, (count(*) filter (where q.off))::integer
from (
    select e.state <> 'active' or g.failing_since is not null or coalesce(g.flagged, false) as off
    from endpoints e
    left join endpoint_health g on g.tenant_id = e.tenant_id and g.endpoint_id = e.id
    where e.tenant_id = $1 and e.deleted_at is null
    limit $2
) q;
