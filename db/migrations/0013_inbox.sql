-- Inboxes: receiving URLs of our own, on which a tenant without a server rehearses what a server may do.
--
-- What they keep is bounded by construction: so many inboxes a tenant (slot), so many requests an inbox (number), so many bytes a request.

create table inboxes (
    id         text collate "C" primary key,
    tenant_id  text collate "C" not null references tenants (id),
    slot       smallint not null,
    token      text collate "C" not null,
    answer     text not null,
    seconds    smallint not null,
    received   bigint not null default 0,
    refused    bigint not null default 0,
    tokens     real not null,
    counted_at timestamptz not null default statement_timestamp(),
    created_by text not null,
    created_at timestamptz not null default statement_timestamp(),
    expires_at timestamptz not null,
    constraint inboxes_tenant unique (tenant_id, id),
    constraint inboxes_few unique (tenant_id, slot),
    constraint inboxes_slot_range check (slot between 1 and 5),
    constraint inboxes_token_unique unique (token),
    constraint inboxes_token_unguessable check (char_length(token) >= 32),
    constraint inboxes_answer_known check (answer in ('200', '500', '410', '429', 'slow')),
    constraint inboxes_seconds_range check (seconds between 1 and 60)
) with (fillfactor = 80);
comment on table inboxes is 'Receiving URLs for rehearsing. The token is the whole of the right to post; it stands in the endpoint''s URL as well, and so is no secret to the tenant.';
comment on column inboxes.slot is 'How many a tenant may have, as a constraint.';
comment on column inboxes.seconds is 'Of 429: its Retry-After. Of slow: after how long it answers.';
comment on column inboxes.tokens is 'How many requests may come at once, as of counted_at: a token bucket.';
-- InboxPrune: the oldest first.
create index inboxes_by_expiry on inboxes (expires_at);

create table inbox_requests (
    tenant_id   text collate "C" not null,
    inbox_id    text collate "C" not null,
    number      bigint not null,
    event_id    text collate "C",
    received_at timestamptz not null default statement_timestamp(),
    headers     bytea not null,
    body        bytea not null,
    size        bigint not null,
    answer      text not null,
    seconds     smallint not null,
    primary key (inbox_id, number),
    constraint inbox_requests_inbox foreign key (tenant_id, inbox_id) references inboxes (tenant_id, id) on delete cascade,
    constraint inbox_requests_body_bounded check (octet_length(body) <= 65536),
    constraint inbox_requests_headers_bounded check (octet_length(headers) <= 32768)
);
comment on column inbox_requests.event_id is 'Its webhook-id, where it has one that an event of ours may have.';
comment on table inbox_requests is 'The last hundred requests of an inbox. Headers are sealed: an endpoint''s static ones are among them.';
-- InboxForget, and the cascade from inboxes: what a tenant has received of one event.
create index inbox_requests_by_event on inbox_requests (tenant_id, event_id) where event_id is not null;

-- The second wall (0012), where it stands already.
do $$
declare
    walled text;
begin
    if to_regrole('waybill_tenant') is null then
        return;
    end if;
    grant select, insert, update, delete on inboxes to waybill_tenant;
    grant select, delete on inbox_requests to waybill_tenant;
    foreach walled in array array['inboxes', 'inbox_requests'] loop
        execute format('alter table %I enable row level security', walled);
        execute format($policy$create policy wall on %I using (tenant_id = (select current_setting('waybill.tenant', true))
                                                               or (select current_user::text) <> 'waybill_tenant')$policy$, walled);
    end loop;
end
$$;
