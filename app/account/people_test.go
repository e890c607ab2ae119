package account

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill/app/fault"
	"waybill/app/seal"
)

const (
	goodPassword  = seal.Secret("correct horse battery staple")
	otherPassword = seal.Secret("rote Fahrräder im Regen")
)

var laptop = Client{UserAgent: "Mozilla/5.0", Address: "192.0.2.7"}

// letter is the newest mail to an address of a kind, and the token of the link in it.
func (s *Service) letter(t *testing.T, kind, to string) (text, token string) {
	t.Helper()
	mails, err := s.Mails.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mails {
		if m.Kind == kind && m.To == to {
			full, err := s.Mails.Read(t.Context(), m.ID)
			if err != nil {
				t.Fatal(err)
			}
			if link := tokenInMail.FindString(full.Text); link != "" {
				token = link
			}
			return full.Text, token
		}
	}
	t.Fatalf("no mail %s to %s among %d", kind, to, len(mails))
	return "", ""
}

var tokenInMail = regexp.MustCompile(`wb[irv]_[0-9a-z]{40}`)

func (s *Service) mailCount(t *testing.T) int { return count(t, s.DB, "mails") }

// joined invites an address as a role and accepts it as a new person with goodPassword.
func (s *Service) joined(t *testing.T, inviter Caller, email string, role Role) (Caller, string) {
	t.Helper()
	if _, err := s.InvitationCreate(t.Context(), inviter, InvitationInput{Email: email, Role: role}); err != nil {
		t.Fatal(err)
	}
	_, token := s.letter(t, "invitation", email)
	session, err := s.InvitationAccept(t.Context(), token, InvitationAnswer{Name: "Person " + email, Password: goodPassword}, laptop)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.SessionCaller(t.Context(), session.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return caller, session.Reveal()
}

func (s *Service) signedIn(t *testing.T, email string, password seal.Secret) Caller {
	t.Helper()
	in, err := s.SignIn(t.Context(), email, password, laptop)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.SessionCaller(t.Context(), in.Session.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return caller
}

func TestAnInvitationMakesTheFirstOwner(t *testing.T) {
	t.Parallel()
	s := newService(t)
	platform := s.in(t, "one")
	made, err := s.InvitationCreate(t.Context(), platform, InvitationInput{Email: " Meera@Example.COM ", Role: Owner})
	if err != nil {
		t.Fatal(err)
	}
	text, token := s.letter(t, "invitation", "meera@example.com")
	if made.Email != "meera@example.com" || made.Token.Reveal() != token || !strings.Contains(text, "https://waybill.test/invitation/"+token) || !strings.Contains(text, "Your platform invites you") {
		t.Errorf("made %+v, mailed %s", made, text)
	}
	target, err := s.InvitationLook(t.Context(), token)
	if err != nil || target.TenantName != "one" || target.Known || target.Role != Owner {
		t.Errorf("leads to %+v, %v", target, err)
	}
	_, err = s.InvitationAccept(t.Context(), token, InvitationAnswer{Name: "", Password: "short"}, laptop)
	wantFields(t, err, "name", "password")
	session, err := s.InvitationAccept(t.Context(), token, InvitationAnswer{Name: "Meera Iyer", Password: goodPassword}, laptop)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := s.SessionCaller(t.Context(), session.Reveal())
	if err != nil || owner.TenantUID != "one" || owner.Can(TeamWrite) != nil || owner.Name != "meera@example.com" {
		t.Errorf("signed in as %+v, %v", owner, err)
	}
	// The platform was shown the link, so that following it proves nothing of the address.
	if p, err := s.Profile(t.Context(), owner); err != nil || p.Verified || p.Name != "Meera Iyer" {
		t.Errorf("profile %+v, %v", p, err)
	}
	s.letter(t, "verify", "meera@example.com")
	s.letter(t, "welcome", "meera@example.com")
	for _, dead := range []string{token, "", "wbi_" + strings.Repeat("0", 40), strings.Repeat("x", 10000), "a\x00"} {
		_, err := s.InvitationAccept(t.Context(), dead, InvitationAnswer{Name: "x", Password: goodPassword}, laptop)
		wantKind(t, err, fault.Unauthenticated)
	}
	if fate, err := s.InvitationFate(t.Context(), token); fate != LinkUsed || err != nil {
		t.Errorf("fate %s, %v", fate, err)
	}
	if got, want := s.actions(t, owner), []string{"member.joined", "session.started", "invitation.created", "tenant.created"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	var stored int
	err = s.DB.QueryRow(t.Context(), `select count(*) from mails where position($1 in encode(body, 'escape')) > 0 or position($1 in subject || key) > 0`, token).Scan(&stored)
	if err != nil || stored != 0 {
		t.Errorf("the token stands in %d mails as it is, %v", stored, err)
	}
}

func TestInvitationsWithinATenant(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	owner, _ := s.joined(t, one, "owner@example.com", Owner)
	dev, _ := s.joined(t, owner, "dev@example.com", Developer)
	stranger, _ := s.joined(t, two, "stranger@example.com", Owner)
	if p, err := s.Profile(t.Context(), dev); err != nil || !p.Verified {
		t.Errorf("who follows a mailed link has not confirmed the address: %+v, %v", p, err)
	}
	made, err := s.InvitationCreate(t.Context(), owner, InvitationInput{Email: "anu@example.com", Role: Viewer})
	if err != nil || made.Token != "" || made.By != "Person owner@example.com" {
		t.Fatalf("made %+v, %v", made, err)
	}
	_, first := s.letter(t, "invitation", "anu@example.com")

	for name, c := range map[string]struct {
		caller Caller
		in     InvitationInput
		want   fault.Kind
	}{
		"a developer":                  {dev, InvitationInput{"x@example.com", Viewer}, fault.Forbidden},
		"nobody":                       {Caller{}, InvitationInput{"x@example.com", Viewer}, fault.Unauthenticated},
		"a tenant's key":               {Caller{Kind: TenantKey, TenantID: owner.TenantID, Scopes: KeyScopes()}, InvitationInput{"x@example.com", Viewer}, fault.Forbidden},
		"a platform key that reads":    {Caller{Kind: PlatformKey, TenantID: owner.TenantID, Scopes: []Scope{TenantsRead}}, InvitationInput{"x@example.com", Viewer}, fault.Forbidden},
		"more than one has":            {Caller{Kind: Session, TenantID: owner.TenantID, Scopes: []Scope{TeamWrite, CatalogRead}}, InvitationInput{"x@example.com", Owner}, fault.Forbidden},
		"no role":                      {owner, InvitationInput{"x@example.com", "king"}, fault.Invalid},
		"no address":                   {owner, InvitationInput{"x", Viewer}, fault.Invalid},
		"a header in an address":       {owner, InvitationInput{"x@example.com\r\nBcc: y@example.com", Viewer}, fault.Invalid},
		"two addresses":                {owner, InvitationInput{"x@example.com,y@example.com", Viewer}, fault.Invalid},
		"an address that is no ASCII":  {owner, InvitationInput{"ü@example.com", Viewer}, fault.Invalid},
		"a name with an address":       {owner, InvitationInput{"X <x@example.com>", Viewer}, fault.Invalid},
		"who is a member already":      {owner, InvitationInput{"DEV@example.com", Viewer}, fault.Invalid},
		"a suspended tenant's owner":   {Caller{Kind: Session, TenantID: owner.TenantID, Scopes: Owner.Scopes(), Suspended: true}, InvitationInput{"x@example.com", Viewer}, fault.Forbidden},
		"an address in another tenant": {owner, InvitationInput{"stranger@example.com", Viewer}, ""},
	} {
		if _, err := s.InvitationCreate(t.Context(), c.caller, c.in); fault.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}

	// Another tenant's owner sees, resends and withdraws nothing of it.
	if list, err := s.InvitationList(t.Context(), stranger); err != nil || len(list) != 0 {
		t.Errorf("another tenant sees %+v, %v", list, err)
	}
	wantKind(t, s.InvitationRevoke(t.Context(), stranger, made.ID), fault.NotFound)
	wantKind(t, s.InvitationResend(t.Context(), stranger, made.ID), fault.NotFound)
	wantKind(t, s.InvitationRevoke(t.Context(), dev, made.ID), fault.Forbidden)
	_, err = s.InvitationList(t.Context(), dev)
	wantKind(t, err, fault.Forbidden)

	// Sent again, the first link is dead; a second invitation of the address replaces the first.
	if err := s.InvitationResend(t.Context(), owner, made.ID); err != nil {
		t.Fatal(err)
	}
	_, second := s.letter(t, "invitation", "anu@example.com")
	if _, err := s.InvitationLook(t.Context(), first); first == second || fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("the old link still works: %v", err)
	}
	again, err := s.InvitationCreate(t.Context(), owner, InvitationInput{Email: "anu@example.com", Role: Developer})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.InvitationList(t.Context(), owner); err != nil || len(list) != 2 || list[0].ID != again.ID && list[1].ID != again.ID {
		t.Errorf("open are %+v, %v", list, err)
	}
	_, third := s.letter(t, "invitation", "anu@example.com")
	if err := s.InvitationRevoke(t.Context(), owner, again.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.InvitationRevoke(t.Context(), owner, again.ID), fault.NotFound)
	wantKind(t, s.InvitationResend(t.Context(), owner, again.ID), fault.NotFound)
	if _, err := s.InvitationLook(t.Context(), third); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("what was withdrawn still works: %v", err)
	}

	// A portal link with every right invites, too; and an invitation ends by itself.
	seller, _ := s.signIn(t, one, PortalInput{Label: "Meera by link"})
	made, err = s.InvitationCreate(t.Context(), seller, InvitationInput{Email: "late@example.com", Role: Owner})
	if err != nil || made.By != "Meera by link" {
		t.Fatalf("made %+v, %v", made, err)
	}
	_, late := s.letter(t, "invitation", "late@example.com")
	exec(t, s.DB, "update invitations set expires_at = statement_timestamp() where id = $1", made.ID)
	_, err = s.InvitationAccept(t.Context(), late, InvitationAnswer{Name: "Late", Password: goodPassword}, laptop)
	wantKind(t, err, fault.Unauthenticated)
	if fate, err := s.InvitationFate(t.Context(), late); fate != LinkExpired || err != nil {
		t.Errorf("fate %s, %v", fate, err)
	}
}

func TestAPersonInSeveralTenants(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two, three := s.in(t, "one"), s.in(t, "two"), s.in(t, "three")
	anna, annaToken := s.joined(t, one, "anna@example.com", Developer)
	invite := func(platform Caller) string {
		t.Helper()
		made, err := s.InvitationCreate(t.Context(), platform, InvitationInput{Email: "anna@example.com", Role: Viewer})
		if err != nil {
			t.Fatal(err)
		}
		return made.Token.Reveal()
	}

	// With the password, as who is not signed in here.
	token := invite(two)
	if target, err := s.InvitationLook(t.Context(), token); err != nil || !target.Known {
		t.Errorf("leads to %+v, %v", target, err)
	}
	_, err := s.InvitationAccept(t.Context(), token, InvitationAnswer{Name: "Mallory", Password: otherPassword}, laptop)
	wantFields(t, err, "password")
	if _, err := s.InvitationAccept(t.Context(), token, InvitationAnswer{Name: "Mallory", Password: goodPassword}, laptop); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Profile(t.Context(), anna); err != nil || p.Name != "Person anna@example.com" {
		t.Errorf("an invitation renamed a member: %+v, %v", p, err)
	}

	// Signed in, without one; but not as somebody else.
	token = invite(three)
	mallory, _ := s.joined(t, one, "mallory@example.com", Owner)
	_, err = s.InvitationJoin(t.Context(), mallory, token, laptop)
	wantKind(t, err, fault.Forbidden)
	_, err = s.InvitationJoin(t.Context(), three, token, laptop)
	wantKind(t, err, fault.Forbidden)
	_, err = s.InvitationJoin(t.Context(), Caller{}, token, laptop)
	wantKind(t, err, fault.Unauthenticated)
	session, err := s.InvitationJoin(t.Context(), anna, token, laptop)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.SessionCaller(t.Context(), annaToken)
	wantKind(t, err, fault.Unauthenticated)
	anna, err = s.SessionCaller(t.Context(), session.Reveal())
	if err != nil || anna.TenantUID != "three" || anna.Can(EndpointsWrite) == nil {
		t.Errorf("joined as %+v, %v", anna, err)
	}

	tenancies, err := s.Tenancies(t.Context(), anna)
	if err != nil || len(tenancies) != 3 || tenancies[0] != (Tenancy{"one", "one", Developer}) {
		t.Errorf("tenancies %+v, %v", tenancies, err)
	}
	if none, err := s.Tenancies(t.Context(), three); err != nil || none != nil {
		t.Errorf("a key has tenancies %+v, %v", none, err)
	}

	// Switching: the old session ends, the new one has that tenant's role and no longer life.
	exec(t, s.DB, "update sessions set expires_at = statement_timestamp() + interval '1 hour' where id = $1", anna.ID)
	_, _, err = s.TenantSwitch(t.Context(), mallory, "two", laptop)
	wantKind(t, err, fault.NotFound)
	_, _, err = s.TenantSwitch(t.Context(), anna, "no such", laptop)
	wantKind(t, err, fault.NotFound)
	_, _, err = s.TenantSwitch(t.Context(), three, "one", laptop)
	wantKind(t, err, fault.Forbidden)
	next, life, err := s.TenantSwitch(t.Context(), anna, "one", laptop)
	if err != nil || life > time.Hour || life < 50*time.Minute {
		t.Fatalf("lives %s, %v", life, err)
	}
	_, _, err = s.TenantSwitch(t.Context(), anna, "two", laptop)
	wantKind(t, err, fault.Unauthenticated) // that session is over
	anna, err = s.SessionCaller(t.Context(), next.Reveal())
	if err != nil || anna.TenantUID != "one" || anna.Can(EndpointsWrite) != nil {
		t.Errorf("switched to %+v, %v", anna, err)
	}
	// Signing in leads to where one was last.
	if again := s.signedIn(t, "anna@example.com", goodPassword); again.TenantUID != "one" {
		t.Errorf("signed in to %s", again.TenantUID)
	}
}

func TestSigningInIsSlowedDown(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	try := func(email string, password seal.Secret, from string) error {
		_, err := s.SignIn(t.Context(), email, password, Client{Address: from})
		return err
	}
	for _, email := range []string{"anna@example.com", "nobody@example.com"} {
		for range 5 {
			wantKind(t, try(email, otherPassword, "192.0.2.1"), fault.Unauthenticated)
		}
		err := try(email, goodPassword, "192.0.2.2") // from anywhere, and with the right password, too
		wantKind(t, err, fault.RateLimited)
		if detail := fault.From(err).Detail; !strings.Contains(detail, "Try again in a minute, at ") {
			t.Errorf("%s is told %q", email, detail)
		}
	}
	// What is refused does not count; after the wait there is one more, and then a longer wait.
	for range 10 {
		wantKind(t, try("anna@example.com", otherPassword, "192.0.2.1"), fault.RateLimited)
	}
	exec(t, s.DB, "update throttles set until_at = statement_timestamp()")
	wantKind(t, try("anna@example.com", otherPassword, "192.0.2.1"), fault.Unauthenticated)
	err := try("anna@example.com", goodPassword, "192.0.2.1")
	if detail := fault.From(err).Detail; !strings.Contains(detail, "in 2 minutes") {
		t.Errorf("told %q", detail)
	}
	exec(t, s.DB, "update throttles set until_at = statement_timestamp()")
	if err := try("ANNA@example.com", goodPassword, "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	for range 4 { // forgiven: there are five tries again
		wantKind(t, try("anna@example.com", otherPassword, "192.0.2.3"), fault.Unauthenticated)
	}
	if err := try("anna@example.com", goodPassword, "192.0.2.3"); err != nil {
		t.Fatal(err)
	}

	// An address tries many accounts.
	exec(t, s.DB, "delete from throttles")
	exec(t, s.DB, "insert into throttles (subject, tries, last_at, until_at) values ('sign-in address 2001:db8::/64', 49, statement_timestamp(), statement_timestamp())")
	wantKind(t, try("a@example.com", otherPassword, "2001:db8::1"), fault.Unauthenticated)
	wantKind(t, try("anna@example.com", goodPassword, "2001:db8::ffff"), fault.RateLimited)
	if err := try("anna@example.com", goodPassword, "2001:db8:0:1::1"); err != nil {
		t.Fatal(err)
	}
	// Who is right takes nothing away from the others of an office.
	exec(t, s.DB, "delete from throttles")
	exec(t, s.DB, "insert into throttles (subject, tries, last_at, until_at) values ('sign-in address 192.0.2.9', 49, statement_timestamp(), statement_timestamp())")
	for range 3 {
		if err := try("anna@example.com", goodPassword, "192.0.2.9"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAThousandGuessesAtOnceAreFive(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	var wrong, limited atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch _, err := s.SignIn(t.Context(), "anna@example.com", otherPassword, laptop); fault.KindOf(err) {
			case fault.Unauthenticated:
				wrong.Add(1)
			case fault.RateLimited:
				limited.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if wrong.Load() != 5 || limited.Load() != 15 {
		t.Errorf("%d guesses were made and %d refused", wrong.Load(), limited.Load())
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	s := newService(t)
	anna, session := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	before := s.mailCount(t)
	if err := s.ResetAsk(t.Context(), "nobody@example.com", laptop); err != nil || s.mailCount(t) != before {
		t.Errorf("for an unknown address: %v, %d mails", err, s.mailCount(t)-before)
	}
	wantFields(t, s.ResetAsk(t.Context(), "nonsense", laptop), "email")
	var tokens []string
	for range 5 { // three of them are answered; nobody learns which
		if err := s.ResetAsk(t.Context(), "Anna@example.com", laptop); err != nil {
			t.Fatal(err)
		}
		_, token := s.letter(t, "reset", "anna@example.com")
		tokens = append(tokens, token)
	}
	if n := s.mailCount(t) - before; n != 3 {
		t.Errorf("%d mails, want 3", n)
	}
	if p, err := s.ResetLook(t.Context(), tokens[0]); err != nil || p.Email != "anna@example.com" {
		t.Errorf("leads to %+v, %v", p, err)
	}
	_, err := s.VerifyLook(t.Context(), tokens[0])
	wantKind(t, err, fault.Unauthenticated) // a link of one kind does nothing of another
	wantFields(t, s.Reset(t.Context(), tokens[0], "password1234", laptop), "password")

	// Of any number at once, also with different links, one sets the password (CASES B60).
	var set, dead atomic.Int32
	var all sync.WaitGroup
	for i := range 9 {
		all.Go(func() {
			switch err := s.Reset(t.Context(), tokens[i%3], otherPassword, laptop); fault.KindOf(err) {
			case "":
				set.Add(1)
			case fault.Unauthenticated:
				dead.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if set.Load() != 1 || dead.Load() != 8 {
		t.Errorf("%d set, %d dead", set.Load(), dead.Load())
	}
	for _, token := range tokens {
		wantKind(t, s.Reset(t.Context(), token, goodPassword, laptop), fault.Unauthenticated)
	}
	if fate, err := s.ResetFate(t.Context(), tokens[0]); fate != LinkUsed || err != nil {
		t.Errorf("fate %s, %v", fate, err)
	}
	_, err = s.SessionCaller(t.Context(), session)
	wantKind(t, err, fault.Unauthenticated)
	_, err = s.SignIn(t.Context(), "anna@example.com", goodPassword, laptop)
	wantKind(t, err, fault.Unauthenticated)
	now := s.signedIn(t, "anna@example.com", otherPassword)
	if p, err := s.Profile(t.Context(), now); err != nil || !p.Verified || now.MemberID != anna.MemberID {
		t.Errorf("whoever reads the mail has the address: %+v, %v", p, err)
	}
	if !slices.Contains(s.actions(t, now), "member.password_reset") {
		t.Error("not recorded")
	}
	s.letter(t, "password-changed", "anna@example.com")

	exec(t, s.DB, "delete from throttles")
	if err := s.ResetAsk(t.Context(), "anna@example.com", laptop); err != nil {
		t.Fatal(err)
	}
	_, late := s.letter(t, "reset", "anna@example.com")
	exec(t, s.DB, "update member_tokens set created_at = created_at - interval '1 hour', expires_at = expires_at - interval '1 hour'")
	wantKind(t, s.Reset(t.Context(), late, goodPassword, laptop), fault.Unauthenticated)
	if fate, err := s.ResetFate(t.Context(), late); fate != LinkExpired || err != nil {
		t.Errorf("fate %s, %v", fate, err)
	}
	exec(t, s.DB, "insert into throttles (subject, tries, last_at, until_at) values ('reset address 192.0.2.66', 30, statement_timestamp(), statement_timestamp() + interval '1 hour')")
	wantKind(t, s.ResetAsk(t.Context(), "x@example.com", Client{Address: "192.0.2.66"}), fault.RateLimited)
}

func TestAnAddressIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	anna, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	_, first := s.letter(t, "verify", "anna@example.com")
	if err := s.VerifyAsk(t.Context(), anna); err != nil {
		t.Fatal(err)
	}
	_, second := s.letter(t, "verify", "anna@example.com")
	if p, err := s.VerifyLook(t.Context(), first); err != nil || p.Email != "anna@example.com" {
		t.Errorf("leads to %+v, %v", p, err)
	}
	if email, err := s.Verify(t.Context(), second, laptop); err != nil || email != "anna@example.com" {
		t.Fatalf("confirmed %q, %v", email, err)
	}
	for _, token := range []string{first, second, "", "wbv_nonsense"} {
		_, err := s.Verify(t.Context(), token, laptop)
		wantKind(t, err, fault.Unauthenticated)
	}
	before := s.mailCount(t)
	if err := s.VerifyAsk(t.Context(), anna); err != nil || s.mailCount(t) != before {
		t.Errorf("a confirmed address is asked to confirm: %v", err)
	}
	wantKind(t, s.VerifyAsk(t.Context(), platform()), fault.Forbidden)
	if !slices.Contains(s.actions(t, anna), "member.verified") {
		t.Error("not recorded")
	}
}

func TestChangingThePassword(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	anna, _ := s.joined(t, one, "anna@example.com", Owner)
	if made, err := s.InvitationCreate(t.Context(), two, InvitationInput{Email: "anna@example.com", Role: Viewer}); err != nil {
		t.Fatal(err)
	} else if _, err := s.InvitationAccept(t.Context(), made.Token.Reveal(), InvitationAnswer{Password: goodPassword}, laptop); err != nil {
		t.Fatal(err)
	}
	bystander, bystanderToken := s.joined(t, one, "bystander@example.com", Viewer)
	if err := s.ResetAsk(t.Context(), "anna@example.com", laptop); err != nil {
		t.Fatal(err)
	}
	_, reset := s.letter(t, "reset", "anna@example.com")

	wantFields(t, s.PasswordChange(t.Context(), anna, "wrong wrong wrong", otherPassword, laptop), "current")
	wantFields(t, s.PasswordChange(t.Context(), anna, goodPassword, "anna@example.com", laptop), "password")
	wantKind(t, s.PasswordChange(t.Context(), one, goodPassword, otherPassword, laptop), fault.Forbidden)
	wantFields(t, s.PasswordConfirm(t.Context(), anna, otherPassword, laptop), "password")
	if err := s.PasswordConfirm(t.Context(), anna, goodPassword, laptop); err != nil {
		t.Fatal(err)
	}
	if own, err := s.SessionsOwn(t.Context(), anna); err != nil || len(own) != 2 || own[0].Label != "two" {
		t.Errorf("sessions %+v, %v", own, err)
	}
	withoutAudit(t, s.DB, "sessions", func(ctx context.Context) error {
		return s.PasswordChange(ctx, anna, goodPassword, otherPassword, laptop)
	})
	if err := s.PasswordChange(t.Context(), anna, goodPassword, otherPassword, laptop); err != nil {
		t.Fatal(err)
	}
	if own, err := s.SessionsOwn(t.Context(), anna); err != nil || len(own) != 1 || own[0].ID != anna.ID {
		t.Errorf("sessions %+v, %v", own, err)
	}
	if _, err := s.SessionCaller(t.Context(), bystanderToken); err != nil {
		t.Errorf("another's session was ended: %v", err)
	}
	wantKind(t, s.Reset(t.Context(), reset, goodPassword, laptop), fault.Unauthenticated) // older links are void
	s.letter(t, "password-changed", "anna@example.com")
	s.signedIn(t, "anna@example.com", otherPassword)
	_, err := s.SessionsOwn(t.Context(), platform())
	wantKind(t, err, fault.Forbidden)

	wantFields(t, s.ProfileSave(t.Context(), anna, "a\r\nBcc: x"), "name")
	if err := s.ProfileSave(t.Context(), anna, "Anna & <b>Co</b>"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.ProfileSave(t.Context(), one, "x"), fault.Forbidden)
	if p, err := s.Profile(t.Context(), bystander); err != nil || p.Name != "Person bystander@example.com" {
		t.Errorf("the bystander is %+v, %v", p, err)
	}
	// A session in another tenant is one's own, too; one of somebody else there is not.
	elsewhere, _, err := s.TenantSwitch(t.Context(), s.signedIn(t, "anna@example.com", otherPassword), "two", laptop)
	if err != nil {
		t.Fatal(err)
	}
	there, err := s.SessionCaller(t.Context(), elsewhere.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SessionRevoke(t.Context(), anna, there.ID); err != nil {
		t.Errorf("one's own session in another tenant: %v", err)
	}
	far, _ := s.joined(t, two, "far@example.com", Owner)
	wantKind(t, s.SessionRevoke(t.Context(), anna, far.ID), fault.NotFound)
}

func TestTheTeam(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	owner, _ := s.joined(t, one, "owner@example.com", Owner)
	dev, devToken := s.joined(t, one, "dev@example.com", Developer)
	viewer, _ := s.joined(t, one, "viewer@example.com", Viewer)
	stranger, _ := s.joined(t, two, "stranger@example.com", Owner)

	members, err := s.MemberList(t.Context(), viewer)
	if err != nil || len(members) != 3 || members[0].Email != "dev@example.com" || members[1].Role != Owner || members[0].SeenAt == nil {
		t.Errorf("a viewer sees %+v, %v", members, err)
	}
	if members, err := s.MemberList(t.Context(), stranger); err != nil || len(members) != 1 {
		t.Errorf("a stranger sees %+v, %v", members, err)
	}
	_, err = s.MemberRead(t.Context(), stranger, dev.MemberID)
	wantKind(t, err, fault.NotFound)
	wantKind(t, s.MemberRole(t.Context(), stranger, dev.MemberID, Viewer), fault.NotFound)
	wantKind(t, s.MemberRemove(t.Context(), stranger, dev.MemberID), fault.NotFound)
	wantKind(t, s.MemberRole(t.Context(), dev, dev.MemberID, Owner), fault.Forbidden)
	wantKind(t, s.MemberRemove(t.Context(), dev, viewer.MemberID), fault.Forbidden)
	wantKind(t, s.MemberRole(t.Context(), owner, dev.MemberID, "king"), fault.Invalid)
	wantKind(t, s.MemberRole(t.Context(), owner, "mem_x", Viewer), fault.NotFound)
	narrow := Caller{Kind: Session, TenantID: owner.TenantID, Scopes: []Scope{TeamWrite}}
	wantKind(t, s.MemberRole(t.Context(), narrow, viewer.MemberID, Owner), fault.Forbidden)

	wantKind(t, s.MemberRole(t.Context(), owner, owner.MemberID, Developer), fault.Conflict)
	wantKind(t, s.MemberRemove(t.Context(), owner, owner.MemberID), fault.Conflict)
	if err := s.MemberRole(t.Context(), owner, dev.MemberID, Owner); err != nil {
		t.Fatal(err)
	}
	if now, err := s.SessionCaller(t.Context(), devToken); err != nil || now.Can(TeamWrite) != nil {
		t.Errorf("the new owner may not: %v", err)
	}
	withoutAudit(t, s.DB, "memberships", func(ctx context.Context) error { return s.MemberRemove(ctx, owner, dev.MemberID) })

	// Two owners who remove each other at once: one stays.
	var all sync.WaitGroup
	var removed atomic.Int32
	now, err := s.SessionCaller(t.Context(), devToken)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]Caller{{owner, now}, {now, owner}} {
		all.Go(func() {
			switch err := s.MemberRemove(t.Context(), pair[0], pair[1].MemberID); fault.KindOf(err) {
			case "":
				removed.Add(1)
			case fault.Conflict, fault.NotFound:
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	var owners int
	if err := s.DB.QueryRow(t.Context(), "select count(*) from memberships where tenant_id = $1 and role = 'owner'", owner.TenantID).Scan(&owners); err != nil || owners != 1 || removed.Load() != 1 {
		t.Errorf("%d owners are left after %d removals, %v", owners, removed.Load(), err)
	}
	if n := count(t, s.DB, "members"); n != 4 {
		t.Errorf("%d people are left", n)
	}
}

func TestWhoIsToldWhat(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	owner, _ := s.joined(t, one, "owner@example.com", Owner) // not confirmed: the platform saw the link
	dev, _ := s.joined(t, owner, "dev@example.com", Developer)
	viewer, _ := s.joined(t, owner, "viewer@example.com", Viewer)
	s.joined(t, two, "stranger@example.com", Owner)
	readers := func(topic Topic) string {
		t.Helper()
		people, err := s.NoticeReaders(t.Context(), s.DB, owner.TenantID, topic)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range people {
			names = append(names, p.Email)
		}
		return strings.Join(names, " ")
	}
	if got := readers(TopicFailing); got != "dev@example.com" {
		t.Errorf("told are %q", got)
	}
	exec(t, s.DB, "update members set verified_at = statement_timestamp()")
	if got := readers(TopicFailing); got != "dev@example.com owner@example.com" {
		t.Errorf("told are %q", got)
	}
	for caller, topics := range map[*Caller][]Topic{&dev: {}, &viewer: {TopicRecovered, TopicFailing}} {
		if err := s.NoticesSave(t.Context(), *caller, topics); err != nil {
			t.Fatal(err)
		}
	}
	if got := readers(TopicFailing); got != "owner@example.com viewer@example.com" {
		t.Errorf("told are %q", got)
	}
	if got, err := s.Notices(t.Context(), viewer); err != nil || !slices.Equal(got, []Topic{TopicFailing, TopicRecovered}) {
		t.Errorf("chosen %q, %v", got, err)
	}
	if got, err := s.Notices(t.Context(), dev); err != nil || len(got) != 0 {
		t.Errorf("chosen %q, %v", got, err)
	}
	if got, err := s.Notices(t.Context(), owner); err != nil || !slices.Equal(got, Topics()) {
		t.Errorf("by default %q, %v", got, err)
	}
	wantFields(t, s.NoticesSave(t.Context(), dev, []Topic{"everything"}), "notices")
	wantKind(t, s.NoticesSave(t.Context(), one, nil), fault.Forbidden)
}

func TestOwnersChangeTheSettings(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	owner, _ := s.joined(t, one, "owner@example.com", Owner)
	dev, _ := s.joined(t, one, "dev@example.com", Developer)
	in := SettingsInput{Name: "Meera Silk House", TimeZone: "Asia/Kolkata"}
	wantKind(t, s.SettingsSave(t.Context(), dev, in), fault.Forbidden)
	wantFields(t, s.SettingsSave(t.Context(), owner, SettingsInput{Name: "", TimeZone: "Mars/Olympus"}), "name", "time_zone")
	for range 2 { // the second changes nothing, and fills no log
		if err := s.SettingsSave(t.Context(), owner, in); err != nil {
			t.Fatal(err)
		}
	}
	tenant, err := s.TenantRead(t.Context(), platform(), "one")
	if err != nil || tenant.Name != in.Name || tenant.TimeZone != in.TimeZone || tenant.Concurrency != 50 {
		t.Errorf("the tenant is %+v, %v", tenant, err)
	}
	if other, err := s.TenantRead(t.Context(), platform(), "two"); err != nil || other.Name != "two" || other.TimeZone != "UTC" {
		t.Errorf("the other is %+v, %v", other, err)
	}
	if n := len(slices.DeleteFunc(s.actions(t, owner), func(a string) bool { return a != "tenant.changed" })); n != 1 {
		t.Errorf("%d changes are recorded", n)
	}
	_ = two
}

func TestFailedPeopleOperationsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one := s.in(t, "one")
	owner, _ := s.joined(t, one, "owner@example.com", Owner)
	made, err := s.InvitationCreate(t.Context(), one, InvitationInput{Email: "new@example.com", Role: Viewer})
	if err != nil {
		t.Fatal(err)
	}
	withoutAudit(t, s.DB, "mails", func(ctx context.Context) error {
		_, err := s.InvitationCreate(ctx, owner, InvitationInput{Email: "x@example.com", Role: Viewer})
		return err
	})
	for _, table := range []string{"members", "memberships", "sessions", "mails"} {
		withoutAudit(t, s.DB, table, func(ctx context.Context) error {
			_, err := s.InvitationAccept(ctx, made.Token.Reveal(), InvitationAnswer{Name: "New", Password: goodPassword}, laptop)
			return err
		})
	}
	if _, err := s.InvitationLook(t.Context(), made.Token.Reveal()); err != nil {
		t.Errorf("a failure used the invitation up: %v", err)
	}
	withoutAudit(t, s.DB, "sessions", func(ctx context.Context) error {
		_, err := s.SignIn(ctx, "owner@example.com", goodPassword, laptop)
		return err
	})
	if err := s.ResetAsk(t.Context(), "owner@example.com", laptop); err != nil {
		t.Fatal(err)
	}
	_, reset := s.letter(t, "reset", "owner@example.com")
	withoutAudit(t, s.DB, "mails", func(ctx context.Context) error { return s.Reset(ctx, reset, otherPassword, laptop) })
	if _, err := s.ResetLook(t.Context(), reset); err != nil {
		t.Errorf("a failure used the link up: %v", err)
	}
	withoutAudit(t, s.DB, "invitations", func(ctx context.Context) error { return s.InvitationRevoke(ctx, owner, made.ID) })
	withoutAudit(t, s.DB, "mails", func(ctx context.Context) error { return s.InvitationResend(ctx, owner, made.ID) })

	exec(t, s.DB, "delete from memberships")
	_, err = s.SignIn(t.Context(), "owner@example.com", goodPassword, laptop)
	wantKind(t, err, fault.Forbidden)
}
