-- Who may do what: API keys, people and their roles, portal links, sessions; what was done: the audit log; and the catalog
-- of event types.
--
-- Nothing here stores a secret that could be used: keys, links and session tokens are kept as SHA-256 of 160 random bits
-- and more, so that a copy of the table opens no door.

create table api_keys (
    id                  text collate "C" primary key,
    tenant_id           text collate "C" references tenants (id),
    name                text not null,
    prefix              text not null,
    hash                bytea not null,
    scopes              text[] not null,
    requests_per_second integer,
    bootstrap           boolean not null default false,
    created_by          text not null,
    created_at          timestamptz not null default statement_timestamp(),
    expires_at          timestamptz,
    last_used_at        timestamptz,
    constraint api_keys_tenant unique (tenant_id, id),
    constraint api_keys_hash_unique unique (hash),
    constraint api_keys_hash_is_sha256 check (octet_length(hash) = 32),
    constraint api_keys_name_length check (char_length(name) between 1 and 100),
    constraint api_keys_prefix_is_short check (char_length(prefix) between 4 and 16),
    constraint api_keys_scopes_known check (
        cardinality(scopes) > 0
        and scopes <@ array['catalog:read', 'endpoints:read', 'endpoints:write', 'deliveries:read', 'deliveries:resend', 'secrets:reveal',
                            'audit:read', 'keys:write', 'settings:write',
                            'events:publish', 'tenants:read', 'tenants:write', 'types:write']),
    constraint api_keys_tenant_scopes check (
        tenant_id is null
        or scopes <@ array['catalog:read', 'endpoints:read', 'endpoints:write', 'deliveries:read', 'deliveries:resend', 'secrets:reveal']),
    constraint api_keys_bootstrap_is_platform check (not bootstrap or tenant_id is null),
    constraint api_keys_rate_range check (requests_per_second between 1 and 10000)
);
comment on table api_keys is 'Bearer keys. tenant_id null: the platform''s own, which work in every tenant.';
comment on column api_keys.prefix is 'The first characters of the key, for people to tell keys apart.';
comment on column api_keys.last_used_at is 'Within a minute: written at most that often.';
comment on column api_keys.bootstrap is 'The key of WAYBILL_PLATFORM_KEY. There is one at most; another value of the variable replaces it.';
create unique index api_keys_one_bootstrap on api_keys (bootstrap) where bootstrap;
-- KeyList: a tenant's keys, newest first.
create index api_keys_by_tenant on api_keys (tenant_id, id desc);

-- ---------------------------------------------------------------------------------------------------------------
-- People. A member is a person, once, with one sign-in; memberships say in which tenants, and as what.

create table members (
    id            text collate "C" primary key,
    email         text not null,
    name          text not null default '',
    password_hash text,
    verified_at   timestamptz,
    created_at    timestamptz not null default statement_timestamp(),
    updated_at    timestamptz not null default statement_timestamp(),
    constraint members_email_unique unique (email),
    constraint members_email_is_lower_case check (email = lower(email) and char_length(email) between 3 and 254 and position('@' in email) > 1),
    constraint members_name_length check (char_length(name) <= 100)
);
comment on column members.password_hash is 'argon2id in PHC form; null until a password is set.';

create table memberships (
    tenant_id  text collate "C" not null references tenants (id),
    member_id  text collate "C" not null references members (id) on delete cascade,
    role       text not null,
    created_at timestamptz not null default statement_timestamp(),
    primary key (tenant_id, member_id),
    constraint memberships_role_known check (role in ('owner', 'developer', 'viewer'))
);
-- MembershipList of a person: the tenants to switch between, and the cascade from members.
create index memberships_by_member on memberships (member_id, tenant_id);

