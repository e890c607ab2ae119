package api

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/db"
	"waybill/db/dbtest"
)

// message is one of a stream: with data an event, else what was said beside.
type message struct{ id, data, note, retry string }

// listener reads a stream.
type listener struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Reader
	cancel   context.CancelFunc
}

func (b *bench) listen(t *testing.T, key, path, lastID string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", b.server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("the stream answers %d %s", response.StatusCode, response.Header)
	}
	l := &listener{t: t, response: response, lines: bufio.NewReader(response.Body), cancel: cancel}
	t.Cleanup(l.close)
	return l
}

func (l *listener) close() {
	l.cancel()
	_ = l.response.Body.Close()
}

// next is the next message of any kind; ended when there are no more.
func (l *listener) next() (m message, ended bool) {
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return m, true
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			return m, false
		case name == "":
			m.note = value
		case name == "id":
			m.id = value
		case name == "retry":
			m.retry = value
		case name == "data" && m.data != "":
			m.data += "\n" + value
		case name == "data":
			m.data = value
		}
	}
}

// event is the next message with an event.
func (l *listener) event() message {
	l.t.Helper()
	for {
		m, ended := l.next()
		if ended {
			l.t.Fatal("the stream has ended")
		}
		if m.data != "" {
			return m
		}
	}
}

// put adds an event as the dispatcher does: with its position, in one transaction.
func (b *bench) put(t *testing.T, uid string, row dbtest.Event) (added dbtest.Event) {
	t.Helper()
	err := db.Tx(t.Context(), b.DB, func(tx pgx.Tx) error {
		if err := tx.QueryRow(t.Context(), `select id from tenants where uid = $1`, uid).Scan(&row.TenantID); err != nil {
			return err
		}
		added = dbtest.AddEvent(t, tx, row)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.streams.beat = 100 * time.Millisecond
	key, other := b.tenantKey(t, "one", ""), b.tenantKey(t, "two", "")
	all, paid := b.listen(t, key, "/v1/events/stream", ""), b.listen(t, key, "/v1/events/stream?type=order.paid", "")
	foreign, platform := b.listen(t, other, "/v1/events/stream", ""), b.listen(t, platformKey, "/v1/tenants/one/events/stream", "")
	if hello, _ := all.next(); hello.retry == "" || hello.id == "" || hello.data != "" {
		t.Errorf("it begins with %+v", hello)
	}
	if beat, _ := all.next(); beat.note != "beat" || beat.id == "" {
		t.Errorf("a quiet stream says %+v", beat)
	}
	lost := b.put(t, "one", dbtest.Event{Type: "order.lost", Body: "{\"a\":\r\n1,\n\"b\":\r2}"})
	done := b.put(t, "one", dbtest.Event{Type: "order.paid"})
	first := all.event()
	if first.data != "{\"a\":\n1,\n\"b\":\n2}" {
		t.Errorf("data is %q", first.data)
	}
	if m := all.event(); m.data != done.Body {
		t.Errorf("%q", m.data)
	}
	if m := paid.event(); m.data != done.Body {
		t.Errorf("%q", m.data)
	}
	platform.event()
	// Behind its last id nothing is missed and nothing comes twice; the header goes before the parameter.
	all.close()
	last := b.put(t, "one", dbtest.Event{Type: "order.paid"})
	for _, path := range []string{"/v1/events/stream", "/v1/events/stream?after=" + paid.event().id} {
		again := b.listen(t, key, path, first.id)
		if m := again.event(); m.data != done.Body {
			t.Errorf("%s: %q", path, m.data)
		}
		if m := again.event(); m.data != last.Body {
			t.Errorf("%s: %q", path, m.data)
		}
	}
	if m := b.listen(t, key, "/v1/events/stream?last=1", "").event(); m.data != last.Body {
		t.Errorf("%q", m.data)
	}
	// A cursor of a stream is one of the list.
	if got := b.call(t, key, "GET", "/v1/events?after="+first.id, ""); !strings.Contains(got.body, done.ID) || strings.Contains(got.body, lost.ID) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for range 5 {
		if m, _ := foreign.next(); m.data != "" {
			t.Errorf("another tenant hears %q", m.data)
		}
	}
	wantProblem(t, b.call(t, key, "GET", "/v1/events/stream?after=nonsense", ""), fault.Malformed)
	wantProblem(t, b.call(t, key, "GET", "/v1/events/stream?delivery_status=held", ""), fault.Invalid)
	wantProblem(t, b.call(t, key, "GET", "/v1/events/stream?last=1001", ""), fault.Invalid)
	if got := b.call(t, key, "HEAD", "/v1/events/stream", ""); got.status != 200 {
		t.Errorf("HEAD answers %d", got.status)
	}
}

func TestACursorThatAgedOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	old := b.put(t, "one", dbtest.Event{CreatedAt: time.Now().AddDate(0, 0, -3)})
	b.put(t, "one", dbtest.Event{})
	after := field(t, b.call(t, key, "GET", "/v1/events?limit=1", "").body, "next")
	if _, err := b.DB.Exec(t.Context(), `drop table events_`+old.Day.Format("20060102")); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, b.call(t, key, "GET", "/v1/events?after="+after, ""), fault.CursorExpired)
	wantProblem(t, b.call(t, key, "GET", "/v1/events/stream?after="+after, ""), fault.CursorExpired)
}

