-- Signing in with a code beside the password, the codes for when the phone is gone, and who signed in from where.
--
-- All of it belongs to persons, not to tenants: a person has one sign-in for all of theirs. A secret that makes codes is sealed with the key ring;
-- recovery codes are kept as SHA-256 of 80 random bits and the member: a copy of these tables opens no door.

create table second_factors (
    member_id    text collate "C" primary key references members (id) on delete cascade,
    secret       bytea not null,
    session_id   text collate "C" not null,
    created_at   timestamptz not null default statement_timestamp(),
    confirmed_at timestamptz,
    last_step    bigint not null default 0
);
comment on table second_factors is 'What makes a member''s codes (RFC 6238). confirmed_at null: being set up, by the session session_id, and not yet asked for.';
comment on column second_factors.secret is 'Sealed for "second_factors/" and the member.';
comment on column second_factors.last_step is 'The step, of 30 seconds since 1970, of the last code that was used: no code of it or before works any more.';

create table recovery_codes (
    member_id  text collate "C" not null references members (id) on delete cascade,
    hash       bytea not null,
    created_at timestamptz not null default statement_timestamp(),
    used_at    timestamptz,
    primary key (member_id, hash),
    constraint recovery_codes_hash_is_sha256 check (octet_length(hash) = 32)
);
comment on table recovery_codes is 'Each signs its member in once in place of a code. used_at is set by the statement that lets them in.';

-- Who signed in, or was refused, for 90 days.
create table sign_ins (
    id        bigint generated always as identity primary key,
    member_id text collate "C" references members (id) on delete cascade,
    tenant_id text collate "C" references tenants (id),
    label     text not null default '',
    at        timestamptz not null default statement_timestamp(),
    how       text not null,
    outcome   text not null,
    browser   text not null default '',
    address   text not null default '',
    constraint sign_ins_of_somebody check (member_id is not null or tenant_id is not null),
    constraint sign_ins_how_known check (how in ('password', 'code', 'recovery code', 'invitation', 'portal link')),
    constraint sign_ins_outcome_known check (outcome in ('in', 'refused', 'unfinished')),
    constraint sign_ins_texts_are_short check (char_length(label) <= 254 and char_length(browser) <= 100 and char_length(address) <= 64)
);
comment on table sign_ins is
    'A member''s sign-ins in all their tenants, or, without a member, those by portal links into one. unfinished: the password was right, and no code has followed.';
comment on column sign_ins.browser is 'In words: "Firefox on Linux".';
-- SignInList of a member: newest first; and the cascade from members.
create index sign_ins_by_member on sign_ins (member_id, id desc) where member_id is not null;
-- SignInList of a tenant's portal links: newest first.
create index sign_ins_by_tenant on sign_ins (tenant_id, id desc) where member_id is null;
-- SignInExpire: the oldest first.
create index sign_ins_by_age on sign_ins (at);

-- Between password and code. Nothing but the code can be given with it.
create table half_sign_ins (
    hash       bytea primary key,
    member_id  text collate "C" not null references members (id) on delete cascade,
    sign_in_id bigint references sign_ins (id) on delete set null,
    created_at timestamptz not null default statement_timestamp(),
    expires_at timestamptz not null,
    constraint half_sign_ins_hash_is_sha256 check (octet_length(hash) = 32),
    constraint half_sign_ins_short_lived check (expires_at <= created_at + interval '10 minutes')
);
comment on table half_sign_ins is 'Who gave the right password and has yet to give a code. Another password, or another way to make codes, ends it.';
-- HalfSignInsEnd, and the cascade from members.
create index half_sign_ins_by_member on half_sign_ins (member_id);
-- The set null from sign_ins.
create index half_sign_ins_by_sign_in on half_sign_ins (sign_in_id) where sign_in_id is not null;
-- HalfSignInExpire: the oldest first.
create index half_sign_ins_by_expiry on half_sign_ins (expires_at);

alter table tenants add column second_factor_since timestamptz;
comment on column tenants.second_factor_since is
    'Members whose session began after that need a second factor: without one they can only set it up. Null: everybody decides for themselves.';

alter table members add column mail_new_browser boolean not null default true;
comment on column members.mail_new_browser is 'Whether the person is mailed when they sign in with a browser that is not among their sign-ins.';
