package lane_test

import (
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

// What was handed to a running lane and not started is not sent once its event's content was taken out; what is on the wire is recorded without the answer.
func TestExpungeReachesARunningLane(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 1})
	release := make(chan struct{})
	o := &observed{answer: func(n int, q sender.Request) sender.Outcome {
		if n == 1 {
			<-release
		}
		out := answer(200)
		out.Body, out.BodySize = []byte("thanks for it"), 13
		return out
	}}
	then := time.Now().Add(-time.Minute)
	var made []dbtest.Delivery
	for i := range 3 {
		made = append(made, r.delivery(dbtest.Delivery{Endpoint: ep, CreatedAt: then.Add(time.Duration(i) * time.Second)}))
	}
	r.process(o.send)
	o.reached(t, ep.ID, 1)
	r.until(15*time.Second, 3, `select cardinality(handed) from lanes where endpoint_id = $1`, ep.ID) // all are the lane's by now

	s := &delivery.Service{DB: r.Pool, Ring: r.ring, Policies: policy.Builtin(), Lanes: lanes{r}, Audit: &account.Service{DB: r.Pool, Now: time.Now}}
	caller := account.Waybill("test", tenant.ID)
	for _, d := range made[:2] {
		event, err := (&catalog.Events{DB: r.Pool}).Read(t.Context(), caller, d.Event.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Expunge(t.Context(), caller, event); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	r.until(15*time.Second, 0, `select count(*) from due where endpoint_id = $1`, ep.ID)
	r.until(15*time.Second, 1, `select count(*) from deliveries where id = $1 and status = 'delivered' and reason is null`, made[2].ID)
	r.until(15*time.Second, 1, `select count(*) from deliveries where id = $1 and status = 'delivered' and reason = 'event_expunged'`, made[0].ID)
	if n := r.count(`select count(*) from deliveries where id = $1 and status = 'cancelled' and reason = 'event_expunged' and attempts = 0`, made[1].ID); n != 1 {
		t.Error("what was not started is not cancelled")
	}
	if sent := o.of(ep.ID); len(sent) != 2 || header(sent[1].q, "webhook-id") != made[2].Event.ID {
		t.Errorf("%d requests", len(sent))
	}
	if n := r.count(`select count(*) from attempts where delivery_id = $1 and response_body = '' and response_note is not null and code = 200`, made[0].ID); n != 1 {
		t.Error("the answer to what was on the wire is stored")
	}
	if n := r.count(`select count(*) from attempts where delivery_id = $1 and response_body = 'thanks for it'`, made[2].ID); n != 1 {
		t.Error("the answer to another event is not stored")
	}
}
