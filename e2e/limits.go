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

// peak is the most requests that were on the wire at once, and the one with whose arrival that was so.
func peak(requests []Request) (most int, at Request) {
	type change struct {
		when time.Time
		by   int
		it   int
	}
	changes := make([]change, 0, 2*len(requests))
	for i, r := range requests {
		if r.Ended.IsZero() {
			changes = append(changes, change{r.Arrived, 1, i})
			continue
		}
		ended := r.Ended
		if r.Left {
			ended = ended.Add(-graceOfLeaving)
		}
		if ended.After(r.Arrived) {
			changes = append(changes, change{r.Arrived, 1, i}, change{ended, -1, i})
		}
	}
	// An end comes before an arrival of the same moment.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.when.Compare(b.when), a.by-b.by) })
	now := 0
	for _, c := range changes {
		if now += c.by; now > most {
			most, at = now, requests[c.it]
		}
	}
	return most, at
}

// checkLimits looks whether any place or tenant ever had more requests on the wire than it may, and notes how near they came.
func (v *Verdict) checkLimits(places map[*Place][]Request, caps map[string]int) {
	tenants := map[string][]Request{}
	for p, requests := range places {
		tenants[p.Tenant] = append(tenants[p.Tenant], requests...)
		most, at := peak(requests)
		v.PeakPlace = max(v.PeakPlace, most)
		if p.Limit > 0 && most > p.Limit {
			v.wrong("%s has a limit of %d and had %d requests at once, with %s at %s", p.Key, p.Limit, most, at.ID, stamp(at.Arrived))
		}
	}
	for uid, requests := range tenants {
		slices.SortFunc(requests, func(a, b Request) int { return a.Arrived.Compare(b.Arrived) })
		most, at := peak(requests)
		v.PeakTenant = max(v.PeakTenant, most)
		if caps[uid] > 0 && most > caps[uid] {
			v.wrong("tenant %s has a cap of %d and had %d requests at once, with %s at %s, %s", uid, caps[uid], most, at.ID, at.Place.Key, stamp(at.Arrived))
		}
	}
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
