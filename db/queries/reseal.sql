-- What is sealed with the key ring, and with which of its keys: sealed bytes begin with 4 bytes that name it. Answers that are kept for repeats (a day) and
-- what inboxes received (some days) are not among it: they are gone before anybody would miss them.

-- name: SealedCount
-- all tenants: how many of each kind are sealed with which key. It reads the tables once: a process that starts asks, an operator, and a gauge now and then.
select 'signing secrets' as what, encode(substr(sealed, 1, 4), 'hex') as key, count(*) as n from signing_secrets group by 2
union all
select 'static headers', encode(substr(sealed, 1, 4), 'hex'), count(*) from header_sets group by 2
union all
select 'second factors', encode(substr(secret, 1, 4), 'hex'), count(*) from second_factors group by 2
union all
select 'mails', encode(substr(body, 1, 4), 'hex'), count(*) from mails group by 2
order by 1, 2;

-- name: ResealSecrets
-- all tenants: signing secrets behind id $1 that are sealed with one of the keys $2, $3 at a time: the primary key.
select id, sealed from signing_secrets where id > $1 and substr(sealed, 1, 4) = any ($2::bytea[]) order by id limit $3;

-- name: ResealSecret
-- all tenants: one signing secret; not if it has become another meanwhile.
update signing_secrets set sealed = $3 where id = $1 and sealed = $2;

-- name: ResealHeaders
-- all tenants: the same of static headers.
select id, sealed from header_sets where id > $1 and substr(sealed, 1, 4) = any ($2::bytea[]) order by id limit $3;

-- name: ResealHeader
-- all tenants: one set of static headers.
update header_sets set sealed = $3 where id = $1 and sealed = $2;

-- name: ResealSecondFactors
-- all tenants: the same of what makes members' codes.
select member_id, secret from second_factors where member_id > $1 and substr(secret, 1, 4) = any ($2::bytea[]) order by member_id limit $3;

-- name: ResealSecondFactor
-- all tenants: one member's.
update second_factors set secret = $3 where member_id = $1 and secret = $2;

-- name: ResealMails
-- all tenants: the same of mails, which are kept for 30 days.
select id, body from mails where id > $1 and substr(body, 1, 4) = any ($2::bytea[]) order by id limit $3;

-- name: ResealMail
-- all tenants: one mail.
update mails set body = $3 where id = $1 and body = $2;
