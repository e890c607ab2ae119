-- Tenants, API keys, portal links, sessions and the audit log.

-- name: TenantPut
-- all tenants: the platform's. Creates or changes by uid; what is null ($4, $5, $6) stays, or takes its default in a new row. The row
-- comes first in the lock order.
insert into tenants as t (id, uid, name, concurrency, preset, time_zone)
values ($1, $2, $3, coalesce($4, 50), nullif($5, ''), coalesce($6, 'UTC'))
on conflict (uid) do update
set name = excluded.name,
    concurrency = coalesce($4, t.concurrency),
    preset = case when $5::text is null then t.preset else excluded.preset end,
    time_zone = coalesce($6, t.time_zone),
    updated_at = statement_timestamp()
returning t.id, t.uid, t.name, t.concurrency, coalesce(t.preset, ''), t.time_zone, t.suspended_at, t.created_at, t.updated_at, t.xmax = 0;

-- name: TenantRead
-- all tenants: the platform's, by uid.
select id, uid, name, concurrency, coalesce(preset, ''), time_zone, suspended_at, created_at, updated_at
from tenants
where uid = $1;

-- name: TenantList
-- all tenants: the platform's list, by uid; $1 is the uid before the page. The unique constraint's index serves it.
select id, uid, name, concurrency, coalesce(preset, ''), time_zone, suspended_at, created_at, updated_at
from tenants
where uid > $1
order by uid
limit $2;

-- name: KeyByHash
-- all tenants: who asks, from the key alone. One look-up by the unique hash, and the tenant it leads to.
select k.id, coalesce(k.tenant_id, ''), coalesce(t.uid, ''), t.suspended_at is not null, k.name, k.scopes, coalesce(k.requests_per_second, 0),
       coalesce(k.expires_at <= statement_timestamp(), false),
       coalesce(k.last_used_at < statement_timestamp() - interval '1 minute', true)
from api_keys k
left join tenants t on t.id = k.tenant_id
where k.hash = $1;

-- name: KeyUsed
-- all tenants: by id, after KeyByHash. Of many calls in the same minute one writes; the others find nothing to do.
update api_keys
set last_used_at = statement_timestamp()
where id = $1 and coalesce(last_used_at < statement_timestamp() - interval '1 minute', true);

