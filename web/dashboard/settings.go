package dashboard

import (
	"net/http"

	"waybill/app/account"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// settings is the page of the account's and the person's settings.
func (d *Dashboard) settings(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, page.Settings{
		Tenant:  page.TenantSettings{Name: v.tenant.Name, UID: v.tenant.UID, Zone: v.tenant.TimeZone},
		Profile: page.Profile{Name: caller.Name, Theme: v.frame.Theme},
		Limits:  []page.Fact{{Name: "Requests at once, over all endpoints", Value: ui.Number(int64(v.tenant.Concurrency))}},
	})
}

// settingsProfile keeps how the pages are to look in this browser.
func (d *Dashboard) settingsProfile(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	cookie := &http.Cookie{Name: themeCookie, Value: field(r, "theme"), Path: "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode, HttpOnly: true, Secure: d.secure()}
	if cookie.Value != "light" && cookie.Value != "dark" {
		cookie.Value, cookie.MaxAge = "", -1
	}
	http.SetCookie(w, cookie)
	return d.done(w, r, caller, path.Settings(), Note{Text: "Saved."})
}
