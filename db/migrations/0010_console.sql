-- The platform's own people: how they sign in, and what they did.

create table operators (
    id            text collate "C" primary key,
    email         text not null,
    role          text not null,
    password_hash text,
    created_by    text not null,
    created_at    timestamptz not null default statement_timestamp(),
    updated_at    timestamptz not null default statement_timestamp(),
    constraint operators_email_unique unique (email),
    constraint operators_email_is_lower_case check (email = lower(email) and char_length(email) between 3 and 254 and position('@' in email) > 1),
    constraint operators_role_known check (role in ('admin', 'support'))
);
comment on table operators is 'People of the platform. They belong to no tenant, and no tenant sees them.';
comment on column operators.password_hash is 'argon2id in PHC form; null until a password is set.';

create table operator_sessions (
    id           text collate "C" primary key,
    operator_id  text collate "C" not null references operators (id) on delete cascade,
    hash         bytea not null,
    user_agent   text not null default '',
    address      text not null default '',
    created_at   timestamptz not null default statement_timestamp(),
    last_seen_at timestamptz not null default statement_timestamp(),
    expires_at   timestamptz not null,
    constraint operator_sessions_hash_unique unique (hash),
    constraint operator_sessions_hash_is_sha256 check (octet_length(hash) = 32),
    constraint operator_sessions_texts_are_short check (char_length(user_agent) <= 500 and char_length(address) <= 64)
);
comment on table operator_sessions is 'Who is signed in to the console. A row that is gone is a session that has ended, at once and everywhere.';
-- The cascade from operators.
create index operator_sessions_by_operator on operator_sessions (operator_id);
-- OperatorSessionExpire: the oldest first.
create index operator_sessions_by_expiry on operator_sessions (expires_at);

create table operator_links (
    hash        bytea primary key,
    operator_id text collate "C" not null references operators (id) on delete cascade,
    purpose     text not null,
    created_at  timestamptz not null default statement_timestamp(),
    expires_at  timestamptz not null,
    used_at     timestamptz,
    constraint operator_links_hash_is_sha256 check (octet_length(hash) = 32),
    constraint operator_links_purpose_known check (purpose in ('password', 'sign-in')),
    constraint operator_links_short_lived check (expires_at <= created_at + interval '7 days')
);
comment on table operator_links is 'One-time links, handed out by hand. used_at is set once, by the statement that also does what the link is for.';
-- OperatorLinksVoid, and the cascade from operators.
create index operator_links_by_operator on operator_links (operator_id);
-- OperatorLinkExpire: the oldest first.
create index operator_links_by_expiry on operator_links (expires_at);

create table operator_log (
    id          text collate "C" primary key,
    operator_id text collate "C" not null,
    operator    text not null,
    tenant_id   text collate "C",
    at          timestamptz not null default statement_timestamp(),
    action      text not null,
    object      text not null default '',
    detail      json not null default '{}',
    constraint operator_log_action_is_plain check (action ~ '^[a-z_]+\.[a-z_]+$'),
    constraint operator_log_detail_is_small check (octet_length(detail::text) <= 8192)
);
comment on table operator_log is
    'What operators did, in the transaction that did it; what they did in a tenant stands in that tenant''s own log as well, under the same id. No foreign keys: it outlives whom it tells of.';
-- OperatorLogList of one operator; of all, the primary key.
create index operator_log_by_operator on operator_log (operator_id, id desc);

-- A support person looks at a tenant's pages through a session of the tenant's own kind, so that it ends as all others do.
alter table sessions add column operator_id text collate "C" references operators (id) on delete cascade;
comment on column sessions.operator_id is 'The operator who looks at the tenant''s pages, read-only; null: a session of the tenant''s.';
-- OperatorViewsEnd, and the cascade from operators.
create index sessions_by_operator on sessions (operator_id) where operator_id is not null;

alter table audit drop constraint audit_kind_known;
-- The rows that are there satisfy a narrower rule.
alter table audit add constraint audit_kind_known check (kind in ('platform-key', 'tenant-key', 'session', 'system', 'operator')) not valid;
