-- Catch-ups: everything that is parked of one endpoint and a time range, sent again by a job.

create table recoveries (
    id           text collate "C" primary key,
    tenant_id    text collate "C" not null,
    endpoint_id  text collate "C" not null,
    since        timestamptz not null,
    until        timestamptz not null,
    as_of        timestamptz not null,
    from_id      text collate "C" not null,
    until_id     text collate "C" not null,
    statuses     text[] not null,
    newest       boolean not null,
    per_second   integer,
    total        bigint not null,
    older        bigint not null default 0,
    state        text not null default 'running',
    ending       text,
    ending_at    timestamptz,
    passed       text collate "C" not null default '',
    exhausted    boolean not null default false,
    moved        bigint not null default 0,
    delivered    bigint not null default 0,
    failed       bigint not null default 0,
    returned     bigint not null default 0,
    gen          bigint not null default 1,
    beat_at      timestamptz not null default now(),
    requested_by text not null,
    created_at   timestamptz not null default now(),
    finished_at  timestamptz,
    constraint recoveries_endpoint foreign key (tenant_id, endpoint_id) references endpoints (tenant_id, id),
    constraint recoveries_state_known check (state in ('running', 'done', 'cancelled', 'stopped')),
    constraint recoveries_statuses_known check (statuses <@ array['undelivered', 'held'] and cardinality(statuses) > 0),
    constraint recoveries_pace_range check (per_second between 1 and 10000),
    constraint recoveries_finished_has_time check ((state = 'running') = (finished_at is null)),
    constraint recoveries_ending_has_time check ((ending is null) = (ending_at is null))
);
comment on table recoveries is 'Catch-ups, running and past. A River job is only a ticket to work on one, if its generation still matches.';
comment on column recoveries.as_of is 'What was parked later is none of it: the numbers that were previewed are the numbers that are sent.';
comment on column recoveries.total is 'How many were parked when it began, of those that it is to send; older: how many newest left out.';
comment on column recoveries.ending is 'Why it ends before its time: cancelled, or the reason for which its endpoint does not send. Nothing more is moved then.';
comment on column recoveries.passed is 'The last delivery that was looked at: it goes on behind it.';
comment on column recoveries.returned is 'Of those moved: held or cancelled before they were attempted.';
-- No endpoint has two at once.
create unique index recoveries_one_at_a_time on recoveries (endpoint_id) where state = 'running';
-- RecoveryList.
create index recoveries_by_tenant on recoveries (tenant_id, id desc);
-- RecoverySweep: those whose job is gone.
create index recoveries_running on recoveries (beat_at) where state = 'running';
-- RecoveryPrune: the oldest first.
create index recoveries_by_end on recoveries (finished_at) where finished_at is not null;

create table recovery_picks (
    recovery_id text collate "C" not null references recoveries (id) on delete cascade,
    tenant_id   text collate "C" not null,
    delivery_id text collate "C" not null,
    day         date not null,
    primary key (recovery_id, delivery_id)
);
comment on table recovery_picks is 'The newest delivery of each resource, for catch-ups that send no other; chosen when they begin.';

create table recovery_deliveries (
    recovery_id text collate "C" not null references recoveries (id) on delete cascade,
    tenant_id   text collate "C" not null,
    delivery_id text collate "C" not null,
    day         date not null,
    status      text not null,
    reason      text not null,
    since       timestamptz not null,
    failures    integer not null,
    primary key (recovery_id, delivery_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
comment on table recovery_deliveries is
    'What a running catch-up has made due and no attempt has settled yet, as it was parked: a cancelled one puts it back. A few thousand rows at most.';
