package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"waybill/app/outbox"
	"waybill/db/dbtest"
)

// The dispatcher counts events by tenant and day, without tests, and tells of each limit once, in the transaction that reaches it; SQL is not refused for any.
func TestDaysAreCountedAndLimitsToldOnce(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	limited, free := dbtest.AddTenant(t, pool, dbtest.Tenant{}), dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: limited.ID})
	if _, err := pool.Exec(t.Context(), `insert into tenant_limits (tenant_id, events_per_day_soft, events_per_day) values ($1, 3, 6)`, limited.ID); err != nil {
		t.Fatal(err)
	}
	d := dispatcher(t, pool, &tickets{})
	var told []outbox.Reached
	fail := false
	d.Reached = func(_ context.Context, tx pgx.Tx, reached []outbox.Reached) error {
		if fail {
			_, err := tx.Exec(t.Context(), `select broken`)
			return errors.Join(errors.New("no words"), err)
		}
		told = append(told, reached...)
		return nil
	}
	step := func(n, wantTold int) {
		t.Helper()
		for range n {
			publish(t, pool, event(limited.UID), event(free.UID))
		}
		drain(t, d)
		if len(told) != wantTold {
			t.Errorf("told %d times, want %d: %+v", len(told), wantTold, told)
		}
	}
	step(2, 0)
	step(1, 1)
	step(2, 1)
	step(3, 2)
	step(5, 2)
	if soft, hard := told[0], told[1]; soft.Hard || soft.Used != 3 || soft.Allowed != 3 || soft.UID != limited.UID || !hard.Hard || hard.Used < 6 || hard.Allowed != 6 {
		t.Errorf("%+v", told)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, _, err := outbox.AddTest(t.Context(), tx, d.Now(), outbox.Test{TenantID: limited.ID, EndpointID: ep.ID, Type: "a.b", Data: []byte("1")})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	drain(t, d)
	for _, tenant := range []dbtest.Tenant{limited, free} {
		if n := count(t, pool, `select events::integer from tenant_days where tenant_id = $1 and day = (now() at time zone 'UTC')::date`, tenant.ID); n != 13 {
			t.Errorf("%d events counted, want 13", n)
		}
	}
	// What cannot be told keeps nothing from being dispatched, and the SQL door stays open.
	fail = true
	if _, err := pool.Exec(t.Context(), `update tenant_days set told = 0`); err != nil {
		t.Fatal(err)
	}
	d.Logger = slog.New(slog.DiscardHandler)
	if _, err := pool.Exec(t.Context(), `select publish($1, 'a.b', 'c', '1', '{}'::json)`, limited.UID); err != nil {
		t.Fatal(err)
	}
	drain(t, d)
	if n := count(t, pool, `select events::integer from tenant_days where tenant_id = $1`, limited.ID); n != 14 {
		t.Errorf("%d events counted, want 14", n)
	}
}
