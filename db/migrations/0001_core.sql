-- The tables of the main path: outbox → events → deliveries and due → lanes → attempts.
--
-- Everything lives in the schema `waybill`; connections have it as their search_path. Ids are text compared byte by byte
-- (collate "C"), so that they sort by the time inside them whatever the server's locale.

create table tenants (
    id           text collate "C" primary key,
    uid          text collate "C" not null,
    name         text not null,
    concurrency  integer not null default 50,
    preset       text,
    time_zone    text not null default 'UTC',
    suspended_at timestamptz,
    created_at   timestamptz not null default now(),
    updated_at   timestamptz not null default now(),
    constraint tenants_uid_unique unique (uid),
    constraint tenants_uid_is_plain check (uid ~ '^[A-Za-z0-9_.:-]{1,128}$'),
    constraint tenants_name_length check (char_length(name) between 1 and 200),
    constraint tenants_concurrency_range check (concurrency between 1 and 1000)
);

-- ---------------------------------------------------------------------------------------------------------------
-- Endpoints: where events go. `rev` grows with every change of anything a sender needs to know, so that a running
-- lane notices with one comparison.

create table header_sets (
    id         text collate "C" primary key,
    tenant_id  text collate "C" not null references tenants (id),
    names      text[] not null,
    sealed     bytea not null,
    created_at timestamptz not null default now(),
    constraint header_sets_tenant unique (tenant_id, id)
);
comment on table header_sets is
    'Static headers of an endpoint, sealed. A set never changes: attempts point at the one they were sent with.';

create table endpoints (
    id              text collate "C" primary key,
    tenant_id       text collate "C" not null references tenants (id),
    url             text not null,
    description     text not null default '',
    state           text not null default 'active',
    reason          text,
    state_by        text,
    state_at        timestamptz not null default now(),
    verified_at     timestamptz,
    scheme          text not null default 'v1',
    payload         text not null default 'full',
    header_set_id   text collate "C",
    concurrency     integer not null default 10,
    rate_per_second integer,
    preset          text,
    rev             bigint not null default 1,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    deleted_at      timestamptz,
    constraint endpoints_tenant unique (tenant_id, id),
    constraint endpoints_header_set foreign key (tenant_id, header_set_id) references header_sets (tenant_id, id),
    constraint endpoints_state_known check (state in ('active', 'paused', 'disabled')),
    constraint endpoints_scheme_known check (scheme in ('v1', 'v1+v1a', 'v1a', 'hex')),
    constraint endpoints_payload_known check (payload in ('full', 'thin')),
    constraint endpoints_url_length check (char_length(url) between 1 and 2048),
    constraint endpoints_description_length check (char_length(description) <= 500),
    constraint endpoints_concurrency_range check (concurrency between 1 and 100),
    constraint endpoints_rate_range check (rate_per_second between 1 and 10000)
);
-- EndpointList: a tenant's endpoints, newest first.
create index endpoints_by_tenant on endpoints (tenant_id, id desc) where deleted_at is null;

create table subscriptions (
    tenant_id   text collate "C" not null,
    pattern     text collate "C" not null,
    endpoint_id text collate "C" not null,
    ordinal     integer not null,
    primary key (tenant_id, pattern, endpoint_id),
    constraint subscriptions_endpoint foreign key (tenant_id, endpoint_id) references endpoints (tenant_id, id),
    constraint subscriptions_pattern_known check (pattern ~ '^(\*|[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*(\.\*)?)$')
);
comment on table subscriptions is
    'What an endpoint wants: an exact type, a prefix as `order.*`, or `*` for every type, also future ones.';
-- EndpointTypes: the patterns of one endpoint in the order they were given.
create index subscriptions_by_endpoint on subscriptions (endpoint_id, ordinal);

