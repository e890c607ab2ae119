package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// graceOfLeaving is how much earlier than the receiver noticed a sender may have closed a connection: the next request can be in the receiver's
// hands before it has heard of the end of the one whose slot that request has. Requests that were answered need no such thing: they
// end, in the book, before their answers go out.
const graceOfLeaving = 500 * time.Millisecond

// over is when a request no longer counts as on the wire; zero: it still does.
func (r Request) over() time.Time {
	if r.Left {
		return r.Ended.Add(-graceOfLeaving)
	}
	return r.Ended
}

// peak is the most requests that were on the wire at once, and which these were.
func peak(requests []Request) (most int, which []Request) {
	type change struct {
		when time.Time
		by   int
		it   int
	}
	changes := make([]change, 0, 2*len(requests))
	for i, r := range requests {
		over := r.over()
		if r.Ended.IsZero() {
			changes = append(changes, change{r.Arrived, 1, i})
		} else if over.After(r.Arrived) {
			changes = append(changes, change{r.Arrived, 1, i}, change{over, -1, i})
		}
	}
	// An end comes before an arrival of the same moment.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.when.Compare(b.when), a.by-b.by) })
	now, then := 0, time.Time{}
	for _, c := range changes {
		if now += c.by; now > most {
			most, then = now, c.when
		}
	}
	for _, r := range requests {
		if !r.Arrived.After(then) && (r.Ended.IsZero() || r.over().After(then)) {
			which = append(which, r)
		}
	}
	return most, which
}

// checkLimits looks whether any place or tenant ever had more requests on the wire than it may, and notes how near they came.
func (v *Verdict) checkLimits(places map[*Place][]Request, caps map[string]int) {
	tenants := map[string][]Request{}
	for p, requests := range places {
		tenants[p.Tenant] = append(tenants[p.Tenant], requests...)
		most, which := peak(requests)
		v.PeakPlace = max(v.PeakPlace, most)
		if p.Limit > 0 && most > p.Limit {
			v.wrong("%s has a limit of %d and had %d requests at once:%s", p.Key, p.Limit, most, lines(which))
		}
	}
	for uid, requests := range tenants {
		slices.SortFunc(requests, func(a, b Request) int { return a.Arrived.Compare(b.Arrived) })
		most, which := peak(requests)
		v.PeakTenant = max(v.PeakTenant, most)
		if caps[uid] > 0 && most > caps[uid] {
			v.wrong("tenant %s has a cap of %d and had %d requests at once:%s", uid, caps[uid], most, lines(which))
		}
	}
}

func lines(requests []Request) string {
	text := ""
	for _, r := range requests {
		text += "\n\t" + r.String()
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func (r Request) String() string {
	end := "not ended"
	if !r.Ended.IsZero() {
		end = "ended " + stamp(r.Ended)
		if r.Left {
			end = "left " + stamp(r.Ended)
		}
	}
	return fmt.Sprintf("%s %s at %s, answer %s, %s", stamp(r.Arrived), r.ID, r.Place.Key, r.Answer, end)
}
