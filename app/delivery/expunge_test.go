package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
	"waybill/app/outbox"
	"waybill/db/dbtest"
)

const secretText = "9007199254740993" // stands in the data of every event of dbtest, and in what receivers answer here

func ownerOf(tenant dbtest.Tenant) account.Caller {
	return account.Caller{Kind: account.Session, ID: "ses_1", Name: "meera@shop.test", TenantID: tenant.ID, TenantUID: tenant.UID, MemberID: "mem_1", Scopes: account.Owner.Scopes()}
}

func TestExpungeTakesTheContentOutAndKeepsTheRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	events := &catalog.Events{DB: h.pool}
	owner := ownerOf(h.tenant)
	// Its resource's name holds what ends the envelope's head, as far as a text can.
	event := dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID, ResourceID: `x,"data":{"n":9`})
	statuses := []string{"pending", "held", "undelivered", "delivered", "cancelled"}
	made := map[string]dbtest.Delivery{}
	for _, status := range statuses {
		d := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: event, Status: status, Reason: map[bool]string{true: "because"}[status != "pending" && status != "delivered"],
			Endpoint: dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID})})
		dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: d, ResponseHeaders: `[["X-A","b"]]`, ResponseBody: []byte("I got " + secretText), ResponseSize: 22})
		made[status] = d
	}
	other := h.add(dbtest.Delivery{Endpoint: made["pending"].Endpoint})
	dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: other, ResponseHeaders: `[]`, ResponseBody: []byte("other"), ResponseSize: 5})
	h.exec(`insert into digests (tenant_id, hour, endpoint_id, n, delivery_id, class, excerpt) values ($1, date_trunc('hour', now()), $2, 1, $3, 'status', $4)`,
		h.tenant.ID, made["undelivered"].Endpoint.ID, made["undelivered"].ID, secretText)
	h.exec(`update lanes set state = 'running', owner = 'wrk_1' where endpoint_id = $1`, made["pending"].Endpoint.ID)
	h.exec(`insert into inboxes (id, tenant_id, slot, token, answer, seconds, tokens, created_by, expires_at) values ('ibx_1', $1, 1, repeat('t', 32), '200', 1, 1, 'x', now() + interval '1 day')`, h.tenant.ID)
	for n, id := range []string{event.ID, "evt_another"} {
		h.exec(`insert into inbox_requests (tenant_id, inbox_id, number, event_id, headers, body, size, answer, seconds) values ($1, 'ibx_1', $2, $3, '', $4, 1, '200', 1)`,
			h.tenant.ID, n, id, []byte(secretText))
	}

	found, err := events.Read(t.Context(), owner, event.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		caller account.Caller
		want   fault.Kind
	}{
		"nobody": {account.Caller{}, fault.Unauthenticated}, "a tenant's key": {h.caller, fault.Forbidden},
		"a developer": {account.Caller{Kind: account.Session, TenantID: h.tenant.ID, Scopes: account.Developer.Scopes()}, fault.Forbidden},
		"a stranger":  {account.Caller{Kind: account.Session, TenantID: h.stranger.TenantID, Scopes: account.Owner.Scopes()}, fault.NotFound},
	} {
		_, err := h.Expunge(t.Context(), c.caller, found)
		if fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	done, err := h.Expunge(t.Context(), owner, found)
	if err != nil {
		t.Fatal(err)
	}
	if done.By != "meera@shop.test" || done.Cancelled != 4 || time.Since(done.At) > time.Minute {
		t.Errorf("%+v", done)
	}

	if n := one[int](h, `select count(*) from inbox_requests`); n != 1 {
		t.Errorf("inboxes keep %d requests, want that of another event", n)
	}
	after, err := events.Read(t.Context(), owner, event.ID)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(event.Body, `,"data":`)
	want := head + `,"data":null,"expunged_at":"` + done.At.UTC().Format("2006-01-02T15:04:05.000Z") + `"}`
	if string(after.Body) != want || after.ExpungedAt == nil || !after.ExpungedAt.Equal(done.At) || after.ExpungedBy != done.By || after.ResourceID != event.ResourceID {
		t.Errorf("the event is\n%s, want\n%s\n%+v", after.Body, want, after)
	}
	for _, status := range statuses {
		d, err := h.Read(t.Context(), h.caller, made[status].ID)
		if err != nil {
			t.Fatal(err)
		}
		is := Cancelled
		if status == "delivered" {
			is = Delivered
		}
		if d.Status != is || d.Reason != ReasonExpunged || d.NextAt != nil || d.FinishedAt == nil {
			t.Errorf("%s became %+v", status, d)
		}
		if body, digest, err := h.Body(t.Context(), h.caller, d); err != nil || body != nil || digest != "" {
			t.Errorf("its body: %q %q %v", body, digest, err)
		}
		attempts, err := h.Attempts(t.Context(), h.caller, d.ID, "", 0)
		if err != nil || len(attempts.Attempts) != 1 {
			t.Fatal(attempts, err)
		}
		if a := attempts.Attempts[0].Response; a == nil || len(a.Body) != 0 || a.Size != 22 || a.Note == "" || len(a.Headers) != 1 {
			t.Errorf("its attempt: %+v", a)
		}
		_, err = h.Resend(t.Context(), h.caller, d.ID)
		if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "content") {
			t.Errorf("resend of %s: %v", status, err)
		}
	}
	many, err := h.ResendMany(t.Context(), h.caller, []string{made["delivered"].ID})
	if err != nil || many[0].Refusal == nil || many[0].Refusal.Reason != Gone {
		t.Errorf("%+v %v", many, err)
	}
	lines, err := h.Why(t.Context(), h.caller, after)
	if err != nil || slices.ContainsFunc(lines, func(l Line) bool { return l.Cause == WasCancelled && l.Reason != ReasonExpunged }) {
		t.Errorf("%+v %v", lines, err)
	}
	// Nothing of it is left anywhere, and nothing else is touched.
	for _, left := range []string{
		`select count(*) from events where tenant_id = $1 and (body like '%' || $2 || '%' or thin like '%' || $2 || '%') and id <> $3`,
		`select count(*) from attempts where tenant_id = $1 and convert_from(response_body, 'UTF8') like '%' || $2 || '%' and $3 <> ''`,
		`select count(*) from digests where tenant_id = $1 and excerpt like '%' || $2 || '%' and $3 <> ''`,
		`select count(*) from parked where tenant_id = $1 and $2 <> '' and $3 <> ''`,
		`select count(*) - 1 from due where tenant_id = $1 and $2 <> '' and $3 <> ''`,
	} {
		if n := one[int](h, left, h.tenant.ID, secretText, other.Event.ID); n != 0 {
			t.Errorf("%d left: %s", n, left)
		}
	}
	if n := one[int](h, `select count(*) from attempts where delivery_id = $1 and response_body = 'other'`, other.ID); n != 1 {
		t.Error("another event's answer is gone")
	}
	if rev := one[int](h, `select rev from endpoints where id = $1`, made["pending"].Endpoint.ID); rev != 2 {
		t.Errorf("the running lane's endpoint has revision %d", rev)
	}
	if rev := one[int](h, `select rev from endpoints where id = $1`, made["held"].Endpoint.ID); rev != 1 {
		t.Errorf("a resting lane's endpoint has revision %d", rev)
	}
	logged := one[string](h, `select action || ' ' || actor || ' ' || (detail->>'cancelled') from audit where tenant_id = $1 and object = $2`, h.tenant.ID, event.ID)
	if logged != "event.expunged meera@shop.test 4" {
		t.Errorf("logged %q", logged)
	}

	again, err := h.Expunge(t.Context(), account.Caller{Kind: account.PlatformKey, Name: "main", TenantID: h.tenant.ID, Scopes: account.PlatformScopes()}, found)
	if err != nil || !again.At.Equal(done.At) || again.By != done.By || again.Cancelled != 0 {
		t.Errorf("again: %+v %v", again, err)
	}
	if n := one[int](h, `select count(*) from audit where tenant_id = $1`, h.tenant.ID); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// Its state as a resource, lists and streams carry what is left; nothing of it counts as breaking a schema.
