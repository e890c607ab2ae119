-- What consumers have acknowledged, kept when they are put elsewhere, for the report of what reached a tenant and what did not.

alter table consumers add column since_position bigint not null default 0;
comment on column consumers.since_position is 'Everything of the consumer''s types behind it, up to position, has been acknowledged. It starts anew when the consumer is put elsewhere.';
update consumers set since_position = position;

create table consumer_ranges (
    tenant_id     text collate "C" not null references tenants (id),
    name          text collate "C" not null,
    types         text[] not null,
    from_position bigint not null,
    to_position   bigint not null,
    closed_at     timestamptz not null default statement_timestamp(),
    constraint consumer_ranges_not_empty check (to_position > from_position)
);
comment on table consumer_ranges is 'What a consumer had acknowledged when it was put elsewhere, or wanted other types, or was deleted: behind from_position, up to to_position.';
-- GapCount, GapList: all of a tenant's.
create index consumer_ranges_by_tenant on consumer_ranges (tenant_id);
-- ConsumerRangePrune: the oldest first.
create index consumer_ranges_by_age on consumer_ranges (closed_at);
