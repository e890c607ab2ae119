-- CSV files made by a job, and saved filters of the history.

-- name: ExportInsert
-- A new one. The caller inserts its job in the same transaction.
insert into exports (id, tenant_id, kind, filter, revealed, expected, created_by)
values (@id, @tenant, @kind, @filter, @revealed, @expected, @by);

-- name: ExportMakeRoom
-- Files that have ended, beyond the newest @keep of a tenant, make room for a new one; their chunks go with them.
delete from exports
where tenant_id = @tenant and state <> 'running'
  and id < coalesce((select min(k.id) from (select x.id from exports x where x.tenant_id = @tenant and x.state <> 'running' order by x.id desc limit @keep) k), '');

-- name: ExportRead
-- A tenant's exports, newest first: one, or all. There are a handful.
select x.id, x.kind, x.revealed, x.state, coalesce(x.expected, -1), x.rows, x.bytes, x.chunks, x.cut, x.at_day, x.created_by, x.created_at, x.finished_at
from exports x
where x.tenant_id = @tenant and (@id::text = '' or x.id = @id)
order by x.id desc
limit 20;

-- name: ExportCancel
-- Its job finds it gone. The chunks are removed with it.
update exports
set state = 'cancelled', finished_at = statement_timestamp()
where tenant_id = @tenant and id = @id and state = 'running'
returning id;

-- name: ExportChunksDelete
-- Of a file that nobody will fetch.
delete from export_chunks where tenant_id = @tenant and export_id = @id;

-- name: ExportLook
-- A job's look at its file, which is its sign of life too: no row when another job has taken over or it has ended.
update exports
set beat_at = statement_timestamp()
where tenant_id = @tenant and id = @id and gen = @gen and state = 'running'
returning kind, filter, revealed, at_day, coalesce(at_position, 0), coalesce(at_id, ''), rows, bytes, chunks;

-- name: ExportStep
-- One chunk further, unless it was cancelled or taken over meanwhile: no row, and the caller rolls back.
update exports
set rows = rows + @rows, bytes = bytes + @bytes, chunks = chunks + 1, at_day = @day, at_position = @position, at_id = @at,
    state = case when @done::boolean then 'done' else 'running' end, finished_at = case when @done::boolean then statement_timestamp() end, cut = @cut
where tenant_id = @tenant and id = @id and gen = @gen and state = 'running' and chunks = @chunk
returning id;

-- name: ExportChunkInsert
-- The piece of the step.
insert into export_chunks (tenant_id, export_id, number, body) values (@tenant, @id, @chunk, @body);

-- name: ExportChunkRead
-- A piece of a file that is whole.
select c.body
from export_chunks c
join exports x on x.id = c.export_id and x.tenant_id = c.tenant_id
where c.tenant_id = @tenant and c.export_id = @id and c.number = @chunk and x.state = 'done';

-- name: ExportSweep
-- all tenants: files whose job has not shown itself for $1: killed with its process. They get a new generation, and a new job.
update exports x
set gen = x.gen + 1, beat_at = statement_timestamp()
from (
    select id from exports
    where state = 'running' and beat_at < statement_timestamp() - $1::interval
    order by beat_at
    limit 100
    for no key update skip locked
) s
where x.id = s.id
returning x.id, x.tenant_id, x.gen;

-- name: ExportPrune
-- all tenants: files that were made longer than $1 ago, $2 at a time.
delete from exports
where id in (select id from exports where finished_at < statement_timestamp() - $1::interval order by finished_at limit $2);

-- name: AttemptsOf
-- The attempts of some deliveries, in the deliveries' order and the first one first, without bodies: probes of the primary key in each day since.
select a.delivery_id, a.id, a.number, a.trigger, coalesce(a.requested_by, ''), a.started_at, a.class, coalesce(a.cause, ''), coalesce(a.detail, ''),
       coalesce(a.code, 0), a.url, a.request_headers, a.body_size, a.response_headers, null::bytea, coalesce(a.response_size, 0),
       coalesce(a.response_note, ''), coalesce(a.proto, ''), coalesce(a.remote, ''), a.tls, coalesce(a.connect_us, 0), coalesce(a.tls_us, 0),
       coalesce(a.wait_us, 0), coalesce(a.read_us, 0), coalesce(a.total_us, 0), coalesce(h.id, ''), h.names, h.sealed
from attempts a
left join header_sets h on h.id = a.header_set_id and h.tenant_id = a.tenant_id
where a.tenant_id = @tenant and a.delivery_id = any (@deliveries::text[]) and a.day >= @day::date - 1
order by array_position(@deliveries::text[], a.delivery_id), a.number;

-- name: SavedFilterList
-- A member's own in a tenant, by name: twenty at most.
select f.id, f.name, f.query
from saved_filters f
where f.tenant_id = @tenant and f.member_id = @member
order by lower(f.name), f.id;

-- name: SavedFilterInsert
-- In the first free slot. None is free: the slot is null, which the table refuses.
insert into saved_filters (id, tenant_id, member_id, slot, name, query)
values (@id, @tenant, @member,
        (select min(n) from generate_series(1, 20) n
         where not exists (select from saved_filters f where f.tenant_id = @tenant and f.member_id = @member and f.slot = n)),
        @name, @query);

-- name: SavedFilterDelete
-- One's own.
delete from saved_filters
where tenant_id = @tenant and member_id = @member and id = @id
returning id;
