-- Catch-ups. What is parked is found by index parked_by_endpoint in the order of ids, which is that of time.
--
-- Deliveries are found by their primary key alone: a fresh partition has no statistics, and its indexes by tenant look as good to the planner while they
-- lead through the tenant's whole day. Written as `tenant_id || ''`, the condition on the tenant holds and leads to no index.

-- name: RecoverEndpoint
-- The endpoint of a catch-up as it is now, and the database's time.
select e.state, coalesce(e.reason, ''), t.suspended_at is not null as suspended, coalesce(e.preset, t.preset, '') as preset, e.concurrency,
       statement_timestamp()
from endpoints e
join tenants t on t.id = e.tenant_id
where e.tenant_id = @tenant and e.id = @endpoint and e.deleted_at is null;

-- name: RecoverTargets
-- The endpoints of a tenant, or the one, of which something is parked: one index probe (parked_by_endpoint) for each endpoint and status.
select e.id
from endpoints e
where e.tenant_id = @tenant and e.deleted_at is null and (@endpoint::text = '' or e.id = @endpoint)
  and exists (select from parked p where p.endpoint_id = e.id and p.tenant_id || '' = @tenant and p.status = any (@statuses::text[]))
order by e.id desc
limit @limit;

-- name: RecoverDay
-- What is parked of one endpoint and one day, by type: exact. One statement a day, so that each opens one partition, found while it is planned.
-- The length of a text is read from its header, however long it is.
select d.type, count(*), min(p.delivery_id),
       coalesce(sum(octet_length(case when d.form = 'thin' then e.thin else e.body end)), 0)::bigint
from parked p
join deliveries d on d.id = p.delivery_id and d.day = @day and d.tenant_id || '' = @tenant
left join events e on e.position = d.position and e.day = @day and e.tenant_id || '' = @tenant
where p.tenant_id = @tenant and p.endpoint_id = @endpoint and p.status = any (@statuses::text[]) and p.day = @day
  and p.delivery_id >= @from_id and p.delivery_id < @until_id and p.since <= @as_of
group by d.type;

-- name: RecoverDayRows
-- The same, row by row, for the newest of each resource: of the highest sequence, and of equal ones the last dispatched.
select p.delivery_id, d.type, d.resource_type, d.resource_id, coalesce(e.sequence, 0), d.position,
       coalesce(octet_length(case when d.form = 'thin' then e.thin else e.body end), 0)
from parked p
join deliveries d on d.id = p.delivery_id and d.day = @day and d.tenant_id || '' = @tenant
left join events e on e.position = d.position and e.day = @day and e.tenant_id || '' = @tenant
where p.tenant_id = @tenant and p.endpoint_id = @endpoint and p.status = any (@statuses::text[]) and p.day = @day
  and p.delivery_id >= @from_id and p.delivery_id < @until_id and p.since <= @as_of;

-- name: RecoveryInsert
-- A catch-up begins. The caller holds the lane's row, has seen that the endpoint sends, and inserts the job in the same transaction.
insert into recoveries (id, tenant_id, endpoint_id, since, until, as_of, from_id, until_id, statuses, newest, per_second, total, older, requested_by)
values (@id, @tenant, @endpoint, @since, @until, @as_of, @from_id, @until_id, @statuses, @newest, @per_second, @total, @older, @by);

-- name: RecoveryRead
-- Catch-ups of a tenant, newest first: one by its id, those of an endpoint, or all; index recoveries_by_tenant.
select r.id, r.endpoint_id, r.since, r.until, r.statuses, r.newest, coalesce(r.per_second, 0), r.total, r.older, r.state, coalesce(r.ending, ''),
       r.moved, r.delivered, r.failed, r.returned, r.requested_by, r.created_at, r.finished_at,
       extract(epoch from coalesce(r.finished_at, statement_timestamp()) - r.created_at)::float8
from recoveries r
where r.tenant_id = @tenant and (@id::text = '' or r.id = @id) and (@endpoint::text = '' or r.endpoint_id = @endpoint)
  and (@before::text = '' or r.id < @before)
order by r.id desc
limit @limit;

-- name: RecoveryCancel
-- Its job sees it at its next step.
update recoveries
set ending = 'cancelled', ending_at = statement_timestamp()
where tenant_id = @tenant and id = @id and state = 'running' and ending is null
returning endpoint_id;

