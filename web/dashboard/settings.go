package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/limit"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

const (
	latestSignIns = 5             // on the page of settings
	ownNewBrowser = "new-browser" // the mail about a sign-in with a new browser
)

// settings is the page of the account's and the person's settings.
func (d *Dashboard) settings(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showSettings(w, r, caller, http.StatusOK, nil, nil)
}

// showSettings shows the page; typed puts what a refused form held back into it.
func (d *Dashboard) showSettings(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, problems page.Problems, typed func(*page.Settings)) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	sheet := page.Settings{
		Tenant:    page.TenantSettings{Name: v.tenant.Name, UID: v.tenant.UID, Zone: v.tenant.TimeZone, Zones: knownZones},
		Profile:   page.Profile{Name: caller.Name, Theme: v.frame.Theme},
		MayTenant: may(caller, account.SettingsWrite), Problems: problems,
	}
	if sheet.Limits, err = d.limitFacts(r, v); err != nil {
		return err
	}
	if caller.MemberID != "" {
		if err := d.personal(r, v, &sheet); err != nil {
			return err
		}
	}
	if caller.MemberID != "" || caller.Support == "" && may(caller, account.AuditRead) {
		entries, _, err := d.Accounts.SignInList(r.Context(), caller, "", latestSignIns)
		if err != nil {
			return err
		}
		sheet.SignIns = signInRows(v, entries)
	}
	if typed != nil {
		typed(&sheet)
	}
	return d.show(w, r, v, status, sheet)
}

// limitFacts are what the platform allows, and what of it is used.
func (d *Dashboard) limitFacts(r *http.Request, v view) ([]page.Fact, error) {
	u, err := d.Limits.Usage(r.Context(), v.caller)
	if err != nil {
		return nil, err
	}
	of := func(used, allowed int64) string {
		if allowed == 0 {
			return ui.Number(used) + ", no limit"
		}
		return ui.Number(used) + " of " + ui.Number(allowed)
	}
	kept := d.Policies.Retention().Events
	if own := time.Duration(u.RetentionDays) * 24 * time.Hour; own > 0 {
		kept = min(kept, own)
	}
	payload := int64(limit.MaxPayload)
	if u.PayloadBytes > 0 {
		payload = int64(u.PayloadBytes)
	}
	today := page.Fact{Name: "Events today (UTC)", Value: of(u.EventsToday, u.EventsPerDay), Warn: u.EventsPerDay > 0 && u.EventsToday*10 >= u.EventsPerDay*9}
	if u.EventsPerDaySoft > 0 {
		today.Value += ", announced from " + ui.Number(u.EventsPerDaySoft) + " on"
		today.Warn = today.Warn || u.EventsToday >= u.EventsPerDaySoft
	}
	facts := []page.Fact{
		{Name: "Requests at once, over all endpoints", Value: ui.Number(int64(v.tenant.Concurrency))},
		{Name: "Endpoints", Value: of(u.EndpointsUsed, int64(u.Limits.Endpoints)), Warn: u.Limits.Endpoints > 0 && u.EndpointsUsed >= int64(u.Limits.Endpoints)},
		today,
		{Name: "Data of an event", Value: "up to " + ui.Number(payload) + " bytes"},
		{Name: "Events are kept for", Value: days(kept)},
	}
	if u.EventsPerSecond > 0 {
		facts = append(facts, page.Fact{Name: "Events a second", Value: "up to " + ui.Number(int64(u.EventsPerSecond))})
	}
	return facts, nil
}

