-- name: LaneLock
-- all tenants: the ids come from the dispatcher or from an operation that has checked the tenant.
select from lanes where endpoint_id = any($1) order by endpoint_id for no key update;

-- name: LaneWake
-- all tenants: after LaneLock in the same transaction. Idle lanes, and sleeping ones that would wake later, become queued, or go to sleep
-- until not_before while their door is closed; one with a test event ($2), or with an endpoint that does not send and so has only to be tidied up, is
-- queued at once. Returns the lanes to make tickets for, and
-- without a generation those that run, which are told to look again when this commits, in whichever process they are, but for
-- those of worker $3, which the caller tells itself.
with asked as (
    select l.endpoint_id,
           l.state in ('idle', 'sleeping') and case
               when l.endpoint_id = any($2) or coalesce(l.not_before <= statement_timestamp(), true) then true
               else exists (select from endpoints e join tenants t on t.id = e.tenant_id
                            where e.id = l.endpoint_id and (e.state <> 'active' or e.deleted_at is not null or t.suspended_at is not null))
           end as open,
           l.state = 'idle' or (l.state = 'sleeping' and l.wake_at > l.not_before) as shut,
           l.not_before
    from lanes l
    where l.endpoint_id = any($1)
), woken as (
    update lanes l
    set state = case when a.open then 'queued' else 'sleeping' end,
        gen = case when a.open then l.gen + 1 else l.gen end,
        wake_at = case when a.open then null else a.not_before end,
        since = statement_timestamp()
    from asked a
    where l.endpoint_id = a.endpoint_id and (a.open or a.shut)
    returning l.endpoint_id, l.tenant_id, l.gen, l.state, l.suspect
)
select w.endpoint_id, w.tenant_id, w.gen, w.suspect from woken w where w.state = 'queued'
union all
select l.endpoint_id, null, null, null
from lanes l
cross join lateral pg_notify('waybill_lane', l.endpoint_id) as rung
where l.endpoint_id = any($1) and l.state = 'running' and l.owner <> $3;

-- name: LaneSettled
-- all tenants: by endpoint id, which its operation has checked.
select not exists (select from lanes where endpoint_id = $1 and state = 'running' and seen < $2);

-- name: TenantLock
-- all tenants: first in the lock order. A publisher's open transaction holds only key share, which this does not wait for.
select from tenants where id = any($1) order by id for no key update;

-- name: LaneLook
-- all tenants: what the control loop decides on, for the lanes in $1. A statement of its own, after the locks, so that its snapshot sees every
-- row of a dispatch that got there first. Counts stop at the endpoint's own limit; each is a short scan of due_by_lane.
select l.endpoint_id, l.tenant_id, l.state, l.gen, coalesce(l.owner, '') as owner, l.slots, l.limit_now, l.suspect,
       coalesce(l.ok_at > statement_timestamp() - interval '60 seconds', false) as warm,
       coalesce(extract(epoch from l.not_before - statement_timestamp()), 0)::float8 as shut_for,
       e.state = 'active' and e.deleted_at is null and t.suspended_at is null as sends,
       e.deleted_at is null as alive,
       e.concurrency,
       (select count(*)::integer from (select from due d
            where d.endpoint_id = l.endpoint_id and d.priority = 0 and d.next_at <= statement_timestamp() limit e.concurrency) x) as tests,
       (select count(*)::integer from (select from due d
            where d.endpoint_id = l.endpoint_id and d.priority = 1 and d.next_at <= statement_timestamp() limit e.concurrency) x)
     + (select count(*)::integer from (select from due d
            where d.endpoint_id = l.endpoint_id and d.priority = 2 and d.next_at <= statement_timestamp() limit e.concurrency) x) as ready,
       (select min(n.next_at) - statement_timestamp()
        from (values (0), (1), (2)) p(priority)
        cross join lateral (select d.next_at from due d where d.endpoint_id = l.endpoint_id and d.priority = p.priority
                            order by d.next_at limit 1) n)::interval as next_in
from lanes l
join endpoints e on e.id = l.endpoint_id
join tenants t on t.id = l.tenant_id
where l.endpoint_id = any($1);

