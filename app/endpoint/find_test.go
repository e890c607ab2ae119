package endpoint

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/signing"
	"waybill/db/dbtest"
)

func TestFindAmongMany(t *testing.T) {
	t.Parallel()
	h := newBench(t)
	caller, stranger := h.seller(t), h.seller(t)
	tenant := caller.TenantID
	add := func(e dbtest.Endpoint) string {
		e.TenantID = tenant
		return dbtest.AddEndpoint(t, h.DB, e).ID
	}
	orders := add(dbtest.Endpoint{URL: "https://orders.example/hooks", Description: "Order System"})
	shop := add(dbtest.Endpoint{URL: "https://SHOP.example/orders", Unverified: true})
	paused := add(dbtest.Endpoint{URL: "https://paused.example/", State: "paused", Reason: "manual"})
	failing := add(dbtest.Endpoint{URL: "https://failing.example/?a=1"})
	add(dbtest.Endpoint{URL: "https://orders.example/gone", DeletedAt: time.Now()})
	if _, err := h.DB.Exec(t.Context(), `insert into endpoint_health (endpoint_id, tenant_id, failing_since) values ($1, $2, now())`, failing, tenant); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{}, []string{failing, paused, shop, orders}},
		{Filter{Text: " ORDER"}, []string{shop, orders}},
		{Filter{Text: "order system"}, []string{orders}},
		{Filter{Text: "%"}, nil},
		{Filter{Show: Attention}, []string{failing, paused}},
		{Filter{Show: Unverified}, []string{shop}},
		{Filter{Show: "paused", Text: "paused"}, []string{paused}},
		{Filter{Show: "disabled"}, nil},
	} {
		var got []string
		for after, more := "", true; more; more = after != "" {
			page, next, err := h.ListBy(t.Context(), caller, c.filter, after, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				got = append(got, e.ID)
			}
			after = next
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%+v finds %v, want %v", c.filter, got, c.want)
		}
	}
	if _, _, err := h.ListBy(t.Context(), caller, Filter{Show: "broken"}, "", 1); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a word that is none: %v", err)
	}
	if all, wrong, err := h.Count(t.Context(), caller); err != nil || all != 4 || wrong != 2 {
		t.Errorf("counted %d and %d, %v", all, wrong, err)
	}
	if found, err := h.Find(t.Context(), caller, "orders", 10); err != nil || len(found) != 2 || found[1].Description != "Order System" {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := h.At(t.Context(), caller, "https://failing.example/", 10); err != nil || len(found) != 1 || found[0].ID != failing {
		t.Errorf("at the address are %v, %v", found, err)
	}
	for name, ask := range map[string]func(c account.Caller) (int, error){
		"ListBy": func(c account.Caller) (int, error) {
			found, _, err := h.ListBy(t.Context(), c, Filter{}, "", 10)
			return len(found), err
		},
		"Find": func(c account.Caller) (int, error) {
			found, err := h.Find(t.Context(), c, "example", 10)
			return len(found), err
		},
		"At": func(c account.Caller) (int, error) {
			found, err := h.At(t.Context(), c, "https://orders.example/hooks", 10)
			return len(found), err
		},
		"Count": func(c account.Caller) (int, error) { all, _, err := h.Count(t.Context(), c); return all, err },
	} {
		if n, err := ask(stranger); err != nil || n != 0 {
			t.Errorf("%s for another tenant finds %d, %v", name, n, err)
		}
		if _, err := ask(account.Caller{}); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s for nobody: %v", name, err)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	h := newBench(t)
	caller, stranger := h.seller(t), h.seller(t)
	for _, scheme := range signing.Schemes() {
		made, err := h.Create(t.Context(), caller, Input{URL: "https://orders.example/hooks", Types: []string{"*"}, Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		other, err := h.Create(t.Context(), caller, Input{URL: "https://orders.example/other", Types: []string{"*"}, Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		if scheme == signing.V1a {
			continue // private keys are not shown to a test either
		}
		key, err := signing.ParseKey(made.Secret.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		at, body := time.Now(), []byte(`{"a":1}`)
		signs := scheme
		if scheme == signing.V1AndV1a {
			signs = signing.V1
		}
		pairs, err := signing.Headers(signs, []signing.Key{key}, "evt_1", at.Unix(), body)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		for _, pair := range pairs {
			header.Set(pair.Name, pair.Value)
		}
		if got, err := h.Verify(t.Context(), caller, made.ID, header, body, at); err != nil || !got.OK || got.Fingerprint != key.Fingerprint() {
			t.Errorf("%s: %+v, %v", scheme, got, err)
		}
		if got, err := h.Verify(t.Context(), caller, made.ID, header, []byte(`{"a":2}`), at); err != nil || got.OK || got.Reason != signing.NoMatch {
			t.Errorf("%s, another body: %+v, %v", scheme, got, err)
		}
		if got, err := h.Verify(t.Context(), caller, other.ID, header, body, at); err != nil || got.OK {
			t.Errorf("%s, another endpoint's secret: %+v, %v", scheme, got, err)
		}
		if got, err := h.Verify(t.Context(), caller, made.ID, header, body, at.Add(time.Hour)); err != nil || got.Reason != signing.TooOld {
			t.Errorf("%s, an hour later: %+v, %v", scheme, got, err)
		}
		if _, err := h.Verify(t.Context(), stranger, made.ID, header, body, at); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s, another tenant: %v", scheme, err)
		}
	}
}
