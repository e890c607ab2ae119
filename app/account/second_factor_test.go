package account

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/fault"
	"waybill/app/seal"
)

// device is what makes a member's codes. Its clock is the service's, moved on by a step for each code, so that none is asked for twice.
type device struct {
	s      *Service
	secret []byte
	mu     sync.Mutex
	now    time.Time
}

func (d *device) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *device) code() seal.Secret {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(totpPeriod * time.Second)
	return seal.Secret(totpCode(d.secret, totpStep(d.now)))
}

// secondFactor sets up a second factor for a member with goodPassword, and the service's clock with it.
func (s *Service) secondFactor(t *testing.T, caller Caller) (*device, []seal.Secret) {
	t.Helper()
	if err := s.SecondFactorBegin(t.Context(), caller, goodPassword, laptop); err != nil {
		t.Fatal(err)
	}
	state, err := s.SecondFactor(t.Context(), caller)
	if err != nil || state.On || state.Setup == nil {
		t.Fatalf("after the beginning it is %+v, %v", state, err)
	}
	secret, err := totpText.DecodeString(state.Setup.Secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	d := &device{s: s, secret: secret, now: time.Now()}
	s.Now = d.clock
	codes, err := s.SecondFactorConfirm(t.Context(), caller, d.code(), laptop)
	if err != nil {
		t.Fatal(err)
	}
	return d, codes
}

// half signs in as far as the code.
func (s *Service) halfway(t *testing.T, email string) string {
	t.Helper()
	in, err := s.SignIn(t.Context(), email, goodPassword, laptop)
	if err != nil {
		t.Fatal(err)
	}
	if in.Session != "" || in.Half == "" {
		t.Fatalf("the password alone opens %d characters of a session and %d of half a one", len(in.Session.Reveal()), len(in.Half.Reveal()))
	}
	return in.Half.Reveal()
}

func (s *Service) mailed(t *testing.T, kind, to string) (n int) {
	t.Helper()
	mails, err := s.Mails.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mails {
		if m.Kind == kind && m.To == to {
			n++
		}
	}
	return n
}

func TestSecondFactorFromSetUpToOff(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	elsewhere := s.signedIn(t, "anna@example.com", goodPassword)

	wantFields(t, s.SecondFactorBegin(t.Context(), owner, otherPassword, laptop), "password")
	_, err := s.SecondFactorConfirm(t.Context(), owner, "123456", laptop)
	wantKind(t, err, fault.Conflict)
	if err := s.SecondFactorBegin(t.Context(), owner, goodPassword, laptop); err != nil {
		t.Fatal(err)
	}
	if state, err := s.SecondFactor(t.Context(), elsewhere); err != nil || state.Setup != nil {
		t.Errorf("another session of the member sees what was begun: %+v, %v", state, err)
	}
	_, err = s.SecondFactorConfirm(t.Context(), owner, "000000", laptop)
	wantFields(t, err, "code")
	_, err = s.SecondFactorConfirm(t.Context(), elsewhere, "000000", laptop)
	wantKind(t, err, fault.Conflict)
	if in, err := s.SignIn(t.Context(), "anna@example.com", goodPassword, laptop); err != nil || in.Session == "" {
		t.Errorf("a code is asked for before the first one was given: %v", err)
	}

	phone, codes := s.secondFactor(t, owner)
	if len(codes) != 10 || s.mailed(t, "second-factor-on", "anna@example.com") != 1 {
		t.Errorf("%d codes, %d mails", len(codes), s.mailed(t, "second-factor-on", "anna@example.com"))
	}
	wantKind(t, s.SecondFactorBegin(t.Context(), owner, goodPassword, laptop), fault.Conflict)

	before := count(t, s.DB, "sessions")
	first := s.halfway(t, "anna@example.com")
	if p, err := s.SignInHalf(t.Context(), first); err != nil || p.Email != "anna@example.com" {
		t.Errorf("half a sign-in is of %+v, %v", p, err)
	}
	for _, wrong := range []seal.Secret{"", "000000", seal.Secret(totpCode(phone.secret, totpStep(phone.now)))} { // the last one has confirmed the set-up
		_, err = s.SignInFinish(t.Context(), first, ByCode, wrong, laptop)
		wantFields(t, err, "code")
	}
	_, err = s.SignInFinish(t.Context(), first, ByCode, codes[0], laptop)
	wantFields(t, err, "code")
	if count(t, s.DB, "sessions") != before {
		t.Fatal("there is a session before the code")
	}
	used := phone.code()
	token, err := s.SignInFinish(t.Context(), first, ByCode, used, laptop)
	if err != nil {
		t.Fatal(err)
	}
	if caller, err := s.SessionCaller(t.Context(), token.Reveal()); err != nil || caller.MemberID != owner.MemberID || caller.Can(TeamWrite) != nil {
		t.Errorf("signed in as %+v, %v", caller, err)
	}
	for _, dead := range []string{first, "", "wbh_" + strings.Repeat("0", 40), strings.Repeat("x", 10000)} {
		_, err = s.SignInFinish(t.Context(), dead, ByCode, phone.code(), laptop)
		wantKind(t, err, fault.Unauthenticated)
	}
	_, err = s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByCode, used, laptop)
	wantFields(t, err, "code")

	// Recovery codes, as people type them, once each.
	if _, err := s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByRecoveryCode, seal.Secret(strings.ToUpper(strings.ReplaceAll(codes[0].Reveal(), "-", " "))), laptop); err != nil {
		t.Fatal(err)
	}
	_, err = s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByRecoveryCode, codes[0], laptop)
	wantFields(t, err, "code")
	if text, _ := s.letter(t, "recovery-code-used", "anna@example.com"); !strings.Contains(text, "You have 9 left") {
		t.Errorf("mailed %s", text)
	}
	_, err = s.RecoveryCodesRenew(t.Context(), owner, otherPassword, laptop)
	wantFields(t, err, "password")
	fresh, err := s.RecoveryCodesRenew(t.Context(), owner, goodPassword, laptop)
	if err != nil || len(fresh) != 10 {
		t.Fatalf("%d codes, %v", len(fresh), err)
	}
	_, err = s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByRecoveryCode, codes[1], laptop)
	wantFields(t, err, "code")

	withoutAudit(t, s.DB, "second_factors", func(ctx context.Context) error {
		return s.SecondFactorOff(ctx, owner, goodPassword, phone.code(), laptop)
	})
	wantFields(t, s.SecondFactorOff(t.Context(), owner, goodPassword, "000000", laptop), "code")
	wantFields(t, s.SecondFactorOff(t.Context(), owner, otherPassword, phone.code(), laptop), "password")
	if err := s.SecondFactorOff(t.Context(), owner, goodPassword, fresh[3], laptop); err != nil {
		t.Fatal(err)
	}
	if state, err := s.SecondFactor(t.Context(), owner); err != nil || state.On || state.Setup != nil || count(t, s.DB, "recovery_codes") != 0 {
		t.Errorf("after it was turned off it is %+v, %v", state, err)
	}
	wantKind(t, s.SecondFactorOff(t.Context(), owner, goodPassword, phone.code(), laptop), fault.Conflict)
	_, err = s.RecoveryCodesRenew(t.Context(), owner, goodPassword, laptop)
	wantKind(t, err, fault.Conflict)
	if in, err := s.SignIn(t.Context(), "anna@example.com", goodPassword, laptop); err != nil || in.Session == "" {
		t.Errorf("the password alone does not sign in: %v", err)
	}
	for _, kind := range []string{"second-factor-on", "recovery-codes", "recovery-code-used", "second-factor-off"} {
		if n := s.mailed(t, kind, "anna@example.com"); n != 1 {
			t.Errorf("%d mails of %s", n, kind)
		}
	}
	actions := s.actions(t, owner)
	for _, action := range []string{"member.second_factor_on", "member.recovery_codes_made", "member.second_factor_off"} {
		if !slices.Contains(actions, action) {
			t.Errorf("%s is not recorded: %q", action, actions)
		}
	}
}

