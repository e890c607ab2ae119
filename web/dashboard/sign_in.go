package dashboard

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// signInForm says how one signs in; whoever is signed in is led on.
func (d *Dashboard) signInForm(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	query := r.URL.Query()
	next := local(query.Get("next"))
	_, err := d.Sessions.Caller(r)
	if err == nil {
		return d.redirect(w, r, next)
	}
	if fault.KindOf(err) != fault.Unauthenticated {
		return err
	}
	sheet := page.SignIn{Next: next}
	switch {
	case query.Get("after") == "sign-out":
		sheet.Notice = &ui.Banner{Tone: ui.Info, Title: "You are signed out"}
	case query.Get("after") == "reset":
		sheet.Notice = &ui.Banner{Tone: ui.Good, Title: "Your new password is set", Text: "Sign in with it. All your sessions have ended."}
	case query.Get("after") == "verified":
		sheet.Notice = &ui.Banner{Tone: ui.Good, Title: "Your address is confirmed"}
	case query.Get("after") == "half":
		sheet.Notice = &ui.Banner{Tone: ui.Info, Title: "Sign in again", Text: "The time to give the code is over, or this browser has not begun to sign in."}
	case query.Has("next"):
		sheet.Notice = &ui.Banner{Tone: ui.Info, Title: "Sign in to go on", Text: "Your session has ended, or this browser has none."}
	}
	return d.showPlain(w, r, http.StatusOK, sheet)
}

// local is address if it leads to a page of ours, and the overview if not.
func local(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "" || parsed.Host != "" || parsed.User != nil || parsed.Opaque != "" ||
		!strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") || strings.Contains(address, `\`) {
		return path.Overview()
	}
	return address
}

// linkLook shows where a portal link leads and leaves it as it is: programs that follow links in mails spend nothing.
func (d *Dashboard) linkLook(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	token := r.PathValue("token")
	target, err := d.Accounts.PortalLinkLook(r.Context(), token)
	if fault.KindOf(err) == fault.Unauthenticated {
		return d.deadLink(w, r, token)
	}
	if err != nil {
		return err
	}
	sheet := page.SignInLink{Token: token, Tenant: target.TenantName, Platform: d.Platform}
	if !may(account.Caller{Kind: account.Session, Scopes: target.Scopes}, account.EndpointsWrite) {
		sheet.Limits = "You can look at everything, but not change your endpoints."
	}
	return d.showPlain(w, r, http.StatusOK, sheet)
}

// linkRedeem uses the link up and signs in; a session that this browser had before ends.
func (d *Dashboard) linkRedeem(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	token := r.PathValue("token")
	session, err := d.Accounts.PortalLinkRedeem(r.Context(), token, client(r))
	if fault.KindOf(err) == fault.Unauthenticated {
		return d.deadLink(w, r, token)
	}
	if err != nil {
		return err
	}
	if before, err := d.Sessions.Caller(r); err == nil {
		if err := d.Accounts.SignOut(asTenant(r, before).Context(), before); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	if err := d.Sessions.Start(w, r, session, account.PortalSessionLife); err != nil {
		return err
	}
	return d.redirect(w, r, path.Overview())
}

// deadLink says why a portal link does not work any more.
func (d *Dashboard) deadLink(w http.ResponseWriter, r *http.Request, token string) error {
	return d.showDead(w, r, page.LinkSignIn, d.Accounts.PortalLinkFate, token)
}

// notThatLink says why the link of a mail does not work, if that is what err is about.
func (d *Dashboard) notThatLink(w http.ResponseWriter, r *http.Request, err error, kind page.LinkKind,
	fate func(context.Context, string) (account.LinkFate, error), token string,
) error {
	if fault.KindOf(err) != fault.Unauthenticated {
		return err
	}
	return d.showDead(w, r, kind, fate, token)
}

func (d *Dashboard) showDead(w http.ResponseWriter, r *http.Request, kind page.LinkKind, fate func(context.Context, string) (account.LinkFate, error), token string) error {
	became, err := fate(r.Context(), token)
	if err != nil {
		return err
	}
	sheet, status := page.DeadLink{Kind: kind, Reason: page.LinkUnknown}, http.StatusNotFound
	switch became {
	case account.LinkUsed:
		sheet.Reason, status = page.LinkUsed, http.StatusGone
	case account.LinkExpired:
		sheet.Reason, status = page.LinkExpired, http.StatusGone
	}
	return d.showPlain(w, r, status, sheet)
}

// signOut ends the session, here and in its open streams.
func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.Accounts.SignOut(r.Context(), caller); err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	d.live.endSession(caller.ID)
	if err := d.Sessions.End(w, r); err != nil {
		return err
	}
	if caller.Support != "" {
		return d.redirect(w, r, path.ConsoleTenant(caller.TenantUID))
	}
	return d.redirect(w, r, withQuery(path.SignIn(), "after", "sign-out"))
}

// client is where a sign-in comes from. A neighbour on a private address is a proxy of ours, and says whom it speaks for: Fly's in a header of its
// own, others as the last of those in X-Forwarded-For. A browser that sends such headers itself has no such neighbour, or is overruled by it.
func client(r *http.Request) account.Client {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if near, err := netip.ParseAddr(host); err == nil && (near.IsPrivate() || near.IsLoopback()) {
		forwarded := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
		for _, told := range []string{r.Header.Get("Fly-Client-IP"), forwarded[len(forwarded)-1]} {
			if far, err := netip.ParseAddr(strings.TrimSpace(told)); err == nil {
				host = far.Unmap().WithZone("").String()
				break
			}
		}
	}
	return account.Client{UserAgent: r.UserAgent(), Address: host}
}