create table sessions (
    id           text collate "C" primary key,
    tenant_id    text collate "C" not null references tenants (id),
    member_id    text collate "C",
    hash         bytea not null,
    label        text not null,
    scopes       text[] not null,
    user_agent   text not null default '',
    address      text not null default '',
    created_at   timestamptz not null default statement_timestamp(),
    last_seen_at timestamptz not null default statement_timestamp(),
    expires_at   timestamptz not null,
    constraint sessions_tenant unique (tenant_id, id),
    constraint sessions_membership foreign key (tenant_id, member_id) references memberships (tenant_id, member_id) on delete cascade,
    constraint sessions_hash_unique unique (hash),
    constraint sessions_hash_is_sha256 check (octet_length(hash) = 32),
    constraint sessions_scopes_are_for_links check (member_id is null or scopes = '{}'),
    constraint sessions_texts_are_short check (char_length(label) between 1 and 254 and char_length(user_agent) <= 500 and char_length(address) <= 64)
);
comment on table sessions is
    'Who is signed in. A row that is gone is a session that has ended, at once and everywhere; so is a membership''s removal.';
comment on column sessions.scopes is 'What a portal session may do. Empty for a member''s: there the role decides, at each request anew.';
-- SessionList: a tenant's sessions, newest first.
create index sessions_by_tenant on sessions (tenant_id, id desc);
-- SessionList of one member, and the cascade from memberships.
create index sessions_by_member on sessions (member_id, tenant_id) where member_id is not null;
-- SessionExpire: the oldest first.
create index sessions_by_expiry on sessions (expires_at);

create table portal_links (
    hash       bytea primary key,
    tenant_id  text collate "C" not null references tenants (id),
    label      text not null,
    scopes     text[] not null,
    created_by text not null,
    created_at timestamptz not null default statement_timestamp(),
    expires_at timestamptz not null,
    used_at    timestamptz,
    constraint portal_links_hash_is_sha256 check (octet_length(hash) = 32),
    constraint portal_links_label_length check (char_length(label) between 1 and 100),
    constraint portal_links_scopes_some check (cardinality(scopes) > 0),
    constraint portal_links_short_lived check (expires_at <= created_at + interval '10 minutes')
);
comment on table portal_links is 'One-time links that sign a seller in. used_at is set once, by the statement that also hands the session out.';
-- PortalLinkExpire: the oldest first.
create index portal_links_by_expiry on portal_links (expires_at);

-- ---------------------------------------------------------------------------------------------------------------
-- The activity log.

create table audit (
    id        text collate "C" primary key,
    tenant_id text collate "C" references tenants (id),
    at        timestamptz not null default statement_timestamp(),
    kind      text not null,
    actor     text not null,
    actor_id  text not null default '',
    action    text not null,
    object    text not null default '',
    detail    json not null default '{}',
    constraint audit_kind_known check (kind in ('platform-key', 'tenant-key', 'session', 'system')),
    constraint audit_action_is_plain check (action ~ '^[a-z_]+\.[a-z_]+$'),
    constraint audit_detail_is_small check (octet_length(detail::text) <= 8192)
);
comment on table audit is
    'Who did what, in the transaction that did it. tenant_id null: to the platform itself. detail never holds a secret or a payload.';
-- AuditList: a tenant's log, newest first.
create index audit_by_tenant on audit (tenant_id, id desc);
-- AuditList of one endpoint, key or delivery.
create index audit_by_object on audit (tenant_id, object, id desc) where object <> '';

-- ---------------------------------------------------------------------------------------------------------------
-- The catalog of event types, the platform's, the same for all tenants. Types need not stand here to be published.

create table event_types (
    name           text collate "C" primary key,
    description    text not null default '',
    "group"        text not null default '',
    schema         json,
    example        json,
    schema_version integer not null default 1,
    deprecated_at  timestamptz,
    created_at     timestamptz not null default statement_timestamp(),
    updated_at     timestamptz not null default statement_timestamp(),
    constraint event_types_name_is_plain check (name ~ '^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$' and char_length(name) <= 128),
    constraint event_types_description_length check (char_length(description) <= 2000),
    constraint event_types_group_length check (char_length("group") <= 100),
    constraint event_types_schema_version_range check (schema_version between 1 and 1000000),
    constraint event_types_documents_size check (octet_length(schema::text) <= 65536 and octet_length(example::text) <= 65536)
);
comment on column event_types.schema is 'JSON Schema 2020-12 of the event''s data, as the platform wrote it.';
comment on column event_types.example is 'An example of the event''s data; what a test event sends unless told otherwise.';

-- SecretPrune: secrets whose overlap is over.
create index signing_secrets_by_expiry on signing_secrets (expires_at) where expires_at is not null;
