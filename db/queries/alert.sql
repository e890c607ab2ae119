-- What people and the platform are told of endpoints and deliveries.

-- name: AlertTenants
-- all tenants: by id. Whom news are about.
select id, uid, name from tenants where id = any($1);

-- name: AlertEndpoints
-- What a tenant's people call endpoints.
select id, description, url from endpoints where tenant_id = $1 and id = any($2);

-- name: DigestAdd
-- Counts what became undelivered in this hour, by endpoint; the latest is the example. Rows come in the order of the key.
insert into digests as g (tenant_id, hour, endpoint_id, n, delivery_id, class, code, excerpt)
select u.tenant_id, date_trunc('hour', statement_timestamp(), 'UTC'), u.endpoint_id, u.n, u.delivery_id, u.class, nullif(u.code, 0), u.excerpt
from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::integer[], $7::text[])
         as u(tenant_id, endpoint_id, n, delivery_id, class, code, excerpt)
on conflict (tenant_id, hour, endpoint_id) do update
    set n = g.n + excluded.n, delivery_id = excluded.delivery_id, class = excluded.class, code = excluded.code, excerpt = excluded.excerpt;

-- name: DigestNext
-- all tenants: the job mails them all. An hour is over two minutes after its end: what was counted in it is committed by then.
select g.tenant_id, t.name, g.hour
from digests g
join tenants t on t.id = g.tenant_id
where g.hour < date_trunc('hour', statement_timestamp() - interval '2 minutes', 'UTC')
order by g.hour
limit 1;

-- name: DigestTake
-- One tenant's hour, for whoever comes first.
with taken as (
    delete from digests where tenant_id = $1 and hour = $2
    returning tenant_id, endpoint_id, n, delivery_id, class, coalesce(code, 0) as code, excerpt
)
select k.endpoint_id, k.n, k.delivery_id, k.class, k.code, k.excerpt, e.description, e.url
from taken k
join endpoints e on e.tenant_id = k.tenant_id and e.id = k.endpoint_id;
