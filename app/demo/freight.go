package demo

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/db"
)

//go:embed freight.sql
var freightSQL string

// Statuses are what a consignment goes through, in order; its version at each is one more than the index (first seed: the
// delivered event is version 4).
var Statuses = []string{"booked", "loaded", "in_transit", "delivered"}

// Consignment is one load of goods on one truck. Version 0 is one that is not booked yet.
type Consignment struct {
	ID, Seller                        string
	Goods, Origin, Destination, Truck string
	Status                            string
	Version                           int64
}

// Movement is a committed change of a consignment's status, with the id of the event that was published with it.
type Movement struct {
	EventID     string
	Consignment Consignment // as it is after the change
}

// errTurnedBack is why a move is rolled back on purpose.
var errTurnedBack = errors.New("the move was turned back")

// Platform is the freight-booking platform of the first seed. It changes a consignment's row and calls waybill.publish in
// the same transaction, as a role that may do that and nothing else in Waybill's schema, and knows no other part of
// Waybill. Some of its moves are rolled back after they have published: nobody must ever hear of those. It is safe for
// concurrent use.
type Platform struct {
	pool   *pgxpool.Pool
	ledger *ledger
	logger *slog.Logger

	mu     sync.Mutex
	random *rand.Rand
	fleets map[string]*fleet // by seller
}

// fleet is a seller's consignments under way that nobody is moving just now.
type fleet struct {
	underWay []Consignment
	lost     bool // a commit's answer was lost: the rows say what is so

	moving sync.Mutex // held by Run while it moves, and guards paused
	paused bool
}

// underWay is how many consignments of a seller are on their way in ordinary times.
const underWay = 25

// turnedBackIn is how many moves there are to one that is rolled back.
const turnedBackIn = 12

// freightRole is the role that the platform works as.
const freightRole = "waybill_demo_freight"

