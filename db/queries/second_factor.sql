-- The second factor of members, their recovery codes, what lies between password and code, and who signed in from where.

-- name: MemberLock
-- all tenants: a person's own row. Locked before anything else of theirs, so that what changes how they sign in goes one after the other.
select id, email, name, coalesce(password_hash, ''), verified_at is not null
from members
where id = $1
for no key update;

-- name: SecondFactorRead
-- all tenants: a person's own. Secret, whether it is asked for, since when, the last step used, whether session $2 began it within the time to set up.
select secret, confirmed_at is not null, coalesce(confirmed_at, created_at), last_step,
       session_id = $2 and created_at > statement_timestamp() - $3::interval
from second_factors
where member_id = $1;

-- name: SecondFactorBegin
-- all tenants: a person's own. No row: it is asked for already.
insert into second_factors as f (member_id, secret, session_id)
values ($1, $2, $3)
on conflict (member_id) do update
set secret = excluded.secret, session_id = excluded.session_id, created_at = statement_timestamp(), last_step = 0
where f.confirmed_at is null
returning member_id;

-- name: SecondFactorConfirm
-- all tenants: a person's own, from the session that began it. The code that confirms it is used up.
update second_factors
set confirmed_at = statement_timestamp(), last_step = $3
where member_id = $1 and session_id = $2 and confirmed_at is null and created_at > statement_timestamp() - $4::interval
returning member_id;

-- name: SecondFactorUse
-- all tenants: a person's own. Of any number of calls with codes of one step one gets the row.
update second_factors
set last_step = $2
where member_id = $1 and confirmed_at is not null and last_step < $2
returning member_id;

-- name: SecondFactorDelete
-- all tenants: a person's own.
delete from second_factors
where member_id = $1 and confirmed_at is not null
returning member_id;

-- name: SecondFactorHas
-- all tenants: a person's own: whether a code is asked for.
select exists (select from second_factors where member_id = $1 and confirmed_at is not null);

-- name: SecondFactorMember
-- A member of a tenant, before what concerns the person is locked.
select m.email
from memberships p
join members m on m.id = p.member_id
where p.tenant_id = $1 and p.member_id = $2;

-- name: SecondFactorTenants
-- all tenants: the names of those of a person's that require it.
select t.name
from memberships p
join tenants t on t.id = p.tenant_id
where p.member_id = $1 and t.second_factor_since is not null
order by t.name
limit 20;

-- name: SecondFactorElsewhere
-- all tenants: whether a person works in one where $2, who may be nobody, is no owner, beside the tenant $3.
select exists (
    select from memberships p
    where p.member_id = $1 and p.tenant_id <> $3
      and not exists (select from memberships o where o.tenant_id = p.tenant_id and o.member_id = $2 and o.role = 'owner'));

-- name: SecondFactorHolders
-- Which of a tenant's members have one.
select p.member_id
from memberships p
join second_factors f on f.member_id = p.member_id
where p.tenant_id = $1 and f.confirmed_at is not null;

-- name: SecondFactorRequired
-- all tenants: one of them, by its id.
select second_factor_since is not null
from tenants
where id = $1;

-- name: SecondFactorRequire
-- all tenants: one of them, by its id. Who is signed in stays so; a requirement that stands keeps its time. No row: it is as it should be.
update tenants
set second_factor_since = case when $2 then statement_timestamp() end, updated_at = statement_timestamp()
where id = $1 and (second_factor_since is not null) <> $2
returning id;

-- name: RecoveryCodesInsert
-- all tenants: a person's own, after the old ones were deleted.
insert into recovery_codes (member_id, hash)
select $1, unnest($2::bytea[]);

-- name: RecoveryCodesDelete
-- all tenants: a person's own.
delete from recovery_codes where member_id = $1;

-- name: RecoveryCodeUse
-- all tenants: a person's own, while codes are asked for. Of any number of calls with one code one gets the row.
update recovery_codes
set used_at = statement_timestamp()
where member_id = $1 and hash = $2 and used_at is null
  and exists (select from second_factors f where f.member_id = $1 and f.confirmed_at is not null)
returning member_id;

-- name: RecoveryCodesLeft
-- all tenants: a person's own. There are ten of them.
select count(*) filter (where used_at is null) from recovery_codes where member_id = $1;

-- name: HalfSignInInsert
-- all tenants: a person whose password was right.
insert into half_sign_ins (hash, member_id, sign_in_id, created_at, expires_at)
values ($1, $2, $3, statement_timestamp(), statement_timestamp() + $4::interval);

-- name: HalfSignInLook
-- all tenants: by the hash of a secret token.
select m.id, m.email, m.name, coalesce(m.password_hash, ''), m.verified_at is not null
from half_sign_ins h
join members m on m.id = h.member_id
where h.hash = $1 and h.expires_at > statement_timestamp();

-- name: HalfSignInRedeem
-- all tenants: by the hash of a secret token. Of any number of calls at once one gets the row.
delete from half_sign_ins
where hash = $1 and expires_at > statement_timestamp()
returning coalesce(sign_in_id, 0);

-- name: HalfSignInsEnd
-- all tenants: a person's own: how they sign in has changed.
delete from half_sign_ins where member_id = $1;

-- name: HalfSignInExpire
-- all tenants: what can be finished no more.
delete from half_sign_ins where expires_at < statement_timestamp();

-- name: SignInInsert
-- A person's sign-in (tenant_id null), or one by a portal link into a tenant.
insert into sign_ins (member_id, tenant_id, label, how, outcome, browser, address)
values (nullif($1, ''), nullif($2, ''), $3, $4, $5, $6, $7)
returning id;

-- name: SignInFinish
-- all tenants: by its id, which a half sign-in led to: the code has followed.
update sign_ins
set how = $2, outcome = 'in'
where id = $1;

-- name: SignInNobody
-- all tenants: counts nothing, but costs what SignInInsert costs, so that an address that is no member's takes no less time than one that is.
update throttles set last_at = last_at where subject = $1;

-- name: SignInList
-- all tenants: a person's own, newest first, from below $2.
select id, label, at, how, outcome, browser, address
from sign_ins
where member_id = $1 and id < $2 and at > statement_timestamp() - interval '90 days'
order by id desc
limit $3;

-- name: SignInListOfLinks
-- Those by portal links into a tenant, newest first, from below $2.
select id, label, at, how, outcome, browser, address
from sign_ins
where tenant_id = $1 and member_id is null and id < $2 and at > statement_timestamp() - interval '90 days'
order by id desc
limit $3;

-- name: SignInsRefused
-- all tenants: how many tries on one person's sign-in failed lately, up to a bound.
select count(*)
from (select from sign_ins where member_id = $1 and outcome <> 'in' and at > statement_timestamp() - interval '90 days' limit 1000) refused;

-- name: SignInBrowserIsNew
-- all tenants: whether a person has signed in before, and never with this browser ($2). Asked before the sign-in is noted.
select m.mail_new_browser
       and exists (select from sign_ins s where s.member_id = m.id and s.outcome = 'in')
       and not exists (select from sign_ins s where s.member_id = m.id and s.outcome = 'in' and s.browser = $2)
from members m
where m.id = $1;

-- name: SignInMailRead
-- all tenants: a person's own choice.
select mail_new_browser from members where id = $1;

-- name: SignInMailSave
-- all tenants: a person's own choice.
update members set mail_new_browser = $2, updated_at = statement_timestamp() where id = $1;

-- name: SignInExpire
-- all tenants: sign-ins are kept for 90 days.
delete from sign_ins where at < statement_timestamp() - interval '90 days';