create table signing_secrets (
    id          text collate "C" primary key,
    tenant_id   text collate "C" not null,
    endpoint_id text collate "C" not null,
    kind        text not null,
    sealed      bytea not null,
    public      text,
    fingerprint text not null,
    created_at  timestamptz not null default now(),
    expires_at  timestamptz,
    constraint signing_secrets_endpoint foreign key (tenant_id, endpoint_id) references endpoints (tenant_id, id),
    constraint signing_secrets_kind_known check (kind in ('hmac', 'ed25519')),
    constraint signing_secrets_public_key check ((kind = 'ed25519') = (public is not null))
);
comment on column signing_secrets.expires_at is 'null: in force; else the end of its overlap. A secret past it signs nothing.';
-- SecretList: an endpoint's secrets, newest first.
create index signing_secrets_by_endpoint on signing_secrets (endpoint_id, id desc);

-- ---------------------------------------------------------------------------------------------------------------
-- Outbox: written in the publisher's own transaction, emptied by the dispatcher.

create table event_ids (
    tenant_id text collate "C" not null references tenants (id),
    id        text collate "C" not null,
    content   bytea not null,
    day       date not null,
    primary key (tenant_id, id),
    constraint event_ids_are_plain check (id ~ '^[A-Za-z0-9_-]{1,64}$')
);
comment on table event_ids is
    'Idempotency: one row an event id, with the SHA-256 of what was published under it. Not partitioned, so that the promise outlives partitions.';
-- EventIdExpire: retention takes the oldest.
create index event_ids_by_day on event_ids (day);

create table outbox (
    seq           bigint generated always as identity,
    tenant_id     text collate "C" not null,
    id            text collate "C" not null,
    type          text collate "C" not null,
    version       integer not null,
    resource_type text not null,
    resource_id   text not null,
    sequence      bigint,
    occurred_at   timestamptz not null,
    published_at  timestamptz not null default clock_timestamp(),
    data          json not null,
    endpoint_id   text collate "C",
    delivery_id   text collate "C",
    requested_by  text,
    -- The only index: whose turn it is, and each tenant's oldest rows. The table is always emptied again, and the statistics of a table that vacuum once
    -- found empty say that every index is as good as another; so there is no other.
    primary key (tenant_id, seq),
    constraint outbox_test_names_both check ((endpoint_id is null) = (delivery_id is null))
);
comment on column outbox.endpoint_id is 'Set for a test event only: the one endpoint it goes to, whatever that subscribes to.';

create table dispatcher (
    one    boolean primary key default true check (one),
    asleep boolean not null
);
comment on table dispatcher is
    'Whether publish() must ring: NOTIFY takes a database-wide lock at commit, so it is sent only to a dispatcher that sleeps.';
insert into dispatcher (asleep) values (true);

create table positions (
    one  boolean primary key default true check (one),
    last bigint not null
) with (fillfactor = 10);
insert into positions (last) values (0);

-- ---------------------------------------------------------------------------------------------------------------
-- Events and deliveries: the record. Partitioned by day (UTC, the day of dispatch); keys are (id, day) in that order.

create table events (
    position      bigint not null,
    day           date not null,
    tenant_id     text collate "C" not null,
    id            text collate "C" not null,
    type          text collate "C" not null,
    version       integer not null,
    resource_type text not null,
    resource_id   text not null,
    sequence      bigint not null,
    occurred_at   timestamptz not null,
    published_at  timestamptz not null,
    created_at    timestamptz not null,
    test          boolean not null,
    body          text not null,
    thin          text,
    primary key (position, day)
) partition by range (day);
comment on column events.body is 'The exact text sent to every full endpoint. Built once, at dispatch.';
comment on column events.thin is 'The exact text sent to thin endpoints; built when there was one.';
-- EventList: the catalog by cursor.
create index events_by_tenant on events (tenant_id, position) where not test;
-- EventById. Without the tenant, which the query filters by: ids are rarely the same in two tenants, and the entry is half as long.
create index events_by_id on events (id);

create table resources (
    tenant_id text collate "C" not null,
    type      text not null,
    id        text not null,
    sequence  bigint not null,
    position  bigint not null,
    day       date not null,
    primary key (tenant_id, type, id)
) with (fillfactor = 80);
comment on table resources is 'The highest sequence of each resource, and the event that carries it.';

