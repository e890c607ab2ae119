package account

import (
	"slices"
	"strings"
	"testing"

	"waybill/app/id"
)

func TestSessionsAreAliveUntilTheyEnd(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	stays, _ := s.signIn(t, owner, PortalInput{})
	left, _ := s.signIn(t, owner, PortalInput{})
	over, _ := s.signIn(t, owner, PortalInput{})
	member, _ := s.memberSession(t, owner, "anna@example.com", Developer)
	all := []string{stays.ID, left.ID, over.ID, member.ID, "ses_none"}
	if alive, err := s.SessionsAlive(t.Context(), all); err != nil || len(alive) != 4 {
		t.Fatalf("%v are alive, %v", alive, err)
	}
	if err := s.SignOut(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	exec(t, s.DB, "update sessions set expires_at = statement_timestamp() where id = $1", over.ID)
	exec(t, s.DB, "delete from memberships where member_id = $1", member.MemberID)
	if alive, err := s.SessionsAlive(t.Context(), all); err != nil || !slices.Equal(alive, []string{stays.ID}) {
		t.Errorf("%v are alive, %v; want the one that goes on", alive, err)
	}
	if alive, err := s.SessionsAlive(t.Context(), nil); err != nil || len(alive) != 0 {
		t.Errorf("of none, %v are alive, %v", alive, err)
	}
}

func TestTheFateOfAPortalLink(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	want := func(token string, fate LinkFate) {
		t.Helper()
		if got, err := s.PortalLinkFate(t.Context(), token); err != nil || got != fate {
			t.Errorf("%q, %v; want %q", got, err, fate)
		}
	}
	token := s.link(t, owner, PortalInput{})
	want(token, LinkOpen)
	if _, err := s.PortalLinkRedeem(t.Context(), token, Client{}); err != nil {
		t.Fatal(err)
	}
	want(token, LinkUsed)
	old := s.link(t, owner, PortalInput{})
	exec(t, s.DB, "update portal_links set created_at = created_at - interval '1 hour', expires_at = expires_at - interval '1 hour' where used_at is null")
	want(old, LinkExpired)
	want(portalPrefix+"0123456789", LinkUnknown)
	want("", LinkUnknown)
	want(strings.Repeat("x", 1000), LinkUnknown)
	want("\x00"+string(id.Session), LinkUnknown)
}
