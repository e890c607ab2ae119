-- The record of applied migrations.

-- name: SchemaExists
-- all tenants: the schema belongs to all of them
select exists (select from pg_namespace where nspname = $1);

-- name: TableExists
-- all tenants: the schema belongs to all of them
select to_regclass($1) is not null;

-- name: MigrationList
-- all tenants: the schema belongs to all of them
select name, checksum
from migrations
order by name;

-- name: MigrationInsert
-- all tenants: the schema belongs to all of them
insert into migrations (name, checksum)
values ($1, $2);

-- name: RiverVersion
-- all tenants: River's tables know no tenants
select coalesce(max(version), 0)::int
from river_migration
where line = 'main';

-- name: IndexState
-- Whether the index of this name exists, and whether its build was finished: one that died half-way stays behind invalid.
-- all tenants: the schema belongs to all of them
select i.indisvalid
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = $2;
