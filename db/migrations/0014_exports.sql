-- Exports made by a job and kept for a day, and filters of the history that people have saved.

create table exports (
    id          text collate "C" primary key,
    tenant_id   text collate "C" not null references tenants (id),
    kind        text not null,
    filter      json not null,
    revealed    boolean not null,
    state       text not null default 'running',
    expected    bigint,
    at_day      date,
    at_position bigint,
    at_id       text collate "C",
    rows        bigint not null default 0,
    bytes       bigint not null default 0,
    chunks      integer not null default 0,
    cut         boolean not null default false,
    gen         bigint not null default 1,
    beat_at     timestamptz not null default statement_timestamp(),
    created_by  text not null,
    created_at  timestamptz not null default statement_timestamp(),
    finished_at timestamptz,
    constraint exports_tenant unique (tenant_id, id),
    constraint exports_kind_known check (kind in ('deliveries', 'attempts')),
    constraint exports_state_known check (state in ('running', 'done', 'cancelled')),
    constraint exports_finished_has_time check ((state = 'running') = (finished_at is null)),
    constraint exports_place_is_whole check ((at_day is null) = (at_id is null) and (at_day is null) = (at_position is null))
);
comment on table exports is 'CSV files that a job makes. A River job is only a ticket to work on one, if its generation still matches.';
comment on column exports.filter is 'What was asked for, with an end: what is made later is none of it.';
comment on column exports.revealed is 'Static headers are in it: it is for those alone who may reveal them.';
comment on column exports.expected is 'How many deliveries match, where they could be counted; null: too many.';
comment on column exports.at_id is 'The last delivery that is in it, with its day and position: it goes on behind that. null: at the beginning.';
comment on column exports.cut is 'It ended at a limit: there is more.';
-- A tenant has one at a time.
create unique index exports_one_at_a_time on exports (tenant_id) where state = 'running';
-- ExportList: the newest first.
create index exports_by_tenant on exports (tenant_id, id desc);
-- ExportSweep: those whose job is gone.
create index exports_running on exports (beat_at) where state = 'running';
-- ExportPrune: the oldest first.
create index exports_by_end on exports (finished_at) where finished_at is not null;

create table export_chunks (
    tenant_id text collate "C" not null,
    export_id text collate "C" not null,
    number    integer not null,
    body      bytea not null,
    primary key (export_id, number),
    constraint export_chunks_export foreign key (tenant_id, export_id) references exports (tenant_id, id) on delete cascade
);
comment on table export_chunks is 'The file in pieces, in order; each was written with the place behind it.';

create table saved_filters (
    id         text collate "C" primary key,
    tenant_id  text collate "C" not null,
    member_id  text collate "C" not null,
    slot       smallint not null,
    name       text not null,
    query      text not null,
    created_at timestamptz not null default statement_timestamp(),
    constraint saved_filters_member foreign key (tenant_id, member_id) references memberships (tenant_id, member_id) on delete cascade,
    constraint saved_filters_few unique (tenant_id, member_id, slot),
    constraint saved_filters_slot_range check (slot between 1 and 20),
    constraint saved_filters_name_unique unique (tenant_id, member_id, name),
    constraint saved_filters_name_length check (char_length(name) between 1 and 60),
    constraint saved_filters_query_length check (char_length(query) between 1 and 2000)
);
comment on table saved_filters is 'Filters of the delivery list that a member has given a name, in one tenant: the query of its address.';

-- The second wall, where it stands already.
do $$
declare
    walled text;
begin
    if to_regrole('waybill_tenant') is null then
        return;
    end if;
    grant select, insert, update (state, finished_at), delete on exports to waybill_tenant;
    grant select, delete on export_chunks to waybill_tenant;
    grant select, insert, delete on saved_filters to waybill_tenant;
    foreach walled in array array['exports', 'export_chunks', 'saved_filters'] loop
        execute format('alter table %I enable row level security', walled);
        execute format($policy$create policy wall on %I using (tenant_id = (select current_setting('waybill.tenant', true))
                                                               or (select current_user::text) <> 'waybill_tenant')$policy$, walled);
    end loop;
end
$$;
