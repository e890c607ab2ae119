-- name: ResultMove
-- all tenants: each row belongs to the lane that sent it. Moves one day's deliveries ($1, $2 the day: as a list, because a constant would make the planner
-- believe that it leaves one row of the partition, and scan that) by what their attempts said, and numbers the attempts: the row's lock serialises the numbers. Actions: done, retry, exhausted, keep (the attempt changes nothing: a
-- manual resend or a test that failed). A success wins over a hold; a failure leaves held what is held. That an event's content was taken out is not
-- forgotten.
update deliveries_{day} d
set attempts = d.attempts + 1,
    failures = r.failures,
    status = case when r.action = 'done' then 'delivered'
                  when r.action = 'exhausted' and d.status = 'pending' then 'undelivered'
                  else d.status end,
    reason = case when d.reason = 'event_expunged' then d.reason
                  when r.action = 'done' then null
                  when r.action = 'exhausted' and d.status = 'pending' then r.reason
                  else d.reason end,
    finished_at = case when r.action in ('done', 'exhausted') and d.status <> 'delivered' then statement_timestamp() else d.finished_at end,
    last_at = r.started_at, last_class = r.class, last_code = r.code, last_ms = r.ms
from unnest($1::text[], $2::date[], $3::text[], $4::integer[], $5::text[], $6::timestamptz[], $7::text[], $8::integer[], $9::integer[])
         as r(delivery_id, day, action, failures, reason, started_at, class, code, ms)
where d.id = r.delivery_id and d.day = r.day
returning d.id, d.tenant_id, d.endpoint_id, d.attempts, d.status, d.test, coalesce(d.reason = 'event_expunged', false);

-- name: ResultSeen
-- all tenants: which attempts ($1, of deliveries $2 on days $3) are in the history already: a batch is tried again although its commit may have succeeded.
select a.id
from unnest($1::text[], $2::text[], $3::date[]) as u(id, delivery_id, day)
cross join lateral (select x.id from attempts x where x.delivery_id = u.delivery_id and x.day = u.day and x.id = u.id limit 1) a;

-- name: ParkedAdd
-- What ends undelivered goes on its tenant's list.
insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since)
select u.delivery_id, u.day, u.tenant_id, u.endpoint_id, 'undelivered', u.reason, statement_timestamp()
from unnest($1::text[], $2::date[], $3::text[], $4::text[], $5::text[]) as u(delivery_id, day, tenant_id, endpoint_id, reason)
on conflict (delivery_id) do nothing;

-- name: DueDone
-- all tenants: by delivery. Nothing more is to be done for these.
delete from due where delivery_id = any($1);

-- name: DueRetry
-- all tenants: by delivery. Sets the next time ($4, from now; null: where a manual resend interrupted the schedule) and why it is due. An
-- interrupted manual resend or test stays one ($6). Only a row that has not moved since it was handed out ($2 is what its failures were):
-- the late result of a lost lane must not undo its successor's.
update due d
set next_at = coalesce(statement_timestamp() + r.wait, d.resume_at, statement_timestamp()),
    failures = r.failures,
    unknowns = r.unknowns,
    trigger = r.trigger,
    priority = case when r.trigger = 'test' then 0 else greatest(d.priority, 1) end,
    resume_at = case when r.trigger = 'manual' then d.resume_at end,
    requested_by = case when r.trigger = 'retry' then null else d.requested_by end
from unnest($1::text[], $2::integer[], $3::integer[], $4::interval[], $5::smallint[], $6::text[])
         as r(delivery_id, expected, failures, wait, unknowns, trigger)
where d.delivery_id = r.delivery_id and d.delivery_id = any($1) and d.failures = r.expected;

-- name: ParkedDrop
-- all tenants: by delivery. What was delivered after all leaves the list. Looked up one by one: when vacuum has once found the table empty, a scan of another
-- index would seem cheaper than many probes of the key. Rows never change, so where they stand is as good as a key.
delete from parked
where ctid = any (array (
    select x.ctid
    from unnest($1::text[]) as u(delivery_id)
    cross join lateral (select p.ctid from parked p where p.delivery_id = u.delivery_id limit 1) x
));
