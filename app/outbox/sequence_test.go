package outbox_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/outbox"
	"waybill/db/dbtest"
)

// sequences are those of a resource's events in the order of the catalog.
func sequences(t testing.TB, pool *pgxpool.Pool, tenantID, resourceID string) []int64 {
	t.Helper()
	rows, err := pool.Query(t.Context(), `select sequence from events where tenant_id = $1 and resource_id = $2 order by position`, tenantID, resourceID)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// An event without a sequence gets one more than the highest of its resource so far; a given one is taken as it is.
func TestSequences(t *testing.T) {
	t.Parallel()
	const absent = -1
	pool := dbtest.New(t)
	other := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	d := dispatcher(t, pool, &tickets{})
	for name, c := range map[string]struct {
		batches [][]int64
		want    []int64
		highest int64
	}{
		"absent":                   {[][]int64{{absent, absent, absent}}, []int64{1, 2, 3}, 3},
		"absent, over batches":     {[][]int64{{absent}, {absent, absent}, {absent}}, []int64{1, 2, 3, 4}, 4},
		"given":                    {[][]int64{{7, 3, 9}, {9}}, []int64{7, 3, 9, 9}, 9},
		"given, then absent":       {[][]int64{{5, absent, absent}}, []int64{5, 6, 7}, 7},
		"absent, then given":       {[][]int64{{absent, absent, 10, absent}}, []int64{1, 2, 10, 11}, 11},
		"given lower in between":   {[][]int64{{5, absent, 3, absent, 4, absent}}, []int64{5, 6, 3, 7, 4, 8}, 8},
		"given higher in between":  {[][]int64{{absent, 4, absent, 9, 6, absent}}, []int64{1, 4, 5, 9, 6, 10}, 10},
		"lower than before":        {[][]int64{{8}, {2, absent}, {absent, 1}}, []int64{8, 2, 9, 10, 1}, 10},
		"zero":                     {[][]int64{{0, absent}, {0, absent}}, []int64{0, 1, 0, 2}, 2},
		"the highest that can be":  {[][]int64{{1<<53 - 1}}, []int64{1<<53 - 1}, 1<<53 - 1},
		"given as the next absent": {[][]int64{{absent, 2, absent, 4, absent}}, []int64{1, 2, 3, 4, 5}, 5},
	} {
		tenant, resourceID := dbtest.AddTenant(t, pool, dbtest.Tenant{}), "C-4471"
		for _, batch := range c.batches {
			for _, n := range batch {
				one := event(tenant.UID)
				if n != absent {
					one.Sequence = sequence(n)
				}
				// In between, others that have nothing to do with it: another resource, the same of another type, and of another tenant.
				publish(t, pool, one, event(tenant.UID, func(e *outbox.Event) { e.ResourceID = "C-other" }),
					event(tenant.UID, func(e *outbox.Event) { e.ResourceType, e.ResourceID = "parcel", resourceID+"-p" }),
					event(other.UID, func(e *outbox.Event) { e.Sequence = sequence(500) }))
			}
			drain(t, d)
		}
		if got := sequences(t, pool, tenant.ID, resourceID); !slices.Equal(got, c.want) {
			t.Errorf("%s: sequences %v, want %v", name, got, c.want)
		}
		if got := count(t, pool, `select sequence from resources where tenant_id = $1 and id = $2`, tenant.ID, resourceID); int64(got) != c.highest {
			t.Errorf("%s: the resource stands at %d, want %d", name, got, c.highest)
		}
	}
	if n := count(t, pool, `select count(*) from events where body not like '%"sequence":' || sequence || ',"data"%'`); n != 0 {
		t.Errorf("%d events say another sequence on the wire than in the catalog", n)
	}
	if n := count(t, pool, `select count(*) from resources r join events e using (position, day) where r.sequence <> e.sequence or r.id <> e.resource_id`); n != 0 {
		t.Errorf("%d resources point at another event than the one with their sequence", n)
	}
}

// Publishers that do not know of each other get every number once, and 1 to n without a gap.
func TestSequencesOfManyPublishers(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	d := dispatcher(t, pool, &tickets{})
	var publishers sync.WaitGroup
	for range 6 {
		publishers.Go(func() {
			for i := range 20 {
				_, err := outbox.Publish(t.Context(), pool, event(tenant.UID, func(e *outbox.Event) { e.ResourceID = fmt.Sprint("C-", i%3) }),
					event(tenant.UID, func(e *outbox.Event) { e.ResourceID = fmt.Sprint("C-", i%3) }))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	published := make(chan struct{})
	go func() { publishers.Wait(); close(published) }()
	for done := false; !done; {
		select {
		case <-published:
			done = true
		default:
		}
		drain(t, d)
	}
	total := 0
	for i := range 3 {
		for n, got := range sequences(t, pool, tenant.ID, fmt.Sprint("C-", i)) {
			if got != int64(n+1) {
				t.Fatalf("C-%d: the %dth event has sequence %d", i, n+1, got)
			}
			total++
		}
	}
	if total != 240 {
		t.Errorf("%d events, want 240", total)
	}
}

// A test event takes no number, raises no resource and is in no catalog.
func TestTestEventsTakeNoSequence(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID, Types: []string{"other.type"}})
	beside := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	var ids [2][2]string
	for i := range ids {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			ids[i][0], ids[i][1], err = outbox.AddTest(t.Context(), tx, now(), outbox.Test{TenantID: tenant.ID, EndpointID: ep.ID, Type: "consignment.loaded",
				Data: []byte(`{ "a" : 1 }`), RequestedBy: "anna@example.com"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	k := &tickets{}
	publish(t, pool, event(tenant.UID))
	drain(t, dispatcher(t, pool, k))
	if ids[0][0] == ids[1][0] || ids[0][1] == ids[1][1] {
		t.Errorf("two test events share an id: %v", ids)
	}
	for _, id := range ids {
		var body, trigger, by, endpointID string
		var priority int
		if err := pool.QueryRow(t.Context(), `select e.body, d.trigger, d.requested_by, d.priority, d.endpoint_id
			from events e join due d on d.event_id = e.id where e.id = $1 and d.delivery_id = $2 and e.test`, id[0], id[1]).
			Scan(&body, &trigger, &by, &priority, &endpointID); err != nil {
			t.Fatalf("the test event %v: %v", id, err)
		}
		if trigger != "test" || priority != 0 || by != "anna@example.com" || endpointID != ep.ID {
			t.Errorf("due as %s with priority %d by %s for %s", trigger, priority, by, endpointID)
		}
		if !strings.Contains(body, `"test":true,"data":{ "a" : 1 }}`) || !strings.Contains(body, `"resource":{"type":"consignment","id":"TEST-`) {
			t.Errorf("body %s", body)
		}
	}
	stored(t, pool, 0, 1, 3, 3, 3)
	if n := count(t, pool, `select count(*) from resources`); n != 1 {
		t.Errorf("%d resources, want that of the real event alone", n)
	}
	if got := sequences(t, pool, tenant.ID, "C-4471"); !slices.Equal(got, []int64{1}) {
		t.Errorf("the real event's sequence: %v", got)
	}
	if n := count(t, pool, `select count(*) from deliveries where endpoint_id = $1`, beside.ID); n != 1 {
		t.Errorf("the other endpoint has %d deliveries, want the real event's alone", n)
	}
	if len(k.given) != 2 {
		t.Errorf("tickets %v, want one for each endpoint", k.given)
	}
}