-- name: RecoveryLook
-- A job's look at its catch-up, which is its sign of life too: no row when another job has taken over or it is finished. What counts as under way
-- are the due rows of its priority, counted up to @window, since they are all sent before what is moved next.
update recoveries r
set beat_at = statement_timestamp()
from endpoints e
join tenants t on t.id = e.tenant_id
where r.tenant_id = @tenant and r.id = @id and r.gen = @gen and r.state = 'running' and e.id = r.endpoint_id and e.tenant_id = r.tenant_id
returning r.endpoint_id, coalesce(r.ending, ''), coalesce(r.ending_at < statement_timestamp() - @patience::interval, false) as overdue,
          r.exhausted, coalesce(r.per_second, 0), r.requested_by,
          case when e.deleted_at is not null then 'endpoint_deleted' when t.suspended_at is not null then 'tenant_suspended'
               when e.state <> 'active' then 'endpoint_' || e.state else '' end as shut,
          (select count(*)::integer from (select from due u where u.endpoint_id = r.endpoint_id and u.priority = 2 and u.next_at <= statement_timestamp()
                                          limit @window) w) as under_way,
          exists (select from recovery_deliveries v where v.recovery_id = r.id and v.tenant_id = r.tenant_id) as unsettled;

-- name: RecoveryEnd
-- Its endpoint does not send any more: nothing more is moved.
update recoveries
set ending = @ending, ending_at = statement_timestamp()
where tenant_id = @tenant and id = @id and gen = @gen and state = 'running' and ending is null;

-- name: RecoveryHold
-- Takes a catch-up for one step, after its lane's row; no row when another job has taken over, it is finished, or nothing more is to be moved.
select r.passed, r.from_id, r.until_id, r.statuses, r.newest, r.as_of
from recoveries r
join endpoints e on e.id = r.endpoint_id and e.tenant_id = r.tenant_id
join tenants t on t.id = r.tenant_id
where r.tenant_id = @tenant and r.id = @id and r.gen = @gen and r.state = 'running' and r.ending is null
  and e.state = 'active' and e.deleted_at is null and t.suspended_at is null
for no key update of r;

-- name: RecoveryNext
-- The next parked deliveries in the order of ids: one ordered index scan for each status.
select k.delivery_id, k.day
from (
    (select p.delivery_id, p.day from parked p
     where p.endpoint_id = @endpoint and p.tenant_id = @tenant and p.status = 'undelivered' and 'undelivered' = any (@statuses::text[])
       and p.delivery_id > @passed and p.delivery_id >= @from_id and p.delivery_id < @until_id and p.since <= @as_of
     order by p.delivery_id
     limit @limit)
    union all
    (select p.delivery_id, p.day from parked p
     where p.endpoint_id = @endpoint and p.tenant_id = @tenant and p.status = 'held' and 'held' = any (@statuses::text[])
       and p.delivery_id > @passed and p.delivery_id >= @from_id and p.delivery_id < @until_id and p.since <= @as_of
     order by p.delivery_id
     limit @limit)
) k
order by k.delivery_id
limit @limit;

-- name: RecoveryNextPick
-- The next of those chosen when it began, whatever has become of them.
select delivery_id, day from recovery_picks
where recovery_id = @id and tenant_id = @tenant and delivery_id > @passed
order by delivery_id
limit @limit;

-- name: RecoveryMove
-- Parked deliveries, of the days @from_day to @to_day, become due. The caller holds the lane's row; deliveries are locked in the order of ids. Left where they are: those
-- delivered or cancelled meanwhile (looked at again once their row is ours), and those of which a resend is due. What is undelivered begins its
-- schedule anew behind the first step, so that it still counts as recovered; what is held goes on with its own.
with old as materialized (
    select d.id, d.day, d.status, d.failures, p.reason, p.since
    from deliveries d
    join parked p on p.delivery_id = d.id and p.day = d.day and p.tenant_id || '' = @tenant
    where d.id = any (@ids::text[]) and d.day between @from_day and @to_day::date and d.tenant_id || '' = @tenant and d.endpoint_id || '' = @endpoint
      and d.status in ('undelivered', 'held') and p.status || '' = any (@statuses::text[])
      and not exists (select from due u where u.delivery_id = d.id)
    order by d.id
    for no key update of d
), moved as (
    update deliveries d
    set status = 'pending', reason = null, finished_at = null, failures = case o.status when 'undelivered' then least(o.failures, 1) else o.failures end
    from old o
    where d.id = o.id and d.day = o.day and d.day between @from_day and @to_day::date and d.tenant_id || '' = @tenant
    returning d.id, d.day, d.position, d.event_id, d.form, d.failures, o.status as was, o.reason as why, o.since, o.failures as had
), unparked as (
    delete from parked p using moved m where p.delivery_id = m.id and p.tenant_id = @tenant
), noted as (
    insert into recovery_deliveries (recovery_id, tenant_id, delivery_id, day, status, reason, since, failures)
    select @recovery, @tenant, m.id, m.day, m.was, m.why, m.since, m.had
    from moved m
)
insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger, failures, requested_by)
select m.id, m.day, @tenant, @endpoint, m.position, m.event_id, m.form, 2, statement_timestamp(), 'recover', m.failures, @by
from moved m;