create table deliveries (
    id            text collate "C" not null,
    day           date not null,
    tenant_id     text collate "C" not null,
    endpoint_id   text collate "C" not null,
    position      bigint not null,
    event_id      text collate "C" not null,
    type          text collate "C" not null,
    resource_type text not null,
    resource_id   text not null,
    form          text not null,
    test          boolean not null,
    created_at    timestamptz not null default now(),
    status        text not null default 'pending',
    reason        text,
    attempts      integer not null default 0,
    failures      integer not null default 0,
    last_at       timestamptz,
    last_class    text,
    last_code     integer,
    last_ms       integer,
    finished_at   timestamptz,
    primary key (id, day),
    constraint deliveries_status_known check (status in ('pending', 'delivered', 'undelivered', 'held', 'cancelled')),
    constraint deliveries_form_known check (form in ('full', 'thin'))
) partition by range (day);
comment on table deliveries is
    'One event for one endpoint: the history. Its indexes name no column that an attempt changes, so that recording one is a heap-only update.';
-- DeliveryList: a tenant's history, newest first, by (day, id).
create index deliveries_by_tenant on deliveries (tenant_id, day, id);
-- DeliveryList of one endpoint.
create index deliveries_by_endpoint on deliveries (endpoint_id, day, id);
-- DeliveryList of one event.
create index deliveries_by_event on deliveries (event_id);

create table due (
    delivery_id  text collate "C" primary key,
    day          date not null,
    tenant_id    text collate "C" not null,
    endpoint_id  text collate "C" not null,
    position     bigint not null,
    event_id     text collate "C" not null,
    form         text not null,
    priority     smallint not null,
    next_at      timestamptz not null default now(),
    trigger      text not null,
    failures     integer not null default 0,
    unknowns     smallint not null default 0,
    resume_at    timestamptz,
    requested_by text,
    constraint due_trigger_known check (trigger in ('first', 'retry', 'manual', 'recover', 'test')),
    constraint due_priority_known check (priority in (0, 1, 2))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
comment on table due is
    'The only marker of work: a row for each delivery that is to be attempted, gone when it is done or held. Priority 0 tests, 1 events and resends, 2 recoveries.';
comment on column due.resume_at is 'When a manual resend of a pending delivery fails, its schedule goes on at this time, unchanged.';
comment on column due.unknowns is 'Interrupted attempts in a row; the third counts as one failure.';
-- LaneFetch, LaneLook: what an endpoint has to send, in order. "POSIX" sorts as "C" does, and keeps this index from being searched for a delivery's id alone:
-- when vacuum has once found the table empty, a scan of all of it would seem as cheap as the primary key.
create index due_by_lane on due (endpoint_id, priority, next_at, delivery_id collate "POSIX");

create table parked (
    delivery_id text collate "C" primary key,
    day         date not null,
    tenant_id   text collate "C" not null,
    endpoint_id text collate "C" not null,
    status      text not null,
    reason      text not null,
    since       timestamptz not null,
    constraint parked_status_known check (status in ('undelivered', 'held'))
);
comment on table parked is 'What waits for a person: the undelivered list and what paused or disabled endpoints hold.';
-- ParkedList: a tenant's undelivered or held, newest first.
create index parked_by_tenant on parked (tenant_id, status, delivery_id);
-- ParkedList of one endpoint.
create index parked_by_endpoint on parked (endpoint_id, status, delivery_id);

create table attempts (
    id               text collate "C" not null,
    day              date not null,
    tenant_id        text collate "C" not null,
    endpoint_id      text collate "C" not null,
    delivery_id      text collate "C" not null,
    number           integer not null,
    trigger          text not null,
    requested_by     text,
    started_at       timestamptz not null,
    class            text not null,
    cause            text,
    detail           text,
    code             integer,
    url              text not null,
    request_headers  text not null,
    header_set_id    text collate "C",
    body_size        integer not null,
    response_headers text,
    response_body    bytea,
    response_size    bigint,
    response_note    text,
    proto            text,
    remote           text,
    tls              text,
    connect_us       integer,
    tls_us           integer,
    wait_us          integer,
    read_us          integer,
    total_us         integer,
    worker_id        text not null,
    -- No two attempts of a delivery share a number: it is counted under the lock of the delivery's row.
    primary key (delivery_id, number, day)
) partition by range (day);
comment on table attempts is 'One HTTP call of a delivery, with the evidence. Times in microseconds. class is a word of package verdict; cause tells a TLS failure''s reason or a time-out''s phase.';
comment on column attempts.request_headers is 'JSON [[name, value], …] as sent, without the endpoint''s own static headers: those are in header_sets.';
-- make_partitions creates the daily partitions of [from_day, to_day] that are missing. Attaching instead of creating in place takes no
-- exclusive lock on the parent; two callers at once are serialised and the second finds the work done.
create function make_partitions(from_day date, to_day date) returns integer
    language plpgsql
    set search_path = waybill, pg_temp
as $$
declare
    parent text;
    d      date;
    child  text;
    made   integer := 0;
begin
    perform pg_advisory_xact_lock(hashtextextended('waybill.make_partitions', 0));
    foreach parent in array array ['events', 'deliveries', 'attempts'] loop
        for d in select generate_series(from_day::timestamp, to_day::timestamp, interval '1 day')::date loop
            child := format('%s_%s', parent, to_char(d, 'YYYYMMDD'));
            continue when to_regclass(child) is not null;
            execute format('create table %I (like %I including all)', child, parent);
            -- A page of deliveries is filled and then, within milliseconds and one transaction, updated as a whole: half of it is kept
            -- free, so that each update stays on its page and touches no index.
            --
            -- Statistics come with the first ten thousand rows. Without any, the planner goes by the size of the files; with those of fifty rows it may
            -- choose to scan all of them, and keeps to that for the minute in which a hundred thousand more arrive.
            execute format('alter table %I set (fillfactor = %s, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_threshold = 10000, '
                           'autovacuum_analyze_threshold = 10000)', child, case parent when 'deliveries' then 45 else 100 end);
            execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, child, d, d + 1);
            made := made + 1;
        end loop;
    end loop;
    return made;
