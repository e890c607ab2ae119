package dashboard

import (
	"net/http"
	"strings"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/seal"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// forSetUp says whether a route is open to a member who has to set up a second factor before anything else.
func forSetUp(route Route) bool {
	return strings.HasPrefix(route.Pattern, path.TwoFactor()) || route.Pattern == path.SignOut() || route.Pattern == path.TenantSwitch()
}

// leadToSetUp sends such a member there.
func (d *Dashboard) leadToSetUp(w http.ResponseWriter, r *http.Request, route Route) error {
	if route.Stream {
		return fault.New(fault.Forbidden, "This account requires two-factor sign-in. Set it up first.")
	}
	return d.redirect(w, r, path.TwoFactor())
}

// signInCode asks for the code that follows the password.
func (d *Dashboard) signInCode(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	query := r.URL.Query()
	return d.showCode(w, r, http.StatusOK, page.SignInCode{Next: local(query.Get("next")), Recovery: query.Get("recovery") != ""})
}

func (d *Dashboard) showCode(w http.ResponseWriter, r *http.Request, status int, sheet page.SignInCode) error {
	p, err := d.Accounts.SignInHalf(r.Context(), d.Sessions.Halfway(r))
	if fault.KindOf(err) == fault.Unauthenticated {
		return d.redirect(w, r, withQuery(path.SignIn(), "after", "half"))
	}
	if err != nil {
		return err
	}
	sheet.Email = p.Email
	return d.showPlain(w, r, status, sheet)
}

// signInFinish signs in with the code.
func (d *Dashboard) signInFinish(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	sheet := page.SignInCode{Next: local(field(r, "next")), Recovery: field(r, "recovery") != ""}
	how := account.ByCode
	if sheet.Recovery {
		how = account.ByRecoveryCode
	}
	token, err := d.Accounts.SignInFinish(r.Context(), d.Sessions.Halfway(r), how, secret(r, "code"), client(r))
	if problems, ok := objections(err, map[string]string{"code": "code"}); ok {
		sheet.Problems = problems
		return d.showCode(w, r, statusOf(err), sheet)
	}
	switch fault.KindOf(err) {
	case fault.Unauthenticated:
		return d.redirect(w, r, withQuery(path.SignIn(), "after", "half"))
	case fault.Forbidden:
		sheet.Problems = page.Problems{"": faultOf(err).Detail}
		return d.showCode(w, r, http.StatusUnprocessableEntity, sheet)
	}
	if err != nil {
		return err
	}
	return d.begin(w, r, token, sheet.Next)
}

// twoFactor is the page of the member's second factor.
func (d *Dashboard) twoFactor(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showTwoFactor(w, r, caller, http.StatusOK, nil)
}

// recoveryNote marks the note that carries new recovery codes, a line each.
const recoveryNote = "recovery codes"

func (d *Dashboard) showTwoFactor(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, problems page.Problems) error {
	if caller.MemberID == "" {
		return d.redirect(w, r, path.Settings()) // who comes by a link has none
	}
	state, err := d.Accounts.SecondFactor(r.Context(), caller)
	if err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	sheet := twoFactorSheet(v, state)
	sheet.Led, sheet.Problems = caller.MustSetUp, problems
	if note, ok := d.Sessions.Said(w, r, caller.ID); ok {
		v.note(note)
		if note.About == recoveryNote {
			sheet.Codes = strings.Split(note.Secret, "\n")
		}
	}
	return write(w, r, status, sheet, v.frame)
}

func twoFactorSheet(v view, state account.SecondFactor) page.TwoFactor {
	sheet := page.TwoFactor{Email: v.caller.Name, On: state.On, CodesLeft: state.CodesLeft, RequiredBy: state.RequiredBy}
	if state.On {
		sheet.Since = v.clock.Moment(state.Since)
	}
	if state.Setup != nil {
		sheet.Setup = &page.TwoFactorSetup{Secret: state.Setup.Secret.Reveal(), URI: state.Setup.URI.Reveal()}
	}
	return sheet
}

// twoFactorBegin makes a secret, after the password.
func (d *Dashboard) twoFactorBegin(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	err := d.Accounts.SecondFactorBegin(r.Context(), caller, secret(r, "password"), client(r))
	if problems, ok := objections(err, map[string]string{"password": "password"}); ok {
		return d.showTwoFactor(w, r, caller, statusOf(err), problems)
	}
	if err != nil {
		return err
	}
	return d.redirect(w, r, path.TwoFactor())
}

// twoFactorConfirm turns it on with the first code, and shows the recovery codes on the page that follows, once.
func (d *Dashboard) twoFactorConfirm(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	codes, err := d.Accounts.SecondFactorConfirm(r.Context(), caller, secret(r, "code"), client(r))
	if problems, ok := objections(err, map[string]string{"code": "code"}); ok {
		return d.showTwoFactor(w, r, caller, statusOf(err), problems)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.TwoFactor(), codesNote("Two-factor sign-in is on.", codes))
}

func codesNote(text string, codes []seal.Secret) Note {
	lines := make([]string, len(codes))
	for i, code := range codes {
		lines[i] = code.Reveal()
	}
	return Note{Text: text, About: recoveryNote, Secret: strings.Join(lines, "\n")}
}

// twoFactorCodesAsk asks before recovery codes are made anew.
func (d *Dashboard) twoFactorCodesAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.askTwoFactor(w, r, caller, http.StatusOK, nil, codesQuestion)
}