func TestExpungedEventInTheCatalog(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	events, types := &catalog.Events{DB: h.pool}, &catalog.Types{DB: h.pool, Accounts: &account.Service{DB: h.pool, Now: time.Now}}
	platform := account.Caller{Kind: account.PlatformKey, Name: "main", TenantID: h.tenant.ID, Scopes: account.PlatformScopes()}
	if _, err := types.EventTypePut(t.Context(), platform, "order.paid", catalog.EventTypeInput{Schema: []byte(`{"type":"object","required":["n"]}`), Enforced: true}); err != nil {
		t.Fatal(err)
	}
	event := dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID, Type: "order.paid", ResourceType: "order", ResourceID: "O-1", Sequence: 7})
	found, err := events.Read(t.Context(), platform, event.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Expunge(t.Context(), platform, found); err != nil {
		t.Fatal(err)
	}
	state, err := events.Resource(t.Context(), platform, "order", "O-1")
	if err != nil || state.ID != event.ID || state.Sequence != 7 || state.ExpungedAt == nil || !strings.Contains(string(state.Body), `,"data":null,"expunged_at":"`) {
		t.Errorf("%s %v", state.Body, err)
	}
	if wrong, err := types.Breaks(t.Context(), platform, state); err != nil || len(wrong) != 0 {
		t.Errorf("%v %v", wrong, err)
	}
	page, err := events.List(t.Context(), platform, catalog.EventFilter{}, "", 0)
	if err != nil || len(page.Events) != 1 || string(page.Events[0].Body) != string(state.Body) {
		t.Errorf("%+v %v", page, err)
	}
	newest, err := events.Newest(t.Context(), platform, catalog.EventFilter{}, "", 0)
	if err != nil || len(newest.Events) != 1 || newest.Events[0].ExpungedAt == nil {
		t.Errorf("%+v %v", newest, err)
	}
}

// The id of what was expunged stays taken.
func TestExpungedEventIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	event := outbox.Event{ID: "order-1", Tenant: h.tenant.UID, Type: "order.paid", ResourceType: "order", ResourceID: "O-1", Data: []byte(`{"n":1}`)}
	if _, err := outbox.Publish(t.Context(), h.pool, event); err != nil {
		t.Fatal(err)
	}
	h.exec(`delete from outbox`) // as the dispatcher has moved it
	dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID, ID: "order-1"})
	found, err := (&catalog.Events{DB: h.pool}).Read(t.Context(), ownerOf(h.tenant), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Expunge(t.Context(), ownerOf(h.tenant), found); err != nil {
		t.Fatal(err)
	}
	again, err := outbox.Publish(t.Context(), h.pool, event)
	if err != nil || !again[0].Repeated {
		t.Errorf("%+v %v", again, err)
	}
	event.Data = []byte(`{"n":2}`)
	_, err = outbox.Publish(t.Context(), h.pool, event)
	wantKind(t, err, fault.Conflict)
}
