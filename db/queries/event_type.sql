-- The catalog of event types.

-- name: EventTypePut
-- all tenants: the catalog of event types is the platform's. Creates or replaces; the day since when it is deprecated stays.
insert into event_types as t (name, description, "group", schema, example, schema_version, enforced, deprecated_at)
values ($1, $2, $3, $4::text::json, $5::text::json, $6, $8, case when $7 then statement_timestamp() end)
on conflict (name) do update
set description = excluded.description, "group" = excluded."group", schema = excluded.schema, example = excluded.example,
    schema_version = excluded.schema_version, enforced = excluded.enforced,
    deprecated_at = case when $7 then coalesce(t.deprecated_at, statement_timestamp()) end,
    updated_at = statement_timestamp()
returning name, description, "group", coalesce(schema::text, ''), coalesce(example::text, ''), schema_version, enforced, deprecated_at, created_at, updated_at, t.xmax = 0;

-- name: EventTypeRead
-- all tenants: the catalog of event types is the platform's.
select name, description, "group", coalesce(schema::text, ''), coalesce(example::text, ''), schema_version, enforced, deprecated_at, created_at, updated_at
from event_types
where name = $1;

-- name: EventTypeList
-- all tenants: the catalog of event types is the platform's. By name, of one group ($1) or all, from behind name $2.
select name, description, "group", coalesce(schema::text, ''), coalesce(example::text, ''), schema_version, enforced, deprecated_at, created_at, updated_at
from event_types
where ($1 = '' or "group" = $1) and name > $2
order by name
limit $3;

-- name: EventTypesEnforced
-- all tenants: the catalog of event types is the platform's. Which of these types are enforced, one probe of the primary key each.
select name, schema_version, updated_at, schema::text
from event_types
where name = any ($1) and enforced;