-- name: TenantSlots
-- all tenants: caps and what is reserved now, for the tenants whose rows this transaction holds.
select t.id as tenant_id, t.concurrency,
       coalesce(r.slots, 0)::integer as slots, coalesce(r.suspects, 0)::integer as suspects, coalesce(r.running, 0)::integer as running,
       (select count(*)::integer from (select from lanes b where b.tenant_id = t.id and b.state = 'blocked' limit 1000) x) as blocked
from tenants t
left join lateral (
    select sum(l.slots) as slots, sum(l.slots) filter (where l.suspect) as suspects, count(*) as running
    from lanes l
    where l.tenant_id = t.id and l.state = 'running'
) r on true
where t.id = any($1);

-- name: LaneMove
-- all tenants: writes the control loop's decisions; every row is locked by this transaction.
update lanes l
set state = m.state,
    gen = m.gen,
    owner = m.owner,
    slots = m.slots,
    wake_at = statement_timestamp() + m.wake_in,
    suspect = m.suspect,
    ok_at = case when m.ok then statement_timestamp() else l.ok_at end,
    handed = case when m.state = 'running' and l.state = 'running' then l.handed else '{}' end,
    since = case when m.state = l.state then l.since else statement_timestamp() end
from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::integer[], $6::interval[], $7::boolean[], $8::boolean[])
         as m(endpoint_id, state, gen, owner, slots, wake_in, suspect, ok)
where l.endpoint_id = m.endpoint_id;

-- name: LaneUnblock
-- Lanes of tenant $1 that wait for its cap, healthy and oldest first, up to $2; suspects only while their half of it is not used up ($3). Rows that
-- somebody holds are left to the sweeper.
with w as (
    select endpoint_id
    from lanes
    where tenant_id = $1 and state = 'blocked' and (not suspect or $3)
    order by suspect, since
    limit $2
    for no key update skip locked
)
update lanes l
set state = 'queued', gen = l.gen + 1, since = statement_timestamp()
from w
where l.endpoint_id = w.endpoint_id
returning l.endpoint_id, l.tenant_id, l.gen, l.suspect;

