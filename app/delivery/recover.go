package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlRecoverEndpoint = queries.SQL("RecoverEndpoint")
	sqlRecoverTargets  = queries.SQL("RecoverTargets")
	sqlRecoverDay      = queries.SQL("RecoverDay")
	sqlRecoverDayRows  = queries.SQL("RecoverDayRows")
	sqlRecoveryInsert  = queries.SQL("RecoveryInsert")
	sqlRecoveryRead    = queries.SQL("RecoveryRead")
	sqlRecoveryCancel  = queries.SQL("RecoveryCancel")
)

// RecoverInput says what of an endpoint is to be caught up on.
type RecoverInput struct {
	Since, Until      time.Time // when the deliveries were made; a zero Until is now
	Statuses          []Status  // Undelivered, Held; none: both
	NewestPerResource bool      // only the delivery with the highest sequence of each resource
	PerSecond         int       // at most so many a second; 0: as fast as the endpoint's limits allow
}

// The bounds of a catch-up.
const (
	MaxRecoverPace = 10_000
	// MaxNewest is how many parked deliveries NewestPerResource chooses from: they are all looked at.
	MaxNewest = 1_000_000
)

// Preview is what a catch-up would send, exactly, as of one moment.
type Preview struct {
	Since, Until time.Time // Since as late as the resend window begins
	Total        int64
	Older        int64 // left out by NewestPerResource
	Bytes        int64 // of all bodies
	Types        []PreviewType
	Days         []PreviewDay

	asOf            time.Time
	fromID, untilID string
	picks           []place // with NewestPerResource, in the order of ids
}

// PreviewType is what a preview has of one event type; the types come by name.
type PreviewType struct {
	Type   string
	N      int64
	Oldest time.Time
	Bytes  int64
}

// PreviewDay is what a preview has of one day (UTC); the days come in order.
type PreviewDay struct {
	Day time.Time
	N   int64
}

// RecoveryTicket is what a job needs to work on a catch-up.
type RecoveryTicket struct {
	ID, TenantID string
	Gen          int64
}

// RecoveryQueue inserts the job of a catch-up inside a transaction.
type RecoveryQueue interface {
	InsertRecovery(ctx context.Context, tx pgx.Tx, ticket RecoveryTicket) error
}

// Recovery is a catch-up that runs or ran.
type Recovery struct {
	ID                string // rcv_…
	EndpointID        string
	Since, Until      time.Time
	Statuses          []Status
	NewestPerResource bool
	PerSecond         int // 0: unlimited
	Total, Older      int64
	State             RecoveryState
	Ending            string // why it ends or ended early: cancelled, endpoint_paused, endpoint_disabled, endpoint_deleted, tenant_suspended
	Moved             int64  // made due so far
	Delivered         int64  // of those: accepted at their first attempt here
	Failed            int64  // of those: refused at it; their schedules go on
	Returned          int64  // of those: held or cancelled before they were attempted
	RequestedBy       string
	CreatedAt         time.Time
	FinishedAt        *time.Time
	Took              time.Duration // so far
}

// RecoveryState is what a catch-up is.
type RecoveryState string

// The states.
const (
	RecoveryRunning   RecoveryState = "running"
	RecoveryDone      RecoveryState = "done"
	RecoveryCancelled RecoveryState = "cancelled"
	RecoveryStopped   RecoveryState = "stopped" // its endpoint stopped sending
)

// Waiting is how many are due and not attempted yet.
func (r Recovery) Waiting() int64 { return max(0, r.Moved-r.Delivered-r.Failed-r.Returned) }

// Skipped is how many it will not send because they were delivered, resent or cancelled meanwhile: known once it is done.
func (r Recovery) Skipped() int64 {
	if r.State != RecoveryDone {
		return 0
	}
	return max(0, r.Total-r.Moved)
}

// Left is how many are still parked, as far as it knows.
func (r Recovery) Left() int64 {
	if r.State == RecoveryDone {
		return 0
	}
	return max(0, r.Total-r.Moved)
}

// Preview counts what Recover would send of an endpoint of the caller's tenant. It changes nothing and works for an endpoint that is off as well. It
// needs deliveries:read.
func (s *Service) Preview(ctx context.Context, caller account.Caller, endpointID string, in RecoverInput) (Preview, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Preview{}, err
	}
	shown, _, err := s.preview(ctx, caller.Tenant(), endpointID, in)
	return shown, err
}

