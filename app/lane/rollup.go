package lane

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/sender"
	"waybill/db/queries"
)

var sqlRollupAdd = queries.SQL("RollupAdd")

// Rolled is what a rollup counts of one recorded attempt.
type Rolled struct {
	TenantID, EndpointID string
	Started              time.Time
	Class                sender.Class // also classUnknown
	Code                 int          // HTTP status; 0: no answer
	Total                time.Duration
	Test                 bool // is not counted
}

// RollupsKept says whether results are counted as they are recorded. While they are not, pages show no charts: of what was not counted they would say
// that nothing was sent.
const RollupsKept = true

// rollupSlot is the width of a row of table rollups: every time zone differs from UTC by a multiple of it.
const rollupSlot = 15 * time.Minute

// rollupBounds are the upper ends of the buckets of response times, in milliseconds; one more bucket holds what took longer. Table rollups has them as its
// columns t00 to t23, and package delivery reads them so.
var rollupBounds = [...]time.Duration{5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 15_000, 30_000, 60_000}

// The counts of a row of table rollups by how attempts ended, in the order of its columns; the buckets of response times follow.
const (
	rollDelivered = iota
	rollRedirected
	rollRefused
	rollBroken
	rollOdd
	rollTimedOut
	rollUnreachable
	rollTLS
	rollBlocked
	rollOurs
	rollTimes
	rollColumns = rollTimes + len(rollupBounds) + 1
)

// Rollup queues the one statement that counts a batch of recorded attempts, at most a few hundred. It belongs at the end of the transaction that records
// them, with the attempts that were really stored: a second try of a batch leaves out those that were there already.
func Rollup(b *pgx.Batch, attempts []Rolled) {
	if args := rollupArgs(attempts); args != nil {
		b.Queue(sqlRollupAdd, args...)
	}
}

type rollupKey struct {
	endpointID string
	slot       int64 // Unix seconds
}

type rollupRow struct {
	key      rollupKey
	tenantID string
	counts   [rollColumns]int32
}

// rollupArgs groups the attempts by endpoint and slot, in the order in which every batch takes its rows; nil when there is nothing to count.
func rollupArgs(attempts []Rolled) []any {
	places := make(map[rollupKey]int, len(attempts))
	rows := make([]rollupRow, 0, len(attempts))
	for i := range attempts {
		a := &attempts[i]
		if a.Test {
			continue
		}
		key := rollupKey{a.EndpointID, a.Started.Unix() / int64(rollupSlot/time.Second) * int64(rollupSlot/time.Second)}
		at, known := places[key]
		if !known {
			at = len(rows)
			places[key] = at
			rows = append(rows, rollupRow{key: key, tenantID: a.TenantID})
		}
		rows[at].counts[rollupClass(a)]++
		if a.Code != 0 {
			rows[at].counts[rollTimes+rollupBucket(a.Total)]++
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(x, y rollupRow) int {
		return cmp.Or(cmp.Compare(x.key.endpointID, y.key.endpointID), cmp.Compare(x.key.slot, y.key.slot))
	})
	endpoints, slots, tenants := make([]string, len(rows)), make([]time.Time, len(rows)), make([]string, len(rows))
	counts := make([]int32, 0, rollColumns*len(rows))
	for i := range rows {
		endpoints[i], slots[i], tenants[i] = rows[i].key.endpointID, time.Unix(rows[i].key.slot, 0).UTC(), rows[i].tenantID
		counts = append(counts, rows[i].counts[:]...)
	}
	return []any{endpoints, slots, tenants, counts}
}

// rollupClass is the column that counts an attempt.
func rollupClass(a *Rolled) int {
	switch a.Class {
	case sender.Delivered:
		return rollDelivered
	case sender.Timeout, sender.ConnectTimeout:
		return rollTimedOut
	case sender.TLS:
		return rollTLS
	case sender.BlockedAddress, sender.BadConfig:
		return rollBlocked
	case sender.Proxy, sender.Canceled, classUnknown:
		return rollOurs
	}
	switch {
	case a.Code == 0:
		return rollUnreachable
	case a.Code >= 300 && a.Code <= 399:
		return rollRedirected
	case a.Code >= 400 && a.Code <= 499:
		return rollRefused
	case a.Code >= 500 && a.Code <= 599:
		return rollBroken
	}
	return rollOdd
}

// rollupBucket is the bucket of a response time.
func rollupBucket(took time.Duration) int {
	at, _ := slices.BinarySearchFunc(rollupBounds[:], took, func(bound, took time.Duration) int { return cmp.Compare(bound*time.Millisecond, took) })
	return at
}
