package console

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"waybill/app/operator"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// lag is how far behind the system is, and whose work that is.
func (c *Console) lag(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	l, err := c.Operators.Lag(r.Context(), who.Caller)
	if err != nil {
		return err
	}
	return c.show(w, r, v, http.StatusOK, page.ConsoleLag{Live: path.ConsoleLagLive(), Figures: lagFigures(v, l), Past: past(v, l), Sections: []page.ConsoleSection{
		laneSection(l), shareSection(l), verdictSection(v, l), mailSection(v, l), tableSection(v, l)}})
}

func lagFigures(v view, l operator.Lag) []ui.Option {
	outbox := ui.Number(int64(l.Outbox))
	if l.Outbox >= operator.MaxOutbox {
		outbox += " or more"
	}
	return []ui.Option{
		{Text: "Outbox lag", Value: ui.Span(l.OutboxAge), Note: outboxMeans(l)},
		{Text: "Events in the outbox", Value: outbox, Note: "Published, and not yet turned into deliveries."},
		{Text: "Oldest due delivery", Value: ui.Span(l.Late), Note: lateMeans(l)},
	}
}

func outboxMeans(l operator.Lag) string {
	switch {
	case l.Outbox == 0:
		return "The dispatcher has taken everything that was published."
	case l.OutboxAge < 5*time.Second:
		return "The dispatcher keeps up."
	case l.OutboxAge < time.Minute:
		return "The dispatcher is behind; if it does not catch up, look whether one runs and what the database does."
	}
	return "The dispatcher stands still, or publishers outrun it. Nothing is lost; nothing new is delivered either."
}

func lateMeans(l operator.Lag) string {
	switch {
	case l.Late < 5*time.Second:
		return "What is due is sent at once."
	case l.Late < time.Minute:
		return "Some lanes wait for a place. More workers, or the shares below, say whose."
	}
	return "Work waits for places: look at the lanes and the shares below, and at how many workers run."
}

// past is the last hour as this process has seen it.
func past(v view, l operator.Lag) ui.Lines {
	lines := ui.Lines{ID: "past", Title: "The last hour", Summary: "Outbox lag and the oldest due delivery, every " + ui.Span(l.HistoryGap) + " since this process started, an hour at most. Flat and near zero is well.",
		Series: []ui.Series{{Name: "Outbox lag", Tone: ui.Hold}, {Name: "Oldest due", Tone: ui.Info}}}
	if len(l.History) == 0 {
		return ui.Lines{}
	}
	for i, s := range l.History {
		point := ui.Point{Full: v.clock.Time(s.At), Values: []time.Duration{s.OutboxAge, max(s.Late, 0)}, Missing: s.Missing}
		if i == 0 || i == len(l.History)-1 && i > 8 {
			point.Label = s.At.UTC().Format("15:04")
		}
		lines.Points = append(lines.Points, point)
	}
	return lines
}

var laneStates = []struct {
	state, words string
	tone         ui.Tone
}{
	{"running", "Being sent to now.", ui.Good},
	{"queued", "A ticket waits for a worker. Many of them for long: workers are missing.", ui.Info},
	{"blocked", "Waits for its tenant’s own limit. That is fairness at work; a tenant that is always here needs a higher limit.", ui.Wait},
	{"sleeping", "Something is due later: a retry, or a probe of an endpoint whose circuit is open.", ui.Hold},
	{"idle", "Nothing is due.", ui.Mute},
}

func laneSection(l operator.Lag) page.ConsoleSection {
	total := 0
	for _, n := range l.Lanes {
		total += n
	}
	section := page.ConsoleSection{ID: "lanes", Title: "Lanes by state", Text: "A lane is the right to send to one endpoint; there is one for each.", None: "There are no endpoints.",
		Grid: page.Grid{Label: "Lanes by state", Columns: []page.Column{{Name: "State"}, {Name: "Lanes", Number: true}, {Name: "Share"}, {Name: "What it means"}}}}
	if total == 0 {
		return section
	}
	for _, s := range laneStates {
		n := l.Lanes[s.state]
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{{Text: s.state}, {Text: ui.Number(int64(n))}, {Share: &ui.ShareBar{Part: int64(n), Whole: int64(total), Tone: s.tone}}, {Text: s.words}})
	}
	return section
}

func shareSection(l operator.Lag) page.ConsoleSection {
	var all int64
	for _, t := range l.Shares {
		all += t.Slots
	}
	section := page.ConsoleSection{ID: "shares", Title: "Tenants’ shares of slots and waiting work", None: "No tenant has work.",
		Text: "The twenty tenants with the most requests reserved now. One that holds most slots while others wait is held back by its own limit; if others are late, lower that.",
		Grid: page.Grid{Label: "Shares", Columns: []page.Column{{Name: "Tenant"}, {Name: "Slots", Number: true}, {Name: "Of all"}, {Name: "Of its limit"}, {Name: "Lanes"}, {Name: "Due now", Number: true}}}}
	for _, t := range l.Shares {
		lanes := fmt.Sprintf("%d running, %d queued, %d blocked, %d sleeping", t.Running, t.Queued, t.Blocked, t.Sleeping)
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			tenantCell(t.TenantUID, t.TenantName), {Text: ui.Number(t.Slots)}, {Share: &ui.ShareBar{Part: t.Slots, Whole: all, Tone: ui.Info}},
			{Share: &ui.ShareBar{Part: min(t.Slots, int64(t.Concurrency)), Whole: int64(t.Concurrency), Tone: ui.Wait}, Small: "limit " + strconv.Itoa(t.Concurrency)}, {Text: lanes}, {Text: waiting(t)},
		})
	}
	return section
}

func waiting(t operator.TenantShare) string {
	if t.Waiting >= operator.MaxWaiting {
		return ui.Number(t.Waiting) + " or more"
	}
	return ui.Number(t.Waiting)
}

