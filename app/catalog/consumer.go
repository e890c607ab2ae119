package catalog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/db"
	"waybill/db/queries"
)

// Consumers performs the operations on named consumers: readers whose cursor we keep. All fields are required, and the events' Feed for waiting.
//
// A consumer hands out what is behind its cursor under a lease, to one reader at a time. What was not acknowledged when the lease ends is handed out
// again: at least once, in order. All of it needs catalog:read: a consumer is a bookmark, and changes nothing that it marks.
type Consumers struct {
	Events   *Events
	Accounts *account.Service // records what was done
}

// Consumer is a named reader of a tenant.
type Consumer struct {
	Name       string
	Types      []string   // event types and prefixes; empty: all
	Cursor     string     // everything up to it is acknowledged; empty: nothing is
	LeaseUntil *time.Time // a reader is at work until then at the longest; nil: none is
	AckedAt    *time.Time
	CreatedAt  time.Time
	UpdatedAt  time.Time

	position int64
}

// Place is where a consumer is put. One field is set; none: now.
type Place struct {
	Start  bool   // the oldest event that is kept
	Cursor string // behind a cursor of any list, stream or consumer of the tenant
	Time   time.Time
}

// Handed is what a reader is given.
type Handed struct {
	Events []Followed
	Lease  string    // empty: there was nothing
	Until  time.Time // of the lease
	More   bool      // there may be more at once, after these
}

// Limits of consumers.
const (
	MaxConsumers   = 100 // of a tenant
	MaxHanded      = 1000
	MinLease       = time.Second
	MaxLease       = time.Hour
	MaxWait        = 30 * time.Second
	DefaultLease   = time.Minute
	leaseLookEvery = 500 * time.Millisecond // for one that another reader has
)

var (
	sqlConsumerPut     = queries.SQL("ConsumerPut")
	sqlConsumerRead    = queries.SQL("ConsumerRead")
	sqlConsumerList    = queries.SQL("ConsumerList")
	sqlConsumerDelete  = queries.SQL("ConsumerDelete")
	sqlConsumerLease   = queries.SQL("ConsumerLease")
	sqlConsumerHand    = queries.SQL("ConsumerHand")
	sqlConsumerPass    = queries.SQL("ConsumerPass")
	sqlConsumerRelease = queries.SQL("ConsumerRelease")
	sqlConsumerAck     = queries.SQL("ConsumerAck")
	sqlConsumerSeek    = queries.SQL("ConsumerSeek")
	sqlRangeClose      = queries.SQL("ConsumerRangeClose")
	sqlRangePrune      = queries.SQL("ConsumerRangePrune")
)

// consumerForm is the constraint consumers_name_is_plain.
var consumerForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func errNoConsumer() error { return fault.New(fault.NotFound, "There is no such consumer.") }

// Put creates a consumer at a place, or changes which types an existing one wants; where that stands stays.
func (c *Consumers) Put(ctx context.Context, caller account.Caller, name string, types []string, at Place) (Consumer, error) {
	if _, err := checkList(caller, EventFilter{Types: types}, 0); err != nil {
		return Consumer{}, err
	}
	if !consumerForm.MatchString(name) {
		return Consumer{}, fault.New(fault.Invalid, "This consumer cannot be made.").Field("name", "must be 1 to 64 characters of A-Z a-z 0-9 _ . -")
	}
	text, position, err := c.find(ctx, caller.Tenant(), at)
	if err != nil {
		return Consumer{}, err
	}
	if types == nil {
		types = []string{}
	}
	var stored Consumer
	err = db.Tx(ctx, c.Events.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRangeClose, caller.Tenant(), name, types); err != nil {
			return fmt.Errorf("keep what was acknowledged: %w", err)
		}
		var created bool
		stored, created, err = one(tx.Query(ctx, sqlConsumerPut, caller.Tenant(), name, types, text, position, MaxConsumers))
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.Newf(fault.Conflict, "There are %d consumers, which is the most. Delete one first.", MaxConsumers)
		}
		if err != nil {
			return fmt.Errorf("put consumer: %w", err)
		}
		action := "consumer.changed"
		if created {
			action = "consumer.created"
		}
		return c.Accounts.Record(ctx, tx, caller, action, name, map[string]any{"types": types})
	})
	if err != nil {
		return Consumer{}, err
	}
	return stored, nil
}

