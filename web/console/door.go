package console

import (
	"net/http"
	"net/url"
	"strings"

	"waybill/app/fault"
	"waybill/app/operator"
	"waybill/app/seal"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// signInForm says how one signs in; whoever is signed in is led on.
func (c *Console) signInForm(w http.ResponseWriter, r *http.Request, _ operator.Session) error {
	next := local(r.URL.Query().Get("next"))
	if _, err := c.Sessions.Operator(r); err == nil {
		return c.redirect(w, next)
	} else if fault.KindOf(err) != fault.Unauthenticated {
		return err
	}
	sheet := page.ConsoleSignIn{Next: next}
	switch {
	case r.URL.Query().Get("after") == "sign-out":
		sheet.Notice = &ui.Banner{Tone: ui.Info, Title: "You are signed out"}
	case r.URL.Query().Has("next"):
		sheet.Notice = &ui.Banner{Tone: ui.Info, Title: "Sign in to go on", Text: "Your session has ended, or this browser has none."}
	}
	return dashboard.Write(w, r, http.StatusOK, sheet, ui.Frame{})
}

// local is address if it leads to a page of the console, and its first page if not.
func local(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "" || parsed.Host != "" || parsed.User != nil || parsed.Opaque != "" || strings.Contains(address, `\`) ||
		parsed.Path != path.ConsoleHome() && !strings.HasPrefix(parsed.Path, path.ConsoleHome()+"/") {
		return path.ConsoleHome()
	}
	return address
}

// signIn checks the password; a session that this browser had before ends.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request, _ operator.Session) error {
	sheet := page.ConsoleSignIn{Email: field(r, "email"), Next: local(field(r, "next"))}
	token, err := c.Operators.SignIn(r.Context(), sheet.Email, seal.Secret(r.PostForm.Get("password")), dashboard.Client(r))
	if kind := fault.KindOf(err); kind == fault.Unauthenticated || kind == fault.RateLimited {
		sheet.Problems = page.Problems{"": dashboard.FaultOf(err).Detail}
		status := http.StatusUnprocessableEntity
		if kind == fault.RateLimited {
			status = http.StatusTooManyRequests
		}
		return dashboard.Write(w, r, status, sheet, ui.Frame{})
	}
	if err != nil {
		return err
	}
	return c.enter(w, r, token, sheet.Next)
}

// enter gives the browser its new session and goes on to a page.
func (c *Console) enter(w http.ResponseWriter, r *http.Request, token seal.Secret, to string) error {
	if before, err := c.Sessions.Operator(r); err == nil {
		if err := c.Operators.SignOut(r.Context(), before); err != nil {
			return err
		}
	}
	if err := c.Sessions.Start(w, r, token, operator.SessionLife); err != nil {
		return err
	}
	return c.redirect(w, to)
}

// linkLook shows whose a link is and leaves it as it is.
func (c *Console) linkLook(w http.ResponseWriter, r *http.Request, _ operator.Session) error {
	return c.look(w, r, false)
}

// passwordForm asks for a new password.
func (c *Console) passwordForm(w http.ResponseWriter, r *http.Request, _ operator.Session) error {
	return c.look(w, r, true)
}

func (c *Console) look(w http.ResponseWriter, r *http.Request, password bool) error {
	token := r.PathValue("token")
	email, err := c.Operators.LinkLook(r.Context(), token, password)
	if fault.KindOf(err) == fault.Unauthenticated {
		return c.deadLink(w, r)
	}
	if err != nil {
		return err
	}
	return dashboard.Write(w, r, http.StatusOK, page.ConsoleLink{Token: token, Email: email, Password: password}, ui.Frame{})
}

func (c *Console) deadLink(w http.ResponseWriter, r *http.Request) error {
	return dashboard.Write(w, r, http.StatusGone, page.ConsoleDeadLink{}, ui.Frame{})
}

// linkRedeem uses the link up and signs in.
func (c *Console) linkRedeem(w http.ResponseWriter, r *http.Request, _ operator.Session) error {
	token, err := c.Operators.SignInByLink(r.Context(), r.PathValue("token"), dashboard.Client(r))
	if fault.KindOf(err) == fault.Unauthenticated {
		return c.deadLink(w, r)
	}
	if err != nil {
		return err
	}
	return c.enter(w, r, token, path.ConsoleHome())
}

// passwordSet uses the link up, sets the password and signs in.
func (c *Console) passwordSet(w http.ResponseWriter, r *http.Request, _ operator.Session) error {
	link := r.PathValue("token")
	token, err := c.Operators.PasswordSet(r.Context(), link, seal.Secret(r.PostForm.Get("password")), dashboard.Client(r))
	if fault.KindOf(err) == fault.Unauthenticated {
		return c.deadLink(w, r)
	}
	if problems, ok := dashboard.Refused(err, map[string]string{"password": "password"}); ok {
		email, err := c.Operators.LinkLook(r.Context(), link, true)
		if err != nil {
			return c.deadLink(w, r)
		}
		return dashboard.Write(w, r, http.StatusUnprocessableEntity, page.ConsoleLink{Token: link, Email: email, Password: true, Problems: problems}, ui.Frame{})
	}
	if err != nil {
		return err
	}
	return c.enter(w, r, token, path.ConsoleHome())
}

// signOut ends the session, and the looks into tenants with it.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := c.Operators.SignOut(r.Context(), who); err != nil {
		return err
	}
	if err := c.Sessions.End(w, r); err != nil {
		return err
	}
	return c.redirect(w, path.ConsoleSignIn()+"?after=sign-out")
}
