package lane_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"waybill/app/sender"
	"waybill/db/dbtest"
)

// While our own proxy is away, an endpoint's waiting deliveries do not each find that out: a few attempts say so in the history, and all goes on by itself
// when the proxy is back.
func TestProxyAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var away atomic.Bool
	away.Store(true)
	r.process(func(context.Context, sender.Request) sender.Outcome {
		if away.Load() {
			return sender.Outcome{Class: sender.Proxy, Err: "our way out failed"}
		}
		return answer(200)
	})
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	r.endpoint(dbtest.Endpoint{TenantID: tenant.ID})
	const waiting = 300
	r.publish(tenant.UID, waiting)
	r.until(10*time.Second, waiting, `select count(*) from deliveries`)
	time.Sleep(3 * time.Second) // the length of the outage
	if n := r.count(`select count(*) from attempts where class = 'proxy'`); n < 1 || n > 20 {
		t.Errorf("%d attempts met the missing proxy, of %d deliveries waiting", n, waiting)
	}
	if n := r.count(`select count(*) from deliveries where failures > 0`); n != 0 {
		t.Errorf("%d deliveries have used a step of their schedule", n)
	}
	away.Store(false)
	r.until(20*time.Second, waiting, `select count(*) from deliveries where status = 'delivered'`)
}

// sickProxy is a way out that answers every CONNECT like this; empty: not at all.
func sickProxy(t *testing.T, answer string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				if answer == "" {
					_, _ = io.Copy(io.Discard, c) // until the other side gives up
					return
				}
				_, _ = io.WriteString(c, answer)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// Whatever is wrong with our own proxy, it is held against no endpoint: no step of a schedule, no circuit, no throttle, no disabling, no mail, no operational event. Through
// the sender that the program has, under a policy to which one failure is enough for all of it.
func TestOurProxyNeverCounts(t *testing.T) {
	t.Parallel()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := "http://" + nobody.Addr().String()
	nobody.Close()
	for name, proxy := range map[string]string{
		"down": down, "silent": sickProxy(t, ""), "hanging up": sickProxy(t, " "),
		"refused":    sickProxy(t, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"),
		"forbidden":  sickProxy(t, "HTTP/1.1 403 Forbidden\r\n\r\n"),
		"overloaded": sickProxy(t, "HTTP/1.1 503 Service Unavailable\r\nX-Waybill-Verdict: overloaded\r\nRetry-After: 3600\r\n\r\n"),
		"failed":     sickProxy(t, "HTTP/1.1 500 Internal Server Error\r\nX-Waybill-Verdict: failed\r\n\r\n"),
		"too many":   sickProxy(t, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\n\r\n"),
		"a gateway":  sickProxy(t, "HTTP/1.1 502 Bad Gateway\r\n\r\n"), "gone": sickProxy(t, "HTTP/1.1 410 Gone\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s, err := sender.New(sender.Config{ProxyURL: proxy, ProxyWithin: 300 * time.Millisecond, Logger: r.log})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			operations := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
			tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
			r.member(tenant.ID, "owner")
			ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: "http://receiver.test/", Concurrency: 10})
			r.process(s.Send, policyOf(t, `waits_between_attempts: []`, `throttle_on: [403, 407, 429, 500, 502, 503]`, `on_configuration_error: alert_only`,
				`circuit_breaker: {consecutive_failures: 1, probe_every: [1h]}`, `disable_after_failing_for: 1h`), telling(r.alerts(operations.UID)))
			r.publish(tenant.UID, 30)
			r.until(30*time.Second, 1, `select case when count(*) >= 4 then 1 else 0 end from attempts where endpoint_id = $1 and class = 'proxy'`, ep.ID)
			for _, none := range []string{
				`select count(*) from attempts where endpoint_id = $1 and class <> 'proxy'`,
				`select count(*) from deliveries where endpoint_id = $1 and (failures > 0 or status <> 'pending')`,
				`select count(*) from endpoint_health where endpoint_id = $1`,
				`select count(*) from lanes where endpoint_id = $1 and (limit_now <> 100 or not_before is not null or ailing or suspect)`,
				`select count(*) from endpoints where id = $1 and state <> 'active'`,
				`select count(*) from mails where $1 <> ''`,
				`select count(*) from digests where $1 <> ''`,
				`select (select count(*) from outbox) + (select count(*) from events where type like 'endpoint.%' or type like 'delivery.%') where $1 <> ''`,
			} {
				if n := r.count(none, ep.ID); n != 0 {
					t.Errorf("%d, want none: %s", n, none)
				}
			}
		})
	}
}
