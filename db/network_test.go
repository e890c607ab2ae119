package db_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// network is a TCP proxy in front of Postgres whose connections can fall silent: they stay open, and nothing passes.
type network struct {
	url string

	mu     sync.Mutex
	silent bool
	gates  []chan struct{} // closed to silence a connection for good
	conns  []net.Conn
}

func newNetwork(t *testing.T, target string) *network {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	u.Host = listener.Addr().String()
	n := &network{url: u.String()}
	var open sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		n.sever()
		open.Wait()
	})
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { n.carry(client, server) })
		}
	})
	return n
}

func (n *network) carry(client net.Conn, server string) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	gate := make(chan struct{})
	n.mu.Lock()
	n.gates = append(n.gates, gate)
	n.conns = append(n.conns, client, upstream)
	silent := n.silent
	n.mu.Unlock()
	if silent {
		return
	}
	ended := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(gated{to, gate}, from)
		ended <- struct{}{}
	}
	go pass(upstream, client)
	go pass(client, upstream)
	<-ended
}

// silence swallows whatever is sent on the connections that are open.
func (n *network) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = true
	for _, gate := range n.gates {
		close(gate)
	}
	n.gates = nil
}

// sever ends all connections, silent or not.
func (n *network) sever() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		conn.Close()
	}
	n.conns = nil
}

// heal lets new connections through; the silent ones stay silent.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = false
}

type gated struct {
	net.Conn
	gate chan struct{}
}

func (g gated) Write(b []byte) (int, error) {
	select {
	case <-g.gate:
		return len(b), nil // gone, and nobody is told
	default:
		return g.Conn.Write(b)
	}
}