// Recover sends what is parked of an endpoint of the caller's tenant, as a job: the deliveries that Preview would count now. Nothing that is
// parked later, or delivered meanwhile, is sent. It needs deliveries:resend and is recorded. It is a Conflict, with the reason,
// while the endpoint does not send and while another catch-up of it runs.
func (s *Service) Recover(ctx context.Context, caller account.Caller, endpointID string, in RecoverInput) (Recovery, error) {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return Recovery{}, err
	}
	shown, found, err := s.preview(ctx, caller.Tenant(), endpointID, in)
	if err != nil {
		return Recovery{}, err
	}
	if err := found.refusal(); err != nil {
		return Recovery{}, err
	}
	ticket := RecoveryTicket{ID: id.New(id.Recovery, shown.asOf), TenantID: caller.Tenant(), Gen: 1}
	err = db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if err := s.Lanes.Lock(ctx, tx, endpointID); err != nil {
			return err
		}
		found, err := findRecoverable(ctx, tx, caller.Tenant(), endpointID) // nobody changes it while its lane's row is ours
		if err != nil {
			return err
		}
		if err := found.refusal(); err != nil {
			return err
		}
		return s.begin(ctx, tx, caller, ticket, endpointID, in, shown)
	})
	if db.Constraint(err) == "recoveries_one_at_a_time" {
		return Recovery{}, fault.New(fault.Conflict, "A catch-up of this endpoint is running. Wait until it is done, or stop it first.")
	}
	if err != nil {
		return Recovery{}, err
	}
	return s.recovery(ctx, caller.Tenant(), ticket.ID)
}

// begin stores a catch-up with what it chose, and its job.
func (s *Service) begin(ctx context.Context, tx pgx.Tx, caller account.Caller, ticket RecoveryTicket, endpointID string, in RecoverInput, shown Preview) error {
	var pace *int
	if in.PerSecond > 0 {
		pace = &in.PerSecond
	}
	_, err := tx.Exec(ctx, sqlRecoveryInsert, pgx.NamedArgs{"id": ticket.ID, "tenant": ticket.TenantID, "endpoint": endpointID, "since": shown.Since,
		"until": shown.Until, "as_of": shown.asOf, "from_id": shown.fromID, "until_id": shown.untilID, "statuses": in.statuses(), "newest": in.NewestPerResource,
		"per_second": pace, "total": shown.Total, "older": shown.Older, "by": caller.Actor()})
	if err != nil {
		return fmt.Errorf("insert recovery: %w", err)
	}
	if len(shown.picks) > 0 {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"recovery_picks"}, []string{"recovery_id", "tenant_id", "delivery_id", "day"},
			pgx.CopyFromSlice(len(shown.picks), func(i int) ([]any, error) {
				return []any{ticket.ID, ticket.TenantID, shown.picks[i].id, shown.picks[i].day}, nil
			}))
		if err != nil {
			return fmt.Errorf("insert what a recovery has chosen: %w", err)
		}
	}
	if err := s.Recoveries.InsertRecovery(ctx, tx, ticket); err != nil {
		return err
	}
	return s.Audit.Record(ctx, tx, caller, "recovery.started", ticket.ID, map[string]any{"endpoint_id": endpointID, "since": shown.Since, "until": shown.Until,
		"statuses": in.statuses(), "newest_per_resource": in.NewestPerResource, "count": shown.Total})
}

