package dashboard

import (
	"net/http"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/seal"
	"waybill/web/page"
	"waybill/web/path"
)

// limited turns a refusal for trying too often into the form's own problem.
func limited(err error) (page.Problems, bool) {
	shown := faultOf(err)
	if shown == nil || shown.Kind != fault.RateLimited {
		return nil, false
	}
	return page.Problems{"": shown.Detail}, true
}

// objections is what an operation has against a form, also when it was sent too often.
func objections(err error, names map[string]string) (page.Problems, bool) {
	if problems, ok := limited(err); ok {
		return problems, true
	}
	return refused(err, names)
}

// secret is a form's password, as it was typed.
func secret(r *http.Request, name string) seal.Secret { return seal.Secret(r.PostForm.Get(name)) }

// canMail refuses what would promise a mail that nobody sends.
func (d *Dashboard) canMail() error {
	if d.NoMail {
		return fault.New(fault.Conflict, "No mail is sent from here. Ask your platform.")
	}
	return nil
}

// signIn signs in with a mail address and a password.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	sheet := page.SignIn{Email: field(r, "email"), Next: local(field(r, "next"))}
	in, err := d.Accounts.SignIn(r.Context(), sheet.Email, secret(r, "password"), client(r))
	switch shown := faultOf(err); {
	case err == nil && in.Half != "":
		d.Sessions.Half(w, in.Half, account.HalfSignInLife)
		return d.redirect(w, r, path.SignInCode("", sheet.Next))
	case err == nil:
		return d.begin(w, r, in.Session, sheet.Next)
	case shown.Kind == fault.RateLimited:
		sheet.Problems = page.Problems{"": shown.Detail}
		return d.showPlain(w, r, http.StatusTooManyRequests, sheet)
	case shown.Kind == fault.Unauthenticated || shown.Kind == fault.Forbidden:
		sheet.Problems = page.Problems{"": shown.Detail}
		return d.showPlain(w, r, http.StatusUnprocessableEntity, sheet)
	}
	return err
}

// begin goes on with a member's new session; one that this browser had before ends.
func (d *Dashboard) begin(w http.ResponseWriter, r *http.Request, token seal.Secret, next string) error {
	if before, err := d.Sessions.Caller(r); err == nil {
		if err := d.Accounts.SignOut(asTenant(r, before).Context(), before); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		d.live.endSession(before.ID)
	}
	if err := d.Sessions.Start(w, r, token, account.MemberSessionLife); err != nil {
		return err
	}
	return d.redirect(w, r, next)
}

// passwordForgot asks where to send a link, or says that one is on its way.
func (d *Dashboard) passwordForgot(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showPlain(w, r, http.StatusOK, page.PasswordForgot{NoMail: d.NoMail})
}