end;
$$;
select make_partitions((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date + 8);

-- ---------------------------------------------------------------------------------------------------------------
-- Lanes and the processes that run them.

create table workers (
    id          text collate "C" primary key,
    lease_until timestamptz not null,
    started_at  timestamptz not null default now(),
    host        text not null,
    pid         integer not null
);
comment on table workers is 'One row a process that sends. A lease that has run out is never renewed: the process comes back under a new id.';

create table lanes (
    endpoint_id text collate "C" primary key,
    tenant_id   text collate "C" not null,
    state       text not null default 'idle',
    gen         bigint not null default 0,
    wake_at     timestamptz,
    not_before  timestamptz,
    limit_now   integer not null default 100,
    suspect     boolean not null default false,
    slots       integer not null default 0,
    owner       text collate "C",
    since       timestamptz not null default now(),
    handed      text[] not null default '{}',
    handed_at   timestamptz,
    seen        bigint not null default 0,
    ok_at       timestamptz,
    constraint lanes_endpoint foreign key (tenant_id, endpoint_id) references endpoints (tenant_id, id),
    constraint lanes_state_known check (state in ('idle', 'sleeping', 'queued', 'running', 'blocked')),
    constraint lanes_running_has_owner check ((state = 'running') = (owner is not null)),
    constraint lanes_only_running_has_slots check (state = 'running' or slots = 0),
    constraint lanes_sleeping_has_time check ((state = 'sleeping') = (wake_at is not null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
alter table lanes alter column handed set storage external;
comment on table lanes is
    'The right to send to one endpoint. A River job {endpoint, gen} is only a ticket to take it; this row is the truth.';
comment on column lanes.handed is 'Delivery ids given to the owner''s senders whose results are not yet committed, as of handed_at.';
comment on column lanes.seen is 'endpoints.rev as the owner last read it.';
-- LaneSweep: who wakes now, who waits for a slot, who was left behind.
alter table lanes alter column handed set storage external;
comment on column lanes.handed is 'Ids given to the owner''s senders and not committed. Long lists are not compressed: that would cost more than writing them.';
create index lanes_sleeping on lanes (wake_at) where state = 'sleeping';
create index lanes_queued on lanes (since) where state = 'queued';
create index lanes_running on lanes (tenant_id) where state = 'running';
create index lanes_owned on lanes (owner) where state = 'running';
create index lanes_blocked on lanes (tenant_id, suspect, since) where state = 'blocked';
