-- waybill.publish: the outbox's only door. Any role that may connect can publish and can do nothing else here; to narrow it,
-- revoke execute on function waybill.publish from public and grant it to the roles that publish.

-- ulid: 26 characters, Crockford's base 32: 48 bits of milliseconds, then 60 random bits (as hexadecimal digits, which are a subset).
create function ulid(at timestamptz) returns text
    language plpgsql volatile
    set search_path = waybill, pg_temp
as $$
declare
    d  constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
    ms constant bigint := (extract(epoch from at) * 1000)::bigint;
begin
    return substr(d, ((ms >> 45) & 31)::integer + 1, 1) || substr(d, ((ms >> 40) & 31)::integer + 1, 1)
        || substr(d, ((ms >> 35) & 31)::integer + 1, 1) || substr(d, ((ms >> 30) & 31)::integer + 1, 1)
        || substr(d, ((ms >> 25) & 31)::integer + 1, 1) || substr(d, ((ms >> 20) & 31)::integer + 1, 1)
        || substr(d, ((ms >> 15) & 31)::integer + 1, 1) || substr(d, ((ms >> 10) & 31)::integer + 1, 1)
        || substr(d, ((ms >> 5) & 31)::integer + 1, 1) || substr(d, (ms & 31)::integer + 1, 1)
        || upper(substr(replace(gen_random_uuid()::text, '-', ''), 1, 16));
end;
$$;

-- json_depth: how deep a JSON text nests. Called only for texts with many opening brackets.
create function json_depth(j text) returns integer
    language sql immutable
    set search_path = waybill, pg_temp
as $$
    select coalesce(max(depth), 0)::integer
    from (
        select sum(case when m[1] in ('[', '{') then 1 else -1 end) over (order by n) as depth
        from regexp_matches(regexp_replace(j, '"(\\.|[^"\\])*"', '', 'g'), '[][{}]', 'g') with ordinality as t(m, n)
    ) s
$$;

-- outbox_add puts one event into the outbox, once for each id. It is the one place that says what an event may be.
create function outbox_add(
    in p_tenant text, in p_type text, in p_resource_type text, in p_resource_id text, in p_data json,
    in p_sequence bigint, in p_version integer, in p_occurred_at timestamptz, in p_id text,
    out event_id text, out repeated boolean
)
    language plpgsql volatile
    set search_path = waybill, pg_temp
as $$
declare
    tenant   text;
    body     text := p_data::text;
    occurred timestamptz := coalesce(p_occurred_at, now());
    digest   bytea;
    known    bytea;
begin
    select t.id into tenant from tenants t where t.uid = p_tenant;
    if tenant is null then
        raise exception using errcode = 'foreign_key_violation', constraint = 'outbox_tenant_exists',
            message = format('waybill: there is no tenant with uid %L', left(p_tenant, 140));
    end if;
    if p_type is null or char_length(p_type) > 128 or p_type !~ '^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$' then
        raise exception using errcode = 'check_violation', constraint = 'outbox_type_is_plain',
            message = 'waybill: type must be words of A-Z a-z 0-9 _ joined by full stops, 128 characters at most';
    end if;
    if p_resource_type is null or p_resource_type !~ '^[A-Za-z0-9_.-]{1,64}$' then
        raise exception using errcode = 'check_violation', constraint = 'outbox_resource_type_is_plain',
            message = 'waybill: resource_type must be 1 to 64 characters of A-Z a-z 0-9 _ . -';
    end if;
    if p_resource_id is null or char_length(p_resource_id) not between 1 and 200 or p_resource_id ~ '[\x01-\x1f\x7f]' then
        raise exception using errcode = 'check_violation', constraint = 'outbox_resource_id_is_plain',
            message = 'waybill: resource_id must be 1 to 200 characters without control characters';
    end if;
    if p_sequence is not null and p_sequence not between 0 and 9007199254740991 then
        raise exception using errcode = 'check_violation', constraint = 'outbox_sequence_range',
            message = 'waybill: sequence must be 0 to 9007199254740991';
    end if;
    if p_version is null or p_version not between 1 and 1000000 then
        raise exception using errcode = 'check_violation', constraint = 'outbox_version_range',
            message = 'waybill: version must be 1 to 1000000';
    end if;
    if occurred not between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00' then
        raise exception using errcode = 'check_violation', constraint = 'outbox_occurred_at_range',
            message = 'waybill: occurred_at must lie in the years 1 to 9999';
    end if;
    if p_id is not null and p_id !~ '^[A-Za-z0-9_-]{1,64}$' then
        raise exception using errcode = 'check_violation', constraint = 'outbox_id_is_plain',
            message = 'waybill: id must be 1 to 64 characters of A-Z a-z 0-9 _ -';
    end if;
    if body is null then
        raise exception using errcode = 'check_violation', constraint = 'outbox_data_present',
            message = 'waybill: data must be a JSON value';
    end if;
    if octet_length(body) > 262144 then
        raise exception using errcode = 'check_violation', constraint = 'outbox_data_size',
            message = format('waybill: data is %s bytes; 262144 are allowed', octet_length(body));
    end if;
    if char_length(body) - char_length(translate(body, '[{', '')) > 64 and json_depth(body) > 64 then
        raise exception using errcode = 'check_violation', constraint = 'outbox_data_depth',
            message = 'waybill: data nests deeper than 64 levels';
    end if;

    -- occurred_at counts as content only when the caller named a time of its own: the default differs at every call.
    digest := sha256(convert_to(concat_ws(E'\x1f', p_type, p_resource_type, p_resource_id, coalesce(p_sequence::text, ''), p_version::text,
        case when occurred = now() then '' else extract(epoch from occurred)::text end, body), 'UTF8'));
    event_id := coalesce(p_id, 'evt_' || ulid(clock_timestamp()));
    insert into event_ids (tenant_id, id, content, day)
    values (tenant, event_id, digest, (now() at time zone 'UTC')::date)
    on conflict (tenant_id, id) do nothing;
    repeated := not found;
    if repeated then
        select i.content into known from event_ids i where i.tenant_id = tenant and i.id = event_id;
        if known is distinct from digest then
            raise exception using errcode = 'unique_violation', constraint = 'event_ids_content',
                message = format('waybill: the event id %s was already published with other content', event_id);
        end if;
        return;
    end if;

    insert into outbox (tenant_id, id, type, version, resource_type, resource_id, sequence, occurred_at, data)
    values (tenant, event_id, p_type, p_version, p_resource_type, p_resource_id, p_sequence, occurred, p_data);
    if exists (select from dispatcher d where d.asleep) then
        perform pg_notify('waybill_outbox', '');
    end if;
end;
$$;

create function publish(
    tenant text, type text, resource_type text, resource_id text, data json,
    sequence bigint default null, version integer default 1, occurred_at timestamptz default now(), id text default null
) returns text
    language sql volatile security definer
    set search_path = waybill, pg_temp
as $$
    select event_id from outbox_add(tenant, type, resource_type, resource_id, data, sequence, version, occurred_at, id)
$$;
comment on function publish(text, text, text, text, json, bigint, integer, timestamptz, text) is
    'Publishes an event in the caller''s transaction and returns its id. The same id again with the same content publishes nothing; with other content it is an error.';

revoke all on function ulid(timestamptz), json_depth(text), make_partitions(date, date) from public;
revoke all on function outbox_add(text, text, text, text, json, bigint, integer, timestamptz, text) from public;
grant usage on schema waybill to public;
grant execute on function publish(text, text, text, text, json, bigint, integer, timestamptz, text) to public;
