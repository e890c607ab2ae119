-- The freight platform's own tables, in a schema of its own beside Waybill's: what a platform has anyway.
create schema if not exists freight;

create sequence if not exists freight.consignment_number start with 4471;

create table if not exists freight.consignment (
    id          text primary key,
    seller      text not null,
    goods       text not null,
    origin      text not null,
    destination text not null,
    truck       text not null,
    status      text not null,
    version     bigint not null,
    changed_at  timestamptz not null default now(),
    constraint consignment_status_known check (status in ('booked', 'loaded', 'in_transit', 'delivered'))
);
comment on column freight.consignment.version is 'Grows by one with every change of the status: the sequence of its events.';
-- What a start goes on with: a seller's consignments that have not arrived.
create index if not exists consignment_under_way on freight.consignment (seller) where status <> 'delivered';

create table if not exists freight.movement (
    event_id    text collate "C" primary key,
    consignment text not null references freight.consignment (id),
    seller      text not null,
    status      text not null,
    version     bigint not null,
    at          timestamptz not null default clock_timestamp()
);
comment on table freight.movement is 'The ledger of what was committed: one row a status change, written in its transaction, with the id of its event.';
-- What of a seller's has happened since a time.
create index if not exists movement_by_seller on freight.movement (seller, at);