// passwordAsk mails the link; what it answers is the same whether or not there is such an account.
func (d *Dashboard) passwordAsk(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	if err := d.canMail(); err != nil {
		return err
	}
	sheet := page.PasswordForgot{Email: field(r, "email")}
	err := d.Accounts.ResetAsk(r.Context(), sheet.Email, client(r))
	if problems, ok := objections(err, map[string]string{"email": "email"}); ok {
		sheet.Problems = problems
		return d.showPlain(w, r, statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	return d.redirect(w, r, withQuery(path.PasswordForgot()+"/sent", "to", sheet.Email))
}

// passwordSent says where to look.
func (d *Dashboard) passwordSent(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showPlain(w, r, http.StatusOK, page.PasswordForgot{Email: r.URL.Query().Get("to"), Sent: true})
}

// passwordResetForm is where the link of the mail leads.
func (d *Dashboard) passwordResetForm(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showReset(w, r, http.StatusOK, nil)
}

func (d *Dashboard) showReset(w http.ResponseWriter, r *http.Request, status int, problems page.Problems) error {
	token := r.PathValue("reset")
	p, err := d.Accounts.ResetLook(r.Context(), token)
	if err != nil {
		return d.notThatLink(w, r, err, page.LinkPassword, d.Accounts.ResetFate, token)
	}
	return d.showPlain(w, r, status, page.PasswordReset{Token: token, Email: p.Email, Problems: problems})
}

// passwordReset sets the new password.
func (d *Dashboard) passwordReset(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	token := r.PathValue("reset")
	err := d.Accounts.Reset(r.Context(), token, secret(r, "password"), client(r))
	if problems, ok := objections(err, map[string]string{"password": "password"}); ok {
		return d.showReset(w, r, statusOf(err), problems)
	}
	if err != nil {
		return d.notThatLink(w, r, err, page.LinkPassword, d.Accounts.ResetFate, token)
	}
	return d.redirect(w, r, withQuery(path.SignIn(), "after", "reset"))
}

// verifyAsk is where the link of the mail leads: a program that follows it confirms nothing.
func (d *Dashboard) verifyAsk(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	token := r.PathValue("verify")
	p, err := d.Accounts.VerifyLook(r.Context(), token)
	if err != nil {
		return d.notThatLink(w, r, err, page.LinkVerify, d.Accounts.VerifyFate, token)
	}
	return d.showPlain(w, r, http.StatusOK, page.VerifyAsk{Token: token, Email: p.Email})
}

// verify confirms an address.
func (d *Dashboard) verify(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	token := r.PathValue("verify")
	email, err := d.Accounts.Verify(r.Context(), token, client(r))
	if err != nil {
		return d.notThatLink(w, r, err, page.LinkVerify, d.Accounts.VerifyFate, token)
	}
	if caller, err := d.Sessions.Caller(r); err == nil && caller.Name == email {
		return d.done(w, r, caller, path.Settings(), Note{Text: "Your address is confirmed."})
	}
	return d.redirect(w, r, withQuery(path.SignIn(), "after", "verified"))
}

// invitation is where the link of an invitation leads.
func (d *Dashboard) invitation(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	return d.showInvitation(w, r, http.StatusOK, "", nil)
}

func (d *Dashboard) showInvitation(w http.ResponseWriter, r *http.Request, status int, name string, problems page.Problems) error {
	token := r.PathValue("invite")
	target, err := d.Accounts.InvitationLook(r.Context(), token)
	if err != nil {
		return d.notThatLink(w, r, err, page.LinkInvitation, d.Accounts.InvitationFate, token)
	}
	_, here := d.invited(r, target)
	return d.showPlain(w, r, status, page.InvitationAccept{
		Token: token, Tenant: target.TenantName, By: target.By, Role: string(target.Role), Email: target.Email, Name: name,
		Known: target.Known, SignedIn: here, Code: target.SecondFactor, Problems: problems,
	})
}

// invited is the member who is signed in, if it is the one who is invited.
func (d *Dashboard) invited(r *http.Request, target account.InvitationTarget) (account.Caller, bool) {
	caller, err := d.Sessions.Caller(r)
	return caller, err == nil && caller.MemberID != "" && caller.Name == target.Email
}

// invitationAccept joins: with one click for who is signed in, else with a password.
func (d *Dashboard) invitationAccept(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	token := r.PathValue("invite")
	target, err := d.Accounts.InvitationLook(r.Context(), token)
	if err != nil {
		return d.notThatLink(w, r, err, page.LinkInvitation, d.Accounts.InvitationFate, token)
	}
	var session seal.Secret
	name := field(r, "name")
	if caller, here := d.invited(r, target); here {
		session, err = d.Accounts.InvitationJoin(r.Context(), caller, token, client(r))
	} else {
		session, err = d.Accounts.InvitationAccept(r.Context(), token, account.InvitationAnswer{Name: name, Password: secret(r, "password")}, client(r))
	}
	if problems, ok := objections(err, map[string]string{"name": "name", "password": "password"}); ok {
		return d.showInvitation(w, r, statusOf(err), name, problems)
	}
	if err != nil {
		return d.notThatLink(w, r, err, page.LinkInvitation, d.Accounts.InvitationFate, token)
	}
	return d.begin(w, r, session, path.Overview())
}

// tenantSwitch goes on in another tenant of the member's.
func (d *Dashboard) tenantSwitch(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	token, life, err := d.Accounts.TenantSwitch(r.Context(), caller, field(r, "tenant"), client(r))
	if err != nil {
		return err
	}
	d.live.endSession(caller.ID)
	if err := d.Sessions.Start(w, r, token, life); err != nil {
		return err
	}
	return d.redirect(w, r, path.Overview())
}