func verdictSection(v view, l operator.Lag) page.ConsoleSection {
	n := l.Verdicts
	all := n.Attempted()
	section := page.ConsoleSection{ID: "verdicts", Title: "How attempts end", None: "Nothing was attempted since " + v.clock.Time(n.Since) + ".",
		Text: "All tenants, since " + v.clock.Time(n.Since) + " UTC. Receivers fail for their own reasons at all times; a share that jumps for all at once is ours.",
		Grid: page.Grid{Label: "How attempts end", Columns: []page.Column{{Name: "End"}, {Name: "Attempts", Number: true}, {Name: "Share"}, {Name: "What it means"}}}}
	if all == 0 {
		return section
	}
	for _, row := range []struct {
		name, words string
		n           int64
		tone        ui.Tone
	}{
		{"Delivered", "Answered 2xx.", n.Delivered, ui.Good},
		{"Refused", "Answered 4xx: the receiver’s code or settings.", n.Refused, ui.Wait},
		{"Broken", "Answered 5xx: the receiver is in trouble.", n.Broken, ui.Bad},
		{"Redirected", "Answered 3xx, which is not followed.", n.Redirected, ui.Mute},
		{"Timed out", "No answer in time.", n.TimedOut, ui.Bad},
		{"Unreachable", "The proxy could not connect, or the name does not resolve.", n.Unreachable, ui.Bad},
		{"TLS failed", "No secure connection: certificates, mostly.", n.TLS, ui.Bad},
		{"Not allowed", "The proxy refused the address: it is not public.", n.Blocked, ui.Hold},
		{"Ours", "Our proxy was down, or the outcome is unknown. It counts against nobody; above zero it is ours to mend.", n.Ours, ui.Bad},
		{"Other", "Another status.", n.Odd, ui.Mute},
	} {
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{{Text: row.name}, {Text: ui.Number(row.n)}, {Share: &ui.ShareBar{Part: row.n, Whole: all, Tone: row.tone}}, {Text: row.words}})
	}
	return section
}

func mailSection(v view, l operator.Lag) page.ConsoleSection {
	text := "No mail waits."
	if l.Mails.Waiting > 0 {
		text = upTo(l.Mails.Waiting, 1000) + " wait, the first since " + v.clock.Time(*l.Mails.Since) + " UTC."
		if l.Mails.Tried > 0 {
			text += " Those that were tried could not be handed over: look at the mail server."
		}
	}
	section := page.ConsoleSection{ID: "mails", Title: "Mail queue", Text: text, Grid: page.Grid{Label: "Mail queue", Columns: []page.Column{{Name: "Mails"}, {Name: "How many", Number: true}, {Name: "Share"}}}}
	if l.Mails.Waiting > 0 {
		fresh := l.Mails.Waiting - l.Mails.Tried
		section.Grid.Rows = [][]page.Cell{
			{{Text: "Not tried yet"}, {Text: ui.Number(int64(fresh))}, {Share: &ui.ShareBar{Part: int64(fresh), Whole: int64(l.Mails.Waiting), Tone: ui.Info}}},
			{{Text: "Tried, and not handed over"}, {Text: ui.Number(int64(l.Mails.Tried))}, {Share: &ui.ShareBar{Part: int64(l.Mails.Tried), Whole: int64(l.Mails.Waiting), Tone: ui.Bad}}},
		}
	}
	return section
}

func tableSection(v view, l operator.Lag) page.ConsoleSection {
	var all int64
	for _, t := range l.Tables {
		all += t.Bytes
	}
	section := page.ConsoleSection{ID: "tables", Title: "Partitions and tables", None: "The sizes are not known.",
		Text: "The largest tables with their indexes, as of " + v.clock.Time(l.TablesAt) + " UTC. Days beyond retention are dropped whole; if tomorrow’s day is missing, the partition job does not run.",
		Grid: page.Grid{Label: "Tables", Columns: []page.Column{{Name: "Table"}, {Name: "Size", Number: true}, {Name: "Share"}, {Name: "Rows, about", Number: true}, {Name: "Days"}}}}
	for _, t := range l.Tables {
		days := page.Cell{Text: "–"}
		if t.First != "" {
			days = page.Cell{Text: ui.Count(int64(t.Files), "day", "days"), Small: day(t.First) + " to " + day(t.Last)}
		}
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{{Text: t.Name, Code: true}, {Text: ui.Size(t.Bytes)}, {Share: &ui.ShareBar{Part: t.Bytes, Whole: all, Tone: ui.Info}}, {Text: ui.Number(t.Rows)}, days})
	}
	return section
}

// day is 20261130 as 2026-11-30.
func day(digits string) string {
	if len(digits) != 8 {
		return digits
	}
	return digits[:4] + "-" + digits[4:6] + "-" + digits[6:]
}

// How the stream of the page on lag goes: it says now and then that the page is to be read again, as long as the session lives.
const (
	lagEvery = 5 * time.Second
	lagLife  = 10 * time.Minute // then the browser connects anew
)

// lagLive says every few seconds that the page is to be read again.
func (c *Console) lagLive(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	send := func(text string) bool {
		_ = out.SetWriteDeadline(time.Now().Add(2 * lagEvery))
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send("retry: 3000\n\n") {
		return nil
	}
	tick, over := time.NewTicker(lagEvery), time.NewTimer(lagLife)
	defer tick.Stop()
	defer over.Stop()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-c.life.Done():
			return nil
		case <-over.C:
			return nil
		case <-tick.C:
		}
		if again, err := c.Sessions.Operator(r); err != nil || again.ID != who.ID {
			return nil
		}
		if !send("event: changed\ndata: lag\n\n") {
			return nil
		}
	}
}