// personal fills in what belongs to the member.
func (d *Dashboard) personal(r *http.Request, v view, sheet *page.Settings) error {
	p, err := d.Accounts.Profile(r.Context(), v.caller)
	if err != nil {
		return err
	}
	sheet.Member, sheet.Profile.Name, sheet.Profile.Email, sheet.Profile.Verified = true, p.Name, p.Email, p.Verified
	topics, err := d.Accounts.Notices(r.Context(), v.caller)
	if err != nil {
		return err
	}
	for _, topic := range account.Topics() {
		choice := topicWords[topic]
		choice.Name, choice.Value, choice.Checked = "notices", string(topic), slices.Contains(topics, topic)
		sheet.Notices = append(sheet.Notices, choice)
	}
	fresh, err := d.Accounts.SignInMail(r.Context(), v.caller)
	if err != nil {
		return err
	}
	sheet.Own = []ui.Check{{Name: "own", Value: ownNewBrowser, Label: "You sign in with a new browser", Checked: fresh}}
	second, err := d.Accounts.SecondFactor(r.Context(), v.caller)
	if err != nil {
		return err
	}
	sheet.TwoFactor = twoFactorSheet(v, second)
	if sheet.Refused, err = d.Accounts.SignInsRefused(r.Context(), v.caller); err != nil {
		return err
	}
	sessions, err := d.Accounts.SessionsOwn(r.Context(), v.caller)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		sheet.Sessions = append(sheet.Sessions, page.Session{
			ID: s.ID, Browser: account.Browser(s.UserAgent), From: s.Address, Tenant: s.Label, Started: v.clock.Moment(s.CreatedAt), Seen: v.clock.Moment(s.LastSeenAt),
			This: s.ID == v.caller.ID,
		})
	}
	return nil
}

var topicWords = map[account.Topic]ui.Check{
	account.TopicFailing:     {Label: "An endpoint fails", Hint: "When it begins, and a day before it is disabled."},
	account.TopicDisabled:    {Label: "An endpoint was disabled"},
	account.TopicRecovered:   {Label: "An endpoint works again"},
	account.TopicUndelivered: {Label: "Deliveries stay undelivered", Hint: "Every attempt of their schedule has failed."},
}

// settingsTenant changes the account's name and time zone.
func (d *Dashboard) settingsTenant(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	in := account.SettingsInput{Name: field(r, "name"), TimeZone: field(r, "zone")}
	err := d.Accounts.SettingsSave(r.Context(), caller, in)
	if problems, ok := refused(err, map[string]string{"name": "name", "time_zone": "zone"}); ok {
		return d.showSettings(w, r, caller, statusOf(err), problems, func(sheet *page.Settings) { sheet.Tenant.Name, sheet.Tenant.Zone = in.Name, in.TimeZone })
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Settings(), Note{Text: "Saved."})
}

