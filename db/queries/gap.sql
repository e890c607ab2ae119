-- What was published and reached nobody. Events are walked in the order of position, some at a time; what consumers acknowledged are few ranges.

-- name: GapCount
-- Counts of up to @chunk events behind @position, and where that ended.
with ranges as materialized (
    select types, since_position as behind, position as up_to from consumers where tenant_id = @tenant and position > since_position
    union all
    select types, from_position, to_position from consumer_ranges where tenant_id = @tenant
), walked as materialized (
    select v.position, v.id, v.day, v.type
    from events v
    where v.tenant_id = @tenant and not v.test and v.position > @position and v.day between @from_day and @to_day
      and v.created_at >= @since and v.created_at < @until
    order by v.position
    limit @chunk
)
select count(*), count(*) filter (where x.pushed), count(*) filter (where x.pulled), count(*) filter (where not x.pushed and not x.pulled),
       coalesce(max(x.position), 0)
from (
    select w.position,
           exists (select from deliveries d where d.tenant_id = @tenant and d.event_id = w.id and d.day = w.day and d.status = 'delivered') as pushed,
           exists (select from ranges r
                   where w.position > r.behind and w.position <= r.up_to
                     and (cardinality(r.types) = 0
                          or exists (select from unnest(r.types) p where w.type = p or right(p, 1) = '*' and starts_with(w.type, left(p, -1))))) as pulled
    from walked w
) x;

-- name: GapList
-- Up to @limit of up to @chunk events behind @position that reached nobody, and the last that was looked at (edge).
with ranges as materialized (
    select types, since_position as behind, position as up_to from consumers where tenant_id = @tenant and position > since_position
    union all
    select types, from_position, to_position from consumer_ranges where tenant_id = @tenant
), walked as materialized (
    select v.*, row_number() over (order by v.position) >= @chunk::bigint as edge
    from (
        select e.*
        from events e
        where e.tenant_id = @tenant and not e.test and e.position > @position and e.day between @from_day and @to_day
          and e.created_at >= @since and e.created_at < @until
        order by e.position
        limit @chunk
    ) v
)
select x.id, x.day, x.position, x.type, x.version, x.resource_type, x.resource_id, x.sequence, x.occurred_at, x.published_at, x.created_at, x.test,
       null::text, x.expunged_at, coalesce(x.expunged_by, ''), x.edge, x.neither
from (
    select w.*,
           not exists (select from deliveries d where d.tenant_id = @tenant and d.event_id = w.id and d.day = w.day and d.status = 'delivered')
           and not exists (select from ranges r
                   where w.position > r.behind and w.position <= r.up_to
                     and (cardinality(r.types) = 0
                          or exists (select from unnest(r.types) p where w.type = p or right(p, 1) = '*' and starts_with(w.type, left(p, -1))))) as neither
    from walked w
) x
where x.neither or x.edge
order by x.position
limit @limit;
