package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/receive"
	"waybill/app/signing"
	"waybill/db"
)

// Seller is a tenant's order system: the receiver of the first seed after its fixes, on the receiver kit. A call is
// verified, put into the inbox and answered; a worker behind it applies the event if it is newer than what the seller
// knows. It keeps its state in a schema of its own and knows of Waybill only what a receiver knows: its URL's path and
// its signing secrets.
type Seller struct {
	UID, Name string
	schema    string
	pool      *pgxpool.Pool
	ledger    *ledger
	logger    *slog.Logger

	door   *door
	worker *receive.Worker[pgx.Tx]
	keys   atomic.Pointer[[]signing.Key]
	// first is closed when the first event is in the inbox.
	first     chan struct{}
	firstOnce sync.Once
	firstAt   time.Time
	account   *account // set by enrol

	mu    sync.Mutex
	stale map[string]bool // results of the handler, until the worker reports them as committed
}

// openSeller makes the seller's schema unless it is there. Its door is still shut.
func openSeller(ctx context.Context, url, uid, name, schema string, books *ledger, logger *slog.Logger) (*Seller, error) {
	pool, err := db.Open(ctx, url, db.Options{AppName: "waybill demo: " + schema, MaxConns: 6, Params: map[string]string{"search_path": schema}})
	if err != nil {
		return nil, err
	}
	s := &Seller{UID: uid, Name: name, schema: schema, pool: pool, ledger: books, logger: logger, first: make(chan struct{}), stale: map[string]bool{}}
	if err := s.migrate(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	s.keys.Store(&[]signing.Key{})
	inbox := receive.NewPostgres(pool, schema)
	s.worker = &receive.Worker[pgx.Tx]{Queue: inbox, Handle: s.handle, Report: s.report}
	s.door = newDoor(&receive.Receiver{
		Keys:   func() []signing.Key { return *s.keys.Load() },
		Inbox:  inbox,
		Stored: s.worker.Wake,
		Log:    s.arrived,
	})
	return s, nil
}

func (s *Seller) migrate(ctx context.Context) error {
	if err := receive.Migrate(ctx, s.pool, s.schema); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, `
create table if not exists `+s.table("consignment")+` (
    id         text primary key,
    status     text not null,
    goods      text not null,
    version    bigint not null,
    updated_at timestamptz not null default now()
)`)
	if err != nil {
		return fmt.Errorf("make the tables of %s: %w", s.schema, err)
	}
	return nil
}

func (s *Seller) table(name string) string { return pgx.Identifier{s.schema, name}.Sanitize() }

// open starts answering at addr; its port may be 0.
func (s *Seller) open(addr netip.AddrPort) error { return s.door.open(addr) }

// close stops answering, and lets go of the database.
func (s *Seller) close() {
	s.door.close()
	s.pool.Close()
}

// arrived is told of every request before it is answered.
func (s *Seller) arrived(ctx context.Context, a receive.Arrival) {
	s.ledger.arrived(s.UID, a)
	switch a.Outcome {
	case receive.Stored:
		s.firstOnce.Do(func() {
			s.firstAt = time.Now()
			close(s.first)
		})
	case receive.Refused:
		if s.account != nil && a.Status == http.StatusUnauthorized {
			go s.lookForKeys(context.WithoutCancel(ctx))
		}
	case receive.Failed:
		if errors.Is(a.Err, context.Canceled) {
			return // the door was shut with this request in hand; whether it was stored, the next one learns
		}
		s.logger.WarnContext(ctx, "a seller could not store an event", "seller", s.UID, "error", a.Err)
	}
}

// handle applies one event to the seller's own consignments.
func (s *Seller) handle(ctx context.Context, tx pgx.Tx, m receive.Message) error {
	e, err := m.Event()
	if err != nil || e.Test || e.Resource.Type != "consignment" {
		return err
	}
	var data struct {
		Status string `json:"status"`
		Goods  string `json:"goods"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return err
	}
	applied, err := receive.ApplyIfNewer(ctx, tx, receive.State{
		Table: pgx.Identifier{s.schema, "consignment"}, Key: "id", ID: e.Resource.ID, Version: e.Sequence,
		Set: map[string]any{"status": data.Status, "goods": data.Goods, "updated_at": time.Now()},
	})
	if err == nil {
		s.mu.Lock()
		s.stale[m.ID] = !applied
		s.mu.Unlock()
	}
	return err
}

// report counts what the worker has committed.
func (s *Seller) report(ctx context.Context, w receive.Work, err error) {
	s.mu.Lock()
	stale, known := s.stale[w.Message.ID]
	delete(s.stale, w.Message.ID)
	s.mu.Unlock()
	switch {
	case err != nil || w.Failure != nil:
		s.logger.WarnContext(ctx, "a seller could not work on an event", "seller", s.UID, "error", err, "failure", w.Failure)
	case known:
		s.ledger.worked(s.UID, !stale)
	}
}

// status is what the seller knows of a consignment; version 0: nothing.
func (s *Seller) status(ctx context.Context, consignment string) (status string, version int64, err error) {
	err = s.pool.QueryRow(ctx, `select coalesce(max(status), ''), coalesce(max(version), 0) from `+s.table("consignment")+` where id = $1`, consignment).
		Scan(&status, &version)
	if err != nil {
		return "", 0, fmt.Errorf("read a consignment of %s: %w", s.schema, err)
	}
	return status, version, nil
}

// missing counts the platform's committed movements from one time to another that are not in the seller's inbox.
func (s *Seller) missing(ctx context.Context, from, to time.Time) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, `
select count(*)
from freight.movement m
where m.seller = $1
  and m.at >= $2
  and m.at < $3
  and not exists (select from `+s.table("inbox")+` i where i.event_id = m.event_id)`, s.UID, from, to).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("compare movements with the inbox of %s: %w", s.schema, err)
	}
	return n, nil
}