// settingsProfile keeps a member's name, and how the pages are to look in this browser; or sends the confirmation of the address again.
func (d *Dashboard) settingsProfile(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if field(r, "confirm") != "" && caller.MemberID != "" {
		return d.confirmAgain(w, r, caller)
	}
	if name, given := r.PostForm["member_name"]; given && caller.MemberID != "" {
		typed := strings.TrimSpace(name[0])
		err := d.Accounts.ProfileSave(r.Context(), caller, typed)
		if problems, ok := refused(err, map[string]string{"name": "member_name"}); ok {
			return d.showSettings(w, r, caller, statusOf(err), problems, func(sheet *page.Settings) { sheet.Profile.Name = typed })
		}
		if err != nil {
			return err
		}
	}
	cookie := &http.Cookie{Name: themeCookie, Value: field(r, "theme"), Path: "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode, HttpOnly: true, Secure: d.secure()}
	if cookie.Value != "light" && cookie.Value != "dark" {
		cookie.Value, cookie.MaxAge = "", -1
	}
	http.SetCookie(w, cookie)
	return d.done(w, r, caller, path.Settings(), Note{Text: "Saved."})
}

func (d *Dashboard) confirmAgain(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.canMail(); err != nil {
		return err
	}
	err := d.Accounts.VerifyAsk(r.Context(), caller)
	if problems, ok := limited(err); ok {
		return d.showSettings(w, r, caller, statusOf(err), problems, nil)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Settings(), Note{Text: "A mail with a link goes to " + caller.Name + "."})
}

// settingsNotices chooses what the member is mailed about.
func (d *Dashboard) settingsNotices(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	topics := []account.Topic{}
	for _, topic := range r.PostForm["notices"] {
		topics = append(topics, account.Topic(topic))
	}
	err := d.Accounts.NoticesSave(r.Context(), caller, topics)
	if err == nil {
		err = d.Accounts.SignInMailSave(r.Context(), caller, slices.Contains(r.PostForm["own"], ownNewBrowser))
	}
	if problems, ok := refused(err, nil); ok {
		return d.showSettings(w, r, caller, statusOf(err), problems, nil)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Settings(), Note{Text: "Saved."})
}

// settingsPassword changes the member's password.
func (d *Dashboard) settingsPassword(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	err := d.Accounts.PasswordChange(r.Context(), caller, secret(r, "current"), secret(r, "password"), client(r))
	if problems, ok := objections(err, map[string]string{"current": "current", "password": "password"}); ok {
		return d.showSettings(w, r, caller, statusOf(err), problems, nil)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Settings(), Note{Text: "Your password is changed, and your other sessions have ended."})
}

// sessionEnd ends one session, here and in its open streams.
func (d *Dashboard) sessionEnd(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	sessionID := r.PathValue("session")
	if sessionID == caller.ID {
		return d.signOut(w, r, caller)
	}
	if err := d.Accounts.SessionRevoke(r.Context(), caller, sessionID); err != nil {
		return err
	}
	d.live.endSession(sessionID)
	return d.done(w, r, caller, path.Settings(), Note{Text: "That session has ended."})
}

// sessionsEnd ends the member's other sessions.
func (d *Dashboard) sessionsEnd(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	ended, err := d.Accounts.SessionRevokeOthers(r.Context(), caller)
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Settings(), Note{Text: ui.Count(int64(ended), "session has", "sessions have") + " ended."})
}

// knownZones are offered to choose from; every other IANA name can be typed.
var knownZones = strings.Fields(`UTC
Africa/Cairo Africa/Casablanca Africa/Johannesburg Africa/Lagos Africa/Nairobi
America/Anchorage America/Argentina/Buenos_Aires America/Bogota America/Chicago America/Denver America/Halifax America/Lima America/Los_Angeles
America/Mexico_City America/New_York America/Phoenix America/Santiago America/Sao_Paulo America/St_Johns America/Toronto America/Vancouver
Asia/Baghdad Asia/Bangkok Asia/Colombo Asia/Dhaka Asia/Dubai Asia/Ho_Chi_Minh Asia/Hong_Kong Asia/Jakarta Asia/Jerusalem Asia/Karachi Asia/Kathmandu
Asia/Kolkata Asia/Kuala_Lumpur Asia/Manila Asia/Riyadh Asia/Seoul Asia/Shanghai Asia/Singapore Asia/Taipei Asia/Tashkent Asia/Tehran Asia/Tokyo
Atlantic/Reykjavik Australia/Adelaide Australia/Brisbane Australia/Melbourne Australia/Perth Australia/Sydney
Europe/Amsterdam Europe/Athens Europe/Berlin Europe/Brussels Europe/Bucharest Europe/Dublin Europe/Helsinki Europe/Istanbul Europe/Kyiv Europe/Lisbon
Europe/London Europe/Madrid Europe/Moscow Europe/Oslo Europe/Paris Europe/Prague Europe/Rome Europe/Stockholm Europe/Vienna Europe/Warsaw Europe/Zurich
Pacific/Auckland Pacific/Honolulu`)

// passwordAgain asks for the member's password before something that an open browser alone must not do.
func (d *Dashboard) passwordAgain(r *http.Request, caller account.Caller) (page.Problems, int, error) {
	if caller.MemberID == "" {
		return nil, 0, nil
	}
	err := d.Accounts.PasswordConfirm(r.Context(), caller, secret(r, "password"), client(r))
	switch fault.KindOf(err) {
	case fault.Invalid, fault.RateLimited:
		problems, _ := objections(err, map[string]string{"password": "password"})
		return problems, statusOf(err), nil
	}
	return nil, 0, err
}
