-- Operators: who they are, how they sign in, and what they did. None of it is a tenant's.

-- name: OperatorPut
-- all tenants: operators are the platform's. Makes one, or gives the one that there is another role.
insert into operators as o (id, email, role, created_by)
values ($1, $2, $3, $4)
on conflict (email) do update set role = excluded.role, updated_at = statement_timestamp()
returning o.id, o.email, o.role, o.password_hash is not null, o.created_by, o.created_at, o.xmax = 0;

-- name: OperatorByEmail
-- all tenants: operators are the platform's. By the unique address.
select id, email, role, coalesce(password_hash, '')
from operators
where email = $1;

-- name: OperatorList
-- all tenants: operators are the platform's. All of them, which are few, with when each was last seen.
select o.id, o.email, o.role, o.password_hash is not null, o.created_by, o.created_at,
       (select max(s.last_seen_at) from operator_sessions s where s.operator_id = o.id)
from operators o
order by o.email
limit 500;

-- name: OperatorLock
-- all tenants: operators are the platform's. The admins and the one that is to change, in the order of ids, so that the last admin stays.
select id, email, role
from operators
where id = $1 or role = 'admin'
order by id
for update;

-- name: OperatorDelete
-- all tenants: operators are the platform's. Their sessions, links and looks into tenants go with them.
delete from operators where id = $1;

-- name: OperatorPassword
-- all tenants: operators are the platform's. By the id that a one-time link led to.
update operators set password_hash = $2, updated_at = statement_timestamp()
where id = $1
returning email, role;

-- name: OperatorHold
-- all tenants: operators are the platform's. No row: the password was changed since it was checked.
select role from operators where id = $1 and password_hash = $2 for share;

-- name: OperatorLinkInsert
-- all tenants: operators are the platform's.
insert into operator_links (hash, operator_id, purpose, created_at, expires_at)
values ($1, $2, $3, statement_timestamp(), statement_timestamp() + $4::interval)
returning expires_at;

-- name: OperatorLinksVoid
-- all tenants: operators are the platform's. What was handed out before to one of them works no more.
update operator_links set used_at = statement_timestamp() where operator_id = $1 and used_at is null;

-- name: OperatorLinkLook
-- all tenants: by the hash of a secret token. What the page shows before the link is used up.
select o.email
from operator_links l
join operators o on o.id = l.operator_id
where l.hash = $1 and l.purpose = $2 and l.used_at is null and l.expires_at > statement_timestamp();

-- name: OperatorLinkOwner
-- all tenants: by the hash of a secret token. Locks whose link it is before any link.
select o.id, o.email, o.role
from operators o
where o.id = (select operator_id from operator_links where hash = $1 and purpose = $2)
for no key update;

-- name: OperatorLinkRedeem
-- all tenants: by the hash of a secret token. Of any number of calls at once one gets the row.
update operator_links
set used_at = statement_timestamp()
where hash = $1 and purpose = $2 and used_at is null and expires_at > statement_timestamp()
returning operator_id;

-- name: OperatorLinkExpire
-- all tenants: links whose time is over.
delete from operator_links where expires_at < statement_timestamp() - interval '1 day';

-- name: OperatorSessionInsert
-- all tenants: operators are the platform's.
insert into operator_sessions (id, operator_id, hash, user_agent, address, expires_at)
values ($1, $2, $3, $4, $5, statement_timestamp() + $6::interval);

-- name: OperatorSessionByHash
-- all tenants: who asks, from the token alone. The role is read each time, so that a change holds at once.
select s.id, o.id, o.email, o.role, s.last_seen_at < statement_timestamp() - interval '1 minute'
from operator_sessions s
join operators o on o.id = s.operator_id
where s.hash = $1 and s.expires_at > statement_timestamp();

-- name: OperatorSessionSeen
-- all tenants: by id, after OperatorSessionByHash, at most once a minute.
update operator_sessions set last_seen_at = statement_timestamp()
where id = $1 and last_seen_at < statement_timestamp() - interval '1 minute';

-- name: OperatorSessionDelete
-- all tenants: operators are the platform's. Their own.
delete from operator_sessions where id = $1 and operator_id = $2;

-- name: OperatorSessionsDelete
-- all tenants: operators are the platform's. All of one of them.
delete from operator_sessions where operator_id = $1;

-- name: OperatorViewsEnd
-- all tenants: the looks into tenants of one operator: index sessions_by_operator.
delete from sessions where operator_id = $1;

-- name: OperatorSessionExpire
-- all tenants: sessions whose time is over.
delete from operator_sessions where expires_at < statement_timestamp();

-- name: OperatorLogInsert
-- In the transaction of what it tells of; tenant_id is null for what was done to no tenant.
insert into operator_log (id, operator_id, operator, tenant_id, action, object, detail)
values ($1, $2, $3, nullif($4, ''), $5, $6, $7);

-- name: OperatorLogList
-- all tenants: the operators' own log, newest first: all (the primary key) or one operator's (operator_log_by_operator), from below an id.
select l.id, l.at, l.operator_id, l.operator, coalesce(t.uid, ''), coalesce(t.name, ''), l.action, l.object, l.detail
from (
    select * from operator_log
    where (@operator = '' or operator_id = @operator) and (@before = '' or id < @before)
    order by id desc
    limit @limit
) l
left join tenants t on t.id = l.tenant_id
order by l.id desc;

-- name: SupportSessionInsert
-- An operator's look at a tenant's pages: a session of the tenant's that only reads.
insert into sessions (id, tenant_id, hash, label, scopes, user_agent, address, expires_at, operator_id)
values ($1, $2, $3, $4, $5, $6, $7, statement_timestamp() + $8::interval, $9);

-- name: PlatformKeyList
-- all tenants: the platform's own keys, newest first: index api_keys_by_tenant.
select id, name, prefix, scopes, coalesce(requests_per_second, 0), created_by, created_at, expires_at, last_used_at, bootstrap
from api_keys
where tenant_id is null and ($1 = '' or id < $1)
order by id desc
limit $2;

-- name: PlatformKeyRead
-- all tenants: a key of the platform's own.
select name, prefix, bootstrap from api_keys where id = $1 and tenant_id is null;

-- name: PlatformKeyDelete
-- all tenants: a key of the platform's own, for good. The one of WAYBILL_PLATFORM_KEY ends where it is set.
delete from api_keys
where id = $1 and tenant_id is null and not bootstrap
returning name, prefix;