// RecoverTargets are endpoints of the caller's tenant, or the one named, of which something with one of the statuses (none: any) is parked, at most
// limit, the newest first. It needs deliveries:read.
func (s *Service) RecoverTargets(ctx context.Context, caller account.Caller, endpointID string, statuses []Status, limit int) ([]string, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	if endpointID != "" && !id.Valid(id.Endpoint, endpointID) {
		return nil, errNoEndpoint()
	}
	rows, err := s.DB.Query(ctx, sqlRecoverTargets, pgx.NamedArgs{"tenant": caller.Tenant(), "endpoint": endpointID, "statuses": RecoverInput{Statuses: statuses}.statuses(), "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("find what is parked: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find what is parked: %w", err)
	}
	return ids, nil
}

// recoverable is what decides whether an endpoint can be caught up.
type recoverable struct {
	state, reason string
	suspended     bool
	preset        string
	concurrency   int
	now           time.Time // the database's
}

// refusal says why nothing can be sent to it, or nil.
func (r recoverable) refusal() error {
	switch {
	case r.suspended:
		return fault.New(fault.Conflict, "The account is suspended: nothing is sent. Ask the platform.")
	case r.state == "paused":
		return fault.New(fault.Conflict, "This endpoint is paused: enable it first, a catch-up sends nothing to an endpoint that is off.")
	case r.state == "disabled" && r.reason == "gone":
		return fault.New(fault.Conflict, "This endpoint is disabled because it answered 410 Gone: enable it first, once its server takes events again.")
	case r.state == "disabled" && r.reason == "failing":
		return fault.New(fault.Conflict, "This endpoint is disabled because it failed for too long: enable it first, once its server takes events again.")
	case r.state == "disabled":
		return fault.New(fault.Conflict, "This endpoint is disabled: enable it first, a catch-up sends nothing to an endpoint that is off.")
	}
	return nil
}

func findRecoverable(ctx context.Context, conn db.Conn, tenant, endpointID string) (r recoverable, err error) {
	if !id.Valid(id.Endpoint, endpointID) {
		return r, errNoEndpoint()
	}
	err = conn.QueryRow(ctx, sqlRecoverEndpoint, pgx.NamedArgs{"tenant": tenant, "endpoint": endpointID}).
		Scan(&r.state, &r.reason, &r.suspended, &r.preset, &r.concurrency, &r.now)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, errNoEndpoint()
	}
	if err != nil {
		return r, fmt.Errorf("read the endpoint to recover: %w", err)
	}
	return r, nil
}

func errNoEndpoint() error { return fault.New(fault.NotFound, "There is no such endpoint.") }

