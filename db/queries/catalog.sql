-- The catalog is read in the order of position, which the dispatcher gives in the order of commits: whoever sees a position sees every smaller
-- one. A day's partitions are asked for in windows, because position is in no partition's bounds.
--
-- The lists look at no more than @scan events and return the last of those with edge = true, to go on from there. `/* filter */ true` is
-- replaced by the conditions of a filter on events as v.

-- name: EventsForward
-- The oldest first, behind @position: index events_by_tenant.
select s.id, s.day, s.position, s.type, s.version, s.resource_type, s.resource_id, s.sequence, s.occurred_at, s.published_at, s.created_at,
       s.test, case when @bodies::boolean then s.body end, s.expunged_at, coalesce(s.expunged_by, ''), s.edge, s.matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select v.*, coalesce((/* filter */ true), false) as matches
        from events v
        where v.tenant_id = @tenant and not v.test and v.position > @position and v.day between @from_day and @to_day
        order by v.position
        limit @scan
    ) k
    order by k.position
) s
where s.matches or s.edge
order by s.position
limit @limit;

-- name: EventsForwardOfResource
-- The same of one resource: index events_by_resource.
select s.id, s.day, s.position, s.type, s.version, s.resource_type, s.resource_id, s.sequence, s.occurred_at, s.published_at, s.created_at,
       s.test, case when @bodies::boolean then s.body end, s.expunged_at, coalesce(s.expunged_by, ''), s.edge, s.matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select v.*, not v.test and coalesce((/* filter */ true), false) as matches
        from events v
        where v.tenant_id = @tenant and v.resource_id = @resource and v.position > @position and v.day between @from_day and @to_day
        order by v.position
        limit @scan
    ) k
    order by k.position
) s
where s.matches or s.edge
order by s.position
limit @limit;

-- name: EventsBackward
-- The newest first, before @position.
select s.id, s.day, s.position, s.type, s.version, s.resource_type, s.resource_id, s.sequence, s.occurred_at, s.published_at, s.created_at,
       s.test, case when @bodies::boolean then s.body end, s.expunged_at, coalesce(s.expunged_by, ''), s.edge, s.matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select v.*, coalesce((/* filter */ true), false) as matches
        from events v
        where v.tenant_id = @tenant and not v.test and v.position < @position and v.day between @from_day and @to_day
        order by v.position desc
        limit @scan
    ) k
    order by k.position desc
) s
where s.matches or s.edge
order by s.position desc
limit @limit;

-- name: EventsBackwardOfResource
-- The same of one resource.
select s.id, s.day, s.position, s.type, s.version, s.resource_type, s.resource_id, s.sequence, s.occurred_at, s.published_at, s.created_at,
       s.test, case when @bodies::boolean then s.body end, s.expunged_at, coalesce(s.expunged_by, ''), s.edge, s.matches
from (
    select k.*, row_number() over () >= @scan::bigint as edge
    from (
        select v.*, not v.test and coalesce((/* filter */ true), false) as matches
        from events v
        where v.tenant_id = @tenant and v.resource_id = @resource and v.position < @position and v.day between @from_day and @to_day
        order by v.position desc
        limit @scan
    ) k
    order by k.position desc
) s
where s.matches or s.edge
order by s.position desc
limit @limit;

-- name: EventPlace
-- Where a cursor stands. @id of @day: the last event that was read, if it is still there. @checked: a day on which the reader had read everything.
-- A partition that is gone was dropped by retention. Looked up by id alone, whose tenant is asked afterwards: in a partition without statistics the
-- index of the tenant's events would seem as good, and is all of them.
with found as materialized (
    select e.position, e.tenant_id from events e where e.id = @id and e.day = @day
)
select coalesce((select f.position from found f where f.tenant_id = @tenant limit 1), 0) as position,
       to_regclass('events_' || to_char(@day::date, 'YYYYMMDD')) is not null as day_kept,
       to_regclass('events_' || to_char(@checked::date, 'YYYYMMDD')) is not null as checked_kept,
       (statement_timestamp() at time zone 'UTC')::date as today;

-- name: EventLast
-- The tenant's newest event since a day.
select e.id, e.day, e.position
from events e
where e.tenant_id = @tenant and not e.test and e.day >= @from_day
order by e.position desc
limit 1;

-- name: EventPublished
-- The day on which an event was published under this id. It is dispatched on that day or later.
select day from event_ids where tenant_id = @tenant and id = @id;

-- name: EventRead
-- One event, test events too: index events_by_id in each of the days.
select e.id, e.day, e.position, e.type, e.version, e.resource_type, e.resource_id, e.sequence, e.occurred_at, e.published_at, e.created_at,
       e.test, e.body, e.expunged_at, coalesce(e.expunged_by, ''), false as edge, true as matches
from events e
where e.tenant_id = @tenant and e.id = @id and e.day between @from_day and @to_day
limit 1;

-- name: ResourceRead
-- A resource's event with the highest sequence. Without it, the event is no longer kept.
select e.id, e.day, e.position, e.type, e.version, e.resource_type, e.resource_id, e.sequence, e.occurred_at, e.published_at, e.created_at,
       e.test, e.body, e.expunged_at, coalesce(e.expunged_by, ''), false as edge, true as matches
from resources r
left join events e on e.position = r.position and e.day = r.day and e.tenant_id = r.tenant_id
where r.tenant_id = @tenant and r.type = @type and r.id = @id;
