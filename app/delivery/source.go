package delivery

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/id"
	"waybill/db/queries"
)

var (
	sqlKeys           = queries.SQL("DeliveryKeys")
	sqlKeysOfEndpoint = queries.SQL("DeliveryKeysOfEndpoint")
	sqlKeysOfTests    = queries.SQL("DeliveryKeysOfTests")
	sqlCount          = queries.SQL("DeliveryCount")
	sqlCountOf        = queries.SQL("DeliveryCountOfEndpoint")
	sqlCountOfTests   = queries.SQL("DeliveryCountOfTests")
	sqlEventKeys      = queries.SQL("EventKeys")
	sqlResourceKeys   = queries.SQL("ResourceKeys")
	sqlParkedKeys     = queries.SQL("ParkedKeys")
	sqlParkedKeysOf   = queries.SQL("ParkedKeysOfEndpoint")
	sqlDueCount       = queries.SQL("DueCount")
	sqlDueKeys        = queries.SQL("DueKeys")
	sqlAttemptKeys    = queries.SQL("AttemptKeys")
	sqlRows           = queries.SQL("DeliveryRows")
	sqlRowsCount      = queries.SQL("DeliveryRowsCount")
	sqlCountOfRes     = queries.SQL("ResourceCount")
)

// bounds are what one call may look at.
type bounds struct {
	scanned int // keys walked along an index
	read    int // rows read by id to find the few that match
	events  int // of one resource
	due     int // rows of due that are sorted for a list
}

// usual keeps each list under 50 ms of the database's time: measured with 3 million deliveries of 20 tenants, two of them on three.
var usual = bounds{scanned: MaxCount + 1, read: 1_000, events: 1_000, due: 20_000}

func (b bounds) orUsual() bounds {
	if b == (bounds{}) {
		return usual
	}
	return b
}

// place is a key of the order in which a list goes on: everything that comes after it is yet to be shown. Lists of a resource go by position
// and id, all others by day and id.
type place struct {
	day      time.Time
	position int64
	id       string
}

// The ends of all time, in the orders of both lists.
var (
	farDay = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	farID  = "~" // behind every id
)

// source is the index along which a list is found.
type source struct {
	name string
	sql  string        // a *Keys statement, its filter filled in
	sums string        // the statement that counts those keys; empty: there is none but the one above
	args pgx.NamedArgs // all but the place and the limits
	scan int           // keys it looks at, at most
	rest string        // the conditions that rows of its keys must still meet; empty: none
	rows pgx.NamedArgs // of rest

	windowed   bool // it is read in windows of days
	byPosition bool
	noDay      bool // its keys have no day: the id says it

	since time.Time // the first day of the window; zero: all
}

// windowDays are the days before a place that a windowed source is asked for, one after the other until the page is full, and last all that
// there are: a plan for two days is made in a fraction of the time that one for all days takes.
var windowDays = []int{2, 10}

// windows is the source in parts that follow one another, the first one beginning at a place.
func (src source) windows(from place) []source {
	var parts []source
	if src.windowed {
		until := from.day
		if until.Equal(farDay) {
			until = day(time.Now()).AddDate(0, 0, 2) // the days are the database's, whose clock may be ahead of ours
		}
		for _, days := range windowDays {
			part := src
			if part.since = until.AddDate(0, 0, -days); !part.since.After(src.args["from_day"].(time.Time)) {
				break
			}
			parts = append(parts, part)
		}
	}
	return append(parts, src)
}

// before is the place at which the next window begins.
func (src source) before() place {
	if src.noDay {
		return place{day: src.since, id: firstID(src.since) + smallest}
	}
	return place{day: src.since, id: beforeAll}
}

// smallest is the least random part of an id.
const smallest = "0000000000000000"

// source chooses the index that leaves the least to look at. few says that DueKeys may be used.
func (f Filter) source(tenant string, few bool, most bounds) source {
	conditions, args := f.conditions()
	attempt := f.byAttempt()
	attemptArgs := f.attemptArgs()
	parked := f.Status == string(Undelivered) || f.Status == string(Held)
	if attempt && (f.EventID != "" || f.ResourceID != "" || parked) {
		conditions = append(conditions, onAttempt)
		maps.Copy(args, attemptArgs)
	}

	s := source{args: pgx.NamedArgs{}, scan: most.scanned}
	walk := func(name, sql string) {
		s.name, s.sql = name, filled(sql, conditions)
		maps.Copy(s.args, args)
	}
	look := func(name, sql string) {
		s.name, s.sql = name, sql
		if len(conditions) > 0 {
			s.rest, s.rows = strings.Join(conditions, " and "), args
		}
	}
	switch {
	case f.EventID != "":
		walk("event", sqlEventKeys)
	case f.ResourceID != "":
		walk("resource", sqlResourceKeys)
		s.sums = filled(sqlCountOfRes, conditions)
		s.args["resource"], s.args["resource_type"] = f.ResourceID, f.ResourceType
		s.byPosition, s.scan = true, most.events
	case parked && f.EndpointID != "":
		s.args["status"], s.args["endpoint"] = f.Status, f.EndpointID
		delete(args, "status")
		conditions = without(conditions, onStatus, onEndpoint)
		look("parked of endpoint", sqlParkedKeysOf)
	case parked:
		s.args["status"] = f.Status
		conditions = without(conditions, onStatus)
		look("parked", sqlParkedKeys)
	case attempt || f.Status == Recovered:
		look("attempt", sqlAttemptKeys)
		maps.Copy(s.args, attemptArgs)
		s.noDay, s.windowed = true, true
	case few && (f.Status == string(Pending) || f.Status == Retrying):
		s.args["endpoint"], s.args["retrying"] = f.EndpointID, f.Status == Retrying
		look("due", sqlDueKeys)
	case f.Tests == OnlyTests || f.Trigger == "test":
		s.windowed = true
		walk("tests", sqlKeysOfTests)
		s.sums = filled(sqlCountOfTests, conditions)
	case f.EndpointID != "":
		s.windowed = true
		walk("endpoint", sqlKeysOfEndpoint)
		s.sums = filled(sqlCountOf, conditions)
		s.args["endpoint"] = f.EndpointID
	default:
		s.windowed = true
		walk("tenant", sqlKeys)
		s.sums = filled(sqlCount, conditions)
	}
	s.args["tenant"], s.args["from_id"], s.args["from_day"] = tenant, "", time.Time{}
	s.args["until_id"] = farID
	if !f.Since.IsZero() {
		s.args["from_id"], s.args["from_day"] = firstID(f.Since), day(f.Since)
	}
	if !f.Until.IsZero() {
		s.args["until_id"] = firstID(f.Until)
	}
	return s
}

