-- Inboxes and what they have received.

-- name: InboxReceive
-- all tenants: the token says whose inbox it is. One request: it takes a token of the bucket (@burst at most, @rate a second), is stored, and pushes the
-- oldest beyond @keep out. No row: there is no such inbox, or it has ended. Requests of one inbox come one after the other here, those of others do not wait.
with found as (
    select b.id, b.tenant_id,
           least(@burst::real, b.tokens + @rate::real * greatest(0, extract(epoch from statement_timestamp() - b.counted_at))::real) as tokens
    from inboxes b
    where b.token = @token and b.expires_at > statement_timestamp()
    for no key update
), hit as (
    update inboxes b
    set tokens = case when f.tokens >= 1 then f.tokens - 1 else f.tokens end, counted_at = greatest(b.counted_at, statement_timestamp()),
        received = b.received + case when f.tokens >= 1 then 1 else 0 end, refused = b.refused + case when f.tokens >= 1 then 0 else 1 end
    from found f
    where b.id = f.id
    returning b.id, b.tenant_id, b.received, b.answer, b.seconds, f.tokens >= 1 as granted
), stored as (
    insert into inbox_requests (tenant_id, inbox_id, number, event_id, headers, body, size, answer, seconds)
    select h.tenant_id, h.id, h.received, nullif(@event, ''), @headers, @body, @size, h.answer, h.seconds
    from hit h
    where h.granted
), pushed as (
    delete from inbox_requests r
    using hit h
    where h.granted and r.inbox_id = h.id and r.tenant_id = h.tenant_id and r.number <= h.received - @keep
)
select answer, seconds, granted from hit;

-- name: InboxInsert
-- A new inbox in the first free slot. None is free: the slot is null, which the table refuses.
insert into inboxes (id, tenant_id, slot, token, answer, seconds, tokens, created_by, expires_at)
values (@id, @tenant,
        (select min(n) from generate_series(1, 5) n where not exists (select from inboxes b where b.tenant_id = @tenant and b.slot = n)),
        @token, @answer, @seconds, @burst, @by, statement_timestamp() + @life::interval);

-- name: InboxList
-- A tenant's inboxes, newest first, or the one: five at most. What has ended stays to be read until it is pruned.
select b.id, b.token, b.answer, b.seconds, b.received, b.refused, b.created_by, b.created_at, b.expires_at, b.expires_at <= statement_timestamp(),
       (select max(r.received_at) from inbox_requests r where r.inbox_id = b.id and r.tenant_id = b.tenant_id and r.number = b.received)
from inboxes b
where b.tenant_id = @tenant and (@id::text = '' or b.id = @id)
order by b.id desc;

-- name: InboxRequestList
-- What an inbox has kept, newest first: a hundred at most, without their headers and bodies.
select r.number, coalesce(r.event_id, ''), r.received_at, r.size, r.answer, r.seconds
from inbox_requests r
where r.tenant_id = @tenant and r.inbox_id = @id
order by r.number desc
limit @limit;

-- name: InboxRequestRead
-- One request in full.
select r.number, coalesce(r.event_id, ''), r.received_at, r.headers, r.size, r.answer, r.seconds, r.body
from inbox_requests r
where r.tenant_id = @tenant and r.inbox_id = @id and r.number = @number;

-- name: InboxAnswer
-- What it answers from now on.
update inboxes set answer = @answer, seconds = @seconds
where tenant_id = @tenant and id = @id
returning id;

-- name: InboxExtend
-- It lives for so long from now.
update inboxes set expires_at = statement_timestamp() + @life::interval
where tenant_id = @tenant and id = @id
returning expires_at;

-- name: InboxDelete
-- With all that it has received.
delete from inboxes where tenant_id = @tenant and id = @id
returning received;

-- name: InboxForget
-- What was received of one event, in all of a tenant's inboxes: index inbox_requests_by_event.
delete from inbox_requests where tenant_id = @tenant and event_id = @event;

-- name: InboxPrune
-- all tenants: those that ended longer than $1 ago, $2 at a time.
delete from inboxes
where id in (select id from inboxes where expires_at < statement_timestamp() - $1::interval order by expires_at limit $2);
