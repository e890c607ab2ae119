package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
)

// Overview and endpoint draw what was counted, by the tenant's clock, with a table behind it; what cannot be read is said to be that, and no zero.
func TestCharts(t *testing.T) {
	t.Parallel()
	s := newSeller(t, account.PortalInput{})
	slot := time.Now().Truncate(15 * time.Minute)
	s.exec(`insert into rollups (endpoint_id, tenant_id, slot, delivered, refused, timed_out, ours, t07, t08) values ($1, $2, $3, 1234, 20, 3, 1, 1234, 20)`, s.endpoint.ID, s.tenant.ID, slot)
	s.exec(`insert into rollups (endpoint_id, tenant_id, slot, delivered, t07) values ('ep_other', 'tnt_other', $1, 77777, 77777)`, slot)
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	hour := slot.In(zone).Format("Mon 2 Jan, 15:00")
	for _, address := range []string{"/", "/?range=7d", "/endpoints/" + s.endpoint.ID} {
		page := s.who.get(address)
		page.says(t, http.StatusOK, "Attempts by outcome", "1,258 attempts in", "98.1 % of them delivered.", "Response time", "Half of the answers came within", "As a table")
		if when := map[bool]string{true: slot.In(zone).Format("Mon 2 Jan"), false: hour}[strings.Contains(address, "7d")]; !strings.Contains(page.words(), when) {
			t.Errorf("%s has no bucket %q", address, when)
		}
		if strings.Contains(page.words(), "77,777") || strings.Contains(page.words(), "79,0") {
			t.Errorf("%s shows another tenant's", address)
		}
	}
	list := s.who.get("/endpoints")
	list.says(t, http.StatusOK, "Delivered, 24 h", "98.1 %", "p95")
	if strings.Contains(list.words(), "100 %") {
		t.Error("the list shows another tenant's")
	}
	s.who.get("/?range=nonsense").says(t, http.StatusOK, "in 24 hours")

	s.exec(`alter table rollups rename to rollups_gone`)
	s.exec(`create view rollups as select * from rollups_gone where pg_sleep(0) is not null and 1 / (select 0) = 1`)
	s.exec(`grant select on rollups to waybill_tenant`)
	if got := s.who.get("/"); got.status != http.StatusInternalServerError {
		t.Errorf("a broken statement is answered with %d", got.status)
	}
	s.exec(`drop view rollups`)
	s.exec(`create function too_slow() returns boolean language plpgsql as $$ begin raise exception using errcode = '57014'; end $$`)
	s.exec(`create view rollups as select * from rollups_gone where too_slow()`)
	s.exec(`grant select on rollups to waybill_tenant`)
	list = s.who.get("/endpoints")
	list.says(t, http.StatusOK, "Delivered, 24 h", "–")
	if strings.Contains(list.words(), "%") {
		t.Error("the list shows a share that nobody has read")
	}
	for _, address := range []string{"/", "/endpoints/" + s.endpoint.ID} {
		page := s.who.get(address)
		page.says(t, http.StatusOK, "These figures could not be loaded", "–")
		if strings.Contains(page.words(), "Nothing was sent") || strings.Contains(page.words(), "Delivered 0") || strings.Contains(page.words(), "Delivered, 24 h 0") {
			t.Errorf("%s shows a zero that nobody has read", address)
		}
	}
}
