-- The second wall between tenants: see migration 0012.

-- name: WallState
-- all tenants: whether the policies are there, whether the role is one that we may become, and whether they would hold for ourselves.
select exists (select from pg_policies where schemaname = $1 and policyname = 'wall'),
       to_regrole($2) is not null,
       coalesce(pg_has_role(current_user, to_regrole($2), 'member'), false),
       to_regclass('tenants') is not null and row_security_active('tenants') and coalesce(pg_has_role(current_user, to_regrole($2), 'usage'), false);

-- name: WallTenant
-- all tenants: tells a connection whose rows it sees.
select set_config('waybill.tenant', $1, false);

-- name: WallRaise
-- all tenants: puts tables that are new behind the wall.
select raise_wall();
