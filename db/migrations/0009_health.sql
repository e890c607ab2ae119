-- What the past of an endpoint says about how it is sent to: consecutive failures, circuit, throttle, and what was told about it.

alter table lanes add column ailing boolean not null default false;
comment on column lanes.ailing is
    'Results of this endpoint are held against endpoint_health, successes too: it fails, or is sent to with restraint. Those of others cost nothing more.';

create table endpoint_health (
    endpoint_id    text collate "C" primary key,
    tenant_id      text collate "C" not null,
    phase          text not null default 'closed',
    phase_at       timestamptz,
    step           integer not null default 0,
    failed         bigint[] not null default '{}',
    failing_since  timestamptz,
    disable_at     timestamptz,
    warned_at      timestamptz,
    told           boolean not null default false,
    told_at        timestamptz,
    flagged        boolean not null default false,
    throttled_at   timestamptz,
    passed         integer not null default 0,
    last_at        timestamptz,
    last_class     text,
    last_code      integer,
    last_delivery  text collate "C",
    constraint endpoint_health_endpoint foreign key (tenant_id, endpoint_id) references endpoints (tenant_id, id),
    constraint endpoint_health_phase_known check (phase in ('closed', 'open', 'half')),
    constraint endpoint_health_failed_is_bounded check (cardinality(failed) <= 1000)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
comment on table endpoint_health is
    'One row an endpoint that has failed since it was made, enabled or given another URL. Written by the transactions that record attempts, under the lock of its lanes row.';
comment on column endpoint_health.phase is 'The circuit: closed; open, one probe at each lanes.not_before; half open, lanes.limit_now grows with every success.';
comment on column endpoint_health.failed is 'Hashes of the different deliveries that failed since the last success, oldest first.';
comment on column endpoint_health.disable_at is 'When the endpoint is disabled if it fails until then.';
comment on column endpoint_health.told is 'Its people were told that it fails, and are to be told when it no longer does.';
comment on column endpoint_health.flagged is 'Its own settings keep it from being sent to: nothing left us, and nothing counts against it.';

create table digests (
    tenant_id   text collate "C" not null references tenants (id),
    hour        timestamptz not null,
    endpoint_id text collate "C" not null,
    n           integer not null,
    delivery_id text collate "C" not null,
    class       text not null,
    code        integer,
    excerpt     text not null,
    primary key (tenant_id, hour, endpoint_id),
    constraint digests_hour_is_full check (extract(epoch from hour)::bigint % 3600 = 0)
);
comment on table digests is
    'What became undelivered in an hour, by endpoint, with the latest of it as an example. A row goes when its mail is written: one mail a tenant and hour.';
-- DigestTake: full hours.
create index digests_by_hour on digests (hour);
