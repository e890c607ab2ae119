package server

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of <linux/tcp.h>, which package syscall does not name.
const tcpUserTimeout = 0x12

// unacknowledgedWithin is how long what we sent may stay unacknowledged. Keepalives are no help there: they are sent only on connections
// with nothing outstanding, and a live page always has a heartbeat under way.
const unacknowledgedWithin = 25 * time.Second

// limitUnacknowledged is for a listener; the connections that it accepts inherit the limit.
func limitUnacknowledged(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unacknowledgedWithin.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
