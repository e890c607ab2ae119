package account

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db"
)

// link makes a portal link and returns its token.
func (s *Service) link(t *testing.T, owner Caller, in PortalInput) string {
	t.Helper()
	link, err := s.PortalLinkCreate(t.Context(), owner, in)
	if err != nil {
		t.Fatal(err)
	}
	return link.Token.Reveal()
}

// signIn redeems a new portal link.
func (s *Service) signIn(t *testing.T, owner Caller, in PortalInput) (Caller, string) {
	t.Helper()
	token, err := s.PortalLinkRedeem(t.Context(), s.link(t, owner, in), Client{UserAgent: "Mozilla/5.0", Address: "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.SessionCaller(t.Context(), token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return caller, token.Reveal()
}

// memberSession adds a person with a role to the caller's tenant and signs them in.
func (s *Service) memberSession(t *testing.T, in Caller, email string, role Role) (Caller, string) {
	t.Helper()
	memberID := id.New(id.Member, time.Now())
	exec(t, s.DB, "insert into members (id, email) values ($1, $2)", memberID, email)
	exec(t, s.DB, "insert into memberships (tenant_id, member_id, role) values ($1, $2, $3)", in.Tenant(), memberID, role)
	return s.memberSignIn(t, in, memberID, email)
}

func (s *Service) memberSignIn(t *testing.T, in Caller, memberID, email string) (Caller, string) {
	t.Helper()
	var token seal.Secret
	err := db.Tx(t.Context(), s.DB, func(tx pgx.Tx) (err error) {
		start := sessionStart{tenantID: in.Tenant(), memberID: memberID, label: email, life: MemberSessionLife}
		_, token, err = s.startSession(t.Context(), tx, start, Client{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.SessionCaller(t.Context(), token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return caller, token.Reveal()
}

func TestAPortalLinkSignsInOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	token := s.link(t, owner, PortalInput{Label: "Anna"})
	target, err := s.PortalLinkLook(t.Context(), token)
	if err != nil || target.TenantUID != "one" || target.Label != "Anna" || !slices.Equal(target.Scopes, Owner.Scopes()) {
		t.Errorf("leads to %+v, %v", target, err)
	}
	// Looking uses nothing up; of many uses at once one succeeds (CASES B60).
	var signedIn, refused atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch _, err := s.PortalLinkRedeem(t.Context(), token, Client{}); {
			case err == nil:
				signedIn.Add(1)
			case fault.KindOf(err) == fault.Unauthenticated:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if signedIn.Load() != 1 || refused.Load() != 19 {
		t.Errorf("%d signed in, %d refused", signedIn.Load(), refused.Load())
	}
	if n := count(t, s.DB, "sessions"); n != 1 {
		t.Errorf("%d sessions", n)
	}
	_, err = s.PortalLinkLook(t.Context(), token)
	wantKind(t, err, fault.Unauthenticated)
	if got, want := s.actions(t, owner), []string{"session.started", "portal.link_created", "tenant.created"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

func TestPortalLinksEnd(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	link, err := s.PortalLinkCreate(t.Context(), owner, PortalInput{})
	if err != nil {
		t.Fatal(err)
	}
	var life time.Duration
	if err := s.DB.QueryRow(t.Context(), "select expires_at - created_at from portal_links").Scan(&life); err != nil || life != 10*time.Minute {
		t.Errorf("lives %v, %v", life, err)
	}
	exec(t, s.DB, "update portal_links set created_at = created_at - interval '10 minutes', expires_at = expires_at - interval '10 minutes'")
	_, err = s.PortalLinkRedeem(t.Context(), link.Token.Reveal(), Client{})
	wantKind(t, err, fault.Unauthenticated)
	for _, nonsense := range []string{"", "wbl_", strings.Repeat("a", 100_000), "a\x00", "\xff"} {
		_, err = s.PortalLinkRedeem(t.Context(), nonsense, Client{})
		wantKind(t, err, fault.Unauthenticated)
		_, err = s.PortalLinkLook(t.Context(), nonsense)
		wantKind(t, err, fault.Unauthenticated)
	}
	exec(t, s.DB, "update portal_links set created_at = created_at - interval '2 days', expires_at = expires_at - interval '2 days'")
	if removed, err := s.Prune(t.Context()); err != nil || removed != 1 {
		t.Errorf("pruned %d, %v", removed, err)
	}
}

func TestPortalLinksCanBeNarrowed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	for name, c := range map[string]struct {
		in   PortalInput
		want []Scope
	}{
		"all":       {PortalInput{}, Owner.Scopes()},
		"read-only": {PortalInput{ReadOnly: true}, Viewer.Scopes()},
		"narrowed":  {PortalInput{Scopes: []Scope{DeliveriesResend, DeliveriesRead}}, []Scope{DeliveriesRead, DeliveriesResend}},
	} {
		if caller, _ := s.signIn(t, owner, c.in); !slices.Equal(caller.Scopes, c.want) || caller.Kind != Session || caller.MemberID != "" {
			t.Errorf("%s: signed in as %+v", name, caller)
		}
	}
	_, err := s.PortalLinkCreate(t.Context(), owner, PortalInput{ReadOnly: true, Scopes: []Scope{EndpointsWrite}})
	wantFields(t, err, "capabilities")
	_, err = s.PortalLinkCreate(t.Context(), owner, PortalInput{Scopes: []Scope{EventsPublish}})
	wantFields(t, err, "capabilities")
	_, err = s.PortalLinkCreate(t.Context(), owner, PortalInput{Label: "a\x00"})
	wantFields(t, err, "label")
	seller, _ := s.signIn(t, owner, PortalInput{})
	_, err = s.PortalLinkCreate(t.Context(), seller, PortalInput{})
	wantKind(t, err, fault.Forbidden)
}

func TestSessionsEndAtOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	first, firstToken := s.signIn(t, owner, PortalInput{Label: "first"})
	second, secondToken := s.signIn(t, owner, PortalInput{Label: "second"})
	list, err := s.SessionList(t.Context(), first)
	if err != nil || len(list) != 2 || list[0].ID != second.ID || list[1].Label != "first" || list[1].UserAgent != "Mozilla/5.0" || list[1].Address != "192.0.2.7" {
		t.Fatalf("listed %+v, %v", list, err)
	}
	if err := s.SessionRevoke(t.Context(), first, second.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.SessionCaller(t.Context(), secondToken)
	wantKind(t, err, fault.Unauthenticated)
	wantKind(t, s.SessionRevoke(t.Context(), first, second.ID), fault.NotFound)
	if err := s.SignOut(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	_, err = s.SessionCaller(t.Context(), firstToken)
	wantKind(t, err, fault.Unauthenticated)
	wantKind(t, s.SignOut(t.Context(), first), fault.NotFound)
	wantKind(t, s.SignOut(t.Context(), owner), fault.Unauthenticated)
	for _, nonsense := range []string{"", "wbs_", "\xff\x00", strings.Repeat("a", 100_000)} {
		_, err = s.SessionCaller(t.Context(), nonsense)
		wantKind(t, err, fault.Unauthenticated)
	}
	_, over := s.signIn(t, owner, PortalInput{})
	exec(t, s.DB, "update sessions set expires_at = statement_timestamp()")
	_, err = s.SessionCaller(t.Context(), over)
	wantKind(t, err, fault.Unauthenticated)
	if removed, err := s.Prune(t.Context()); err != nil || removed != 1 {
		t.Errorf("pruned %d, %v", removed, err)
	}
}

func TestAMembersRightsAreThoseOfTheRoleNow(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	member, token := s.memberSession(t, owner, "anna@example.com", Developer)
	if member.Name != "anna@example.com" || !slices.Equal(member.Scopes, Developer.Scopes()) {
		t.Errorf("signed in as %+v", member)
	}
	exec(t, s.DB, "update memberships set role = 'viewer'")
	if now, err := s.SessionCaller(t.Context(), token); err != nil || !slices.Equal(now.Scopes, Viewer.Scopes()) {
		t.Errorf("now %+v, %v", now, err)
	}
	exec(t, s.DB, "delete from memberships")
	_, err := s.SessionCaller(t.Context(), token)
	wantKind(t, err, fault.Unauthenticated)
}

func TestWhoMayEndWhoseSessions(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	boss, _ := s.memberSession(t, one, "boss@example.com", Owner)
	dev, devToken := s.memberSession(t, one, "dev@example.com", Developer)
	devElsewhere, _ := s.memberSignIn(t, one, dev.MemberID, "dev@example.com")
	stranger, strangerToken := s.memberSession(t, two, "stranger@example.com", Owner)

	if list, err := s.SessionList(t.Context(), dev); err != nil || len(list) != 2 {
		t.Errorf("a developer sees %+v, %v", list, err)
	}
	if list, err := s.SessionList(t.Context(), boss); err != nil || len(list) != 3 {
		t.Errorf("an owner sees %+v, %v", list, err)
	}
	wantKind(t, s.SessionRevoke(t.Context(), dev, boss.ID), fault.NotFound)
	wantKind(t, s.SessionRevoke(t.Context(), boss, stranger.ID), fault.NotFound)
	narrow, _ := s.signIn(t, one, PortalInput{ReadOnly: true})
	wantKind(t, s.SessionRevoke(t.Context(), narrow, boss.ID), fault.Forbidden)
	_, err := s.SessionList(t.Context(), narrow)
	wantKind(t, err, fault.Forbidden)
	_, err = s.SessionRevokeOthers(t.Context(), narrow)
	wantKind(t, err, fault.Forbidden)

	if n, err := s.SessionRevokeOthers(t.Context(), devElsewhere); err != nil || n != 1 {
		t.Errorf("ended %d, %v", n, err)
	}
	if n, err := s.SessionRevokeOthers(t.Context(), devElsewhere); err != nil || n != 0 {
		t.Errorf("then ended %d, %v", n, err)
	}
	_, err = s.SessionCaller(t.Context(), devToken)
	wantKind(t, err, fault.Unauthenticated)
	if err := s.SessionRevoke(t.Context(), boss, devElsewhere.ID); err != nil {
		t.Error(err)
	}
	if _, err := s.SessionCaller(t.Context(), strangerToken); err != nil {
		t.Errorf("a stranger's session was hurt: %v", err)
	}
}

func TestFailedSessionOperationsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	unused := s.link(t, owner, PortalInput{})
	seller, token := s.signIn(t, owner, PortalInput{})
	withoutAudit(t, s.DB, "portal_links", func(ctx context.Context) error {
		_, err := s.PortalLinkCreate(ctx, owner, PortalInput{})
		return err
	})
	withoutAudit(t, s.DB, "sessions", func(ctx context.Context) error {
		_, err := s.PortalLinkRedeem(ctx, unused, Client{})
		return err
	})
	withoutAudit(t, s.DB, "sessions", func(ctx context.Context) error { return s.SignOut(ctx, seller) })
	if _, err := s.SessionCaller(t.Context(), token); err != nil {
		t.Error(err)
	}
	// The link was not used up by the failure.
	if _, err := s.PortalLinkRedeem(t.Context(), unused, Client{UserAgent: "a\x00\xff\r\n", Address: strings.Repeat("1", 500)}); err != nil {
		t.Error(err)
	}
}
