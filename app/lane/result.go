package lane

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/id"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlResultMove = queries.SQL("ResultMove")
	sqlResultSeen = queries.SQL("ResultSeen")
	sqlParkedAdd  = queries.SQL("ParkedAdd")
	sqlDueDone    = queries.SQL("DueDone")
	sqlDueRetry   = queries.SQL("DueRetry")
	sqlParkedDrop = queries.SQL("ParkedDrop")
	sqlPartitions = queries.SQL("PartitionsMake")
)

// result is one attempt on its way into the history.
type result struct {
	lane      *lane // nil when the sweeper records what a dead process left
	item      item
	target    *target
	attemptID string
	started   time.Time
	headers   []sender.Header // as sent, ours first; own of them are ours
	own       int
	out       sender.Outcome
	verdict   verdict
	worker    string
	to        place // where it stands, once its delivery has moved
	bodySize  int
	bare      bool // record it without what the receiver chose: the database has refused that
	ailing    bool // its endpoint was known to fail when it was answered
	failures  int  // its lane had seen so many
	// restraint is how its endpoint is sent to from now on, where the result has been held against its health.
	restraint *restraint
}

// noteExpunged stands beside an answer whose body is not stored, because its event's content was taken out while it was on the wire.
const noteExpunged = "taken out with the event's content"

const (
	flushMost   = 200
	flushLinger = 10 * time.Millisecond
)

// flush records a batch of results and acts on them, in one transaction, and does not return before that has succeeded or ctx has ended: until
// then their deliveries stay handed out, and nothing is shown as done.
func (e *Engine) flush(ctx context.Context, batch []*result) error {
	for len(batch) > 0 {
		once, rest := apart(batch)
		if err := e.flushOnce(ctx, once); err != nil {
			return err
		}
		batch = rest
	}
	return nil
}

// apart splits off the results of deliveries that have an earlier result in the batch: the late one of a lost lane may meet its successor's.
func apart(batch []*result) (once, rest []*result) {
	seen := make(map[string]bool, len(batch))
	once = batch[:0:0]
	for _, r := range batch {
		if seen[r.item.DeliveryID] {
			rest = append(rest, r)
			continue
		}
		seen[r.item.DeliveryID] = true
		once = append(once, r)
	}
	return once, rest
}

