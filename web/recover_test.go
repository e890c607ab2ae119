package web_test

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/policy"
	"waybill/db/dbtest"
)

// recoveries inserts no jobs: there are no workers here.
type recoveries struct{}

func (recoveries) InsertRecovery(context.Context, pgx.Tx, delivery.RecoveryTicket) error { return nil }

// exports inserts no jobs either.
type exports struct{}

func (exports) InsertExport(context.Context, pgx.Tx, delivery.FileTicket) error { return nil }

// seller parks deliveries of an endpoint and is signed in.
type seller struct {
	*bench
	who      *browser
	endpoint dbtest.Endpoint
}

func newSeller(t *testing.T, in account.PortalInput) *seller {
	t.Helper()
	b := newBench(t)
	s := &seller{bench: b, endpoint: dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, Description: "Orders"})}
	s.who = b.signedIn(b.tenant, in)
	return s
}

func (s *seller) park(status, kind string, ago time.Duration) dbtest.Delivery {
	s.t.Helper()
	at := time.Now().Add(-ago)
	return dbtest.AddDelivery(s.t, s.pool, dbtest.Delivery{Endpoint: s.endpoint, Status: status, Reason: "endpoint_paused", CreatedAt: at,
		Event: dbtest.Event{TenantID: s.tenant.ID, Type: kind, CreatedAt: at, Body: `{"n":1}`}})
}

func (s *seller) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// work runs the job of the tenant's last catch-up for a moment.
func (s *seller) work() {
	s.t.Helper()
	d := &delivery.Service{DB: s.pool, Policies: policy.Builtin(), Lanes: lanes{s.pool}, Audit: s.accounts, Recoveries: recoveries{}}
	ticket := delivery.RecoveryTicket{TenantID: s.tenant.ID}
	if err := s.pool.QueryRow(s.t.Context(), `select id, gen from recoveries order by id desc limit 1`).Scan(&ticket.ID, &ticket.Gen); err != nil {
		s.t.Fatal(err)
	}
	if _, err := d.RecoverRun(s.t.Context(), ticket, 300*time.Millisecond); err != nil {
		s.t.Fatal(err)
	}
}

// hidden are the fields that a page's form would send.
func hidden(a answer) url.Values {
	form := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		form.Add(field[1], field[2])
	}
	return form
}

// The way from switching on to everything being delivered: the numbers first, then the progress, then the report.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	s := newSeller(t, account.PortalInput{})
	s.park("held", "order.paid", 26*time.Hour)
	s.park("held", "order.paid", time.Hour)
	s.park("undelivered", "order.sent", 2*time.Hour)
	s.exec(`update endpoints set state = 'paused'`)
	here := "/endpoints/" + s.endpoint.ID
	s.who.get(here+"/recover").says(t, http.StatusOK, "This endpoint is off", "3 deliveries would be sent")

	page := s.who.follow(here+"/enable", nil)
	page.says(t, http.StatusOK, "The endpoint is active.", "3 deliveries would be sent", "order.paid 2", "order.sent 1", "21 bytes in all", "Send 3 deliveries")
	s.who.get(here+"/recover?since=2020-01-01T00%3A00&status=held&pace=1").says(t, http.StatusOK, "2 deliveries would be sent", "about 3 s at this pace")
	s.who.get(here+"/recover?since=yesterday&status=held").says(t, http.StatusUnprocessableEntity, "It must be a date and time.")
	s.who.get(here+"/recover?since=2020-01-01T00%3A00").says(t, http.StatusUnprocessableEntity, "It must be chosen")
	s.who.post(here+"/recover", url.Values{"since": {"2020-01-01T00:00"}, "until": {"2019-01-01T00:00"}, "status": {"held"}}).says(t, http.StatusUnprocessableEntity, "It must be after since.")

	progress := s.who.follow(here+"/recover", hidden(page))
	progress.says(t, http.StatusOK, "Running", "0 of 3 deliveries", "Stop catch-up", "It goes on if you leave this page")
	s.who.get(here+"/recover").says(t, http.StatusOK, "A catch-up is running")
	if strings.Contains(s.who.get(here+"/recover").body, "Send 3 deliveries") {
		t.Error("a second one is offered while one runs")
	}
	s.who.get("/undelivered").says(t, http.StatusOK, "See the catch-up")
	s.who.post(here+"/recover", hidden(page)).says(t, http.StatusConflict, "A catch-up of this endpoint is running")

	s.work()
	s.exec(`delete from due`)
	s.exec(`update deliveries set status = 'delivered' where status = 'pending'`)
	s.work()
	var id string
	if err := s.pool.QueryRow(t.Context(), `select id from recoveries`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	report := s.who.get(here + "/recoveries/" + id)
	report.says(t, http.StatusOK, "Done", "3 of 3 deliveries", "Delivered 3")
	if strings.Contains(report.body, "data-live") || strings.Contains(report.body, "Stop catch-up") {
		t.Error("a report is live")
	}
	s.who.get("/activity").says(t, http.StatusOK, "recovery")
}

