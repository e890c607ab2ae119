package api

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/notice"
	"waybill/app/seal"
)

// A platform invites a tenant's first owner, who then signs in by themselves.
func TestInvitations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	b.Accounts.Mails = &notice.Outbox{DB: b.DB, Ring: ring, URL: b.URL, Now: time.Now}
	key := b.tenantKey(t, "one", "")
	const address = "/v1/tenants/one/invitations"
	made := b.call(t, platformKey, "POST", address, `{"email":"Meera@Silkhouse.example"}`)
	if made.status != 201 || field(t, made.body, "email") != "meera@silkhouse.example" || field(t, made.body, "role") != "owner" ||
		!strings.HasPrefix(field(t, made.body, "id"), "inv_") || field(t, made.body, "expires_at") == "" {
		t.Fatalf("answered %d %s", made.status, made.body)
	}
	token, found := strings.CutPrefix(field(t, made.body, "url"), "https://waybill.test/invitation/")
	if target, err := b.Accounts.InvitationLook(t.Context(), token); !found || err != nil || target.Role != account.Owner || target.TenantName != "one" {
		t.Errorf("the link leads to %+v, %v", target, err)
	}
	mails, err := b.Accounts.Mails.List(t.Context())
	if err != nil || len(mails) != 1 || mails[0].To != "meera@silkhouse.example" {
		t.Errorf("mails %+v, %v", mails, err)
	}
	if got := b.call(t, platformKey, "POST", address, `{"email":"ravi@silkhouse.example","role":"viewer"}`); got.status != 201 || field(t, got.body, "role") != "viewer" {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	// Again for the same address: the first link is dead.
	if got := b.call(t, platformKey, "POST", address, `{"email":"meera@silkhouse.example"}`); got.status != 201 || strings.Contains(got.body, token) {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	if _, err := b.Accounts.InvitationLook(t.Context(), token); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("the replaced link still works: %v", err)
	}
	wantProblem(t, b.call(t, platformKey, "POST", address, `{"email":"nonsense"}`), fault.Invalid)
	wantProblem(t, b.call(t, platformKey, "POST", address, `{"email":"a@b.example","role":"king"}`), fault.Invalid)
	wantProblem(t, b.call(t, platformKey, "POST", address, `{}`), fault.Invalid)
	wantProblem(t, b.call(t, platformKey, "POST", address, ``), fault.Malformed)
	wantProblem(t, b.call(t, platformKey, "POST", "/v1/tenants/nobody/invitations", `{"email":"a@b.example"}`), fault.NotFound)
	wantProblem(t, b.call(t, key, "POST", address, `{"email":"a@b.example"}`), fault.Forbidden)
	if n := strings.Count(b.logs.String(), token); n != 0 {
		t.Errorf("the token stands in the log %d times", n)
	}
}