-- name: RecoveryStep
-- How far it is.
update recoveries
set passed = case when @passed::text > passed then @passed else passed end, moved = moved + @moved, exhausted = @exhausted
where tenant_id = @tenant and id = @id;

-- name: RecoverySettle
-- What has been attempted since it was moved, or held again, is counted and forgotten: its row in due is gone or due for another reason.
with settled as (
    delete from recovery_deliveries r
    where r.recovery_id = @id and r.tenant_id = @tenant and r.delivery_id in (
        select v.delivery_id
        from recovery_deliveries v
        where v.recovery_id = @id and v.tenant_id = @tenant
          and not exists (select from due u where u.delivery_id = v.delivery_id and u.trigger = 'recover')
        order by v.delivery_id
        limit @limit)
    returning r.delivery_id, r.day
), counts as (
    select count(*) filter (where d.status = 'delivered') as delivered,
           count(*) filter (where d.status in ('pending', 'undelivered')) as failed,
           count(*) filter (where d.status in ('held', 'cancelled')) as returned,
           count(*) as n
    from settled s
    join deliveries d on d.id = s.delivery_id and d.day = s.day and d.tenant_id || '' = @tenant
)
update recoveries r
set delivered = r.delivered + c.delivered, failed = r.failed + c.failed, returned = r.returned + c.returned
from counts c
where r.id = @id and r.tenant_id = @tenant and c.n > 0;

-- name: RecoveryTakeBack
-- What was moved and not given to a sender is parked again, as it was. The caller holds the lane's row, which says what was given out.
with taken as (
    delete from due u
    where u.tenant_id = @tenant and u.trigger = 'recover' and u.delivery_id in (
        select v.delivery_id
        from recovery_deliveries v
        join due x on x.delivery_id = v.delivery_id and x.trigger = 'recover'
        join lanes l on l.endpoint_id = x.endpoint_id and l.tenant_id = v.tenant_id
        where v.recovery_id = @id and v.tenant_id = @tenant and not (l.state = 'running' and v.delivery_id = any (l.handed))
        order by v.delivery_id
        limit @limit)
    returning u.delivery_id
), back as (
    delete from recovery_deliveries r
    using taken t
    where r.recovery_id = @id and r.tenant_id = @tenant and r.delivery_id = t.delivery_id
    returning r.delivery_id, r.day, r.status, r.reason, r.since, r.failures
), put as (
    update deliveries d
    set status = b.status, reason = b.reason, finished_at = b.since, failures = greatest(d.failures, b.failures)
    from back b
    where d.id = b.delivery_id and d.day = b.day and d.tenant_id || '' = @tenant and d.status = 'pending'
    returning d.id, d.day, d.endpoint_id, b.status, b.reason, b.since
), parked_again as (
    insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since)
    select p.id, p.day, @tenant, p.endpoint_id, p.status, p.reason, p.since
    from put p
    on conflict (delivery_id) do nothing
)
update recoveries r
set moved = r.moved - n.n
from (select count(*) as n from taken) n
where r.id = @id and r.tenant_id = @tenant
returning n.n::integer;

-- name: RecoveryFinish
-- The end. What was chosen and what was not settled in time is forgotten with it.
with finished as (
    update recoveries
    set state = case when ending is null then 'done' when ending = 'cancelled' then 'cancelled' else 'stopped' end, finished_at = statement_timestamp()
    where tenant_id = @tenant and id = @id and gen = @gen and state = 'running'
    returning id, endpoint_id, state, total, moved, delivered, failed
), picks as (
    delete from recovery_picks where recovery_id in (select id from finished) and tenant_id = @tenant
), rest as (
    delete from recovery_deliveries where recovery_id in (select id from finished) and tenant_id = @tenant
)
select endpoint_id, state, total, moved, delivered, failed from finished;

-- name: RecoverySweep
-- all tenants: catch-ups whose job has not shown itself for $1: killed with its process. They get a new generation, and a new job.
update recoveries r
set gen = r.gen + 1, beat_at = statement_timestamp()
from (
    select id from recoveries
    where state = 'running' and beat_at < statement_timestamp() - $1::interval
    order by beat_at
    limit 100
    for no key update skip locked
) s
where r.id = s.id
returning r.id, r.tenant_id, r.gen;

-- name: RecoveryPrune
-- all tenants: the reports of catch-ups that ended longer than $1 ago, $2 at a time.
delete from recoveries
where id in (select id from recoveries where finished_at < statement_timestamp() - $1::interval order by finished_at limit $2);