-- name: LaneFetch
-- all tenants: the next due deliveries of lanes this process owns, with their bodies, and the note of what it holds, in one round trip.
-- $1 endpoints, $2 gens, $3 how many each, $4 what each already holds (ids joined by commas), $5 the owner, $6 the revision of the endpoint
-- that each lane works with: written down as seen, so that whoever changed the endpoint knows when the change is in force. $7 and $8 are where the last
-- fetch of a lane ended among its events (next_at and delivery), so that what it holds is not read again and again; null: from the start,
-- where as many rows more are read as it holds, and the lane leaves those out.
-- Bodies come along for events of today and its neighbours (so that three partitions are opened and not a hundred); older ones are read by EventBodies.
-- Rows of lanes and rows of deliveries come in any order.
-- A lane whose row has moved on comes back with nothing at all, not even its own row: it is lost.
with mine as materialized (
    select l.endpoint_id, l.tenant_id, u.n, u.held, cardinality(u.held) as held_n, u.applied, e.rev, e.deleted_at is null as alive,
           coalesce(u.from_at, '-infinity') as from_at, coalesce(u.from_id, '') as from_id, u.from_at is null as afresh,
           e.state = 'active' and e.deleted_at is null and t.suspended_at is null as sends,
           coalesce(l.not_before <= statement_timestamp(), true) as open, l.limit_now, l.ailing, coalesce(e.preset, t.preset, '') as preset,
           t.concurrency as cap
    from (select x.endpoint_id, x.gen, x.n, string_to_array(x.held, ',') as held, x.applied, x.from_at, x.from_id
          from unnest($1::text[], $2::bigint[], $3::integer[], $4::text[], $6::bigint[], $7::timestamptz[], $8::text[])
                   as x(endpoint_id, gen, n, held, applied, from_at, from_id)) u
    join lanes l on l.endpoint_id = u.endpoint_id
    join endpoints e on e.id = l.endpoint_id
    join tenants t on t.id = l.tenant_id
    where l.owner = $5 and l.gen = u.gen
    order by l.endpoint_id
    for no key update of l
), picked as materialized (
    select m.endpoint_id, d.*
    from mine m
    cross join lateral (
        select x.*
        from (values (0), (1), (2)) as p(priority)
        cross join lateral (
            select y.delivery_id, y.day, y.position, y.event_id, y.form, y.priority, y.next_at, y.trigger, y.failures, y.unknowns,
                   y.resume_at is not null as resumes, y.requested_by
            from due y
            where y.endpoint_id = m.endpoint_id and y.priority = p.priority and y.next_at <= statement_timestamp()
              and (y.next_at, y.delivery_id collate "POSIX") > (case when p.priority = 1 then m.from_at else '-infinity' end,
                                                                case when p.priority = 1 then m.from_id else '' end collate "POSIX")
              and m.alive and (p.priority = 0 or (m.sends and m.open))
            order by y.next_at, y.delivery_id collate "POSIX"
            limit m.n + case when p.priority <> 1 or m.afresh then m.held_n else 0 end
        ) x
        limit m.n + case when m.afresh then m.held_n else 0 end
    ) d
), noted as (
    update lanes l
    set handed = m.held || coalesce(s.ids, '{}'), handed_at = statement_timestamp(), seen = m.applied
    from mine m
    left join (select endpoint_id, array_agg(delivery_id) as ids from picked group by endpoint_id) s on s.endpoint_id = m.endpoint_id
    where l.endpoint_id = m.endpoint_id
)
select m.endpoint_id, m.rev, m.preset, m.sends, m.open,
       exists (select from lanes b where b.tenant_id = m.tenant_id and b.state = 'blocked') as waiters, m.cap, m.limit_now, m.ailing,
       null::text as delivery_id, null::date as day, null::bigint as position, null::text as event_id, null::text as trigger,
       null::integer as failures, null::smallint as unknowns, null::boolean as resumes, null::text as requested_by, null::text as form,
       null::text as body, null::timestamptz as next_at, null::float8 as waited, null::smallint as priority
from mine m
union all
select p.endpoint_id, null, null, null, null, null, null, null, null, p.delivery_id, p.day, p.position, p.event_id, p.trigger, p.failures, p.unknowns,
       p.resumes, p.requested_by, p.form, e.body, p.next_at, extract(epoch from statement_timestamp() - p.next_at)::float8, p.priority
from picked p
left join lateral (
    select case when p.form = 'thin' then v.thin else v.body end as body
    from (
        select x.body, x.thin from events_{day} x where x.position = p.position and x.day = p.day
        union all
        select x.body, x.thin from events_{before} x where x.position = p.position and x.day = p.day
        union all
        select x.body, x.thin from events_{after} x where x.position = p.position and x.day = p.day
    ) v
    limit 1
) e on true;

-- name: EventBodies
-- all tenants: the texts of events of one day ($1) by position, for deliveries older than a fetch looks back.
select v.position, v.body, v.thin from events v where v.day = $1 and v.position = any($2);

-- name: LaneTarget
-- all tenants: everything a sender must know of the endpoints in $1, with secrets still sealed. Expired secrets stay out.
select e.id, e.tenant_id, e.rev, e.url, e.scheme, e.concurrency, e.rate_per_second, coalesce(e.preset, t.preset, '') as preset,
       e.verified_at is not null as verified, h.id as header_set_id, h.sealed as headers,
       s.ids, s.sealed, s.kinds, s.lives
from endpoints e
join tenants t on t.id = e.tenant_id
left join header_sets h on h.id = e.header_set_id and h.tenant_id = e.tenant_id
left join lateral (
    select array_agg(k.id order by k.id desc) as ids,
           array_agg(k.sealed order by k.id desc) as sealed,
           array_agg(k.kind order by k.id desc) as kinds,
           array_agg(coalesce(extract(epoch from k.expires_at - statement_timestamp())::float8, -1) order by k.id desc) as lives
    from signing_secrets k
    where k.tenant_id = e.tenant_id and k.endpoint_id = e.id and (k.expires_at is null or k.expires_at > statement_timestamp())
) s on true
where e.id = any($1);

