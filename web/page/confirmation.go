package page

import (
	"slices"

	"waybill/web/path"
	"waybill/web/ui"
)

// The confirmations: each names its object, says what happens to how many and whether events are kept, and its
// button repeats the verb. Counts are what the operation would touch now; a negative count is one that could
// not be made, and is said so.

// counted is "12 pending deliveries", or words for a number that is not known. Of nothing there is nothing to
// say.
func counted(n int64, one, many string) string {
	switch {
	case n < 0:
		return "All " + many
	case n == 0:
		return ""
	}
	return ui.Count(n, one, many)
}

// confirm is a confirmation about an endpoint; effects that say nothing are left out.
func (e EndpointName) confirm(title, verb, action string, effects ...string) Confirmation {
	effects = slices.DeleteFunc(effects, func(effect string) bool { return effect == "" })
	return Confirmation{
		Nav:    path.Endpoints(),
		Crumbs: []ui.Link{{Text: "Endpoints", Href: path.Endpoints()}, {Text: e.title(), Href: path.Endpoint(e.ID)}},
		Ask: ui.Confirm{
			Title: title, Object: e.Host + e.Path, Effects: effects, Action: action, Verb: verb,
			Back: path.Endpoint(e.ID),
		},
	}
}

// PauseEndpoint asks before an endpoint is paused with so many deliveries pending.
func PauseEndpoint(e EndpointName, pending int64, kept string) Confirmation {
	return e.confirm("Pause endpoint", "Pause endpoint", path.EndpointPause(e.ID),
		counted(pending, "pending delivery becomes held.", "pending deliveries become held."),
		"New events for it are held too, and stay for "+kept+".",
		"Nothing is sent until you enable it again. You choose then what to catch up on.")
}

// DisableEndpoint asks before an endpoint is disabled with so many deliveries pending.
func DisableEndpoint(e EndpointName, pending int64, kept string) Confirmation {
	c := e.confirm("Disable endpoint", "Disable endpoint", path.EndpointDisable(e.ID),
		counted(pending, "pending delivery becomes held.", "pending deliveries become held."),
		"New events for it are held too, not lost, and stay for "+kept+".",
		"You can enable it at any time and choose what to catch up on.")
	c.Ask.Danger = true
	return c
}

// EnableEndpoint asks before an endpoint is switched on with so many deliveries held.
func EnableEndpoint(e EndpointName, held int64) Confirmation {
	c := e.confirm("Enable endpoint", "Enable endpoint", path.EndpointEnable(e.ID), "New events are sent to it from now on.")
	if held != 0 {
		c.Ask.Effects = append(c.Ask.Effects,
			counted(held, "delivery stays held", "deliveries stay held")+" until you catch up; the next page shows how many of what, and sends nothing by itself.")
	}
	return c
}

// DeleteEndpoint asks before an endpoint is deleted with so many deliveries pending and held.
func DeleteEndpoint(e EndpointName, pending, held int64) Confirmation {
	c := e.confirm("Delete endpoint", "Delete endpoint", path.EndpointDelete(e.ID),
		counted(pending, "pending delivery is cancelled.", "pending deliveries are cancelled."),
		counted(held, "held or undelivered one can no longer be resent to it.", "held or undelivered ones can no longer be resent to it."),
		"Its signing secrets are destroyed.",
		"Its history stays readable, and the events stay in the catalog.")
	c.Ask.Danger = true
	return c
}

// RevealSecret asks for the password before a secret is shown.
func RevealSecret(e EndpointName, secret, fingerprint string) Confirmation {
	c := e.confirm("Reveal signing secret", "Reveal secret", path.SecretReveal(e.ID, secret),
		"The secret "+fingerprint+" is shown on the page.", "That you looked at it is written to the activity log.")
	c.Ask.Back, c.Password = path.EndpointSecrets(e.ID), true
	return c
}

// EndSecret asks before a secret stops signing ahead of its time.
func EndSecret(e EndpointName, secret, fingerprint string) Confirmation {
	c := e.confirm("End secret now", "End secret", path.SecretEnd(e.ID, secret),
		"Requests are no longer signed with "+fingerprint+", from the next attempt on.",
		"If your code still has only this one, it will reject them.",
		"It cannot be brought back.")
	c.Ask.Back, c.Ask.Danger = path.EndpointSecrets(e.ID), true
	return c
}

// ResendDelivered asks before something is sent again that has arrived.
func ResendDelivered(e EndpointName, delivery, what string) Confirmation {
	c := e.confirm("Resend delivery", "Resend delivery", path.DeliveryResend(delivery),
		"Your server accepted it before. It gets the same event again, with the same webhook-id.",
		"Code that skips ids it has seen does nothing with it.")
	c.Nav, c.Ask.Object, c.Ask.Back = path.Deliveries(path.DeliveryFilter{}), what, path.Delivery(delivery)
	return c
}

