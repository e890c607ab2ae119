package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

// recoveries inserts no jobs: there are no workers here.
type recoveries struct{}

func (recoveries) InsertRecovery(context.Context, pgx.Tx, delivery.RecoveryTicket) error { return nil }

func TestRecoveryRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	key, tenantID := s.seller(t, "shop-1")
	endpoint := dbtest.AddEndpoint(t, s.DB, dbtest.Endpoint{TenantID: tenantID})
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	park := func(status, kind string, ago time.Duration) {
		at := time.Now().Add(-ago)
		dbtest.AddDelivery(t, s.DB, dbtest.Delivery{Endpoint: endpoint, Status: status, Reason: "endpoint_paused", CreatedAt: at,
			Event: dbtest.Event{TenantID: tenantID, Type: kind, ResourceID: "C-1", CreatedAt: at, Body: `{"n":1}`}})
	}
	park("held", "order.paid", time.Hour)
	park("undelivered", "order.sent", 2*time.Hour)
	address := "/v1/endpoints/" + endpoint.ID + "/recover"
	since := `"since":"` + at.Format(time.RFC3339) + `"`
	dry := s.call(t, key, "POST", address, `{`+since+`,"dry_run":true}`)
	if dry.status != 200 || !strings.Contains(dry.body, `"total":2,"older":0,"bytes":14,`) || field(t, dry.body, "by_type", "1", "type") != "order.sent" {
		t.Errorf("%d %s", dry.status, dry.body)
	}
	wantProblem(t, s.call(t, key, "POST", address, `{}`), fault.Invalid)
	wantProblem(t, s.call(t, key, "POST", address, `{`+since+`,"statuses":["delivered"]}`), fault.Invalid)
	wantProblem(t, s.call(t, key, "POST", address, `{`+since+`,"pace":3}`), fault.Invalid)
	s.say(t, key, "POST", address, `{`+since+`,"statuses":["undelivered"],"newest_per_resource":true,"per_second":5}`, 202)
	wantProblem(t, s.call(t, key, "POST", address, `{`+since+`}`), fault.Conflict)
	list := s.say(t, key, "GET", "/v1/recoveries?endpoint_id="+endpoint.ID, "", 200)
	one := "/v1/recoveries/" + field(t, list, "data", "0", "id")
	s.say(t, key, "GET", one, "", 200)
	s.say(t, platformKey, "GET", strings.Replace(one, "/v1/", "/v1/tenants/shop-1/", 1), "", 200)
	s.say(t, key, "POST", one+"/cancel", "", 200)
	s.say(t, key, "POST", one+"/cancel", "", 409)
	s.call(t, key, "POST", "/v1/endpoints/"+endpoint.ID+"/pause", "")
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/endpoints/"+endpoint.ID+"/recover", `{`+since+`}`, 409)
	s.call(t, key, "POST", "/v1/endpoints/"+endpoint.ID+"/enable", "")
	wantProblem(t, s.call(t, s.tenantKey(t, "shop-1", `{"scopes":["deliveries:read"]}`), "POST", address, `{`+since+`}`), fault.Forbidden)
	s.compare(t, "recoveries")
}