// start is where the filter's first page begins.
func (f Filter) start() place {
	p := place{day: farDay, position: math.MaxInt64, id: farID}
	if !f.Until.IsZero() {
		p.day = day(f.Until)
		if f.ResourceID == "" || f.EventID != "" {
			p.id = firstID(f.Until)
		}
	}
	return p
}

// filled puts the conditions in the statement's place for them.
func filled(sql string, conditions []string) string {
	if len(conditions) == 0 {
		return sql
	}
	return strings.Replace(sql, "/* filter */ true", strings.Join(conditions, " and "), 1)
}

func without(conditions []string, unwanted ...string) []string {
	var kept []string
	for _, condition := range conditions {
		keep := true
		for _, u := range unwanted {
			keep = keep && condition != u
		}
		if keep {
			kept = append(kept, condition)
		}
	}
	return kept
}

func day(at time.Time) time.Time {
	year, month, day := at.UTC().Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// arguments are those of one step of a source.
func (src source) arguments(from place, limit int) pgx.NamedArgs {
	args := maps.Clone(src.args)
	if !src.since.IsZero() {
		args["from_day"] = src.since
		if src.noDay {
			args["from_id"] = firstID(src.since)
		}
	}
	args["before_day"], args["before_id"], args["limit"] = from.day, from.id, limit
	args["scan"], args["before_position"] = src.scan, from.position
	return args
}

// found is what one step of a source found.
type found struct {
	keys []place
	// last is the last key looked at. end says that there is nothing behind it; bound that the step ended because it had looked at enough.
	last       place
	end, bound bool
}

// step finds at most limit keys behind from.
func (s *Service) step(ctx context.Context, src source, from place, limit int) (found, error) {
	rows, err := s.DB.Query(ctx, src.sql, src.arguments(from, limit))
	if err != nil {
		return found{}, fmt.Errorf("find deliveries by %s: %w", src.name, err)
	}
	out := found{last: from}
	n := 0
	var key place
	var edge, matches bool
	into := []any{&key.id, &key.day, &key.position, &edge, &matches}
	if src.noDay {
		into = []any{&key.id, &edge, &matches}
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		n++
		if src.noDay {
			made, err := id.Day(key.id)
			if err != nil {
				return err
			}
			key.day = made
		}
		out.bound = out.bound || edge
		if matches && (len(out.keys) == 0 || out.keys[len(out.keys)-1].id != key.id) {
			out.keys = append(out.keys, key)
		}
		out.last = key
		if edge && !matches && src.byPosition {
			out.last.id = beforeAll
		}
		return nil
	})
	if err != nil {
		return found{}, fmt.Errorf("find deliveries by %s: %w", src.name, err)
	}
	out.end = n < limit && !out.bound // some statements return more than limit: the ties of the last
	return out, nil
}

// beforeAll sorts before every id: behind it, in a descending list, comes nothing of the same position.
const beforeAll = "-"

// read reads the rows of keys, in their order, leaving out those that do not meet the source's remaining conditions.
func (s *Service) read(ctx context.Context, src source, tenant string, keys []place) ([]Delivery, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	sql := sqlRows
	if src.rest != "" {
		sql = filled(sqlRows, []string{src.rest})
	}
	rows, err := s.DB.Query(ctx, sql, src.rowArguments(tenant, keys))
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	deliveries, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (Delivery, error) { return row(from, s.Policies) })
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return deliveries, nil
}

// rowArguments are those of statement DeliveryRows for the keys.
func (src source) rowArguments(tenant string, keys []place) pgx.NamedArgs {
	args := pgx.NamedArgs{}
	maps.Copy(args, src.rows)
	ids, days := make([]string, len(keys)), make([]time.Time, len(keys))
	for i, key := range keys {
		ids[i], days[i] = key.id, key.day
	}
	args["tenant"], args["ids"], args["days"] = tenant, ids, days
	args["first_day"], args["last_day"] = earliest(days), latest(days)
	return args
}

func earliest(days []time.Time) time.Time { return slices.MinFunc(days, time.Time.Compare) }
func latest(days []time.Time) time.Time   { return slices.MaxFunc(days, time.Time.Compare) }
