package db

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of <linux/tcp.h>, which package syscall does not name.
const tcpUserTimeout = 0x12

// limitUnacknowledged makes a write fail whose bytes the other side has not acknowledged for 30 s. Keepalives do not help
// there: they are sent only on connections with nothing outstanding.
func limitUnacknowledged(network, _ string, conn syscall.RawConn) error {
	if len(network) < 3 || network[:3] != "tcp" {
		return nil
	}
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int((30 * time.Second).Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
