package endpoint

import (
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/signing"
	"waybill/app/signing/lab"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller, other := b.seller(t), b.seller(t)
	e := b.create(t, seller, Input{})
	b.create(t, seller, Input{URL: "https://warehouse.example/in?key=t0ps3cret"})
	sibling := b.create(t, seller, Input{URL: "https://second.example/in?key=t0ps3cret"})
	stranger := b.create(t, other, Input{})
	body := []byte(`{"id":"evt_1"}`)
	now := time.Now()
	request := func(secret string) lab.Input {
		t.Helper()
		key, err := signing.ParseKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		headers, err := signing.Headers(signing.V1, []signing.Key{key}, "evt_1", now.Unix(), body)
		if err != nil {
			t.Fatal(err)
		}
		return lab.Input{Headers: headers, Body: body, At: now}
	}
	rotated, err := b.Rotate(t.Context(), seller, e.ID, Rotation{Overlap: overlap(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		secret, says string
		verifies     bool
	}{
		"the newest":         {rotated.Secret.Reveal(), "The newest secret", true},
		"the older":          {e.Secret.Reveal(), "signs until", true},
		"another endpoint's": {sibling.Secret.Reveal(), "of your endpoint second.example/in.", false},
		"another tenant's":   {stranger.Secret.Reveal(), "None of this endpoint's secrets", false},
	} {
		report, err := b.Examine(t.Context(), seller, e.ID, request(test.secret))
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for _, check := range report.Checks {
			said.WriteString(check.Text + " " + check.Fix + "\n")
		}
		if report.Verifies != test.verifies || !strings.Contains(said.String(), test.says) {
			t.Errorf("%s: %v, %s, want it to say %q", name, report.Verifies, said.String(), test.says)
		}
		if strings.Contains(said.String(), "t0ps3cret") || strings.Contains(said.String(), test.secret[6:]) {
			t.Errorf("%s: a secret is told: %s", name, said.String())
		}
	}
	if _, err := b.Examine(t.Context(), other, e.ID, request(e.Secret.Reveal())); fault.KindOf(err) != fault.NotFound {
		t.Errorf("for another tenant: %v", err)
	}
	viewer := seller
	viewer.Scopes = []account.Scope{account.EndpointsRead}
	if _, err := b.Examine(t.Context(), viewer, e.ID, request(e.Secret.Reveal())); err != nil {
		t.Errorf("for who may only read: %v", err)
	}
	viewer.Scopes = []account.Scope{account.CatalogRead}
	if _, err := b.Examine(t.Context(), viewer, e.ID, request(e.Secret.Reveal())); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("for who may not: %v", err)
	}
}