// Stopping says what stays; the page tells by itself that it has changed.
func TestCatchUpIsStopped(t *testing.T) {
	t.Parallel()
	s := newSeller(t, account.PortalInput{})
	for range 4 {
		s.park("held", "order.paid", time.Hour)
	}
	here := "/endpoints/" + s.endpoint.ID
	form := hidden(s.who.get(here + "/recover"))
	form.Set("pace", "1")
	progress := s.who.follow(here+"/recover", form)
	live := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(progress.body)
	if live == nil {
		t.Fatal("the page is not live")
	}
	changed := make(chan bool, 1)
	stream, err := s.who.client.Do(s.who.request(http.MethodGet, live[1], nil))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if lines.Text() == "event: changed" {
				changed <- true
				return
			}
		}
		changed <- false
	}()
	time.Sleep(50 * time.Millisecond) // the stream's first look is what later ones are compared with
	s.work()
	if !<-changed {
		t.Error("the stream ended without telling that something was sent")
	}
	cancel := strings.TrimSuffix(live[1], "/live") + "/cancel"
	s.who.follow(cancel, nil).says(t, http.StatusOK, "The catch-up stops", "Stopping")
	s.work()
	stopped := s.who.get(strings.TrimSuffix(live[1], "/live"))
	stopped.says(t, http.StatusOK, "Stopped", "4 deliveries stay parked.", "Catch up on the rest…")
	s.who.follow(cancel, nil).says(t, http.StatusOK, "has ended already")
}

// "Resend all" of the undelivered list says what it is first, leaves out what is off, and begins one catch-up an endpoint.
func TestResendAllThatMatch(t *testing.T) {
	t.Parallel()
	s := newSeller(t, account.PortalInput{})
	s.park("undelivered", "order.paid", time.Hour)
	s.park("held", "order.sent", time.Hour)
	first := s.endpoint
	s.endpoint = dbtest.AddEndpoint(t, s.pool, dbtest.Endpoint{TenantID: s.tenant.ID, State: "disabled"})
	s.park("held", "order.paid", time.Hour)
	s.who.get("/undelivered").says(t, http.StatusOK, "Resend all 3…", "Catch up…")
	ask := s.who.get("/deliveries/resend?status=parked")
	ask.says(t, http.StatusOK, "Resend 2 deliveries", "1 delivery of order.paid.", "1 delivery of order.sent.", "1 other stays parked: the endpoints are off.")
	s.who.get("/deliveries/resend?status=held&endpoint="+s.endpoint.ID).says(t, http.StatusSeeOther)
	s.who.get("/deliveries/resend?status=delivered").says(t, http.StatusNotFound)
	if got := s.who.post("/deliveries/resend?status=parked", url.Values{}); got.status != http.StatusSeeOther || strings.Contains(got.location(), "recoveries") {
		t.Errorf("without a confirmation: %d to %s", got.status, got.location())
	}
	s.who.follow("/deliveries/resend?status=parked", hidden(ask)).says(t, http.StatusOK, "1 catch-up has begun, of 2 deliveries.", "Left out: This endpoint is disabled")
	s.who.follow("/deliveries/resend?status=parked", hidden(ask)).says(t, http.StatusOK, "Nothing was resent.")
	var endpointID string
	if err := s.pool.QueryRow(t.Context(), `select endpoint_id from recoveries`).Scan(&endpointID); err != nil || endpointID != first.ID {
		t.Errorf("%s is caught up, %v", endpointID, err)
	}
	viewer := s.signedIn(s.tenant, account.PortalInput{Scopes: []account.Scope{account.DeliveriesRead, account.EndpointsRead}})
	for _, address := range []string{"/deliveries/resend?status=parked"} {
		viewer.get(address).says(t, http.StatusForbidden)
		viewer.post(address, hidden(ask)).says(t, http.StatusForbidden)
	}
	viewer.post("/endpoints/"+first.ID+"/recover", url.Values{"since": {"2020-01-01T00:00"}, "status": {"held"}}).says(t, http.StatusForbidden)
	if strings.Contains(viewer.get("/endpoints/"+first.ID+"/recover").body, `action="/endpoints/`+first.ID+`/recover" class="actions"`) {
		t.Error("who may not resend is offered to")
	}
}
