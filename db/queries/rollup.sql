-- Rollups: see migration 0008.

-- name: RollupAdd
-- Adds a batch of attempts, already counted by endpoint and slot, in the order of the keys: two batches lock rows in one order. To be run last in the
-- transaction that records the attempts, so that a row shared with another batch is held for the commit alone. $1 endpoint, $2 slot, $3 tenant_id, and
-- in $4 the 34 counts of each of them, one after the other: a list for each count would cost half as much again.
insert into rollups as r (endpoint_id, slot, tenant_id,
    delivered, redirected, refused, broken, odd, timed_out, unreachable, tls, blocked, ours, t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, t10,
    t11, t12, t13, t14, t15, t16, t17, t18, t19, t20, t21, t22, t23)
select u.endpoint_id, u.slot, u.tenant_id,
    c[n+1], c[n+2], c[n+3], c[n+4], c[n+5], c[n+6], c[n+7], c[n+8], c[n+9], c[n+10], c[n+11], c[n+12], c[n+13], c[n+14], c[n+15], c[n+16], c[n+17],
    c[n+18], c[n+19], c[n+20], c[n+21], c[n+22], c[n+23], c[n+24], c[n+25], c[n+26], c[n+27], c[n+28], c[n+29], c[n+30], c[n+31], c[n+32], c[n+33],
    c[n+34]
from (
    select k.endpoint_id, k.slot, k.tenant_id, (k.n - 1)::integer * 34 as n, $4::integer[] as c
    from unnest($1::text[], $2::timestamptz[], $3::text[]) with ordinality as k(endpoint_id, slot, tenant_id, n)
) u
on conflict (endpoint_id, slot) do update
set
    delivered = r.delivered + excluded.delivered, redirected = r.redirected + excluded.redirected, refused = r.refused + excluded.refused,
    broken = r.broken + excluded.broken, odd = r.odd + excluded.odd, timed_out = r.timed_out + excluded.timed_out,
    unreachable = r.unreachable + excluded.unreachable, tls = r.tls + excluded.tls, blocked = r.blocked + excluded.blocked,
    ours = r.ours + excluded.ours, t00 = r.t00 + excluded.t00, t01 = r.t01 + excluded.t01, t02 = r.t02 + excluded.t02, t03 = r.t03 + excluded.t03,
    t04 = r.t04 + excluded.t04, t05 = r.t05 + excluded.t05, t06 = r.t06 + excluded.t06, t07 = r.t07 + excluded.t07, t08 = r.t08 + excluded.t08,
    t09 = r.t09 + excluded.t09, t10 = r.t10 + excluded.t10, t11 = r.t11 + excluded.t11, t12 = r.t12 + excluded.t12, t13 = r.t13 + excluded.t13,
    t14 = r.t14 + excluded.t14, t15 = r.t15 + excluded.t15, t16 = r.t16 + excluded.t16, t17 = r.t17 + excluded.t17, t18 = r.t18 + excluded.t18,
    t19 = r.t19 + excluded.t19, t20 = r.t20 + excluded.t20, t21 = r.t21 + excluded.t21, t22 = r.t22 + excluded.t22, t23 = r.t23 + excluded.t23;

-- name: RollupOfTenant
-- A tenant's slots in a range, over all of its endpoints: index rollups_by_tenant.
select r.slot,
    sum(r.delivered)::bigint, sum(r.redirected)::bigint, sum(r.refused)::bigint, sum(r.broken)::bigint, sum(r.odd)::bigint, sum(r.timed_out)::bigint,
    sum(r.unreachable)::bigint, sum(r.tls)::bigint, sum(r.blocked)::bigint, sum(r.ours)::bigint, sum(r.t00)::bigint, sum(r.t01)::bigint,
    sum(r.t02)::bigint, sum(r.t03)::bigint, sum(r.t04)::bigint, sum(r.t05)::bigint, sum(r.t06)::bigint, sum(r.t07)::bigint, sum(r.t08)::bigint,
    sum(r.t09)::bigint, sum(r.t10)::bigint, sum(r.t11)::bigint, sum(r.t12)::bigint, sum(r.t13)::bigint, sum(r.t14)::bigint, sum(r.t15)::bigint,
    sum(r.t16)::bigint, sum(r.t17)::bigint, sum(r.t18)::bigint, sum(r.t19)::bigint, sum(r.t20)::bigint, sum(r.t21)::bigint, sum(r.t22)::bigint,
    sum(r.t23)::bigint
from rollups r
where r.tenant_id = @tenant and r.slot >= @from and r.slot < @until
group by r.slot
order by r.slot;

-- name: RollupOfEndpoint
-- One endpoint's slots in a range: the primary key.
select r.slot,
    r.delivered::bigint, r.redirected::bigint, r.refused::bigint, r.broken::bigint, r.odd::bigint, r.timed_out::bigint, r.unreachable::bigint,
    r.tls::bigint, r.blocked::bigint, r.ours::bigint, r.t00::bigint, r.t01::bigint, r.t02::bigint, r.t03::bigint, r.t04::bigint, r.t05::bigint,
    r.t06::bigint, r.t07::bigint, r.t08::bigint, r.t09::bigint, r.t10::bigint, r.t11::bigint, r.t12::bigint, r.t13::bigint, r.t14::bigint,
    r.t15::bigint, r.t16::bigint, r.t17::bigint, r.t18::bigint, r.t19::bigint, r.t20::bigint, r.t21::bigint, r.t22::bigint, r.t23::bigint
from rollups r
where r.endpoint_id = @endpoint and r.tenant_id || '' = @tenant and r.slot >= @from and r.slot < @until
order by r.slot;

-- name: RollupTotals
-- Some endpoints of a tenant over a range, each as one sum: the primary key, an endpoint at a time. A page has forty at most.
select r.endpoint_id,
    sum(r.delivered)::bigint, sum(r.redirected)::bigint, sum(r.refused)::bigint, sum(r.broken)::bigint, sum(r.odd)::bigint, sum(r.timed_out)::bigint,
    sum(r.unreachable)::bigint, sum(r.tls)::bigint, sum(r.blocked)::bigint, sum(r.ours)::bigint, sum(r.t00)::bigint, sum(r.t01)::bigint,
    sum(r.t02)::bigint, sum(r.t03)::bigint, sum(r.t04)::bigint, sum(r.t05)::bigint, sum(r.t06)::bigint, sum(r.t07)::bigint, sum(r.t08)::bigint,
    sum(r.t09)::bigint, sum(r.t10)::bigint, sum(r.t11)::bigint, sum(r.t12)::bigint, sum(r.t13)::bigint, sum(r.t14)::bigint, sum(r.t15)::bigint,
    sum(r.t16)::bigint, sum(r.t17)::bigint, sum(r.t18)::bigint, sum(r.t19)::bigint, sum(r.t20)::bigint, sum(r.t21)::bigint, sum(r.t22)::bigint,
    sum(r.t23)::bigint
from rollups r
where r.endpoint_id = any (@endpoints::text[]) and r.tenant_id || '' = @tenant and r.slot >= @from and r.slot < @until
group by r.endpoint_id;

-- name: RollupPrune
-- all tenants: slots that are older than $1, the oldest first, $2 at a time: index rollups_by_slot.
delete from rollups
where (endpoint_id, slot) in (select endpoint_id, slot from rollups where slot < statement_timestamp() - $1::interval order by slot limit $2);