func (e *Engine) flushOnce(ctx context.Context, batch []*result) error {
	again, parents := false, false
	wait := 20 * time.Millisecond
	for {
		begun := e.Now()
		err := db.Tx(ctx, e.flushPool, func(tx pgx.Tx) error { return e.record(ctx, tx, batch, again, parents) })
		switch {
		case err == nil:
			e.metrics.flushed(batch)
			e.say(ctx, batch, e.Now().Sub(begun))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case db.NoPartition(err):
			parents = again // it is missing still: the days of these deliveries are gone for good
			if _, err := e.flushPool.Exec(ctx, sqlPartitions, partitionsAhead); err != nil {
				e.Logger.Error("cannot make the missing partition", "error", err)
			}
		case badData(err) && len(batch) > 1:
			// One of them holds something the database will not take. Each for itself, so that it alone pays.
			for _, r := range batch {
				if err := e.flushOnce(ctx, []*result{r}); err != nil {
					return err
				}
			}
			return nil
		case badData(err) && !batch[0].bare:
			e.Logger.Error("an attempt's evidence cannot be stored; it is recorded without", "delivery_id", batch[0].item.DeliveryID, "code", db.Code(err))
			batch[0].bare = true
		default:
			e.Logger.Warn("results wait for the database", "results", len(batch), "error", err)
		}
		// The commit may have succeeded although its answer was lost: from now on what is already there is left out.
		again = true
		select {
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// partitionsAhead is how many days of partitions are kept ready.
const partitionsAhead = 8

// badData: SQLSTATE classes 22 (data) and 23 (constraints) are about the rows, not about the server.
func badData(err error) bool {
	code := db.Code(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}

// record writes results inside tx: it moves the deliveries, which numbers the attempts, stores the attempts by COPY, and settles what is due.
// again leaves out attempts that are already there. parents addresses the tables instead of their partitions.
func (e *Engine) record(ctx context.Context, tx pgx.Tx, batch []*result, again, parents bool) error {
	fresh := batch
	if again {
		var err error
		if fresh, err = unseen(ctx, tx, batch); err != nil {
			return err
		}
	}
	byDay := map[time.Time]*moves{}
	byID := make(map[string]*result, len(fresh))
	for _, r := range fresh {
		byID[r.item.DeliveryID] = r
		m := byDay[r.item.Day]
		if m == nil {
			m = &moves{}
			byDay[r.item.Day] = m
		}
		m.add(r)
	}
	moved := map[time.Time][]*result{} // by the day of the attempt
	var parked parkings
	var rolled []Rolled
	var ended []*result
	watched := watched(fresh)
	b := &pgx.Batch{}
	watched.queueLook(b) // lanes are locked before deliveries
	for day, m := range byDay {
		of := day
		if parents {
			of = time.Time{}
		}
		b.Queue(queries.ForDay(sqlResultMove, of), m.args()...).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var deliveryID, status string
				var test, expunged bool
				var to place
				if err := rows.Scan(&deliveryID, &to.tenantID, &to.endpointID, &to.number, &status, &test, &expunged); err != nil {
					return err
				}
				r := byID[deliveryID]
				r.to = to
				if expunged && len(r.out.Body) > 0 {
					r.out.Body, r.out.BodyNote = nil, noteExpunged // before it is stored, or told of
				}
				moved[r.day()] = append(moved[r.day()], r)
				rolled = append(rolled, Rolled{TenantID: to.tenantID, EndpointID: to.endpointID, Started: r.started, Class: sender.Class(r.class()), Code: r.out.Status,
					Total: r.out.Total, Test: test})
				if r.verdict.action == actionExhausted && status == "undelivered" && !test {
					parked.add(r)
					ended = append(ended, r)
				}
			}
			return rows.Err()
		})
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	for day, of := range moved {
		table := pgx.Identifier{queries.ForDay("attempts_{day}", day)}
		if parents {
			table = pgx.Identifier{"attempts"}
		}
		if _, err := tx.CopyFrom(ctx, table, attemptColumns, pgx.CopyFromSlice(len(of), func(i int) ([]any, error) { return attemptRow(of[i]), nil })); err != nil {
			return err
		}
	}
	if err := settle(ctx, tx, batch, &parked, rolled); err != nil {
		return err
	}
	news, err := e.treat(ctx, tx, watched)
	if err != nil {
		return err
	}
	return e.tell(ctx, tx, append(news, exhausted(ended)...))
}

// unseen is the part of batch whose attempts are not in the history.
func unseen(ctx context.Context, tx pgx.Tx, batch []*result) ([]*result, error) {
	var ids, deliveries []string
	var days []time.Time
	for _, r := range batch {
		ids, deliveries, days = append(ids, r.attemptID), append(deliveries, r.item.DeliveryID), append(days, r.day())
	}
	rows, err := tx.Query(ctx, sqlResultSeen, ids, deliveries, days)
	if err != nil {
		return nil, err
	}
	seen, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(seen) == 0 {
		return batch, err
	}
	return slices.DeleteFunc(slices.Clone(batch), func(r *result) bool { return slices.Contains(seen, r.attemptID) }), nil
}

// settle removes from table due what is done, sets the next time of the rest, and counts what was recorded for the charts.
func settle(ctx context.Context, tx pgx.Tx, batch []*result, parked *parkings, rolled []Rolled) error {
	var done, dropped []string
	var retry retries
	for _, r := range batch {
		if r.verdict.keepsDue {
			retry.add(r)
		} else {
			done = append(done, r.item.DeliveryID)
		}
		if r.verdict.action == actionDone {
			dropped = append(dropped, r.item.DeliveryID)
		}
	}
	b := &pgx.Batch{}
	if len(done) > 0 {
		slices.Sort(done)
		b.Queue(sqlDueDone, done)
	}
	if len(retry.ids) > 0 {
		b.Queue(sqlDueRetry, retry.ids, retry.expected, retry.failures, retry.waits, retry.unknowns, retry.triggers)
	}
	if len(parked.ids) > 0 {
		b.Queue(sqlParkedAdd, parked.ids, parked.days, parked.tenants, parked.endpoints, parked.reasons)
	}
	if len(dropped) > 0 {
		b.Queue(sqlParkedDrop, dropped)
	}
	Rollup(b, rolled)
	return tx.SendBatch(ctx, b).Close()
}

// place is what the delivery's row says of an attempt.
type place struct {
	tenantID, endpointID string
	number               int32
}

// moves are the arrays of statement ResultMove.
type moves struct {
	delivery []string
	day      []time.Time
	action   []string
	failures []int32
	reason   []*string
	started  []time.Time
	class    []string
	code     []*int32
	ms       []int32
}

func (m *moves) add(r *result) {
	m.delivery, m.day, m.action = append(m.delivery, r.item.DeliveryID), append(m.day, r.item.Day), append(m.action, r.verdict.action)
	m.failures, m.reason = append(m.failures, int32(r.verdict.failures)), append(m.reason, text(r.verdict.reason))
	m.started, m.class, m.code = append(m.started, r.started), append(m.class, r.class()), append(m.code, number(r.out.Status))
	m.ms = append(m.ms, int32(min(r.out.Total.Milliseconds(), 1<<31-1)))
}

func (m *moves) args() []any {
	return []any{m.delivery, m.day, m.action, m.failures, m.reason, m.started, m.class, m.code, m.ms}
}

// day is the partition of the attempt: the day of its id.
func (r *result) day() time.Time {
	if day, err := id.Day(r.attemptID); err == nil {
		return day
	}
	return r.started.UTC().Truncate(24 * time.Hour)
}

// class is the word that is stored: a call that we cut off ourselves has an outcome that nobody knows.
func (r *result) class() string {
	if r.out.Class == sender.Canceled {
		return classUnknown
	}
	return string(r.out.Class)
}

// parkings are the arrays of statement ParkedAdd.
type parkings struct {
	ids, tenants, endpoints, reasons []string
	days                             []time.Time
}

func (p *parkings) add(r *result) {
	p.ids, p.days = append(p.ids, r.item.DeliveryID), append(p.days, r.item.Day)
	p.tenants, p.endpoints, p.reasons = append(p.tenants, r.to.tenantID), append(p.endpoints, r.to.endpointID), append(p.reasons, r.verdict.reason)
}

type retries struct {
	ids, triggers      []string
	expected, failures []int32
	unknowns           []int16
	waits              []*time.Duration
}

func (t *retries) add(r *result) {
	t.ids, t.triggers = append(t.ids, r.item.DeliveryID), append(t.triggers, r.verdict.trigger)
	t.expected, t.failures = append(t.expected, int32(r.item.Failures)), append(t.failures, int32(r.verdict.failures))
	t.unknowns, t.waits = append(t.unknowns, int16(r.verdict.unknowns)), append(t.waits, r.verdict.wait)
}

// attemptColumns are the columns of attempts in the order of attemptRow.
var attemptColumns = []string{"id", "day", "tenant_id", "endpoint_id", "delivery_id", "number", "trigger", "requested_by", "started_at", "class",
	"cause", "detail", "code", "url", "request_headers", "header_set_id", "body_size", "response_headers", "response_body", "response_size",
	"response_note", "proto", "remote", "tls", "connect_us", "tls_us", "wait_us", "read_us", "total_us", "worker_id"}

func attemptRow(r *result) []any {
	out := &r.out
	url, headerSet := "", (*string)(nil)
	if r.target != nil {
		url, headerSet = r.target.url, r.target.headerSetID
	}
	size := len(r.item.Body)
	if r.bodySize > 0 {
		size = r.bodySize
	}
	var heads, session *string
	var body []byte
	var seen *int64
	if out.Status != 0 && !r.bare {
		heads, body, seen = text(pairs(out.Header)), out.Body, &out.BodySize
		if body == nil {
			body = []byte{}
		}
	}
	if out.TLS != nil && !r.bare {
		if j, err := json.Marshal(out.TLS); err == nil {
			session = text(string(j))
		}
	}
	return []any{r.attemptID, r.day(), r.to.tenantID, r.to.endpointID, r.item.DeliveryID, r.to.number, r.item.Trigger, r.item.RequestedBy, r.started,
		r.class(), text(out.Cause()), text(out.Err), number(out.Status), clean(url), clean(pairs(r.headers[:r.own])), headerSet, int32(size),
		heads, body, seen, text(out.BodyNote), text(out.Proto), text(out.RemoteAddr), session,
		micros(out.Connect), micros(out.TLSTime), micros(out.Wait), micros(out.Read), micros(out.Total), r.worker}
}

// pairs is headers as JSON [[name, value], …], in the order of the wire.
func pairs(headers []sender.Header) string {
	list := make([][2]string, len(headers))
	for i, h := range headers {
		list[i] = [2]string{h.Name, h.Value}
	}
	j, err := json.Marshal(list)
	if err != nil {
		return "[]"
	}
	return string(j)
}

// clean makes a text storable whatever bytes a receiver chose: no NUL, valid UTF-8.
func clean(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	s = clean(s)
	return &s
}

func number(n int) *int32 {
	if n == 0 {
		return nil
	}
	v := int32(n)
	return &v
}

func micros(d time.Duration) *int32 {
	if d <= 0 {
		return nil
	}
	v := int32(min(d.Microseconds(), 1<<31-1))
	return &v
}
