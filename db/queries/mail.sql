-- Mails: written with what they tell of, sent by a job.

-- name: MailInsert
-- A mail, once for its key. $4 is null for what concerns a person and no tenant.
insert into mails (id, key, kind, tenant_id, recipient, subject, body, good_until)
values ($1, $2, $3, nullif($4, ''), $5, $6, $7, statement_timestamp() + $8::interval)
on conflict (key) do nothing;

-- name: MailClaim
-- all tenants: the job sends them all. Takes the longest waiting one for so long ($1); who crashes meanwhile leaves it to others.
update mails
set tries = tries + 1, next_at = statement_timestamp() + $1::interval
where id = (
    select id
    from mails
    where sent_at is null and dropped_at is null and next_at <= statement_timestamp()
    order by next_at, id
    limit 1
    for update skip locked)
returning id, kind, coalesce(tenant_id, ''), recipient, subject, body, created_at, tries, good_until <= statement_timestamp();

-- name: MailSent
-- all tenants: by id; only for who claimed it last.
update mails
set sent_at = statement_timestamp(), problem = null
where id = $1 and tries = $2 and sent_at is null and dropped_at is null;

-- name: MailLater
-- all tenants: by id; only for who claimed it last.
update mails
set next_at = statement_timestamp() + $3::interval, problem = $4
where id = $1 and tries = $2 and sent_at is null and dropped_at is null;

-- name: MailDrop
-- all tenants: by id; only for who claimed it last. It is not tried again.
update mails
set dropped_at = statement_timestamp(), problem = $3
where id = $1 and tries = $2 and sent_at is null and dropped_at is null;

-- name: MailNext
-- all tenants: when the job has something to do again.
select min(next_at) from mails where sent_at is null and dropped_at is null;

-- name: MailList
-- all tenants: the mailbox of a development machine, newest first.
select id, kind, coalesce(tenant_id, ''), recipient, subject, created_at, sent_at, dropped_at is not null, coalesce(problem, '')
from mails
order by id desc
limit 200;

-- name: MailRead
-- all tenants: the mailbox of a development machine.
select id, kind, coalesce(tenant_id, ''), recipient, subject, created_at, sent_at, dropped_at is not null, coalesce(problem, ''), body
from mails
where id = $1;

-- name: MailExpire
-- all tenants: mails of a month ago, in portions; whoever calls does so until nothing is left.
delete from mails
where id in (select id from mails where created_at < statement_timestamp() - interval '30 days' order by created_at limit 5000);