// Clock steps: the code of a neighbouring step is good, one that is further away is not, and after a code no earlier one.
func TestSecondFactorClock(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	phone, _ := s.secondFactor(t, owner)
	step := func(ahead int64) error {
		code := seal.Secret(totpCode(phone.secret, totpStep(phone.now)+ahead))
		_, err := s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByCode, code, laptop)
		return err
	}
	phone.now = phone.now.Add(time.Hour)
	wantFields(t, step(2), "code")
	wantFields(t, step(-2), "code")
	if err := step(-1); err != nil {
		t.Error(err)
	}
	if err := step(1); err != nil {
		t.Error(err)
	}
	wantFields(t, step(0), "code") // a later one was used
	phone.now = phone.now.Add(-10 * time.Minute)
	wantFields(t, step(0), "code") // our clock was set back
	phone.now = phone.now.Add(11 * time.Minute)
	if err := step(0); err != nil {
		t.Error(err)
	}
}

// Of any number of sign-ins at once with one code, one succeeds: with one half of a sign-in, and with one each.
func TestOneCodeLetsOneIn(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	phone, codes := s.secondFactor(t, owner)
	race := func(how SignInHow, code seal.Secret, halves []string) {
		t.Helper()
		exec(t, s.DB, `delete from throttles`)
		var mu sync.Mutex
		var all sync.WaitGroup
		in := 0
		for _, half := range halves {
			all.Go(func() {
				_, err := s.SignInFinish(t.Context(), half, how, code, laptop)
				mu.Lock()
				defer mu.Unlock()
				switch fault.KindOf(err) {
				case "":
					in++
				case fault.Invalid, fault.RateLimited, fault.Unauthenticated:
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if in != 1 {
			t.Errorf("%d were let in by one %s", in, how)
		}
	}
	halves := func(n int) (list []string) {
		for range n {
			list = append(list, s.halfway(t, "anna@example.com"))
		}
		return list
	}
	race(ByCode, phone.code(), halves(8))
	race(ByRecoveryCode, codes[0], halves(8))
	race(ByCode, phone.code(), slices.Repeat(halves(1), 8))
	race(ByRecoveryCode, codes[1], slices.Repeat(halves(1), 8))
	var left int
	if err := s.DB.QueryRow(t.Context(), `select count(*) from recovery_codes where used_at is null`).Scan(&left); err != nil || left != 8 {
		t.Errorf("%d recovery codes are left, %v", left, err)
	}
}

// Guessing at codes is slowed down by account and by address; who is kept out by a guesser comes in with a recovery code.
func TestCodesAreThrottled(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	phone, codes := s.secondFactor(t, owner)
	thief := Client{UserAgent: "x", Address: "198.51.100.9"}
	half := s.halfway(t, "anna@example.com")
	for range 5 {
		_, err := s.SignInFinish(t.Context(), half, ByCode, "000000", thief)
		wantFields(t, err, "code")
	}
	_, err := s.SignInFinish(t.Context(), half, ByCode, phone.code(), thief)
	wantKind(t, err, fault.RateLimited)
	_, err = s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByCode, phone.code(), Client{Address: "203.0.113.50"})
	wantKind(t, err, fault.RateLimited)
	wantKind(t, s.SecondFactorOff(t.Context(), owner, goodPassword, phone.code(), laptop), fault.RateLimited)
	var tries int
	if err := s.DB.QueryRow(t.Context(), `select tries from throttles where subject = 'sign-in address 198.51.100.9'`).Scan(&tries); err != nil || tries < 5 {
		t.Errorf("%d tries are counted against the address, %v", tries, err)
	}
	if _, err := s.SignInFinish(t.Context(), half, ByRecoveryCode, codes[0], laptop); err != nil {
		t.Errorf("who is kept out does not come in with a recovery code: %v", err)
	}
	for range 5 {
		_, err := s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByRecoveryCode, codes[0], laptop)
		wantFields(t, err, "code")
	}
	_, err = s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByRecoveryCode, codes[1], laptop)
	wantKind(t, err, fault.RateLimited)
	exec(t, s.DB, `update throttles set until_at = statement_timestamp()`)
	if _, err = s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByCode, phone.code(), laptop); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

// What one member has is nothing to another, and nothing of it can be read off the tables.
func TestSecondFactorsAreOnesOwn(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one := s.in(t, "one")
	anna, _ := s.joined(t, one, "anna@example.com", Owner)
	bela, _ := s.joined(t, one, "bela@example.com", Owner)
	_, annas := s.secondFactor(t, anna)
	phone, belas := s.secondFactor(t, bela)
	half := s.halfway(t, "anna@example.com")
	_, err := s.SignInFinish(t.Context(), half, ByCode, phone.code(), laptop)
	wantFields(t, err, "code")
	_, err = s.SignInFinish(t.Context(), half, ByRecoveryCode, belas[0], laptop)
	wantFields(t, err, "code")
	wantFields(t, s.SecondFactorOff(t.Context(), anna, goodPassword, belas[1], laptop), "code")

	var dump string
	err = s.DB.QueryRow(t.Context(), `select (select string_agg(f::text, ' ') from second_factors f) || (select string_agg(c::text, ' ') from recovery_codes c)
		|| (select string_agg(h::text, ' ') from half_sign_ins h) || (select string_agg(a::text, ' ') from audit a) || (select string_agg(m::text, ' ') from mails m)`).Scan(&dump)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{hex.EncodeToString(phone.secret), totpText.EncodeToString(phone.secret), annas[0].Reveal(), strings.ReplaceAll(annas[0].Reveal(), "-", ""), half} {
		if strings.Contains(dump, secret) || strings.Contains(dump, hex.EncodeToString([]byte(secret))) {
			t.Errorf("%q stands in a table as it is", secret)
		}
	}
	// A sealed secret that was moved to another member opens nothing.
	exec(t, s.DB, `update second_factors a set secret = b.secret from second_factors b where a.member_id = $1 and b.member_id = $2`, anna.MemberID, bela.MemberID)
	_, err = s.SignInFinish(t.Context(), half, ByCode, phone.code(), laptop)
	wantKind(t, err, fault.Internal)
	for _, caller := range []Caller{{}, one, {Kind: Session, ID: "ses_1", TenantID: anna.TenantID, Scopes: Owner.Scopes()}} {
		_, err := s.SecondFactor(t.Context(), caller)
		if kind := fault.KindOf(err); kind != fault.Forbidden && kind != fault.Unauthenticated {
			t.Errorf("%s reads a second factor: %v", caller.Kind, err)
		}
	}
}

// A new password, by whichever way, leaves the second factor on and ends what was half signed in.
func TestPasswordDoesNotTurnTheSecondFactorOff(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	phone, _ := s.secondFactor(t, owner)
	half := s.halfway(t, "anna@example.com")
	if err := s.ResetAsk(t.Context(), "anna@example.com", laptop); err != nil {
		t.Fatal(err)
	}
	_, link := s.letter(t, "reset", "anna@example.com")
	if err := s.Reset(t.Context(), link, otherPassword, laptop); err != nil {
		t.Fatal(err)
	}
	_, err := s.SignInFinish(t.Context(), half, ByCode, phone.code(), laptop)
	wantKind(t, err, fault.Unauthenticated)
	in, err := s.SignIn(t.Context(), "anna@example.com", otherPassword, laptop)
	if err != nil || in.Session != "" || in.Half == "" {
		t.Fatalf("with the new password: %v", err)
	}
	exec(t, s.DB, `update half_sign_ins set created_at = created_at - interval '11 minutes', expires_at = expires_at - interval '11 minutes'`)
	_, err = s.SignInFinish(t.Context(), in.Half.Reveal(), ByCode, phone.code(), laptop)
	wantKind(t, err, fault.Unauthenticated)
	if _, err := s.Prune(t.Context()); err != nil || count(t, s.DB, "half_sign_ins") != 0 {
		t.Errorf("what is over stays: %v", err)
	}
}

// An invitation is no way around the code.
func TestInvitationsAskForTheCode(t *testing.T) {
	t.Parallel()
	s := newService(t)
	anna, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	phone, _ := s.secondFactor(t, anna)
	if _, err := s.InvitationCreate(t.Context(), s.in(t, "two"), InvitationInput{Email: "anna@example.com", Role: Viewer}); err != nil {
		t.Fatal(err)
	}
	_, link := s.letter(t, "invitation", "anna@example.com")
	if target, err := s.InvitationLook(t.Context(), link); err != nil || !target.Known || !target.SecondFactor {
		t.Errorf("it leads to %+v, %v", target, err)
	}
	_, err := s.InvitationAccept(t.Context(), link, InvitationAnswer{Password: goodPassword}, laptop)
	wantKind(t, err, fault.Conflict)
	token, err := s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByCode, phone.code(), laptop)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.SessionCaller(t.Context(), token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if token, err = s.InvitationJoin(t.Context(), caller, link, laptop); err != nil {
		t.Fatal(err)
	}
	if caller, err = s.SessionCaller(t.Context(), token.Reveal()); err != nil || caller.TenantUID != "two" {
		t.Errorf("joined %+v, %v", caller, err)
	}
}

func TestTenantRequiresTheSecondFactor(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one := s.in(t, "one")
	owner, _ := s.joined(t, one, "anna@example.com", Owner)
	dev, devSession := s.joined(t, one, "dev@example.com", Developer)
	stranger, _ := s.joined(t, s.in(t, "two"), "stranger@example.com", Owner)
	wantKind(t, s.SecondFactorRequire(t.Context(), dev, true), fault.Forbidden)
	wantKind(t, s.SecondFactorRequire(t.Context(), Caller{}, true), fault.Unauthenticated)
	wantKind(t, s.SecondFactorRequire(t.Context(), owner, true), fault.Conflict) // they have none themselves
	s.secondFactor(t, owner)
	for range 2 {
		if err := s.SecondFactorRequire(t.Context(), owner, true); err != nil {
			t.Fatal(err)
		}
	}
	if required, err := s.SecondFactorRequired(t.Context(), owner); err != nil || !required {
		t.Errorf("required %v, %v", required, err)
	}
	if required, err := s.SecondFactorRequired(t.Context(), stranger); err != nil || required {
		t.Errorf("another tenant requires it, too: %v, %v", required, err)
	}
	if holders, err := s.SecondFactorHolders(t.Context(), owner); err != nil || len(holders) != 1 || !holders[owner.MemberID] {
		t.Errorf("holders %v, %v", holders, err)
	}
	if holders, err := s.SecondFactorHolders(t.Context(), stranger); err != nil || len(holders) != 0 {
		t.Errorf("another tenant sees %v, %v", holders, err)
	}
	_, err := s.SecondFactorHolders(t.Context(), dev)
	wantKind(t, err, fault.Forbidden)

	// Who is signed in stays so; the next sign-in leads to the set-up, and opens nothing else.
	if still, err := s.SessionCaller(t.Context(), devSession); err != nil || still.MustSetUp || still.Can(EndpointsWrite) != nil {
		t.Errorf("the session that was open: %+v, %v", still, err)
	}
	again := s.signedIn(t, "dev@example.com", goodPassword)
	if !again.MustSetUp || fault.KindOf(again.Can(CatalogRead)) != fault.Forbidden {
		t.Errorf("signed in without a second factor as %+v", again)
	}
	if _, err := s.MemberList(t.Context(), again); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("they list the members: %v", err)
	}
	if state, err := s.SecondFactor(t.Context(), again); err != nil || !slices.Equal(state.RequiredBy, []string{"one"}) {
		t.Errorf("required by %v, %v", state.RequiredBy, err)
	}
	if state, err := s.SecondFactor(t.Context(), stranger); err != nil || len(state.RequiredBy) != 0 {
		t.Errorf("of a stranger by %v, %v", state.RequiredBy, err)
	}
	link, err := s.PortalLinkCreate(t.Context(), one, PortalInput{})
	if err != nil {
		t.Fatal(err)
	}
	portal, err := s.PortalLinkRedeem(t.Context(), link.Token.Reveal(), laptop)
	if err != nil {
		t.Fatal(err)
	}
	if caller, err := s.SessionCaller(t.Context(), portal.Reveal()); err != nil || caller.MustSetUp || caller.Can(EndpointsWrite) != nil {
		t.Errorf("a portal link: %+v, %v", caller, err)
	}
	s.secondFactor(t, again)
	if holders, err := s.SecondFactorHolders(t.Context(), owner); err != nil || !holders[dev.MemberID] {
		t.Errorf("holders %v, %v", holders, err)
	}
	if err := s.SecondFactorRequire(t.Context(), owner, false); err != nil {
		t.Fatal(err)
	}
	actions := s.actions(t, owner)
	for action, want := range map[string]int{"tenant.second_factor_required": 1, "tenant.second_factor_optional": 1} {
		if n := len(slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a != action })); n != want {
			t.Errorf("%s is recorded %d times", action, n)
		}
	}
}