// CancelDelivery asks before the rest of a delivery's schedule is given up.
func CancelDelivery(e EndpointName, delivery, what string) Confirmation {
	c := e.confirm("Stop trying", "Stop trying", path.DeliveryCancel(delivery),
		"The rest of its schedule is given up.", "The event stays in the catalog, and this delivery can be resent by hand.")
	c.Nav, c.Ask.Object, c.Ask.Back, c.Ask.Danger = path.Deliveries(path.DeliveryFilter{}), what, path.Delivery(delivery), true
	return c
}

// ResendMany asks before several deliveries are sent again: those of the given ids or, without ids, all that
// match the filter. Skipped is how many of them cannot be resent now.
func ResendMany(filter path.DeliveryFilter, ids []string, count, skipped int64, byType []ui.Option) Confirmation {
	c := Confirmation{
		Nav: path.Deliveries(path.DeliveryFilter{}), Crumbs: []ui.Link{{Text: "Deliveries", Href: path.Deliveries(filter)}},
		Ask: ui.Confirm{
			Title: "Resend " + counted(count, "delivery", "deliveries"), Verb: "Resend " + counted(count, "delivery", "deliveries"),
			Action: path.DeliveriesResend(filter), Back: path.Deliveries(filter),
		},
	}
	for _, kind := range byType {
		c.Ask.Effects = append(c.Ask.Effects, kind.Text+" of "+kind.Value+".")
	}
	c.Ask.Effects = append(c.Ask.Effects, "They go out under the endpoints' limits; what is delivered meanwhile is skipped.")
	if skipped > 0 {
		c.Ask.Effects = append(c.Ask.Effects, counted(skipped, "other is left out: it is on the wire, delivered or too old.", "others are left out: they are on the wire, delivered or too old."))
	}
	c.Ask.Hidden = append(c.Ask.Hidden, ui.Option{Value: "confirmed", Text: "yes"})
	for _, id := range ids {
		c.Ask.Hidden = append(c.Ask.Hidden, ui.Option{Value: "delivery", Text: id})
	}
	return c
}

// RevokeKey asks before an API key stops working. lastUsed is empty if it never was.
func RevokeKey(id, name, prefix string, lastUsed string) Confirmation {
	use := "It was never used."
	if lastUsed != "" {
		use = "It was last used " + lastUsed + "."
	}
	return Confirmation{Nav: path.Keys(), Crumbs: []ui.Link{{Text: "API keys", Href: path.Keys()}}, Ask: ui.Confirm{
		Title: "Revoke API key", Object: name + " (" + prefix + "…)", Action: path.KeyRevoke(id), Verb: "Revoke key", Back: path.Keys(), Danger: true,
		Effects: []string{use, "Programs that use it are refused at once.", "It cannot be brought back."},
	}}
}

// RotateKey asks how long the old key goes on.
func RotateKey(id, name, prefix string) Confirmation {
	return Confirmation{Nav: path.Keys(), Crumbs: []ui.Link{{Text: "API keys", Href: path.Keys()}}, Ask: ui.Confirm{
		Title: "Rotate API key", Object: name + " (" + prefix + "…)", Action: path.KeyRotate(id), Verb: "Rotate key", Back: path.Keys(),
		Effects: []string{"A new key with the same name, scopes and limit is made and shown, once.", "Both work until the old one ends; it cannot be made to last longer afterwards, but be revoked."},
	}, Choices: []ui.Choice{{Name: "overlap", Label: "How long the old key goes on", Value: "24h", Options: []ui.Option{
		{Value: "0h", Text: "It ends at once"}, {Value: "24h", Text: "24 hours"}, {Value: "168h", Text: "7 days"}, {Value: "720h", Text: "30 days"},
	}}}}
}

// RemoveMember asks before a member loses access.
func RemoveMember(id, email string) Confirmation {
	return Confirmation{Nav: path.Team(), Crumbs: []ui.Link{{Text: "Team", Href: path.Team()}}, Ask: ui.Confirm{
		Title: "Remove member", Object: email, Action: path.MemberRemove(id), Verb: "Remove member", Back: path.Team(), Danger: true,
		Effects: []string{"Their sessions end at once.", "API keys that they made go on working; revoke those on their own page.", "What they did stays in the activity log."},
	}}
}

// ExpungeEvent asks before an event's content is taken out.
func ExpungeEvent(event, what string, waiting int64) Confirmation {
	effects := []string{
		"Its data is deleted here and in the API, and so are the bodies that your servers answered with. What was sent before is not called back.",
		counted(waiting, "delivery that waits is cancelled.", "deliveries that wait are cancelled."),
		"That it happened, when, and what became of it stays readable.",
		"It cannot be brought back, and not be resent.",
	}
	return Confirmation{Nav: path.Events(), Crumbs: []ui.Link{{Text: "Events", Href: path.Events()}, {Text: what, Href: path.Event(event)}}, Ask: ui.Confirm{
		Title: "Expunge content", Object: what + " (" + event + ")", Action: path.EventExpunge(event), Verb: "Expunge content", Back: path.Event(event), Danger: true,
		Effects: slices.DeleteFunc(effects, func(effect string) bool { return effect == "" }),
	}}
}
