package sender

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"waybill/app/egress"
)

// BenchmarkSendThroughProxy posts 366 bytes to 200 endpoints, ten at once each, through the egress proxy: proxy and
// sender in this process, the receiver too. "tcp" is a proxy of its own, "direct" one in the sender's process.
//
//	go test ./app/sender -run '^$' -bench Send -benchtime 20000x
func BenchmarkSendThroughProxy(b *testing.B) {
	for _, scheme := range []string{"http", "https", "h2"} {
		for _, way := range []string{"tcp", "direct"} {
			b.Run(scheme+"/"+way, func(b *testing.B) { benchmark(b, scheme, way) })
		}
	}
}

func benchmark(b *testing.B, scheme, way string) {
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := ln.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "ok")
	})}
	defer server.Close()
	if scheme == "http" {
		go server.Serve(ln)
	} else {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{world.ca.issue(b, nil)}}
		if scheme == "https" {
			server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		}
		go server.ServeTLS(ln, "", "")
	}
	p, err := egress.Start(b.Context(), egress.Config{Allow: receivers})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close(b.Context())
	cfg := Config{ProxyURL: p.URL(), RootCAs: world.ca.pool, HTTP2: scheme == "h2"}
	if way == "direct" {
		cfg.Tunnel = p.Tunnel
	}
	s, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()

	const endpoints, limit = 200, 10
	url := strings.Replace(scheme, "h2", "https", 1) + "://" + addr + "/hooks"
	headers := []Header{{"Content-Type", "application/json"}, {"User-Agent", "Waybill/1 (+https://waybill.test/docs)"},
		{"webhook-id", "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R"}, {"webhook-timestamp", "1794000065"},
		{"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}
	body := []byte(strings.Repeat("x", 366))
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	start, cpu := time.Now(), cpuTime()
	for e := range endpoints {
		id := fmt.Sprintf("ep_%d", e)
		for range min(limit, max(1, b.N/endpoints)) {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					out := s.Send(b.Context(), Request{EndpointID: id, URL: url, Header: headers, Body: body, Timeout: ample, MaxConns: limit})
					if out.Class != Delivered {
						b.Errorf("%+v", out)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(n/time.Since(start).Seconds(), "posts/s")
	b.ReportMetric((cpuTime()-cpu).Seconds()*1e6/n, "cpu-ms/1000")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what this process has used, sender, proxy and receiver together.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