func TestStreamsEndWithTheirKeyAndWithTheProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tenantKey(t, "one", "")
	made := b.call(t, platformKey, "POST", "/v1/tenants/one/keys", "").body
	revoked, stays := b.listen(t, field(t, made, "key"), "/v1/events/stream", ""), b.listen(t, b.tenantKey(t, "one", ""), "/v1/events/stream", "")
	if got := b.call(t, platformKey, "DELETE", "/v1/tenants/one/keys/"+field(t, made, "id"), ""); got.status != 204 {
		t.Fatal(got.body)
	}
	ends := func(l *listener) (last message) {
		for {
			m, ended := l.next()
			if ended {
				return last
			}
			last = m
		}
	}
	if last := ends(revoked); !strings.Contains(last.note, "revoked") {
		t.Errorf("the last words are %+v", last)
	}
	b.put(t, "one", dbtest.Event{})
	stays.event()
	b.Close()
	if last := ends(stays); last.note != "connect again" {
		t.Errorf("the last words are %+v", last)
	}
	wantProblem(t, b.call(t, b.tenantKey(t, "one", ""), "GET", "/v1/events/stream", ""), fault.Unavailable)
}

// A reader that does not read is let go, with what it held; it has its last id to come back with.
func TestASlowReaderIsLetGo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.streams.within = 300 * time.Millisecond
	key := b.tenantKey(t, "one", "")
	body := `{"data":"` + strings.Repeat("x", 250_000) + `"}`
	for range 60 { // 15 MB: more than the kernel keeps for us
		b.put(t, "one", dbtest.Event{Body: body})
	}
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /v1/events/stream?last=60 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", key)
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(b.logs.String(), "does not read") {
		if time.Now().After(deadline) {
			t.Fatal("the stream goes on")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A thousand streams of twenty tenants in one process: each hears its own events, all of them, once and in order; memory stays bounded.
func TestAThousandStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const tenants, each, events = 20, 50, 20
	keys := make([]string, tenants)
	for i := range keys {
		keys[i] = b.tenantKey(t, fmt.Sprintf("t%d", i), `{"requests_per_second":10000}`)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var listeners []*listener
	for i := range tenants * each {
		listeners = append(listeners, b.listen(t, keys[i%tenants], "/v1/events/stream", ""))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d streams: %d KiB each, client included", tenants*each, (after.Sys-before.Sys)/1024/tenants/each)
	want := make([][]string, tenants)
	began := time.Now()
	for range events {
		for i := range tenants {
			want[i] = append(want[i], b.put(t, fmt.Sprintf("t%d", i), dbtest.Event{}).Body)
		}
	}
	var wait sync.WaitGroup
	for i, l := range listeners {
		wait.Go(func() {
			for n := range events {
				for {
					m, ended := l.next()
					if ended {
						t.Errorf("stream %d has ended after %d events", i, n)
						return
					}
					if m.data == "" {
						continue
					}
					if m.data != want[i%tenants][n] {
						t.Errorf("stream %d, event %d: %s", i, n, m.data)
					}
					break
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d events to %d streams in %v", tenants*events, len(listeners), time.Since(began))
}