func (in RecoverInput) statuses() []string {
	if len(in.Statuses) == 0 {
		return []string{string(Undelivered), string(Held)}
	}
	var all []string
	for _, status := range in.Statuses {
		all = append(all, string(status))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (in RecoverInput) check(now time.Time) error {
	wrong := fault.New(fault.Invalid, "This catch-up cannot be made.")
	for _, status := range in.Statuses {
		if status != Undelivered && status != Held {
			wrong.Field("statuses", "must be some of undelivered, held")
			break
		}
	}
	switch {
	case in.Since.IsZero():
		wrong.Field("since", "is missing")
	case in.Since.Year() < 1970 || in.Since.Year() > 9999:
		wrong.Field("since", "must be a year of 1970 to 9999")
	case !in.Until.IsZero() && !in.Since.Before(in.Until):
		wrong.Field("until", "must be after since")
	case !in.Since.Before(now):
		wrong.Field("since", "must lie in the past")
	}
	if in.PerSecond < 0 || in.PerSecond > MaxRecoverPace {
		wrong.Field("per_second", fmt.Sprintf("must be 1 to %d", MaxRecoverPace))
	}
	return wrong.OrNil()
}

// preview counts day by day, in one snapshot: each statement opens the partitions of one day.
func (s *Service) preview(ctx context.Context, tenant, endpointID string, in RecoverInput) (Preview, recoverable, error) {
	var shown Preview
	var found recoverable
	err := pgx.BeginTxFunc(ctx, s.DB, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var err error
		if found, err = findRecoverable(ctx, tx, tenant, endpointID); err != nil {
			return err
		}
		if err := in.check(found.now); err != nil {
			return err
		}
		shown = s.span(in, found)
		if !shown.Since.Before(shown.Until) {
			return nil
		}
		c := collection{types: map[string]*PreviewType{}, newest: map[[2]string]parkedRow{}}
		if err := s.collect(ctx, tx, tenant, endpointID, in, &shown, &c); err != nil {
			return err
		}
		c.conclude(&shown)
		return nil
	})
	return shown, found, err
}

// span is the time and the ids that a catch-up is about.
func (s *Service) span(in RecoverInput, found recoverable) Preview {
	shown := Preview{Since: in.Since, Until: found.now, asOf: found.now}
	if !in.Until.IsZero() && in.Until.Before(found.now) {
		shown.Until = in.Until
	}
	if oldest := found.now.Add(-s.Policies.First(found.preset).ResendWindow); shown.Since.Before(oldest) {
		shown.Since = oldest
	}
	// A dispatcher's clock may be a little ahead of the database's; as of says what counts.
	end := shown.Until
	if in.Until.IsZero() {
		end = end.Add(time.Minute)
	}
	shown.fromID, shown.untilID = firstID(shown.Since), firstID(end)
	return shown
}

// collection gathers what the days have.
type collection struct {
	types  map[string]*PreviewType
	newest map[[2]string]parkedRow // by resource
	days   map[time.Time]int64
}

// parkedRow is one parked delivery, as the newest of its resource is chosen.
type parkedRow struct {
	id, kind           string
	day                time.Time
	sequence, position int64
	bytes              int64
}

func (c *collection) add(kind string, n int64, oldest string, bytes int64) {
	t := c.types[kind]
	if t == nil {
		t = &PreviewType{Type: kind}
		c.types[kind] = t
	}
	made, _ := id.Time(oldest) // ours: it holds its time
	if t.Oldest.IsZero() || made.Before(t.Oldest) {
		t.Oldest = made
	}
	t.N += n
	t.Bytes += bytes
}

func (s *Service) collect(ctx context.Context, tx pgx.Tx, tenant, endpointID string, in RecoverInput, shown *Preview, c *collection) error {
	c.days = map[time.Time]int64{}
	first, last := shown.Since.UTC().Truncate(24*time.Hour), shown.Until.UTC().Truncate(24*time.Hour)
	b := &pgx.Batch{}
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		args := pgx.NamedArgs{"tenant": tenant, "endpoint": endpointID, "statuses": in.statuses(), "day": day, "as_of": shown.asOf,
			"from_id": max(shown.fromID, firstID(day)), "until_id": min(shown.untilID, firstID(day.AddDate(0, 0, 1)))}
		if in.NewestPerResource {
			b.Queue(sqlRecoverDayRows, args).Query(func(rows pgx.Rows) error { return c.rows(rows, day, shown) })
			continue
		}
		b.Queue(sqlRecoverDay, args).Query(func(rows pgx.Rows) error {
			var kind, oldest string
			var n, bytes int64
			_, err := pgx.ForEachRow(rows, []any{&kind, &n, &oldest, &bytes}, func() error {
				c.add(kind, n, oldest, bytes)
				c.days[day] += n
				return nil
			})
			return err
		})
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		if fault.KindOf(err) != fault.Internal {
			return err
		}
		return fmt.Errorf("count what is parked: %w", err)
	}
	return nil
}

// rows keeps the newest of each resource.
func (c *collection) rows(rows pgx.Rows, day time.Time, shown *Preview) error {
	r := parkedRow{day: day}
	var resource [2]string
	_, err := pgx.ForEachRow(rows, []any{&r.id, &r.kind, &resource[0], &resource[1], &r.sequence, &r.position, &r.bytes}, func() error {
		known, ok := c.newest[resource]
		if !ok || cmp.Or(cmp.Compare(r.sequence, known.sequence), cmp.Compare(r.position, known.position)) > 0 {
			c.newest[resource] = r
		}
		if ok {
			shown.Older++
		}
		if int64(len(c.newest))+shown.Older > MaxNewest {
			return fault.Newf(fault.Invalid, "More than %d deliveries are parked: choose a shorter time to send the newest of each resource only.", MaxNewest).
				Field("since", "must be later")
		}
		return nil
	})
	return err
}

func (c *collection) conclude(shown *Preview) {
	for _, r := range c.newest {
		c.add(r.kind, 1, r.id, r.bytes)
		c.days[r.day]++
		shown.picks = append(shown.picks, place{id: r.id, day: r.day})
	}
	slices.SortFunc(shown.picks, func(a, b place) int { return cmp.Compare(a.id, b.id) })
	for _, kind := range slices.Sorted(maps.Keys(c.types)) {
		t := *c.types[kind]
		shown.Types = append(shown.Types, t)
		shown.Total += t.N
		shown.Bytes += t.Bytes
	}
	for _, day := range slices.SortedFunc(maps.Keys(c.days), time.Time.Compare) {
		shown.Days = append(shown.Days, PreviewDay{Day: day, N: c.days[day]})
	}
}

