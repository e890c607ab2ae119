-- What one tenant may ask of the platform, and what it has published by day.

create table tenant_limits (
    tenant_id           text collate "C" primary key references tenants (id),
    events_per_second   integer,
    events_per_day_soft bigint,
    events_per_day      bigint,
    endpoints           integer,
    payload_bytes       integer,
    retention_days      integer,
    updated_at          timestamptz not null default statement_timestamp(),
    constraint tenant_limits_are_positive check (
        events_per_second > 0 and events_per_day_soft > 0 and events_per_day > 0 and endpoints > 0 and payload_bytes > 0 and retention_days > 0)
);
comment on table tenant_limits is 'Limits of single tenants beside tenants.concurrency. No row, or null: none.';
comment on column tenant_limits.events_per_day_soft is 'From here on it is announced; beyond events_per_day the API refuses.';

create table tenant_days (
    tenant_id text collate "C" not null references tenants (id),
    day       date not null,
    events    bigint not null,
    told      smallint not null default 0,
    primary key (tenant_id, day),
    constraint tenant_days_told_known check (told in (0, 1, 2))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
comment on table tenant_days is 'Events published to a tenant by UTC day of dispatch, without tests. Written by the dispatcher, a row a tenant and batch.';
comment on column tenant_days.told is '1: that the soft limit is reached was told; 2: that the hard one is.';
-- TenantDayPrune: the oldest first.
create index tenant_days_by_day on tenant_days (day);
