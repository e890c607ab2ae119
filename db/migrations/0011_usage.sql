-- What each tenant used on each whole day: kept by a job from what is counted for charts, which is kept for some days only, and from the day's events.

create table usage_days (
    tenant_id text collate "C" not null references tenants (id),
    day       date not null,
    events    bigint not null,
    delivered bigint not null,
    attempted bigint not null,
    primary key (tenant_id, day)
);
comment on table usage_days is 'One row a tenant and UTC day with events or attempts, test events left out. A day is written once, after its end.';
-- UsagePrune: the oldest first.
create index usage_days_by_day on usage_days (day);

create table usage_rolled (
    day date primary key
);
comment on table usage_rolled is 'The days that usage_days has.';
