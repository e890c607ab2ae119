package dashboard

import (
	"net/http"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// team is the page of members and invitations.
func (d *Dashboard) team(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showTeam(w, r, caller, http.StatusOK, page.Team{})
}

// showTeam completes the page with what does not depend on the form.
func (d *Dashboard) showTeam(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, sheet page.Team) error {
	members, err := d.Accounts.MemberList(r.Context(), caller)
	if err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	holders := map[string]bool{}
	if may(caller, account.TeamWrite) {
		if holders, err = d.Accounts.SecondFactorHolders(r.Context(), caller); err != nil {
			return err
		}
		if sheet.TwoFactor, err = d.Accounts.SecondFactorRequired(r.Context(), caller); err != nil {
			return err
		}
	}
	owners := 0
	for _, m := range members {
		if m.Role == account.Owner {
			owners++
		}
	}
	for _, m := range members {
		row := page.Member{
			ID: m.ID, Name: m.Name, Email: m.Email, Role: string(m.Role), You: m.ID == caller.MemberID, Fixed: m.Role == account.Owner && owners == 1,
			TwoFactor: holders[m.ID],
		}
		if m.SeenAt != nil {
			row.LastSeen = v.clock.Moment(*m.SeenAt)
		}
		sheet.Members = append(sheet.Members, row)
	}
	sheet.NoMail = d.NoMail
	if sheet.MayManage = may(caller, account.TeamWrite); sheet.MayManage {
		open, err := d.Accounts.InvitationList(r.Context(), caller)
		if err != nil {
			return err
		}
		for _, i := range open {
			sheet.Invitations = append(sheet.Invitations, page.Invited{
				ID: i.ID, Email: i.Email, Role: string(i.Role), By: i.By, Sent: v.clock.Moment(i.SentAt), Ends: v.clock.Moment(i.ExpiresAt),
			})
		}
	}
	return d.show(w, r, v, status, sheet)
}

// invite sends an invitation.
func (d *Dashboard) invite(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.canMail(); err != nil {
		return err
	}
	sheet := page.Team{Email: field(r, "email"), Role: field(r, "role")}
	made, err := d.Accounts.InvitationCreate(r.Context(), caller, account.InvitationInput{Email: sheet.Email, Role: account.Role(sheet.Role)})
	if problems, ok := objections(err, map[string]string{"email": "email", "role": "role"}); ok {
		sheet.Problems = problems
		return d.showTeam(w, r, caller, statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Team(), Note{Text: "An invitation goes to " + made.Email + ". Its link works for 7 days."})
}

// invitationResend mails an invitation again.
func (d *Dashboard) invitationResend(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.canMail(); err != nil {
		return err
	}
	err := d.Accounts.InvitationResend(r.Context(), caller, r.PathValue("invitation"))
	if problems, ok := limited(err); ok {
		return d.showTeam(w, r, caller, statusOf(err), page.Team{Problems: problems})
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Team(), Note{Text: "The invitation goes out again. The link of the first mail works no more."})
}

// invitationRevoke withdraws an invitation.
func (d *Dashboard) invitationRevoke(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.Accounts.InvitationRevoke(r.Context(), caller, r.PathValue("invitation")); err != nil {
		return err
	}
	return d.done(w, r, caller, path.Team(), Note{Text: "The invitation is withdrawn. Its link works no more."})
}

// memberRole changes what a member may do.
func (d *Dashboard) memberRole(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	memberID, role := r.PathValue("member"), account.Role(field(r, "role"))
	err := d.Accounts.MemberRole(r.Context(), caller, memberID, role)
	if problems, ok := refused(err, nil); ok {
		return d.showTeam(w, r, caller, statusOf(err), page.Team{Problems: problems})
	}
	if err != nil {
		return err
	}
	if memberID == caller.MemberID && role != account.Owner {
		return d.done(w, r, caller, path.Overview(), Note{Text: "You are " + string(role) + " from now on."})
	}
	return d.done(w, r, caller, path.Team(), Note{Text: "The role is changed, from the next click on."})
}

// memberRemoveAsk asks before a member is removed.
func (d *Dashboard) memberRemoveAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	m, err := d.Accounts.MemberRead(r.Context(), caller, r.PathValue("member"))
	if err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, page.RemoveMember(m.ID, m.Email))
}

// memberRemove removes a member; who removes themselves is signed out.
func (d *Dashboard) memberRemove(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	memberID := r.PathValue("member")
	err := d.Accounts.MemberRemove(r.Context(), caller, memberID)
	if fault.KindOf(err) == fault.Conflict {
		return d.showTeam(w, r, caller, statusOf(err), page.Team{Problems: page.Problems{"": faultOf(err).Detail}})
	}
	if err != nil {
		return err
	}
	if memberID == caller.MemberID {
		d.live.endSession(caller.ID)
		if err := d.Sessions.End(w, r); err != nil {
			return err
		}
		return d.redirect(w, r, withQuery(path.SignIn(), "after", "sign-out"))
	}
	return d.done(w, r, caller, path.Team(), Note{Tone: ui.Good, Text: "The member is removed, and their sessions have ended."})
}