func TestOwnerResetsASecondFactor(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	owner, _ := s.joined(t, one, "anna@example.com", Owner)
	dev, _ := s.joined(t, one, "dev@example.com", Developer)
	both, _ := s.joined(t, one, "both@example.com", Viewer)
	stranger, _ := s.joined(t, two, "stranger@example.com", Owner)
	s.secondFactor(t, dev)
	s.secondFactor(t, both)
	if _, err := s.InvitationCreate(t.Context(), two, InvitationInput{Email: "both@example.com", Role: Viewer}); err != nil {
		t.Fatal(err)
	}
	_, link := s.letter(t, "invitation", "both@example.com")
	if _, err := s.InvitationJoin(t.Context(), both, link, laptop); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		caller Caller
		member string
		want   fault.Kind
	}{
		"nobody":                           {Caller{}, dev.MemberID, fault.Unauthenticated},
		"a developer":                      {dev, owner.MemberID, fault.Forbidden},
		"another tenant's owner":           {stranger, dev.MemberID, fault.NotFound},
		"who is not there":                 {owner, stranger.MemberID, fault.NotFound},
		"no id":                            {owner, "x' or true", fault.NotFound},
		"themselves":                       {owner, owner.MemberID, fault.Conflict},
		"who works for others as well":     {owner, both.MemberID, fault.Conflict},
		"the other tenant's owner as well": {stranger, both.MemberID, fault.Conflict},
		"who must set one up":              {Caller{Kind: Session, TenantID: owner.TenantID, MemberID: owner.MemberID, Scopes: Owner.Scopes(), MustSetUp: true}, dev.MemberID, fault.Forbidden},
	} {
		if err := s.SecondFactorReset(t.Context(), c.caller, c.member); fault.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if n := count(t, s.DB, "second_factors"); n != 2 {
		t.Fatalf("%d second factors are left", n)
	}
	half := s.halfway(t, "dev@example.com")
	withoutAudit(t, s.DB, "second_factors", func(ctx context.Context) error { return s.SecondFactorReset(ctx, owner, dev.MemberID) })
	if err := s.SecondFactorReset(t.Context(), owner, dev.MemberID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SignInHalf(t.Context(), half); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("half a sign-in goes on: %v", err)
	}
	if text, _ := s.letter(t, "second-factor-reset", "dev@example.com"); !strings.Contains(text, "anna@example.com has reset") {
		t.Errorf("mailed %s", text)
	}
	if got := s.actions(t, owner); !slices.Contains(got, "member.second_factor_reset") {
		t.Errorf("recorded %q", got)
	}
	wantKind(t, s.SecondFactorReset(t.Context(), owner, dev.MemberID), fault.Conflict)
	s.signedIn(t, "dev@example.com", goodPassword)
}
