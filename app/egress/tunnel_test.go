package egress

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestTunnelCarriesEverythingBothWays(t *testing.T) {
	t.Parallel()
	p := startProxy(t, Config{Allow: receivers}, nil)
	open := listen(t, echo)
	sent := make([]byte, 1<<20)
	rand.Read(sent)
	for name, ask := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, resp := ask(t, p, open)
			if got := resp.Header.Get("X-Server-Ip"); got != "127.0.0.2" {
				t.Errorf("address reached: %q", got)
			}
			go conn.Write(sent)
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("read %v, equal: %v", err, bytes.Equal(got, sent))
			}
		})
	}
}

func TestTunnelEnds(t *testing.T) {
	t.Parallel()
	p := startProxy(t, Config{Allow: receivers}, nil)
	for name, ask := range clients {
		t.Run(name+"/client closes", func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			conn, _ := ask(t, p, listen(t, func(c net.Conn) {
				_, err := io.Copy(io.Discard, c)
				ended <- err
			}))
			conn.Close()
			if err := <-ended; err != nil {
				t.Errorf("the endpoint saw %v, want a plain end", err)
			}
		})
		t.Run(name+"/endpoint closes", func(t *testing.T) {
			t.Parallel()
			conn, _ := ask(t, p, listen(t, func(c net.Conn) { io.WriteString(c, "bye") }))
			if got, err := io.ReadAll(conn); string(got) != "bye" || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
		})
		t.Run(name+"/endpoint resets", func(t *testing.T) {
			t.Parallel()
			conn, _ := ask(t, p, listen(t, func(c net.Conn) {
				io.WriteString(c, "half an ans")
				io.ReadFull(c, make([]byte, 3))
				c.(*net.TCPConn).SetLinger(0)
			}))
			io.ReadFull(conn, make([]byte, len("half an ans")))
			io.WriteString(conn, "ack")
			if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read %v, want a reset", err)
			}
		})
		t.Run(name+"/endpoint answers early and closes", func(t *testing.T) {
			t.Parallel()
			conn, _ := ask(t, p, listen(t, func(c net.Conn) {
				io.ReadFull(c, make([]byte, 1000))
				io.WriteString(c, "too large")
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, io.LimitReader(c, 200_000))
			}))
			go io.Copy(conn, io.LimitReader(rand.Reader, 8<<20))
			got := make([]byte, len("too large"))
			if _, err := io.ReadFull(conn, got); string(got) != "too large" {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
	within(t, func() bool { return p.Tunnels() <= 8 })
}

func TestTunnelsAreClosedWhenIdleOrOld(t *testing.T) {
	t.Parallel()
	open := listen(t, echo)
	for name, ask := range clients {
		t.Run(name+"/idle", func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, Config{Allow: receivers, IdleTimeout: 30 * time.Millisecond}, nil)
			conn, _ := ask(t, p, open)
			if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %d, %v, want the tunnel closed", n, err)
			}
			within(t, func() bool { return p.Tunnels() == 0 })
		})
		t.Run(name+"/old", func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, Config{Allow: receivers, TunnelLife: 50 * time.Millisecond}, nil)
			conn, _ := ask(t, p, open)
			var err error
			for err == nil { // busy all the time
				if _, err = io.WriteString(conn, "x"); err == nil {
					_, err = io.ReadFull(conn, make([]byte, 1))
				}
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the tunnel outlived its time: %v", err)
			}
		})
	}
}

func TestABusyTunnelIsNotIdle(t *testing.T) {
	t.Parallel()
	set := &tunnels{idle: time.Minute, life: 10 * time.Minute, began: time.Now(), open: map[*tunnel]struct{}{}}
	client, _ := net.Pipe()
	target, _ := net.Pipe()
	tunnel := set.add(client, target)
	for range 9 { // a word every 59 seconds
		set.began = set.began.Add(-59 * time.Second)
		set.sweep()
		tunnel.touch()
	}
	if set.count() != 1 {
		t.Fatal("a busy tunnel was closed as idle")
	}
	set.began = set.began.Add(-59 * time.Second)
	set.sweep()
	if set.count() != 1 {
		t.Fatal("it was closed before its minute was over")
	}
	set.began = set.began.Add(-2 * time.Second)
	set.sweep()
	if _, err := client.Write([]byte("x")); set.count() != 0 || err == nil {
		t.Error("a tunnel without a word for a minute is open")
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	for name, ask := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Start(t.Context(), Config{Allow: receivers})
			if err != nil {
				t.Fatal(err)
			}
			open := listen(t, echo)
			conn, _ := ask(t, p, open)
			other, _ := ask(t, p, open)

			closing, closed := make(chan struct{}), make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				close(closing)
				closed <- p.Close(ctx)
			}()
			<-closing
			sayAndHear(t, conn, "still here")
			other.Close()
			cancel()
			if err := <-closed; err != nil {
				t.Errorf("Close: %v", err)
			}
			if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the tunnel outlived the proxy")
			}
			if c, err := net.Dial("tcp", p.Addr()); err == nil {
				c.Close()
				t.Error("it still listens")
			}
			if c, _, err := p.Tunnel(t.Context(), open); err == nil {
				c.Close()
				t.Error("it still gives tunnels")
			}
		})
	}
}

func TestCloseWaitsForTunnels(t *testing.T) {
	t.Parallel()
	p, err := Start(t.Context(), Config{Allow: receivers})
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := overTCP(t, p, listen(t, echo))
	closed := make(chan error, 1)
	go func() { closed <- p.Close(t.Context()) }()
	within(t, func() bool { // it no longer listens, so Close is under way
		c, err := net.Dial("tcp", p.Addr())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	sayAndHear(t, conn, "still here")
	conn.Close()
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestTunnelGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	open := listen(t, echo)
	p := startProxy(t, Config{Allow: receivers}, func(_ context.Context, network, address string, _ time.Duration) (net.Conn, error) {
		close(entered)
		<-leave
		return net.Dial(network, address)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, _, err := p.Tunnel(ctx, open); !errors.Is(err, context.Canceled) {
		t.Errorf("Tunnel: %v", err)
	}
	close(leave)
	within(t, func() bool { return p.Tunnels() == 0 })
}

func TestManyTunnelsAtOnce(t *testing.T) {
	t.Parallel()
	p := startProxy(t, Config{Allow: receivers}, nil)
	open := listen(t, echo)
	var wg sync.WaitGroup
	for range 100 {
		for name, ask := range clients {
			wg.Go(func() {
				conn, _ := ask(t, p, open)
				sayAndHear(t, conn, name)
				conn.Close()
			})
		}
	}
	wg.Wait()
	within(t, func() bool { return p.Tunnels() == 0 })
}
