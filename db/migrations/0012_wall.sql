-- The second wall between tenants: what is done for a tenant runs as the role waybill_tenant with the tenant's id in the setting waybill.tenant,
-- and sees and changes that tenant's rows alone, whatever a statement says.
--
-- The role belongs to the server, not to this database: several databases share it. It cannot sign in, and has rights on what is granted here.

do $$
begin
    if to_regrole('waybill_tenant') is null then
        begin
            create role waybill_tenant nologin;
        exception
            when duplicate_object or unique_violation then null; -- another database of this server was faster
            when insufficient_privilege then
                raise exception using errcode = 'insufficient_privilege',
                    message = 'the role waybill_tenant is missing, and ' || quote_ident(current_user) || ' may not create roles',
                    hint = 'As an administrator of the server run: create role waybill_tenant nologin; grant waybill_tenant to ' || quote_ident(current_user)
                        || '; and migrate again.';
        end;
    end if;
    begin
        -- Who creates a role does not become it by that, and from version 16 on is a member who may only manage it.
        if not (select rolsuper from pg_roles where rolname = current_user)
           and not exists (select from pg_auth_members m where m.roleid = to_regrole('waybill_tenant') and m.member = to_regrole(quote_ident(current_user))
                           and coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)) then
            execute 'grant waybill_tenant to ' || quote_ident(current_user);
        end if;
    exception
        when insufficient_privilege then
            raise exception using errcode = 'insufficient_privilege',
                message = quote_ident(current_user) || ' may not become the role waybill_tenant',
                hint = 'As an administrator of the server run: grant waybill_tenant to ' || quote_ident(current_user) || '; and migrate again.';
    end;
end
$$;

-- No tenant's: the catalog of types, and where the dispatcher stands. An idempotency key is only ever noted as done, by its caller's id.
grant usage on schema waybill to waybill_tenant;
grant select on event_types, positions, dispatcher to waybill_tenant;
grant select (caller_id, key, gen), update (done_at) on idempotency_keys to waybill_tenant;
-- Rows of a catch-up are copied in, which no policy allows: they can be put there and not be read.
grant insert on recovery_picks to waybill_tenant;

-- The policies hold for the role alone: one lets everybody see what their grants let them see, and one restricts the role. The restriction never leads to an index,
-- so that statements are executed as they would be without it: inside coalesce it is no index condition. The setting is asked for once a statement.
-- Without a setting no tenant is equal to it.
alter table tenants enable row level security;
create policy everybody on tenants using (true);
create policy wall on tenants as restrictive to waybill_tenant using (coalesce(id = (select current_setting('waybill.tenant', true)), false));
grant select, update (name, time_zone, updated_at) on tenants to waybill_tenant;

-- People belong to tenants by their memberships. Their passwords are nobody's to read: who asks is found out before a tenant is known.
alter table members enable row level security;
create policy everybody on members using (true);
create policy wall on members as restrictive to waybill_tenant using (
    exists (select from memberships p where p.member_id = members.id and p.tenant_id = (select current_setting('waybill.tenant', true))));
grant select (id, email, name, verified_at) on members to waybill_tenant;

-- Of how often something was tried, a tenant's own is how often it had invitations mailed.
alter table throttles enable row level security;
create policy everybody on throttles using (true);
create policy wall on throttles as restrictive to waybill_tenant
    using (coalesce(subject = 'invitations tenant ' || (select current_setting('waybill.tenant', true)), false));
grant select, insert, update on throttles to waybill_tenant;

-- raise_wall puts every table that has a tenant_id behind the wall and opens it to the role, but for those named here, and says how many that were. It is called
-- after each migration, so that no new table is forgotten. Partitions have neither grant nor policy: they are reached through their parents alone.
create function raise_wall() returns integer
    language plpgsql
    set search_path = waybill, pg_temp
as $$
declare
    walled text;
    n      integer := 0;
begin
    for walled in
        select c.relname
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
        where c.relnamespace = 'waybill'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and c.relname not in ('recovery_picks', 'operator_log')
          and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'wall')
        -- In the order in which they are locked, where several are.
        order by array_position(array ['endpoints', 'lanes', 'deliveries', 'due', 'parked'], c.relname::text), c.relname
    loop
        execute format('alter table %I enable row level security', walled);
        execute format('create policy everybody on %I using (true)', walled);
        execute format($policy$create policy wall on %I as restrictive to waybill_tenant
                               using (coalesce(tenant_id = (select current_setting('waybill.tenant', true)), false))$policy$, walled);
        execute format('grant select, insert, update, delete on %I to waybill_tenant', walled);
        n := n + 1;
    end loop;
    -- River's tables come after ours. Jobs are inserted in a tenant's name and run with the program's own rights.
    if to_regclass('river_job') is not null and not has_table_privilege('waybill_tenant', 'river_job', 'update') then
        grant select, insert, update on river_job to waybill_tenant;
        grant usage on sequence river_job_id_seq to waybill_tenant;
    end if;
    return n;
end;
$$;
revoke all on function raise_wall() from public;
select raise_wall();
