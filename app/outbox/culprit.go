package outbox

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"waybill/app/id"
	"waybill/app/plain"
)

var (
	typeForm         = regexp.MustCompile(`^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$`)
	resourceTypeForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// breaks says for each constraint of outbox_add which event breaks it. It decides nothing: the function has refused already, but its error does
// not tell which of a batch it was.
var breaks = map[string]func(*Event) bool{
	"outbox_type_is_plain":          func(ev *Event) bool { return len(ev.Type) > 128 || !typeForm.MatchString(ev.Type) },
	"outbox_resource_type_is_plain": func(ev *Event) bool { return !resourceTypeForm.MatchString(ev.ResourceType) },
	"outbox_resource_id_is_plain": func(ev *Event) bool {
		n := utf8.RuneCountInString(ev.ResourceID)
		return n < 1 || n > 200 || strings.ContainsFunc(ev.ResourceID, func(r rune) bool { return r < ' ' || r == 0x7f })
	},
	"outbox_sequence_range": func(ev *Event) bool { return ev.Sequence != nil && (*ev.Sequence < 0 || *ev.Sequence >= 1<<53) },
	"outbox_occurred_at_range": func(ev *Event) bool {
		return ev.OccurredAt != nil && (ev.OccurredAt.UTC().Year() < 1 || ev.OccurredAt.UTC().Year() > 9999)
	},
	"outbox_id_is_plain": func(ev *Event) bool { return ev.ID != "" && !id.ValidEvent(ev.ID) },
	"outbox_data_depth":  func(ev *Event) bool { return plain.Depth(ev.Data) > MaxDepth },
	"":                   func(ev *Event) bool { return !json.Valid(ev.Data) }, // the cast to json
}

// culprit finds the event that a refusal is about, or -1.
func culprit(pg *pgconn.PgError, events []Event) int {
	first := map[string]*Event{}
	for i := range events {
		ev := &events[i]
		switch pg.ConstraintName {
		case "outbox_tenant_exists":
			if strings.Contains(pg.Message, quoted(ev.Tenant)) {
				return i
			}
		case "event_ids_content":
			if ev.ID == "" || !strings.Contains(pg.Message, " "+ev.ID+" ") {
				continue
			}
			// Of two in the batch the second is meant, unless they are the same and both clash with what is stored.
			if other := first[ev.ID]; other != nil && !other.same(ev) {
				return i
			} else if other == nil {
				first[ev.ID] = ev
			}
		default:
			if broken, ok := breaks[pg.ConstraintName]; ok && broken(ev) {
				return i
			}
		}
	}
	for i := range events {
		if first[events[i].ID] == &events[i] {
			return i
		}
	}
	return -1
}

// quoted is a text as SQL's format writes it with %L, cut as outbox_add cuts it.
func quoted(s string) string {
	if r := []rune(s); len(r) > 140 {
		s = string(r[:140])
	}
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
}

func (ev *Event) same(other *Event) bool {
	equal := func(a, b *int64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	return ev.Type == other.Type && ev.ResourceType == other.ResourceType && ev.ResourceID == other.ResourceID && ev.Version == other.Version &&
		equal(ev.Sequence, other.Sequence) && string(ev.Data) == string(other.Data)
}
