package path_test

import (
	"net/url"
	"reflect"
	"testing"

	"waybill/web/path"
)

func TestIdsStayOneSegment(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"ep_01":          "/endpoints/ep_01/settings",
		"a/b":            "/endpoints/a%2Fb/settings",
		"../x?y#z":       "/endpoints/..%2Fx%3Fy%23z/settings",
		"a b\x00":        "/endpoints/a%20b%00/settings",
		"//evil.test":    "/endpoints/%2F%2Fevil.test/settings",
		"javascript:1":   "/endpoints/javascript:1/settings",
		"order.shipped☃": "/endpoints/order.shipped%E2%98%83/settings",
	} {
		if got := path.EndpointSettings(id); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
	if got := path.SecretEnd("a/b", "c?d"); got != "/endpoints/a%2Fb/secrets/c%3Fd/end" {
		t.Error(got)
	}
}

func TestEmptyParametersAreLeftOut(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		path.EventsOf("", "", ""):                                          "/events",
		path.EventsOf("order.*", "C-4471&x=1", ""):                         "/events?q=C-4471%26x%3D1&type=order.%2A",
		path.Attempt("dlv_1", "att_1", ""):                                 "/deliveries/dlv_1/attempts/att_1",
		path.Attempt("dlv_1", "att_1", "raw"):                              "/deliveries/dlv_1/attempts/att_1?view=raw",
		path.Deliveries(path.DeliveryFilter{}):                             "/deliveries",
		path.Deliveries(path.DeliveryFilter{From: "10:00+05:30"}):          "/deliveries?from=10%3A00%2B05%3A30",
		path.DeliveriesLive(path.DeliveryFilter{Cursor: "c", Code: "5xx"}): "/deliveries/live?code=5xx",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestFilterSurvivesItsAddress fills every field, so that a new one cannot be forgotten on the way.
func TestFilterSurvivesItsAddress(t *testing.T) {
	t.Parallel()
	var filter path.DeliveryFilter
	fields := reflect.ValueOf(&filter).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetString("value & " + fields.Type().Field(i).Name + "+/?")
	}
	address, err := url.Parse(path.Deliveries(filter))
	if err != nil {
		t.Fatal(err)
	}
	if got := path.DeliveryFilterOf(address.Query()); got != filter {
		t.Errorf("%+v\nbecame\n%+v", filter, got)
	}
	if (path.DeliveryFilter{Cursor: "c"}).Narrowed() || !(path.DeliveryFilter{Slower: "1"}).Narrowed() {
		t.Error("a cursor alone narrows, or a field does not")
	}
}