-- name: KeyInsert
-- A tenant's key.
insert into api_keys (id, tenant_id, name, prefix, hash, scopes, requests_per_second, created_by, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
returning created_at, expires_at, coalesce(expires_at <= statement_timestamp(), false);

-- name: KeyList
-- A tenant's keys, newest first; $2 is the id after which the page starts.
select id, name, prefix, scopes, coalesce(requests_per_second, 0), created_by, created_at, expires_at, last_used_at
from api_keys
where tenant_id = $1 and ($2 = '' or id < $2)
order by id desc
limit $3;

-- name: KeyDelete
-- A tenant's key, for good: it is refused from the next call on, everywhere.
delete from api_keys
where tenant_id = $1 and id = $2
returning name, prefix;

-- name: BootstrapLock
-- all tenants: the platform's first key. One process after the other: two that insert at once meet in an index that on conflict does not watch.
select pg_advisory_xact_lock(hashtext('waybill bootstrap'));

-- name: BootstrapForget
-- all tenants: the platform's first key; another value of the variable takes the old one's place.
delete from api_keys where bootstrap and hash <> $1;

-- name: BootstrapInsert
-- all tenants: the platform's first key. Several processes that start together agree.
insert into api_keys (id, tenant_id, name, prefix, hash, scopes, bootstrap, created_by)
values ($1, null, 'bootstrap', $2, $3, $4, true, 'WAYBILL_PLATFORM_KEY')
on conflict (hash) do update set scopes = excluded.scopes;

-- name: PortalLinkInsert
-- A one-time link into a tenant.
insert into portal_links (hash, tenant_id, label, scopes, created_by, created_at, expires_at)
values ($1, $2, $3, $4, $5, statement_timestamp(), statement_timestamp() + $6::interval)
returning expires_at;

-- name: PortalLinkLook
-- all tenants: by the hash of a secret token. What the page shows before the link is used up.
select t.id, t.uid, t.name, l.label, l.scopes
from portal_links l
join tenants t on t.id = l.tenant_id
where l.hash = $1 and l.used_at is null and l.expires_at > statement_timestamp();

-- name: PortalLinkRedeem
-- all tenants: by the hash of a secret token. Of any number of calls at once, one gets the row: the others wait for its lock and then find it used.
update portal_links
set used_at = statement_timestamp()
where hash = $1 and used_at is null and expires_at > statement_timestamp()
returning tenant_id, label, scopes;

-- name: PortalLinkFate
-- all tenants: by the hash of a secret token. Why a link does not work.
select case when used_at is not null then 'used' when expires_at <= statement_timestamp() then 'expired' else 'open' end
from portal_links
where hash = $1;

-- name: PortalLinkExpire
-- all tenants: what can be used no more is kept for a day, so that "used" and "never existed" look alike only to outsiders.
delete from portal_links where expires_at < statement_timestamp() - interval '1 day';

-- name: SessionInsert
-- A session of a portal link ($3 null) or of a member.
insert into sessions (id, tenant_id, member_id, hash, label, scopes, user_agent, address, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, statement_timestamp() + $9::interval)
returning created_at, expires_at;

-- name: SessionByHash
-- all tenants: who asks, from the token alone. A member's rights are read from the role each time, so that a change holds at once; and so is whether
-- the tenant has come to require a second factor that they lack.
select s.id, s.tenant_id, t.uid, t.suspended_at is not null, coalesce(s.member_id, ''), coalesce(m.email, s.label), s.scopes, coalesce(p.role, ''),
       s.expires_at, s.last_seen_at < statement_timestamp() - interval '1 minute', coalesce(s.operator_id, ''),
       s.member_id is not null and coalesce(t.second_factor_since <= s.created_at, false)
           and not exists (select from second_factors f where f.member_id = s.member_id and f.confirmed_at is not null)
from sessions s
join tenants t on t.id = s.tenant_id
left join members m on m.id = s.member_id
left join memberships p on p.tenant_id = s.tenant_id and p.member_id = s.member_id
where s.hash = $1 and s.expires_at > statement_timestamp();

-- name: SessionSeen
-- all tenants: by id, after SessionByHash, at most once a minute.
update sessions set last_seen_at = statement_timestamp()
where id = $1 and last_seen_at < statement_timestamp() - interval '1 minute';

-- name: SessionAlive
-- all tenants: by id. Which of the sessions that hold a stream open have not ended: index look-ups, once for all streams of a process.
select id
from sessions
where id = any ($1::text[]) and expires_at > statement_timestamp();

-- name: SessionList
-- A tenant's live sessions, or those of one member ($2), newest first.
select id, coalesce(member_id, ''), label, user_agent, address, created_at, last_seen_at, expires_at
from sessions
where tenant_id = $1 and ($2 = '' or member_id = $2) and expires_at > statement_timestamp()
order by id desc
limit 200;

-- name: SessionDelete
-- Ends a session of a tenant; with $3, only one of that member's.
delete from sessions
where tenant_id = $1 and id = $2 and ($3 = '' or member_id = $3)
returning label;

-- name: SessionExpire
-- all tenants: sessions whose time is over.
delete from sessions where expires_at < statement_timestamp();

-- name: AuditInsert
-- In the transaction of what it tells of; tenant_id is null for what was done to the platform itself.
insert into audit (id, tenant_id, kind, actor, actor_id, action, object, detail)
values ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8);

-- name: AuditList
-- A tenant's activity, newest first: all, one object's ($2), one actor's ($3), one kind of action by its first word ($4), from below $5.
select id, at, kind, actor, actor_id, action, object, detail
from audit
where tenant_id = $1
  and ($2 = '' or object = $2)
  and ($3 = '' or actor_id = $3)
  and ($4 = '' or split_part(action, '.', 1) = $4)
  and ($5 = '' or id < $5)
order by id desc
limit $6;
