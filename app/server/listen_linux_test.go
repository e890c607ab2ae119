package server

import (
	"net"
	"syscall"
	"testing"
)

func TestConnectionsInheritTheLimit(t *testing.T) {
	t.Parallel()
	listener, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	raw, err := far.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var limit int
	if err := raw.Control(func(fd uintptr) { limit, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) }); err != nil {
		t.Fatal(err)
	}
	if err != nil || limit != int(unacknowledgedWithin.Milliseconds()) {
		t.Errorf("an accepted connection has the limit %d ms: %v", limit, err)
	}
}