// RecoveryList is a page of at most limit catch-ups of the caller's tenant, or of one endpoint, newest first, and the cursor of the next page or "". It
// needs deliveries:read.
func (s *Service) RecoveryList(ctx context.Context, caller account.Caller, endpointID, after string, limit int) ([]Recovery, string, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, "", err
	}
	before := ""
	if after != "" {
		keys, err := cursor.Decode(cursorOfRecoveries, after, 1)
		if err != nil {
			return nil, "", err
		}
		if !id.Valid(id.Recovery, keys[0]) {
			return nil, "", cursor.ErrForeign()
		}
		before = keys[0]
	}
	if endpointID != "" && !id.Valid(id.Endpoint, endpointID) {
		return nil, "", fault.New(fault.Invalid, "A filter is not valid.").Field("endpoint_id", "must be the id of an endpoint: ep_…")
	}
	found, err := s.recoveries(ctx, pgx.NamedArgs{"tenant": caller.Tenant(), "id": "", "endpoint": endpointID, "before": before, "limit": limit + 1})
	if err != nil || len(found) <= limit {
		return found, "", err
	}
	found = found[:limit]
	return found, cursor.Encode(cursorOfRecoveries, found[limit-1].ID), nil
}

const cursorOfRecoveries = "recoveries"

// Recovery is one catch-up of the caller's tenant. It needs deliveries:read.
func (s *Service) Recovery(ctx context.Context, caller account.Caller, recoveryID string) (Recovery, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Recovery{}, err
	}
	return s.recovery(ctx, caller.Tenant(), recoveryID)
}

func (s *Service) recovery(ctx context.Context, tenant, recoveryID string) (Recovery, error) {
	if !id.Valid(id.Recovery, recoveryID) {
		return Recovery{}, errNoRecovery()
	}
	found, err := s.recoveries(ctx, pgx.NamedArgs{"tenant": tenant, "id": recoveryID, "endpoint": "", "before": "", "limit": 1})
	if err != nil {
		return Recovery{}, err
	}
	if len(found) == 0 {
		return Recovery{}, errNoRecovery()
	}
	return found[0], nil
}

func errNoRecovery() error { return fault.New(fault.NotFound, "There is no such catch-up.") }

func (s *Service) recoveries(ctx context.Context, args pgx.NamedArgs) ([]Recovery, error) {
	rows, err := s.DB.Query(ctx, sqlRecoveryRead, args)
	if err != nil {
		return nil, fmt.Errorf("read recoveries: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Recovery, error) {
		var r Recovery
		var took float64
		err := row.Scan(&r.ID, &r.EndpointID, &r.Since, &r.Until, &r.Statuses, &r.NewestPerResource, &r.PerSecond, &r.Total, &r.Older, &r.State, &r.Ending,
			&r.Moved, &r.Delivered, &r.Failed, &r.Returned, &r.RequestedBy, &r.CreatedAt, &r.FinishedAt, &took)
		r.Took = time.Duration(took * float64(time.Second))
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read recoveries: %w", err)
	}
	return found, nil
}

// RecoveryCancel stops a catch-up of the caller's tenant: nothing more is made due, and what no sender has yet is parked again, within a second. It
// needs deliveries:resend and is recorded. One that has ended, or is ending, is a Conflict.
func (s *Service) RecoveryCancel(ctx context.Context, caller account.Caller, recoveryID string) (Recovery, error) {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return Recovery{}, err
	}
	if _, err := s.recovery(ctx, caller.Tenant(), recoveryID); err != nil {
		return Recovery{}, err
	}
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		var endpointID string
		err := tx.QueryRow(ctx, sqlRecoveryCancel, pgx.NamedArgs{"tenant": caller.Tenant(), "id": recoveryID}).Scan(&endpointID)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Conflict, "This catch-up has ended already, or is about to.")
		}
		if err != nil {
			return fmt.Errorf("cancel recovery: %w", err)
		}
		return s.Audit.Record(ctx, tx, caller, "recovery.cancelled", recoveryID, map[string]any{"endpoint_id": endpointID})
	})
	if err != nil {
		return Recovery{}, err
	}
	return s.recovery(ctx, caller.Tenant(), recoveryID)
}
