package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"time"

	"waybill/app/account"
	"waybill/app/limit"
	"waybill/web/path"
	"waybill/web/ui"
)

// view is what every page of a signed-in person is shown with: who looks, at which tenant, and by which clock.
type view struct {
	caller account.Caller
	tenant account.Tenant
	clock  ui.Clock
	frame  ui.Frame
	told   Note // the note that the redirect to this page left
}

// themeCookie keeps the appearance that this browser's person chose.
const themeCookie = "waybill-theme"

func (d *Dashboard) view(r *http.Request, caller account.Caller) (view, error) {
	r = asTenant(r, caller)
	v := view{caller: caller}
	var err error
	if v.tenant, err = d.Accounts.TenantOf(r.Context(), caller, caller.TenantUID); err != nil {
		return view{}, fmt.Errorf("read the tenant of a session: %w", err)
	}
	v.clock = ui.Clock{Now: d.Now(), Zone: zone(v.tenant.TimeZone)}
	v.frame = ui.Frame{
		Tenant: v.tenant.Name, Zone: v.tenant.TimeZone, Theme: theme(r), Role: role(caller), Member: caller.Name,
		Undelivered: d.parked(r, caller), Notice: d.standing(r, v), NoTeam: !may(caller, account.AuditRead),
		Mailbox: d.Mailbox != nil,
	}
	tenancies, err := d.Accounts.Tenancies(r.Context(), caller)
	if err != nil {
		return view{}, fmt.Errorf("read the tenants of a member: %w", err)
	}
	for _, t := range tenancies {
		if t.TenantUID != caller.TenantUID {
			v.frame.Others = append(v.frame.Others, ui.Option{Value: t.TenantUID, Text: t.TenantName})
		}
	}
	return v, nil
}

// maxBadge is how far the navigation counts.
const maxBadge = 1000

// parked is how many deliveries wait for somebody, for the navigation; -1 when it cannot be said.
func (d *Dashboard) parked(r *http.Request, caller account.Caller) int64 {
	if !may(caller, account.DeliveriesRead) {
		return 0
	}
	n, err := d.Deliveries.UndeliveredCount(r.Context(), caller, maxBadge)
	if err != nil {
		return -1
	}
	return int64(n)
}

// standing is the banner that stands over every page of this session, if there is one.
func (d *Dashboard) standing(r *http.Request, v view) *ui.Banner {
	level, used, limits := d.Limits.Day(r.Context(), v.tenant.UID)
	switch {
	case v.caller.Support != "":
		return &ui.Banner{Tone: ui.Info, Title: "You look at this as support, read-only", Text: "This is " + v.tenant.Name + " as its people see it. They read in their log that you looked.",
			Post: ui.Link{Text: "Stop looking", Href: path.SignOut()}}
	case v.tenant.SuspendedAt != nil:
		return &ui.Banner{Tone: ui.Hold, Title: "This account is suspended",
			Text: "Everything can be read, nothing can be changed, and nothing is sent. Ask your platform."}
	case level == limit.Hard:
		return &ui.Banner{Tone: ui.Bad, Title: "The events of today are used up", Text: fmt.Sprintf("This account may have %s a day (UTC). What is published beyond that through the API is refused until midnight UTC; "+
			"what was taken is delivered. Your platform can raise the limit.", ui.Count(limits.EventsPerDay, "event", "events")), Actions: []ui.Link{{Text: "See limits", Href: path.Settings()}}}
	case level == limit.Soft:
		text := "Nothing is refused."
		if limits.EventsPerDay > 0 {
			text = "More than " + ui.Number(limits.EventsPerDay) + " are refused by the API."
		}
		return &ui.Banner{Tone: ui.Wait, Title: "Many events today: " + ui.Number(used), Text: text, Actions: []ui.Link{{Text: "See limits", Href: path.Settings()}}}
	case !may(v.caller, account.EndpointsWrite) && !may(v.caller, account.DeliveriesResend):
		return &ui.Banner{Tone: ui.Info, Title: "You can look, but not change anything"}
	}
	return nil
}

// note puts what was left for this page into its frame.
func (v *view) note(note Note) {
	v.told = note
	if note.Text != "" {
		v.frame.Flash = &ui.Flash{Tone: note.Tone, Text: note.Text, Link: note.Link}
	}
}

// may says whether the caller has a right, for what a page offers. The operations check it again.
func may(caller account.Caller, scope account.Scope) bool { return caller.Can(scope) == nil }

// role says in words what the caller may do here.
func role(caller account.Caller) string {
	switch {
	case caller.Support != "":
		return "Platform support"
	case caller.MemberID == "":
		return "Signed in by a link"
	case may(caller, account.TeamWrite):
		return "Owner"
	case may(caller, account.EndpointsWrite):
		return "Developer"
	}
	return "Viewer"
}

func theme(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

// zones keeps what time.LoadLocation reads from files.
var zones sync.Map

// zone is the tenant's time zone, or UTC where its name has become unknown.
func zone(name string) *time.Location {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location)
	}
	loaded, err := time.LoadLocation(cmp.Or(name, "UTC"))
	if err != nil {
		loaded = time.UTC
	}
	zones.Store(name, loaded)
	return loaded
}
