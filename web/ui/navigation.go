package ui

import (
	"slices"

	"waybill/web/path"
)

type navItem struct {
	Href, Text, Icon, Key, Badge string
}

func mainNavigation(f Frame) []navItem {
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