func codesQuestion(state account.SecondFactor) page.Confirmation {
	return page.NewRecoveryCodes(state.CodesLeft)
}

func offQuestion(state account.SecondFactor) page.Confirmation {
	return page.TurnTwoFactorOff(state.RequiredBy)
}

// askTwoFactor shows a question about the member's second factor; where there is none there is nothing to ask.
func (d *Dashboard) askTwoFactor(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, problems page.Problems,
	question func(account.SecondFactor) page.Confirmation,
) error {
	if caller.MemberID == "" {
		return d.redirect(w, r, path.Settings())
	}
	state, err := d.Accounts.SecondFactor(r.Context(), caller)
	if err != nil {
		return err
	}
	if !state.On {
		return d.redirect(w, r, path.TwoFactor())
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	sheet := question(state)
	sheet.Problems = problems
	return d.show(w, r, v, status, sheet)
}

// twoFactorCodes makes recovery codes anew and shows them on the page that follows, once.
func (d *Dashboard) twoFactorCodes(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	codes, err := d.Accounts.RecoveryCodesRenew(r.Context(), caller, secret(r, "password"), client(r))
	if problems, ok := objections(err, map[string]string{"password": "password"}); ok {
		return d.askTwoFactor(w, r, caller, statusOf(err), problems, codesQuestion)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.TwoFactor(), codesNote("The old recovery codes work no more.", codes))
}

// twoFactorOffAsk asks before it is turned off.
func (d *Dashboard) twoFactorOffAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.askTwoFactor(w, r, caller, http.StatusOK, nil, offQuestion)
}

// twoFactorOff turns it off, with password and code.
func (d *Dashboard) twoFactorOff(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	err := d.Accounts.SecondFactorOff(r.Context(), caller, secret(r, "password"), secret(r, "code"), client(r))
	if problems, ok := objections(err, map[string]string{"password": "password", "code": "code"}); ok {
		return d.askTwoFactor(w, r, caller, statusOf(err), problems, offQuestion)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.TwoFactor(), Note{Text: "Two-factor sign-in is off."})
}

// twoFactorRequire says whether the tenant requires it of its members.
func (d *Dashboard) twoFactorRequire(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	required := field(r, "required") == "yes"
	err := d.Accounts.SecondFactorRequire(r.Context(), caller, required)
	if problems, ok := refused(err, nil); ok {
		return d.showTeam(w, r, caller, statusOf(err), page.Team{Problems: problems})
	}
	if err != nil {
		return err
	}
	text := "Two-factor sign-in is required from the next sign-in on."
	if !required {
		text = "Two-factor sign-in is everybody's own choice."
	}
	return d.done(w, r, caller, path.Team(), Note{Text: text})
}

// memberTwoFactorAsk asks before a member's is reset.
func (d *Dashboard) memberTwoFactorAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	m, err := d.Accounts.MemberRead(r.Context(), caller, r.PathValue("member"))
	if err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, page.ResetTwoFactor(m.ID, m.Email))
}

// memberTwoFactorReset resets it.
func (d *Dashboard) memberTwoFactorReset(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	err := d.Accounts.SecondFactorReset(r.Context(), caller, r.PathValue("member"))
	if problems, ok := refused(err, nil); ok {
		return d.showTeam(w, r, caller, statusOf(err), page.Team{Problems: problems})
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Team(), Note{Text: "Their two-factor sign-in is reset, and a mail tells them."})
}

// signInRows are sign-ins as pages list them.
func signInRows(v view, entries []account.SignInEntry) []page.SignInRow {
	rows := make([]page.SignInRow, len(entries))
	for i, e := range entries {
		rows[i] = page.SignInRow{At: v.clock.Moment(e.At), Browser: e.Browser, From: e.Address, Who: e.Label}
		rows[i].Stamp, rows[i].How = signInWords(e)
	}
	return rows
}

func signInWords(e account.SignInEntry) (ui.Stamp, string) {
	switch e.Outcome {
	case account.SignInUnfinished:
		return ui.Stamp{Tone: ui.Wait, Word: "Not finished"}, "Password; no code followed"
	case account.SignInRefused:
		return ui.Stamp{Tone: ui.Bad, Word: "Refused"}, "Wrong " + string(e.How)
	}
	how := map[account.SignInHow]string{
		account.ByPassword: "Password", account.ByCode: "Password and code", account.ByRecoveryCode: "Password and recovery code",
		account.ByInvitation: "Invitation", account.ByPortalLink: "Link of the platform",
	}[e.How]
	return ui.Stamp{Tone: ui.Good, Word: "Signed in"}, how
}

// signIns lists who signed in from where.
func (d *Dashboard) signIns(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	after := r.URL.Query().Get("cursor")
	entries, next, err := d.Accounts.SignInList(r.Context(), caller, after, pageRows)
	if err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	sheet := page.SignIns{Rows: signInRows(v, entries), Member: caller.MemberID != "", Shown: shown(len(entries), after == "" && next == "", "sign-in", "sign-ins")}
	if sheet.Member {
		if sheet.Refused, err = d.Accounts.SignInsRefused(r.Context(), caller); err != nil {
			return err
		}
	}
	if after != "" {
		sheet.First = path.SignIns()
	}
	if next != "" {
		sheet.Next = path.SignInsAt(next)
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}
