-- The pull side: calls that can be sent twice, named consumers, and event types whose schema is enforced.

create table idempotency_keys (
    caller_id    text collate "C" not null,
    key          text collate "C" not null,
    fingerprint  bytea not null,
    gen          bigint not null default 1,
    busy_until   timestamptz not null,
    expires_at   timestamptz not null,
    done_at      timestamptz,
    status       integer,
    content_type text,
    reply        bytea,
    primary key (caller_id, key),
    constraint idempotency_keys_are_plain check (key ~ '^[!-~]{1,255}$'),
    constraint idempotency_keys_fingerprint_is_sha256 check (octet_length(fingerprint) = 32),
    constraint idempotency_keys_reply_is_whole check ((status is null) = (reply is null))
);
comment on table idempotency_keys is
    'Calls with an Idempotency-Key, by API key. Without done_at nothing was committed; with it and without status it was, and the answer was lost.';
comment on column idempotency_keys.gen is 'Grows when a call is taken over from a process that is gone: what that one still does is refused.';
comment on column idempotency_keys.reply is 'The body of the answer, sealed: some hold a secret that is shown once.';
-- IdempotencyPrune: the oldest first.
create index idempotency_keys_by_expiry on idempotency_keys (expires_at);

create table consumers (
    tenant_id       text collate "C" not null references tenants (id),
    name            text collate "C" not null,
    types           text[] not null default '{}',
    cursor          text not null,
    position        bigint not null default 0,
    handed_position bigint not null default 0,
    lease           text collate "C",
    lease_until     timestamptz,
    lease_position  bigint,
    acked_at        timestamptz,
    created_at      timestamptz not null default statement_timestamp(),
    updated_at      timestamptz not null default statement_timestamp(),
    primary key (tenant_id, name),
    constraint consumers_name_is_plain check (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
    constraint consumers_cursor_is_plain check (cursor ~ '^[A-Za-z0-9_-]*$' and char_length(cursor) <= 512),
    constraint consumers_types_few check (cardinality(types) <= 50),
    constraint consumers_lease_is_whole check ((lease is null) = (lease_until is null) and (lease is null) = (lease_position is null)),
    constraint consumers_handed_is_ahead check (handed_position >= position)
);
comment on table consumers is 'Named readers of a tenant whose cursor we keep. Everything up to position has been acknowledged.';
comment on column consumers.handed_position is 'The farthest event that was handed out since the last seek: nothing beyond it can be acknowledged.';

alter table event_types
    add column enforced boolean not null default false,
    add constraint event_types_enforced_has_schema check (not enforced or schema is not null);
comment on column event_types.enforced is 'The API refuses to publish an event of this type whose data does not match the schema.';