-- name: LaneHold
-- all tenants: by endpoint. An endpoint that does not send: up to $2 of its due rows become held, with the reason, or cancelled when it is
-- deleted. Tests are left to be sent unless it is deleted. A resend of something finished just ends. Nothing moves once it is active again.
with why as materialized (
    select e.id, e.deleted_at is not null as deleted,
           case when e.deleted_at is not null then 'endpoint_deleted'
                when t.suspended_at is not null then 'tenant_suspended'
                else 'endpoint_' || e.state end as reason
    from endpoints e
    join tenants t on t.id = e.tenant_id
    where e.id = $1 and (e.deleted_at is not null or t.suspended_at is not null or e.state <> 'active')
), moved as (
    delete from due
    where delivery_id in (
        select x.delivery_id
        from why w
        cross join lateral (
            select d.delivery_id from due d
            where d.endpoint_id = $1 and (d.priority <> 0 or w.deleted)
            order by d.priority, d.next_at, d.delivery_id collate "POSIX"
            limit $2) x)
    returning delivery_id, day
), changed as (
    update deliveries d
    set status = case when w.deleted then 'cancelled' else 'held' end, reason = w.reason, finished_at = statement_timestamp()
    from moved m
    cross join why w
    where d.id = m.delivery_id and d.day = m.day and d.status = 'pending'
    returning d.id, d.day, d.tenant_id, d.endpoint_id
), put as (
    insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since)
    select c.id, c.day, c.tenant_id, c.endpoint_id, 'held', w.reason, statement_timestamp()
    from changed c
    cross join why w
    where not w.deleted
    on conflict (delivery_id) do nothing
)
select count(*)::integer from moved;

-- name: LaneCancelHeld
-- all tenants: by endpoint. A deleted endpoint's held deliveries are cancelled, $2 at a time.
with moved as (
    delete from parked
    where delivery_id in (
        select p.delivery_id
        from parked p
        join endpoints e on e.id = p.endpoint_id
        where p.endpoint_id = $1 and p.status = 'held' and e.deleted_at is not null
        order by p.delivery_id
        limit $2)
    returning delivery_id, day
), changed as (
    update deliveries d
    set status = 'cancelled', reason = 'endpoint_deleted', finished_at = statement_timestamp()
    from moved m
    where d.id = m.delivery_id and d.day = m.day and d.status = 'held'
)
select count(*)::integer from moved;

-- name: EndpointVerified
-- all tenants: by endpoint. The first 2xx proves the address, $2, unless it has been changed meanwhile.
update endpoints set verified_at = statement_timestamp() where id = $1 and url = $2 and verified_at is null;

-- name: WorkerStart
-- all tenants: this process joins; it learns what time it is here.
insert into workers (id, lease_until, host, pid) values ($1, statement_timestamp() + $2::interval, $3, $4)
returning clock_timestamp();

-- name: WorkerBeat
-- all tenants: no row when the lease has run out: then this process must come back under a new id. It learns what time it is here.
update workers set lease_until = statement_timestamp() + $2::interval
where id = $1 and lease_until > statement_timestamp()
returning clock_timestamp();

-- name: WorkerAlive
-- all tenants: whether a process may take lanes.
select exists (select from workers where id = $1 and lease_until > statement_timestamp());

-- name: WorkerStop
-- all tenants: this process leaves.
delete from workers where id = $1;

-- name: WorkerForget
-- all tenants: rows of processes long dead, once no lane names them.
delete from workers w
where w.lease_until < statement_timestamp() - interval '10 minutes'
  and not exists (select from lanes l where l.owner = w.id and l.state = 'running');

-- name: SweepSleeping
-- all tenants: lanes whose time has come.
with w as (
    select endpoint_id from lanes
    where state = 'sleeping' and wake_at <= statement_timestamp()
    order by wake_at
    limit 500
    for no key update skip locked
)
update lanes l
set state = 'queued', gen = l.gen + 1, wake_at = null, since = statement_timestamp()
from w
where l.endpoint_id = w.endpoint_id
returning l.endpoint_id, l.tenant_id, l.gen, l.suspect;

