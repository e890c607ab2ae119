-- Members, their passwords and one-time links, memberships, invitations, and how often something may be tried.

-- name: MemberByEmail
-- all tenants: a person has one sign-in for all of them. By the unique address.
select id, email, name, coalesce(password_hash, ''), verified_at is not null
from members
where email = $1;

-- name: MemberByID
-- all tenants: the person who is signed in, by the id in their session.
select id, email, name, coalesce(password_hash, ''), verified_at is not null
from members
where id = $1;

-- name: MemberHold
-- all tenants: a person's own row. No row: the password was changed since it was checked. Held, so that it stays what it is until the session is there.
select id
from members
where id = $1 and password_hash = $2
for share;

-- name: MemberEnrol
-- all tenants: a person who accepts a first invitation. No row: the address has a password already, and who types it is somebody else's to check.
insert into members as m (id, email, name, password_hash, verified_at)
values ($1, $2, $3, $4, case when $5 then statement_timestamp() end)
on conflict (email) do update
set name = excluded.name,
    password_hash = excluded.password_hash,
    verified_at = coalesce(m.verified_at, excluded.verified_at),
    updated_at = statement_timestamp()
where m.password_hash is null
returning id;

-- name: MemberPassword
-- all tenants: a person's own. With $3, only in place of that hash; with $4, whoever sets it has read the mail.
update members
set password_hash = $2,
    verified_at = case when $4 then coalesce(verified_at, statement_timestamp()) else verified_at end,
    updated_at = statement_timestamp()
where id = $1 and ($3 = '' or password_hash = $3)
returning email, name;

-- name: MemberName
-- all tenants: a person's own.
update members
set name = $2, updated_at = statement_timestamp()
where id = $1;

-- name: MemberVerify
-- all tenants: by the id that a one-time link led to.
update members
set verified_at = coalesce(verified_at, statement_timestamp()), updated_at = statement_timestamp()
where id = $1
returning email;

-- name: MemberTokenInsert
-- all tenants: a person's one-time link.
insert into member_tokens (hash, member_id, purpose, created_at, expires_at)
values ($1, $2, $3, statement_timestamp(), statement_timestamp() + $4::interval);

-- name: MemberTokenLook
-- all tenants: by the hash of a secret token. What the page shows before the link is used up.
select m.email, m.name
from member_tokens k
join members m on m.id = k.member_id
where k.hash = $1 and k.purpose = $2 and k.used_at is null and k.expires_at > statement_timestamp();

-- name: MemberTokenMember
-- all tenants: by the hash of a secret token. Locks whose token it is before any token: several links of one person that are used at once would
-- otherwise each hold theirs and wait for the others'.
select m.id
from members m
where m.id = (select member_id from member_tokens where hash = $1 and purpose = $2)
for no key update;

-- name: MemberTokenRedeem
-- all tenants: by the hash of a secret token. Of any number of calls at once one gets the row.
update member_tokens
set used_at = statement_timestamp()
where hash = $1 and purpose = $2 and used_at is null and expires_at > statement_timestamp()
returning member_id;

-- name: MemberTokenFate
-- all tenants: by the hash of a secret token. Why a link does not work.
select case when used_at is not null then 'used' when expires_at <= statement_timestamp() then 'expired' else 'open' end
from member_tokens
where hash = $1 and purpose = $2;

-- name: MemberTokensVoid
-- all tenants: the other links of one person and purpose, after one of them did its work.
update member_tokens
set used_at = statement_timestamp()
where member_id = $1 and purpose = $2 and used_at is null;

-- name: MemberTokenExpire
-- all tenants: what can be used no more is kept for a week, so that a page can say why.
delete from member_tokens where expires_at < statement_timestamp() - interval '7 days';

-- name: MemberSessionList
-- all tenants: a person's own live sessions, newest first.
select s.id, s.member_id, t.name, s.user_agent, s.address, s.created_at, s.last_seen_at, s.expires_at
from sessions s
join tenants t on t.id = s.tenant_id
where s.member_id = $1 and s.expires_at > statement_timestamp()
order by s.id desc
limit 200;

-- name: MemberSessionDelete
-- all tenants: one of a person's own sessions.
delete from sessions
where member_id = $1 and id = $2
returning label;

