-- An event's content is taken out; its record stays. Deliveries are found by index deliveries_by_event, on the event's own day.

-- name: ExpungeDeliveries
-- What an event's deliveries are, and where they go.
select d.id, d.endpoint_id
from deliveries d
where d.tenant_id = @tenant and d.event_id = @event and d.day = @day
order by d.id;

-- name: ExpungeLock
-- Keeps results and resends out. After the lanes, in the order of ids.
select d.id
from deliveries d
where d.id = any(@ids::text[]) and d.day = @day and d.tenant_id = @tenant
order by d.id
for no key update;

-- name: ExpungeMove
-- After ExpungeLock, in a statement of its own. What was still to be sent, or waits for a person, is cancelled; what was delivered stays so, with a mark by which an answer that
-- comes later is recorded without its body.
with undue as (
    delete from due u where u.delivery_id = any(@ids::text[]) and u.tenant_id = @tenant
), unparked as (
    delete from parked p where p.delivery_id = any(@ids::text[]) and p.tenant_id = @tenant
), examples as (
    update digests g set excerpt = '' where g.tenant_id = @tenant and g.delivery_id = any(@ids::text[])
), moved as (
    update deliveries d
    set reason = 'event_expunged',
        status = case when d.status = 'delivered' then d.status else 'cancelled' end,
        finished_at = case when d.status = 'pending' then statement_timestamp() else coalesce(d.finished_at, statement_timestamp()) end
    where d.id = any(@ids::text[]) and d.day = @day and d.tenant_id = @tenant and d.reason is distinct from 'event_expunged'
    returning d.status
)
select count(*) filter (where status = 'cancelled')::integer from moved;

-- name: ExpungeAnswers
-- What receivers answered may repeat what they were sent. Their statuses, headers and times stay. An attempt is never of an earlier day than its delivery, but for clocks.
update attempts a
set response_body = '', response_note = @note
where a.delivery_id = any(@ids::text[]) and a.day >= @day::date - 1 and a.tenant_id = @tenant and a.response_body <> '';

-- name: ExpungeEvent
-- The text on the wire up to data, which the envelope's own first ,"data": ends: inside a text its quotes would be escaped. Once: no row when it was done before.
update events e
set body = left(e.body, strpos(e.body, ',"data":') - 1) || ',"data":null,"expunged_at":"'
           || to_char(statement_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"}',
    expunged_at = date_trunc('milliseconds', statement_timestamp()), expunged_by = @by
where e.position = @position and e.day = @day and e.tenant_id = @tenant and e.expunged_at is null
returning e.expunged_at;

-- name: ExpungeTouch
-- The caller holds the lanes rows. Lanes that run may have been handed some of it: a new revision makes them drop what they have not started.
update endpoints e
set rev = e.rev + 1
from lanes l
where l.endpoint_id = e.id and l.tenant_id = e.tenant_id and l.state = 'running' and e.tenant_id = @tenant and e.id = any(@endpoints::text[]) and e.deleted_at is null
returning e.id, e.rev;

-- name: ExpungedRead
-- When an event's content was taken out, and by whom.
select e.expunged_at, coalesce(e.expunged_by, '')
from events e
where e.position = @position and e.day = @day and e.tenant_id = @tenant and e.expunged_at is not null;
