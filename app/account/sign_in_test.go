package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"waybill/app/fault"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
	chrome  = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Safari/537.36"
)

// history is a caller's sign-ins, newest first, in words.
func (s *Service) history(t *testing.T, caller Caller) []string {
	t.Helper()
	list, _, err := s.SignInList(t.Context(), caller, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{}
	for _, e := range list {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", e.Outcome, e.How, e.Browser, e.Address, e.Label)))
	}
	return words
}

func TestSignInsAreListed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one := s.in(t, "one")
	anna, _ := s.joined(t, one, "anna@example.com", Owner)
	bela, _ := s.joined(t, one, "bela@example.com", Owner)
	home := Client{UserAgent: firefox, Address: "198.51.100.24"}
	_, err := s.SignIn(t.Context(), "anna@example.com", otherPassword, home)
	wantKind(t, err, fault.Unauthenticated)
	_, err = s.SignIn(t.Context(), "nobody@example.com", otherPassword, home)
	wantKind(t, err, fault.Unauthenticated)
	if _, err = s.SignIn(t.Context(), "anna@example.com", goodPassword, home); err != nil {
		t.Fatal(err)
	}
	phone, codes := s.secondFactor(t, anna)
	half := s.halfway(t, "anna@example.com")
	_, err = s.SignInFinish(t.Context(), half, ByCode, "000000", home)
	wantFields(t, err, "code")
	if _, err = s.SignInFinish(t.Context(), half, ByCode, phone.code(), home); err != nil {
		t.Fatal(err)
	}
	if _, err = s.SignInFinish(t.Context(), s.halfway(t, "anna@example.com"), ByRecoveryCode, codes[0], home); err != nil {
		t.Fatal(err)
	}
	s.halfway(t, "anna@example.com")
	want := []string{
		"unfinished password A browser 192.0.2.7", "in recovery code A browser 192.0.2.7", "refused code Firefox on Linux 198.51.100.24", "in code A browser 192.0.2.7",
		"in password Firefox on Linux 198.51.100.24", "refused password Firefox on Linux 198.51.100.24", "in invitation A browser 192.0.2.7",
	}
	if got := s.history(t, anna); !slices.Equal(got, want) {
		t.Errorf("listed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := s.history(t, bela); !slices.Equal(got, []string{"in invitation A browser 192.0.2.7"}) {
		t.Errorf("another member sees %q", got)
	}
	if n, err := s.SignInsRefused(t.Context(), anna); err != nil || n != 3 {
		t.Errorf("%d did not get in, %v", n, err)
	}
	// Page by page it is the same.
	var paged []SignInEntry
	for after := ""; ; {
		list, next, err := s.SignInList(t.Context(), anna, after, 2)
		if err != nil || len(list) > 2 {
			t.Fatalf("%d on a page, %v", len(list), err)
		}
		paged = append(paged, list...)
		if after = next; next == "" {
			break
		}
	}
	if len(paged) != len(want) {
		t.Errorf("%d in pages, want %d", len(paged), len(want))
	}
	for _, cursor := range []string{"x", "sign-ins", strings.Repeat("z", 5000)} {
		if _, _, err := s.SignInList(t.Context(), anna, cursor, 2); fault.KindOf(err) != fault.Malformed {
			t.Errorf("the cursor %.20q: %v", cursor, err)
		}
	}
	exec(t, s.DB, `update sign_ins set at = at - interval '91 days' where how = 'invitation'`)
	if got := s.history(t, bela); len(got) != 0 {
		t.Errorf("after 90 days %q", got)
	}
	if removed, err := s.Prune(t.Context()); err != nil || removed != 2 {
		t.Errorf("%d removed, %v", removed, err)
	}
}

// Who comes by a link sees the links' sign-ins into this tenant; programs and other tenants see none.
func TestSignInsByPortalLinks(t *testing.T) {
	t.Parallel()
	s := newService(t)
	enter := func(uid, label string) Caller {
		link, err := s.PortalLinkCreate(t.Context(), s.in(t, uid), PortalInput{Label: label})
		if err != nil {
			t.Fatal(err)
		}
		token, err := s.PortalLinkRedeem(t.Context(), link.Token.Reveal(), laptop)
		if err != nil {
			t.Fatal(err)
		}
		caller, err := s.SessionCaller(t.Context(), token.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return caller
	}
	meera := enter("one", "Meera")
	enter("two", "Somebody")
	if got := s.history(t, meera); !slices.Equal(got, []string{"in portal link A browser 192.0.2.7 Meera"}) {
		t.Errorf("listed %q", got)
	}
	for _, caller := range []Caller{{}, s.in(t, "one"), {Kind: Session, TenantID: meera.TenantID, Scopes: []Scope{CatalogRead}}} {
		if _, _, err := s.SignInList(t.Context(), caller, "", 10); err == nil {
			t.Errorf("%q lists sign-ins", caller.Kind)
		}
	}
	wantKind(t, func() error { _, err := s.SignInsRefused(t.Context(), meera); return err }(), fault.Forbidden)
}

func TestNewBrowserIsMailed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	anna, _ := s.joined(t, s.in(t, "one"), "anna@example.com", Owner)
	enter := func(agent string, want int) {
		t.Helper()
		if _, err := s.SignIn(t.Context(), "anna@example.com", goodPassword, Client{UserAgent: agent, Address: "198.51.100.24"}); err != nil {
			t.Fatal(err)
		}
		if n := s.mailed(t, "new-browser", "anna@example.com"); n != want {
			t.Errorf("after %.40q there are %d mails, want %d", agent, n, want)
		}
	}
	enter("Mozilla/5.0", 0) // as when joining
	enter(firefox, 1)
	enter(strings.Replace(firefox, "130.0", "131.0", 2), 1)
	if text, _ := s.letter(t, "new-browser", "anna@example.com"); !strings.Contains(text, "Firefox on Linux") || !strings.Contains(text, "198.51.100.24") {
		t.Errorf("mailed %s", text)
	}
	if on, err := s.SignInMail(t.Context(), anna); err != nil || !on {
		t.Errorf("chosen %v, %v", on, err)
	}
	withoutAudit(t, s.DB, "members where not mail_new_browser", func(ctx context.Context) error { return s.SignInMailSave(ctx, anna, false) })
	for range 2 {
		if err := s.SignInMailSave(t.Context(), anna, false); err != nil {
			t.Fatal(err)
		}
	}
	enter(chrome, 1)
	wantKind(t, s.SignInMailSave(t.Context(), Caller{Kind: Session, TenantID: anna.TenantID, Scopes: Owner.Scopes()}, true), fault.Forbidden)
	if got := s.actions(t, anna); slices.Index(got, "member.notices_changed") < 0 {
		t.Errorf("recorded %q", got)
	}
}
