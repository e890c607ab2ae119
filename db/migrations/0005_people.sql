-- How people get in and stay in: one-time tokens, invitations, throttles; what they want to be told; and the mails that tell them.
--
-- Tokens are kept as SHA-256 of 200 random bits. A mail holds such a token as text, so its body is sealed with the key ring: a copy of these
-- tables opens no door.

create table member_tokens (
    hash       bytea primary key,
    member_id  text collate "C" not null references members (id) on delete cascade,
    purpose    text not null,
    created_at timestamptz not null default statement_timestamp(),
    expires_at timestamptz not null,
    used_at    timestamptz,
    constraint member_tokens_hash_is_sha256 check (octet_length(hash) = 32),
    constraint member_tokens_purpose_known check (purpose in ('reset', 'verify')),
    constraint member_tokens_short_lived check (expires_at <= created_at + interval '7 days')
);
comment on table member_tokens is 'One-time links of mails. used_at is set once, by the statement that also does what the link is for, or when a newer password makes it void.';
-- MemberTokensVoid, and the cascade from members.
create index member_tokens_by_member on member_tokens (member_id, purpose);
-- MemberTokenExpire: the oldest first.
create index member_tokens_by_expiry on member_tokens (expires_at);

create table invitations (
    id         text collate "C" primary key,
    tenant_id  text collate "C" not null references tenants (id),
    email      text not null,
    role       text not null,
    hash       bytea not null,
    shown      boolean not null,
    invited_by text not null,
    created_at timestamptz not null default statement_timestamp(),
    sent_at    timestamptz not null default statement_timestamp(),
    expires_at timestamptz not null,
    ended_at   timestamptz,
    ended      text,
    constraint invitations_tenant unique (tenant_id, id),
    constraint invitations_hash_unique unique (hash),
    constraint invitations_hash_is_sha256 check (octet_length(hash) = 32),
    constraint invitations_email_is_lower_case check (email = lower(email) and char_length(email) between 3 and 254 and position('@' in email) > 1),
    constraint invitations_role_known check (role in ('owner', 'developer', 'viewer')),
    constraint invitations_end_is_known check ((ended_at is null) = (ended is null) and ended in ('accepted', 'revoked', 'replaced'))
);
comment on column invitations.shown is
    'The link was handed to whoever invited, not only mailed: following it does not prove that the address is the person''s.';
-- InvitationCreate: an address has one open invitation in a tenant. InvitationList.
create unique index invitations_one_open on invitations (tenant_id, email) where ended_at is null;
-- InvitationExpire: the oldest first.
create index invitations_by_expiry on invitations (expires_at);

create table throttles (
    subject  text collate "C" primary key,
    tries    integer not null,
    last_at  timestamptz not null,
    until_at timestamptz not null,
    constraint throttles_subject_length check (char_length(subject) between 1 and 200)
);
comment on table throttles is
    'How often something was tried lately, by what it was tried on: "sign-in account 3f…", "sign-in address 192.0.2.7". Nothing is done before until_at.';
-- ThrottleExpire: the oldest first.
create index throttles_by_age on throttles (last_at);

alter table memberships add column used_at timestamptz;
alter table memberships add column notices text[];
alter table memberships add constraint memberships_notices_known
    check (notices <@ array['failing', 'disabled', 'recovered', 'undelivered']);
comment on column memberships.used_at is 'When the person last signed in or switched to this tenant: signing in leads back there.';
comment on column memberships.notices is 'What of the tenant''s endpoints the person is mailed about; null: what their role is by default.';

create table mails (
    id          text collate "C" primary key,
    key         text not null,
    kind        text not null,
    tenant_id   text collate "C" references tenants (id),
    recipient   text not null,
    subject     text not null,
    body        bytea not null,
    created_at  timestamptz not null default statement_timestamp(),
    good_until  timestamptz not null,
    next_at     timestamptz not null default statement_timestamp(),
    tries       integer not null default 0,
    problem     text,
    sent_at     timestamptz,
    dropped_at  timestamptz,
    constraint mails_key_unique unique (key),
    constraint mails_key_length check (char_length(key) between 1 and 200),
    constraint mails_kind_is_plain check (kind ~ '^[a-z]+(-[a-z]+)*$'),
    constraint mails_recipient_length check (char_length(recipient) between 3 and 254),
    constraint mails_subject_is_a_line check (char_length(subject) between 1 and 300 and subject !~ '[[:cntrl:]]'),
    constraint mails_ends_once check (sent_at is null or dropped_at is null)
);
comment on table mails is
    'Mails, written in the transaction of what they tell of and sent by a job. tenant_id null: about the person, in whatever tenant.';
comment on column mails.key is 'What the mail tells of. A second one with the same key is not stored, so that one thing is told once.';
comment on column mails.body is 'Text and HTML as JSON, sealed for "mails/" and the id.';
comment on column mails.next_at is 'When it may be tried again; while it is being sent, when another process may take it over.';
comment on column mails.good_until is 'After that it is not sent any more: its link is dead, or the news is old.';
-- MailClaim: what waits, by its time.
create index mails_waiting on mails (next_at, id) where sent_at is null and dropped_at is null;
-- MailExpire: the oldest first.
create index mails_by_age on mails (created_at);