func one(rows pgx.Rows, err error) (Consumer, bool, error) {
	if err != nil {
		return Consumer{}, false, err
	}
	var created bool
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Consumer, error) { return scanConsumer(row, &created) })
	return found, created, err
}

func scanConsumer(row pgx.CollectableRow, created *bool) (Consumer, error) {
	var c Consumer
	err := row.Scan(&c.Name, &c.Types, &c.Cursor, &c.position, &c.LeaseUntil, &c.AckedAt, &c.CreatedAt, &c.UpdatedAt, created)
	return c, err
}

// find is the cursor of a place, and its position.
func (c *Consumers) find(ctx context.Context, tenant string, at Place) (string, int64, error) {
	switch {
	case at.Start:
		return "", 0, nil
	case at.Cursor != "":
		found, err := c.Events.placeOf(ctx, tenant, at.Cursor)
		return at.Cursor, found.position, err
	case !at.Time.IsZero():
		page, position, err := c.Events.page(ctx, tenant, EventFilter{Since: at.Time}, "", 1)
		if err != nil {
			return "", 0, err
		}
		if len(page.Events) == 0 && !page.More {
			return page.Next, position, nil
		}
		return c.beforeTime(ctx, tenant, page)
	}
	s := &Stream{events: c.Events, caller: account.Waybill("consumers", tenant)}
	err := s.start(ctx, Start{})
	return s.cursor, s.position, err
}

// beforeTime is the place in front of a page's first event.
func (c *Consumers) beforeTime(ctx context.Context, tenant string, page EventPage) (string, int64, error) {
	if len(page.Events) == 0 {
		return "", 0, nil // so many events had to be passed over: it begins with the oldest
	}
	s := &Stream{events: c.Events, caller: account.Waybill("consumers", tenant)}
	err := s.before(ctx, page.Events[0])
	return s.cursor, s.position, err
}

// Read is one consumer of the caller's tenant.
func (c *Consumers) Read(ctx context.Context, caller account.Caller, name string) (Consumer, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return Consumer{}, err
	}
	if !consumerForm.MatchString(name) {
		return Consumer{}, errNoConsumer()
	}
	found, _, err := one(c.Events.DB.Query(ctx, sqlConsumerRead, caller.Tenant(), name))
	return found, orNoConsumer(err, "read")
}

func orNoConsumer(err error, doing string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoConsumer()
	}
	if err != nil {
		return fmt.Errorf("%s consumer: %w", doing, err)
	}
	return nil
}

const consumerCursor = "consumers"

// List is a page of at most limit consumers of the caller's tenant by name, and the cursor of the next page or "".
func (c *Consumers) List(ctx context.Context, caller account.Caller, after string, limit int) ([]Consumer, string, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return nil, "", err
	}
	from := ""
	if after != "" {
		keys, err := cursor.Decode(consumerCursor, after, 1)
		if err != nil {
			return nil, "", err
		}
		if from = keys[0]; !consumerForm.MatchString(from) {
			return nil, "", cursor.ErrForeign()
		}
	}
	rows, err := c.Events.DB.Query(ctx, sqlConsumerList, caller.Tenant(), from, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list consumers: %w", err)
	}
	var created bool
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Consumer, error) { return scanConsumer(row, &created) })
	if err != nil {
		return nil, "", fmt.Errorf("list consumers: %w", err)
	}
	if len(found) <= limit {
		return found, "", nil
	}
	return found[:limit], cursor.Encode(consumerCursor, found[limit-1].Name), nil
}

