package ui

import (
	"slices"

	"waybill/web/path"
)

type navItem struct {
	Href, Text, Icon, Key, Badge string
}

// home is where the brand leads.
func (f Frame) home() string {
	if f.Console {
		return path.ConsoleHome()
	}
	return path.Overview()
}

// signOut takes the POST that ends the session.
func (f Frame) signOut() string {
	if f.Console {
		return path.ConsoleSignOut()
	}
	return path.SignOut()
}

func consoleNavigation() []navItem {
	return []navItem{
		{Href: path.ConsoleHome(), Text: "Attention", Icon: "warning", Key: "a"},
		{Href: path.ConsoleIncidents(), Text: "Incidents", Icon: "undelivered", Key: "i"},
		{Href: path.ConsoleTenants(), Text: "Tenants", Icon: "team", Key: "t"},
		{Href: path.ConsoleFind(), Text: "Find", Icon: "search", Key: "f"},
		{Href: path.ConsoleLag(), Text: "Lag and fairness", Icon: "overview", Key: "l"},
		{Href: path.ConsoleJobs(), Text: "Jobs", Icon: "send", Key: "j"},
	}
}

func consoleRest(f Frame) []navItem {
	items := []navItem{
		{Href: path.ConsoleTypes(), Text: "Event types", Icon: "type", Key: "e"},
		{Href: path.ConsolePolicy(), Text: "Policy", Icon: "settings", Key: "p"},
		{Href: path.ConsoleLog(), Text: "Log", Icon: "log", Key: "o"},
	}
	if f.Admin {
		items = append(items, navItem{Href: path.ConsoleKeys(), Text: "Platform keys", Icon: "key", Key: "k"},
			navItem{Href: path.ConsoleOperators(), Text: "Operators", Icon: "lock", Key: "m"})
	}
	return items
}

func mainNavigation(f Frame) []navItem {
	if f.Console {
		return consoleNavigation()
	}
	badge := ""
	switch {
	case f.Undelivered < 0:
		badge = "?"
	case f.Undelivered > 999:
		badge = "999+"
	case f.Undelivered > 0:
		badge = Number(f.Undelivered)
	}
	return []navItem{
		{Href: path.Overview(), Text: "Overview", Icon: "overview", Key: "o"},
		{Href: path.Endpoints(), Text: "Endpoints", Icon: "endpoint", Key: "e"},
		{Href: path.Deliveries(path.DeliveryFilter{}), Text: "Deliveries", Icon: "delivery", Key: "d"},
		{Href: path.Undelivered(), Text: "Undelivered", Icon: "undelivered", Key: "u", Badge: badge},
		{Href: path.Events(), Text: "Events", Icon: "event", Key: "v"},
		{Href: path.EventTypes(), Text: "Event types", Icon: "type", Key: "t"},
	}
}

func restNavigation(f Frame) []navItem {
	if f.Console {
		return consoleRest(f)
	}
	items := []navItem{
		{Href: path.Keys(), Text: "API keys", Icon: "key", Key: "k"},
		{Href: path.Activity(), Text: "Activity", Icon: "log", Key: "a"},
		{Href: path.Settings(), Text: "Settings", Icon: "settings", Key: "s"},
	}
	if !f.NoTeam {
		items = slices.Insert(items, 1, navItem{Href: path.Team(), Text: "Team", Icon: "team", Key: "m"})
	}
	if f.Mailbox {
		items = append(items, navItem{Href: path.Mails(), Text: "Mailbox", Icon: "mail"})
	}
	return items
}
