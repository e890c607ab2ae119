-- name: ResultRecord
-- all tenants: each row belongs to the lane that sent it. Records the attempts of one day's deliveries ($1) and moves the deliveries, in one
-- statement. $2 says that this is a second try of a batch whose commit may have succeeded: what is already recorded is left out.
-- action: done, retry, exhausted, keep (the attempt changes nothing: a manual resend or a test that failed). A success wins over a hold; a
-- failure leaves held what is held. Attempt numbers come from the delivery's row, whose lock serialises them.
with r as materialized (
    select *
    from unnest($3::text[], $4::text[], $5::date[], $6::text[], $7::text[], $8::integer[], $9::timestamptz[], $10::text[], $11::text[],
                $12::integer[], $13::text[], $14::text[], $15::text[], $16::integer[], $17::text[], $18::bytea[], $19::bigint[], $20::text[],
                $21::text[], $22::text[], $23::text[], $24::integer[], $25::integer[], $26::integer[], $27::integer[], $28::integer[],
                $29::text[], $30::text[], $31::text[], $32::text[])
         as u(delivery_id, attempt_id, attempt_day, action, trigger, failures, started_at, class, detail,
              code, url, request_headers, header_set_id, body_size, response_headers, response_body, response_size, response_note,
              proto, remote, tls, connect_us, tls_us, wait_us, read_us, total_us,
              requested_by, worker_id, reason, cause)
), moved as (
    update deliveries d
    set attempts = d.attempts + 1,
        failures = r.failures,
        status = case when r.action = 'done' then 'delivered'
                      when r.action = 'exhausted' and d.status = 'pending' then 'undelivered'
                      else d.status end,
        reason = case when r.action = 'done' then null
                      when r.action = 'exhausted' and d.status = 'pending' then r.reason
                      else d.reason end,
        finished_at = case when r.action in ('done', 'exhausted') and d.status <> 'delivered' then statement_timestamp() else d.finished_at end,
        last_at = r.started_at, last_class = r.class, last_code = r.code, last_ms = r.total_us / 1000
    from r
    where d.id = r.delivery_id and d.day = $1
      and d.id = any($3::text[]) -- the index is searched for these, whatever the planner believes of a partition without statistics
      and (not $2 or not exists (select from attempts a where a.delivery_id = d.id and a.id = r.attempt_id and a.day = r.attempt_day))
    returning d.id, d.day, d.tenant_id, d.endpoint_id, d.attempts as number, d.status, d.test
), kept as (
    insert into attempts (id, day, tenant_id, endpoint_id, delivery_id, number, trigger, requested_by, started_at, class, cause, detail, code, url,
                          request_headers, header_set_id, body_size, response_headers, response_body, response_size, response_note, proto,
                          remote, tls, connect_us, tls_us, wait_us, read_us, total_us, worker_id)
    select r.attempt_id, r.attempt_day, m.tenant_id, m.endpoint_id, m.id, m.number, r.trigger, r.requested_by, r.started_at, r.class, r.cause, r.detail,
           r.code, r.url, r.request_headers, r.header_set_id, r.body_size, r.response_headers, r.response_body, r.response_size,
           r.response_note, r.proto, r.remote, r.tls, r.connect_us, r.tls_us, r.wait_us, r.read_us, r.total_us, r.worker_id
    from r
    join moved m on m.id = r.delivery_id
)
insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since)
select m.id, m.day, m.tenant_id, m.endpoint_id, 'undelivered', r.reason, statement_timestamp()
from moved m
join r on r.delivery_id = m.id
where r.action = 'exhausted' and m.status = 'undelivered' and not m.test
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
-- all tenants: by delivery. What was delivered after all leaves the list.
delete from parked where delivery_id = any($1);
