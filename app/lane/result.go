package lane

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waybill/app/id"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlRecord     = queries.SQL("ResultRecord")
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
	bodySize  int
	bare      bool // record it without what the receiver chose: the database has refused that
}

const (
	flushMost   = 200
	flushLinger = 5 * time.Millisecond
)

// flush records a batch of results and acts on them, in one transaction, and does not return before that has succeeded or ctx has ended: until
// then their deliveries stay handed out, and nothing is shown as done.
func (e *Engine) flush(ctx context.Context, batch []*result) error {
	again := false
	wait := 20 * time.Millisecond
	for {
		err := db.Tx(ctx, e.flushPool, func(tx pgx.Tx) error { return e.record(ctx, tx, batch, again) })
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case noPartition(err):
			if _, err := e.flushPool.Exec(ctx, sqlPartitions, partitionsAhead); err != nil {
				e.Logger.Error("cannot make the missing partition", "error", err)
			}
		case badData(err) && len(batch) > 1:
			// One of them holds something the database will not take. Each for itself, so that it alone pays.
			for _, r := range batch {
				if err := e.flush(ctx, []*result{r}); err != nil {
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

func noPartition(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23514" && strings.Contains(pg.Message, "no partition of relation")
}

// badData: SQLSTATE classes 22 (data) and 23 (constraints) are about the rows, not about the server.
func badData(err error) bool {
	code := db.Code(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}

// record writes results inside tx. again leaves out attempts that are already there.
func (e *Engine) record(ctx context.Context, tx pgx.Tx, batch []*result, again bool) error {
	byDay := map[time.Time]*columns{}
	var done, dropped []string
	var retry retries
	for _, r := range batch {
		c := byDay[r.item.Day]
		if c == nil {
			c = &columns{}
			byDay[r.item.Day] = c
		}
		c.add(r)
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
	for day, c := range byDay {
		b.Queue(sqlRecord, c.args(day, again)...)
	}
	if len(done) > 0 {
		slices.Sort(done)
		b.Queue(sqlDueDone, done)
	}
	if len(retry.ids) > 0 {
		b.Queue(sqlDueRetry, retry.ids, retry.expected, retry.failures, retry.waits, retry.unknowns, retry.triggers)
	}
	if len(dropped) > 0 {
		b.Queue(sqlParkedDrop, dropped)
	}
	return tx.SendBatch(ctx, b).Close()
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

// columns are the arrays of statement ResultRecord, $3 to $32.
type columns struct {
	delivery, attempt        []string
	attemptDay               []time.Time
	action, trigger          []string
	failures                 []int32
	started                  []time.Time
	class                    []string
	detail                   []*string
	code                     []*int32
	url, headers             []string
	headerSet                []*string
	bodySize                 []int32
	responseHeaders          []*string
	responseBody             [][]byte
	responseSize             []*int64
	note, proto, remote, tls []*string
	connect, tlsTime, wait   []*int32
	read, total              []*int32
	requestedBy              []*string
	worker                   []string
	reason, cause            []*string
}

func (c *columns) add(r *result) {
	day, err := id.Day(r.attemptID)
	if err != nil {
		day = r.started.UTC().Truncate(24 * time.Hour)
	}
	out := &r.out
	c.delivery, c.attempt, c.attemptDay = append(c.delivery, r.item.DeliveryID), append(c.attempt, r.attemptID), append(c.attemptDay, day)
	c.action, c.trigger, c.failures = append(c.action, r.verdict.action), append(c.trigger, r.item.Trigger), append(c.failures, int32(r.verdict.failures))
	class := string(out.Class)
	if out.Class == sender.Canceled {
		class = classUnknown
	}
	c.started, c.class, c.detail = append(c.started, r.started), append(c.class, class), append(c.detail, text(out.Err))
	c.code = append(c.code, number(out.Status))
	url, headerSet := "", (*string)(nil)
	if r.target != nil {
		url, headerSet = r.target.url, r.target.headerSetID
	}
	c.url, c.headerSet = append(c.url, clean(url)), append(c.headerSet, headerSet)
	c.headers = append(c.headers, clean(pairs(r.headers[:r.own])))
	size := len(r.item.Body)
	if r.bodySize > 0 {
		size = r.bodySize
	}
	c.bodySize = append(c.bodySize, int32(size))
	answered := out.Status != 0 && !r.bare
	var heads *string
	var body []byte
	var seen *int64
	if answered {
		heads, body, seen = text(pairs(out.Header)), out.Body, &out.BodySize
		if body == nil {
			body = []byte{}
		}
	}
	c.responseHeaders, c.responseBody, c.responseSize = append(c.responseHeaders, heads), append(c.responseBody, body), append(c.responseSize, seen)
	c.note, c.proto, c.remote = append(c.note, text(out.BodyNote)), append(c.proto, text(out.Proto)), append(c.remote, text(out.RemoteAddr))
	var session *string
	if out.TLS != nil && !r.bare {
		if j, err := json.Marshal(out.TLS); err == nil {
			session = text(string(j))
		}
	}
	c.tls = append(c.tls, session)
	c.connect, c.tlsTime, c.wait = append(c.connect, micros(out.Connect)), append(c.tlsTime, micros(out.TLSTime)), append(c.wait, micros(out.Wait))
	c.read, c.total = append(c.read, micros(out.Read)), append(c.total, micros(out.Total))
	c.requestedBy, c.worker, c.reason = append(c.requestedBy, r.item.RequestedBy), append(c.worker, r.worker), append(c.reason, text(r.verdict.reason))
	c.cause = append(c.cause, text(out.Cause()))
}

func (c *columns) args(day time.Time, again bool) []any {
	return []any{day, again, c.delivery, c.attempt, c.attemptDay, c.action, c.trigger, c.failures, c.started, c.class, c.detail,
		c.code, c.url, c.headers, c.headerSet, c.bodySize, c.responseHeaders, c.responseBody, c.responseSize, c.note,
		c.proto, c.remote, c.tls, c.connect, c.tlsTime, c.wait, c.read, c.total, c.requestedBy, c.worker, c.reason, c.cause}
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