-- name: SweepOrphans
-- all tenants: running lanes whose owner's lease is over.
select l.endpoint_id, l.owner
from lanes l
where l.state = 'running'
  and not exists (select from workers w where w.id = l.owner and w.lease_until > statement_timestamp())
order by l.endpoint_id
limit 100
for no key update of l skip locked;

-- name: SweepOwned
-- all tenants: the lanes that worker $1 has held for longer than $2, by their rows.
select endpoint_id, gen from lanes where owner = $1 and state = 'running' and since < statement_timestamp() - $2::interval;

-- name: SweepForgotten
-- all tenants: those of worker $1 among $2 that are still in generation $3.
select l.endpoint_id, l.owner
from unnest($2::text[], $3::bigint[]) as u(endpoint_id, gen)
join lanes l on l.endpoint_id = u.endpoint_id
where l.state = 'running' and l.owner = $1 and l.gen = u.gen
order by l.endpoint_id
for no key update of l skip locked;

-- name: SweepHanded
-- all tenants: what an orphaned lane's senders held and did not commit: handed out, still due, and not moved since.
select d.delivery_id, d.day, d.trigger, d.failures, d.unknowns, d.resume_at is not null as resumes, d.requested_by,
       l.endpoint_id, l.tenant_id, l.owner, l.handed_at, e.url, octet_length(case when d.form = 'thin' then v.thin else v.body end) as body_size,
       coalesce(e.preset, t.preset, '') as preset
from lanes l
join endpoints e on e.id = l.endpoint_id
join tenants t on t.id = l.tenant_id
cross join lateral (select distinct x from unnest(l.handed) x) as h(delivery_id)
join due d on d.delivery_id = h.delivery_id and d.next_at <= l.handed_at
join events v on v.position = d.position and v.day = d.day
where l.endpoint_id = any($1);

-- name: SweepRequeue
-- all tenants: lanes taken from the dead, or left behind in the queue, become queued under a new generation.
update lanes
set state = 'queued', gen = gen + 1, owner = null, slots = 0, handed = '{}', since = statement_timestamp()
where endpoint_id = any($1)
returning endpoint_id, tenant_id, gen, suspect;

-- name: SweepStale
-- all tenants: lanes queued for longer than $1 whose ticket is in no state in which River would still hand it out. A process killed between
-- River's fetch and our claim leaves exactly this behind: the job says running for ever.
select l.endpoint_id
from lanes l
where l.state = 'queued' and l.since < statement_timestamp() - $1::interval
  and not exists (
    select from river_job j
    where j.kind = 'lane' and j.state in ('available', 'scheduled', 'retryable')
      and j.args @> jsonb_build_object('endpoint', l.endpoint_id, 'gen', l.gen))
order by l.since
limit 100
for no key update of l skip locked;

-- name: SweepBlocked
-- all tenants: blocked lanes of tenants that have slots free again, as many as there are slots; suspects only while their half is not used up.
with w as (
    select b.endpoint_id
    from (select distinct tenant_id from lanes where state = 'blocked') waiting
    join tenants t on t.id = waiting.tenant_id
    cross join lateral (
        select coalesce(sum(r.slots), 0) as used, coalesce(sum(r.slots) filter (where r.suspect), 0) as suspects
        from lanes r
        where r.tenant_id = t.id and r.state = 'running'
    ) u
    cross join lateral (
        select x.endpoint_id from lanes x
        where x.tenant_id = t.id and x.state = 'blocked' and (not x.suspect or u.suspects < greatest(1, t.concurrency / 2))
        order by x.suspect, x.since
        limit greatest(0, t.concurrency - u.used)
    ) b
), locked as (
    select l.endpoint_id from lanes l join w on w.endpoint_id = l.endpoint_id
    where l.state = 'blocked'
    for no key update of l skip locked
)
update lanes l
set state = 'queued', gen = l.gen + 1, since = statement_timestamp()
from locked k
where l.endpoint_id = k.endpoint_id
returning l.endpoint_id, l.tenant_id, l.gen, l.suspect;
