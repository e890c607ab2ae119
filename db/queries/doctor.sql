-- What `waybill doctor` asks. Each reads settings or a few rows.

-- name: DoctorBackend
-- all tenants: which server process serves this connection now.
select pg_backend_pid();

-- name: DoctorServer
-- all tenants: version, connections (in all, kept for superusers, in use) and the settings on which promises rest.
select current_setting('server_version_num')::integer, current_setting('max_connections')::integer,
       current_setting('superuser_reserved_connections')::integer,
       (select count(*)::integer from pg_stat_activity where backend_type = 'client backend'),
       current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'), current_setting('autovacuum'),
       case when pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on' then 'on' else 'off' end,
       current_setting('is_superuser');

-- name: DoctorDays
-- all tenants: the partitions of today and tomorrow that are missing.
select coalesce(array_agg(name order by name), '{}')
from (
    select parent || to_char((now() at time zone 'UTC')::date + d, '_YYYYMMDD') as name
    from unnest(array['events', 'deliveries', 'attempts']) parent, generate_series(0, 1) d
) wanted
where to_regclass(name) is null;

-- name: DoctorSecrets
-- all tenants: one signing secret of each key that sealed any (a sealed text begins with 4 bytes that name its key), and how many there are. It
-- reads the table once: an operator asked.
select encode(substr(sealed, 1, 4), 'hex') as key, min(id), (array_agg(sealed order by id))[1], count(*)
from signing_secrets
group by 1
order by 1;
