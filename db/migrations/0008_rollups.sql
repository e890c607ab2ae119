-- How attempts ended and how long answers took, by endpoint and quarter of an hour: what charts are drawn from, so that they never count attempts.
--
-- A quarter of an hour, because zones differ from UTC by multiples of it (India by 5:30, Nepal by 5:45): an hour or a day of any zone is a whole number
-- of slots. Rows are kept for some days only (RollupPrune).

create table rollups (
    endpoint_id text collate "C" not null,
    slot        timestamptz not null,
    tenant_id   text collate "C" not null,
    delivered   integer not null default 0,
    redirected  integer not null default 0,
    refused     integer not null default 0,
    broken      integer not null default 0,
    odd         integer not null default 0,
    timed_out   integer not null default 0,
    unreachable integer not null default 0,
    tls         integer not null default 0,
    blocked     integer not null default 0,
    ours        integer not null default 0,
    t00         integer not null default 0,
    t01         integer not null default 0,
    t02         integer not null default 0,
    t03         integer not null default 0,
    t04         integer not null default 0,
    t05         integer not null default 0,
    t06         integer not null default 0,
    t07         integer not null default 0,
    t08         integer not null default 0,
    t09         integer not null default 0,
    t10         integer not null default 0,
    t11         integer not null default 0,
    t12         integer not null default 0,
    t13         integer not null default 0,
    t14         integer not null default 0,
    t15         integer not null default 0,
    t16         integer not null default 0,
    t17         integer not null default 0,
    t18         integer not null default 0,
    t19         integer not null default 0,
    t20         integer not null default 0,
    t21         integer not null default 0,
    t22         integer not null default 0,
    t23         integer not null default 0,
    primary key (endpoint_id, slot),
    constraint rollups_slot_is_a_quarter check (extract(epoch from slot)::bigint % 900 = 0)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
comment on table rollups is
    'One row an endpoint and slot in which something was attempted, test events left out. Kept by the transactions that record attempts. Its indexes name no column that an attempt changes.';
comment on column rollups.delivered is 'Attempts that got a 2xx. The others: redirected 3xx, refused 4xx, broken 5xx, odd any other status, no answer in time, none for other reasons, TLS, address not allowed, and what was our own fault or has an unknown outcome.';
comment on column rollups.t00 is 'Answers, of any status, within 5 ms; t01 to t22 within 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10000, 15000, 30000 and 60000 ms; t23 later.';
-- RollupOfTenant.
create index rollups_by_tenant on rollups (tenant_id, slot);
-- RollupPrune.
create index rollups_by_slot on rollups (slot);