-- name: MemberSessionsDelete
-- all tenants: a person's own sessions but the one that asks ($2; none of that id: all of them).
delete from sessions
where member_id = $1 and id <> $2;

-- name: SessionLeave
-- Ends a member's session in a tenant for another one, which lasts no longer.
delete from sessions
where tenant_id = $1 and id = $2 and member_id = $3
returning expires_at - statement_timestamp();

-- name: MembershipLatest
-- all tenants: where a person's sign-in leads: to the tenant they were in last.
select t.id, t.uid
from memberships p
join tenants t on t.id = p.tenant_id
where p.member_id = $1
order by p.used_at desc nulls last, p.created_at, t.id
limit 1;

-- name: MembershipUsed
-- A person goes to work in a tenant.
update memberships
set used_at = statement_timestamp()
where tenant_id = $1 and member_id = $2;

-- name: MembershipsOf
-- all tenants: those of one person, to switch between.
select t.uid, t.name, p.role
from memberships p
join tenants t on t.id = p.tenant_id
where p.member_id = $1
order by t.name, t.uid
limit 200;

-- name: MembershipByUID
-- all tenants: one of a person's own, by the platform's id.
select t.id
from memberships p
join tenants t on t.id = p.tenant_id
where p.member_id = $1 and t.uid = $2;

-- name: MembershipInsert
-- Who is a member already keeps their role.
insert into memberships (tenant_id, member_id, role, used_at)
values ($1, $2, $3, statement_timestamp())
on conflict (tenant_id, member_id) do update set used_at = excluded.used_at;

-- name: MembershipOfEmail
-- Whether an address is a member's of this tenant.
select p.role
from memberships p
join members m on m.id = p.member_id
where p.tenant_id = $1 and m.email = $2;

-- name: MemberList
-- A tenant's members, by address: 500 of them are all that a page shows. Seen is the latest that their sessions tell, or the last sign-in.
select m.id, m.email, m.name, p.role, m.verified_at is not null, p.created_at,
       greatest(p.used_at, (select max(s.last_seen_at) from sessions s where s.tenant_id = p.tenant_id and s.member_id = p.member_id))
from memberships p
join members m on m.id = p.member_id
where p.tenant_id = $1
order by m.email
limit 500;

-- name: MembershipOwners
-- A tenant's owners, locked: whoever is about to take one away waits for whoever does so already, and sees what is left.
select member_id
from memberships
where tenant_id = $1 and role = 'owner'
order by member_id
for update;

-- name: MembershipLock
-- One member of a tenant.
select p.role, m.email
from memberships p
join members m on m.id = p.member_id
where p.tenant_id = $1 and p.member_id = $2
for update of p;

-- name: MembershipRole
-- A member's role in a tenant; their sessions have its rights from the next request on.
update memberships
set role = $3
where tenant_id = $1 and member_id = $2;

-- name: MembershipDelete
-- The sessions go with it.
delete from memberships
where tenant_id = $1 and member_id = $2;

-- name: NoticesRead
-- What a member is told about a tenant's endpoints; null: what their role is by default.
select role, notices
from memberships
where tenant_id = $1 and member_id = $2;

-- name: NoticesSave
-- What a member is told about a tenant's endpoints.
update memberships
set notices = $3
where tenant_id = $1 and member_id = $2;

-- name: NoticeReaders
-- Who in a tenant is told about $2: by their own choice or, without one, every owner and developer. $3 lists what they are told by default.
select m.id, m.email, m.name
from memberships p
join members m on m.id = p.member_id
where p.tenant_id = $1
  and m.verified_at is not null
  and $2 = any (coalesce(p.notices, case when p.role = 'viewer' then '{}'::text[] else $3::text[] end))
order by m.email
limit 100;

-- name: InvitationCount
-- How many open invitations a tenant has, up to a bound.
select count(*) from (select from invitations where tenant_id = $1 and ended_at is null limit 1000) open;

-- name: InvitationReplace
-- The open invitation of an address, before a new one takes its place.
update invitations
set ended_at = statement_timestamp(), ended = 'replaced'
where tenant_id = $1 and email = $2 and ended_at is null;

