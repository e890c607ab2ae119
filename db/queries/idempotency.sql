-- Calls that can be sent twice: idempotency keys, by the API key that sent them.

-- name: IdempotencyClaim
-- all tenants: by the caller's own id. The key is free, its time is over, or its process is gone and nothing was committed.
insert into idempotency_keys as k (caller_id, key, fingerprint, busy_until, expires_at)
values ($1, $2, $3, statement_timestamp() + $4::interval, statement_timestamp() + $5::interval)
on conflict (caller_id, key) do update
set gen = k.gen + 1, fingerprint = excluded.fingerprint, busy_until = excluded.busy_until, expires_at = excluded.expires_at,
    done_at = null, status = null, content_type = null, reply = null
where k.expires_at <= statement_timestamp()
   or k.done_at is null and k.status is null and k.busy_until <= statement_timestamp() and k.fingerprint = excluded.fingerprint
returning gen;

-- name: IdempotencyRead
-- all tenants: by the caller's own id.
select fingerprint = $3, busy_until > statement_timestamp(), done_at is not null, coalesce(status, 0), coalesce(content_type, ''), reply
from idempotency_keys
where caller_id = $1 and key = $2;

-- name: IdempotencyDone
-- all tenants: by the caller's own id, in the transaction that does what was asked. No row: another process has taken the call over.
update idempotency_keys
set done_at = statement_timestamp()
where caller_id = $1 and key = $2 and gen = $3;

-- name: IdempotencyReply
-- all tenants: by the caller's own id.
update idempotency_keys
set status = $4, content_type = $5, reply = $6
where caller_id = $1 and key = $2 and gen = $3;

-- name: IdempotencyRelease
-- all tenants: by the caller's own id. A call that did nothing leaves no trace; one that did, and could not say so, is no longer under way.
with released as (
    delete from idempotency_keys where caller_id = $1 and key = $2 and gen = $3 and done_at is null
)
update idempotency_keys
set busy_until = statement_timestamp()
where caller_id = $1 and key = $2 and gen = $3 and done_at is not null;

-- name: IdempotencyPrune
-- all tenants: those whose time is over, the oldest first, some at a time.
delete from idempotency_keys
where (caller_id, key) in (select k.caller_id, k.key from idempotency_keys k where k.expires_at <= statement_timestamp() order by k.expires_at limit 5000);