// Prune removes what is kept of consumers for longer than any event, and says how many rows that were.
func (c *Consumers) Prune(ctx context.Context) (int, error) {
	tag, err := c.Events.DB.Exec(ctx, sqlRangePrune)
	if err != nil {
		return 0, fmt.Errorf("prune what consumers acknowledged: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// Delete ends a consumer for good. What it has acknowledged stays so.
func (c *Consumers) Delete(ctx context.Context, caller account.Caller, name string) error {
	if err := caller.Can(account.CatalogRead); err != nil {
		return err
	}
	if !consumerForm.MatchString(name) {
		return errNoConsumer()
	}
	return db.Tx(ctx, c.Events.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRangeClose, caller.Tenant(), name, nil); err != nil {
			return fmt.Errorf("keep what was acknowledged: %w", err)
		}
		tag, err := tx.Exec(ctx, sqlConsumerDelete, caller.Tenant(), name)
		switch {
		case err != nil:
			return fmt.Errorf("delete consumer: %w", err)
		case tag.RowsAffected() == 0:
			return errNoConsumer()
		}
		return c.Accounts.Record(ctx, tx, caller, "consumer.deleted", name, nil)
	})
}

// Seek puts a consumer anywhere. A lease that a reader has ends; what that reader acknowledges afterwards is refused, or moves on from the new place.
func (c *Consumers) Seek(ctx context.Context, caller account.Caller, name string, to Place) (Consumer, error) {
	if _, err := c.Read(ctx, caller, name); err != nil {
		return Consumer{}, err
	}
	text, position, err := c.find(ctx, caller.Tenant(), to)
	if err != nil {
		return Consumer{}, err
	}
	var moved Consumer
	err = db.Tx(ctx, c.Events.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRangeClose, caller.Tenant(), name, nil); err != nil {
			return fmt.Errorf("keep what was acknowledged: %w", err)
		}
		moved, _, err = one(tx.Query(ctx, sqlConsumerSeek, caller.Tenant(), name, position, text))
		if err := orNoConsumer(err, "seek"); err != nil {
			return err
		}
		return c.Accounts.Record(ctx, tx, caller, "consumer.sought", name, map[string]any{"to": to.words()})
	})
	if err != nil {
		return Consumer{}, err
	}
	return moved, nil
}

func (p Place) words() string {
	switch {
	case p.Start:
		return "start"
	case p.Cursor != "":
		return "cursor"
	case !p.Time.IsZero():
		return p.Time.UTC().Format(time.RFC3339)
	}
	return "now"
}

// Ack acknowledges everything up to a cursor of what was handed out. An earlier one than what is acknowledged already changes nothing, so that it
// can be sent again.
func (c *Consumers) Ack(ctx context.Context, caller account.Caller, name, upTo string) (Consumer, error) {
	now, err := c.Read(ctx, caller, name)
	if err != nil {
		return Consumer{}, err
	}
	if upTo == "" {
		return Consumer{}, fault.New(fault.Invalid, "Nothing was acknowledged.").Field("cursor", "is missing")
	}
	at, err := c.Events.placeOf(ctx, caller.Tenant(), upTo)
	if err != nil {
		return Consumer{}, err
	}
	err = db.Tx(ctx, c.Events.DB, func(tx pgx.Tx) error {
		moved, _, err := one(tx.Query(ctx, sqlConsumerAck, caller.Tenant(), name, at.position, upTo))
		if err == nil {
			now = moved
		}
		return err
	})
	switch {
	case err == nil:
		return now, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return Consumer{}, fmt.Errorf("acknowledge: %w", err)
	}
	if now, err = c.Read(ctx, caller, name); err != nil {
		return Consumer{}, err
	}
	if at.position > now.position {
		return Consumer{}, fault.New(fault.Invalid, "Nothing was acknowledged.").
			Field("cursor", "lies beyond what was handed out; to pass events over, seek")
	}
	return now, nil
}

func newLease() string {
	random := make([]byte, 12)
	rand.Read(random) // never fails
	return "lse_" + hex.EncodeToString(random)
}

// errHeld says that another reader has the lease.
func errHeld() error {
	return fault.New(fault.LeaseHeld, "Another reader has been handed events of this consumer and has not acknowledged them yet. Try again when its lease is over.")
}