-- name: InvitationInsert
-- A tenant's invitation.
insert into invitations (id, tenant_id, email, role, hash, shown, invited_by, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, statement_timestamp() + $8::interval)
returning created_at, expires_at;

-- name: InvitationList
-- A tenant's open invitations, also those whose time is over, newest first.
select id, email, role, invited_by, created_at, sent_at, expires_at
from invitations
where tenant_id = $1 and ended_at is null
order by id desc
limit 500;

-- name: InvitationRenew
-- Another token for an open invitation, which goes out by mail alone; the old one is dead.
update invitations
set hash = $3, shown = false, sent_at = statement_timestamp(), expires_at = statement_timestamp() + $4::interval
where tenant_id = $1 and id = $2 and ended_at is null
returning email, role, created_at, expires_at;

-- name: InvitationRevoke
-- An open invitation of a tenant.
update invitations
set ended_at = statement_timestamp(), ended = 'revoked'
where tenant_id = $1 and id = $2 and ended_at is null
returning email;

-- name: InvitationLook
-- all tenants: by the hash of a secret token. What the page shows before it is accepted.
select t.id, t.uid, t.name, i.email, i.role, i.invited_by, coalesce(m.password_hash is not null, false),
       exists (select from second_factors f where f.member_id = m.id and f.confirmed_at is not null)
from invitations i
join tenants t on t.id = i.tenant_id
left join members m on m.email = i.email
where i.hash = $1 and i.ended_at is null and i.expires_at > statement_timestamp();

-- name: InvitationRedeem
-- all tenants: by the hash of a secret token. Of any number of calls at once one gets the row.
update invitations i
set ended_at = statement_timestamp(), ended = 'accepted'
from tenants t
where i.hash = $1 and i.ended_at is null and i.expires_at > statement_timestamp() and t.id = i.tenant_id
returning i.id, i.tenant_id, t.uid, t.name, i.email, i.role, i.shown;

-- name: InvitationFate
-- all tenants: by the hash of a secret token. Why a link does not work.
select case when ended = 'accepted' then 'used' when ended_at is not null then 'unknown' when expires_at <= statement_timestamp() then 'expired' else 'open' end
from invitations
where hash = $1;

-- name: InvitationExpire
-- all tenants: what nobody accepted is kept for 30 days, to be sent again or to be looked at.
delete from invitations where expires_at < statement_timestamp() - interval '30 days';

-- name: TenantSave
-- all tenants: one of them, by its id: what its own people say of it.
update tenants
set name = $2, time_zone = $3, updated_at = statement_timestamp()
where id = $1;

-- name: TenantHold
-- all tenants: one of them, by its id. It comes first in the lock order.
select id, uid, name, concurrency, coalesce(preset, ''), time_zone, suspended_at, created_at, updated_at
from tenants
where id = $1
for no key update;

-- name: ThrottleTake
-- all tenants: counts a try before it is made, so that a thousand at once are not one; a row says that it may be made. From the $2nd try within
-- $5 on, each is followed by a wait that doubles from $3 up to $4.
insert into throttles as t (subject, tries, last_at, until_at)
values ($1, 1, statement_timestamp(), statement_timestamp())
on conflict (subject) do update
set tries = case when t.last_at < statement_timestamp() - $5::interval then 1 else t.tries + 1 end,
    last_at = statement_timestamp(),
    until_at = case when t.last_at >= statement_timestamp() - $5::interval and t.tries + 1 >= $2
        then statement_timestamp() + least($4::interval, $3::interval * power(2, least(t.tries + 1 - $2, 20))) else statement_timestamp() end
where t.until_at <= statement_timestamp()
returning tries;

-- name: ThrottleUntil
-- all tenants: by what it is tried on. When the next try may be made.
select until_at from throttles where subject = $1;

-- name: ThrottleForgive
-- all tenants: takes one counted try back, because it was no guess.
update throttles
set tries = greatest(tries - 1, 0), until_at = statement_timestamp()
where subject = $1;

-- name: ThrottleClear
-- all tenants: by what was tried on.
delete from throttles where subject = $1;

-- name: ThrottleExpire
-- all tenants: what was tried long ago counts no more.
delete from throttles where last_at < statement_timestamp() - interval '1 day';