// openPlatform makes the platform's schema and role unless they are there, and connects as that role. admin is a pool of the database's owner.
func openPlatform(ctx context.Context, admin *pgxpool.Pool, url string, books *ledger, logger *slog.Logger, sellers ...string) (*Platform, error) {
	err := pgx.BeginFunc(ctx, admin, func(tx pgx.Tx) error {
		// Without the lock two "create … if not exists" can meet in the catalog and one fails.
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('waybill demo freight', 0))`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, freightSQL)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make the freight platform's schema: %w", err)
	}
	p := &Platform{ledger: books, logger: logger, random: rand.New(rand.NewPCG(4471, uint64(time.Now().UnixNano()))), fleets: map[string]*fleet{}}
	opts := db.Options{AppName: "waybill demo: freight platform", MaxConns: 4, Params: map[string]string{"search_path": "freight"}}
	if err := makeRole(ctx, admin); err != nil {
		// A real server's account may not make roles. The demo works without; only this wall is missing.
		logger.WarnContext(ctx, "cannot make a role for the freight platform; it publishes as the database's owner", "error", err)
	} else {
		opts.Params["role"] = freightRole
	}
	if p.pool, err = db.Open(ctx, url, opts); err != nil {
		return nil, err
	}
	for _, seller := range sellers {
		p.fleets[seller] = &fleet{}
		if err := p.reload(ctx, seller); err != nil {
			p.pool.Close()
			return nil, err
		}
	}
	return p, nil
}

// makeRole makes freightRole and lets it change freight's tables. Publishing needs no grant: see db/migrations/0002_publish.sql.
func makeRole(ctx context.Context, admin *pgxpool.Pool) error {
	_, err := admin.Exec(ctx, `
do $$
begin
    if not exists (select from pg_roles where rolname = '`+freightRole+`') then
        begin
            create role `+freightRole+` nologin;
        exception
            when duplicate_object or unique_violation then null; -- another program's demo was faster
        end;
    end if;
    if not (select rolsuper from pg_roles where rolname = current_user) then
        execute 'grant `+freightRole+` to ' || quote_ident(current_user);
    end if;
    grant usage on schema freight to `+freightRole+`;
    grant select, insert, update on all tables in schema freight to `+freightRole+`;
    grant usage on all sequences in schema freight to `+freightRole+`;
end
$$`)
	return err
}

func (p *Platform) close() { p.pool.Close() }

const consignmentColumns = `id, seller, goods, origin, destination, truck, status, version`

func scanConsignment(row pgx.CollectableRow) (c Consignment, err error) {
	err = row.Scan(&c.ID, &c.Seller, &c.Goods, &c.Origin, &c.Destination, &c.Truck, &c.Status, &c.Version)
	return c, err
}

// reload reads what of a seller's is under way.
func (p *Platform) reload(ctx context.Context, seller string) error {
	rows, err := p.pool.Query(ctx, `
select `+consignmentColumns+`
from freight.consignment
where seller = $1
  and status <> 'delivered'
order by id
limit 200`, seller)
	if err != nil {
		return fmt.Errorf("read consignments: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanConsignment)
	if err != nil {
		return fmt.Errorf("read consignments: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fleets[seller].underWay, p.fleets[seller].lost = found, false
	return nil
}

// Book makes a consignment of a seller and publishes that it is booked.
func (p *Platform) Book(ctx context.Context, seller string) (Movement, error) {
	return p.advance(ctx, p.draft(seller), false)
}

// Advance moves c to its next status.
func (p *Platform) Advance(ctx context.Context, c Consignment) (Movement, error) {
	return p.advance(ctx, c, false)
}

// Keep hands a consignment over to those that Move moves.
func (p *Platform) Keep(c Consignment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(c)
}

func (p *Platform) keep(c Consignment) {
	if f := p.fleets[c.Seller]; c.Version > 0 && c.Version < int64(len(Statuses)) {
		f.underWay = append(f.underWay, c)
	}
}

// Move books a consignment of the seller or moves one by a status, at random. Now and then it publishes and then rolls
// back; then the Movement is the zero one. It says nothing of what failed but that.
func (p *Platform) Move(ctx context.Context, seller string) (Movement, error) {
	p.mu.Lock()
	lost := p.fleets[seller].lost
	p.mu.Unlock()
	if lost {
		if err := p.reload(ctx, seller); err != nil {
			return Movement{}, err
		}
	}
	c, turnBack := p.pick(seller)
	m, err := p.advance(ctx, c, turnBack)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, errTurnedBack):
		p.keep(c)
		return Movement{}, nil
	case err != nil:
		p.fleets[seller].lost = true
		return Movement{}, err
	}
	p.keep(m.Consignment)
	return m, nil
}

// pick takes a consignment out of the fleet, or drafts one.
func (p *Platform) pick(seller string) (c Consignment, turnBack bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fleets[seller]
	turnBack = p.random.IntN(turnedBackIn) == 0
	if n := len(f.underWay); n > 0 && p.random.IntN(underWay) < n {
		i := p.random.IntN(n)
		c = f.underWay[i]
		f.underWay[i] = f.underWay[n-1]
		f.underWay = f.underWay[:n-1]
		return c, turnBack
	}
	return p.draftLocked(seller), turnBack
}

func (p *Platform) draft(seller string) Consignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draftLocked(seller)
}

func (p *Platform) draftLocked(seller string) Consignment {
	one := func(of []string) string { return of[p.random.IntN(len(of))] }
	goods := []string{"120 silk sarees", "300 cotton sarees", "80 bridal sarees", "45 bales of yarn", "200 dupattas", "60 rolls of zari"}
	if strings.Contains(seller, "hardware") {
		goods = []string{"2 t of brass hinges", "500 padlocks", "90 boxes of screws", "40 cable drums", "1,200 door handles"}
	}
	towns := []string{"Kanchipuram", "Surat", "Varanasi", "Mumbai", "Chennai", "Hyderabad", "Pune", "Jaipur", "Kolkata", "Aligarh"}
	from := p.random.IntN(len(towns))
	to := (from + 1 + p.random.IntN(len(towns)-1)) % len(towns)
	truck := fmt.Sprintf("%s %02d %c%c %04d", one([]string{"TN", "GJ", "MH", "UP"}), 1+p.random.IntN(60), 'A'+p.random.IntN(26), 'A'+p.random.IntN(26), 1+p.random.IntN(9999))
	return Consignment{Seller: seller, Goods: one(goods), Origin: towns[from], Destination: towns[to], Truck: truck}
}

// advance is the one transaction of the platform: the new status, the event, the ledger's row; all of it or nothing.
func (p *Platform) advance(ctx context.Context, c Consignment, turnBack bool) (Movement, error) {
	if c.Version >= int64(len(Statuses)) {
		return Movement{}, fmt.Errorf("consignment %s is delivered already", c.ID)
	}
	next := c
	next.Status = Statuses[c.Version]
	next.Version++
	var eventID string
	err := db.Tx(ctx, p.pool, func(tx pgx.Tx) error {
		p.ledger.forget(eventID) // of a try that Postgres has undone
		if err := p.store(ctx, tx, &next); err != nil {
			return err
		}
		data, err := json.Marshal(map[string]any{"status": next.Status, "goods": next.Goods, "from": next.Origin, "to": next.Destination, "truck": next.Truck})
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `
select waybill.publish(tenant => $1, type => $2, resource_type => 'consignment', resource_id => $3, data => $4, sequence => $5)`,
			next.Seller, "consignment."+next.Status, next.ID, data, next.Version).Scan(&eventID)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if _, err := tx.Exec(ctx, `
insert into freight.movement (event_id, consignment, seller, status, version)
values ($1, $2, $3, $4, $5)`, eventID, next.ID, next.Seller, next.Status, next.Version); err != nil {
			return err
		}
		if turnBack {
			p.ledger.rolledBack(next.Seller, eventID)
			return errTurnedBack
		}
		p.ledger.committing(next.Seller, eventID, time.Now())
		return nil
	})
	if err != nil {
		if !turnBack {
			p.ledger.forget(eventID)
		}
		return Movement{}, fmt.Errorf("move consignment %s: %w", c.ID, err)
	}
	p.ledger.committed(next.Seller)
	return Movement{EventID: eventID, Consignment: next}, nil
}

// store writes the consignment's row: a new one with the next number, or the old one if it still is at the version before.
func (p *Platform) store(ctx context.Context, tx pgx.Tx, next *Consignment) error {
	if next.Version == 1 {
		return tx.QueryRow(ctx, `
insert into freight.consignment (id, seller, goods, origin, destination, truck, status, version)
values ('C-' || nextval('freight.consignment_number'), $1, $2, $3, $4, $5, $6, 1)
returning id`, next.Seller, next.Goods, next.Origin, next.Destination, next.Truck, next.Status).Scan(&next.ID)
	}
	tag, err := tx.Exec(ctx, `
update freight.consignment
set status = $2, version = $3, changed_at = now()
where id = $1
  and version = $3 - 1`, next.ID, next.Status, next.Version)
	if err == nil && tag.RowsAffected() != 1 {
		return fmt.Errorf("it is not at version %d any more", next.Version-1)
	}
	return err
}

// Pause makes Run move nothing of the seller's until Resume; when it returns, no move is in hand.
func (p *Platform) Pause(seller string) { p.setPaused(seller, true) }

// Resume ends a Pause.
func (p *Platform) Resume(seller string) { p.setPaused(seller, false) }

func (p *Platform) setPaused(seller string, paused bool) {
	f := p.fleets[seller]
	f.moving.Lock()
	defer f.moving.Unlock()
	f.paused = paused
}

// Run moves something of the seller's about every pace until ctx ends.
func (p *Platform) Run(ctx context.Context, seller string, pace time.Duration) {
	for {
		wait := pace/2 + rand.N(pace)
		if err := p.moveUnlessPaused(ctx, seller); err != nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "the freight platform could not move a consignment", "error", err)
			wait += time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (p *Platform) moveUnlessPaused(ctx context.Context, seller string) error {
	f := p.fleets[seller]
	f.moving.Lock()
	defer f.moving.Unlock()
	if f.paused {
		return nil
	}
	_, err := p.Move(ctx, seller)
	return err
}

// clock is the database's time, by which movements are dated.
func (p *Platform) clock(ctx context.Context) (at time.Time, err error) {
	if err = p.pool.QueryRow(ctx, `select clock_timestamp()`).Scan(&at); err != nil {
		return at, fmt.Errorf("ask the database for its time: %w", err)
	}
	return at, nil
}