// Next hands out up to limit events (1 to 1,000; 0: 50) behind what is acknowledged, under a lease of that length, and waits so long for some. LeaseHeld:
// another reader has the lease, also after the wait. CursorExpired: the consumer has slept for longer than events are kept.
func (c *Consumers) Next(ctx context.Context, caller account.Caller, name string, limit int, lease, wait time.Duration) (Handed, error) {
	consumer, err := c.Read(ctx, caller, name)
	if err != nil {
		return Handed{}, err
	}
	wrong := fault.New(fault.Invalid, "This cannot be asked of a consumer.")
	if limit == 0 {
		limit = DefaultLimit
	}
	if lease == 0 {
		lease = DefaultLease
	}
	if limit < 0 || limit > MaxHanded {
		wrong.Field("limit", "must be 1 to 1000")
	}
	if lease < MinLease || lease > MaxLease {
		wrong.Field("lease_seconds", "must be 1 to 3600")
	}
	if wait < 0 || wait > MaxWait {
		wrong.Field("wait_seconds", "must be 0 to 30")
	}
	if err := wrong.OrNil(); err != nil {
		return Handed{}, err
	}
	handed, err := c.hand(ctx, caller.Tenant(), name, limit, lease)
	if handed.Lease != "" || wait == 0 || err != nil && fault.KindOf(err) != fault.LeaseHeld {
		return handed, err
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.await(waiting, caller, consumer, limit, lease)
}

// await tries again whenever something may have changed, until ctx ends.
func (c *Consumers) await(ctx context.Context, caller account.Caller, consumer Consumer, limit int, lease time.Duration) (Handed, error) {
	feed := c.Events.Feed
	if feed == nil {
		return Handed{}, nil // nobody here would be told
	}
	follower, err := feed.join(caller.Tenant(), caller.ID)
	if err != nil {
		return Handed{}, err
	}
	defer feed.leave(follower)
	if err := feed.attach(ctx, follower); err != nil {
		return Handed{}, nil // the wait is over, or the process stops: there was nothing
	}
	filter := EventFilter{Types: consumer.Types}
	// Not cancelled by the wait's end: what was leased would be handed to nobody.
	working := context.WithoutCancel(ctx)
	for {
		handed, err := c.hand(working, caller.Tenant(), consumer.Name, limit, lease)
		held := fault.KindOf(err) == fault.LeaseHeld
		if handed.Lease != "" || err != nil && !held {
			return handed, err
		}
		for again := false; !again; {
			pause := MaxWait
			if held {
				pause = leaseLookEvery
			}
			timer := time.NewTimer(pause)
			select {
			case <-follower.wake:
				batch, lost, over := follower.take()
				if over != nil {
					return Handed{}, err
				}
				again = lost
				for _, e := range batch {
					again = again || filter.matches(e.Event)
				}
				if lost {
					if feed.attach(ctx, follower) != nil {
						return Handed{}, err
					}
				}
			case <-timer.C:
				again = true
			case <-ctx.Done():
				timer.Stop()
				return Handed{}, err
			}
			timer.Stop()
		}
	}
}

// hand takes the lease and reads behind the cursor. Without events there is no lease.
func (c *Consumers) hand(ctx context.Context, tenant, name string, limit int, length time.Duration) (Handed, error) {
	handed := Handed{Lease: newLease()}
	var filter EventFilter
	var at string
	err := c.Events.DB.QueryRow(ctx, sqlConsumerLease, tenant, name, handed.Lease, length).Scan(&filter.Types, &at, &handed.Until)
	if errors.Is(err, pgx.ErrNoRows) {
		return Handed{}, errHeld() // or it was deleted a moment ago: the next call says so
	}
	if err != nil {
		return Handed{}, fmt.Errorf("lease a consumer: %w", err)
	}
	for {
		page, position, err := c.Events.page(ctx, tenant, filter, at, limit)
		if err != nil {
			if _, err := c.Events.DB.Exec(context.WithoutCancel(ctx), sqlConsumerRelease, tenant, name, handed.Lease); err != nil {
				return Handed{}, fmt.Errorf("give a lease back: %w", err)
			}
			return Handed{}, err
		}
		if n := len(page.Events); n > 0 {
			handed.More = page.More
			for _, e := range page.Events {
				handed.Events = append(handed.Events, followed(e))
			}
			tag, err := c.Events.DB.Exec(ctx, sqlConsumerHand, tenant, name, handed.Lease, page.Events[n-1].position)
			return c.still(handed, tag.RowsAffected(), err)
		}
		tag, err := c.Events.DB.Exec(ctx, sqlConsumerPass, tenant, name, handed.Lease, page.Next, position, page.More)
		if _, err := c.still(handed, tag.RowsAffected(), err); err != nil {
			return Handed{}, err
		}
		if at = page.Next; !page.More {
			return Handed{}, nil
		}
	}
}

// still checks that the lease was still there when something was noted under it.
func (c *Consumers) still(handed Handed, rows int64, err error) (Handed, error) {
	switch {
	case err != nil:
		return Handed{}, fmt.Errorf("note what is handed out: %w", err)
	case rows == 0:
		return Handed{}, errHeld()
	}
	return handed, nil
}
