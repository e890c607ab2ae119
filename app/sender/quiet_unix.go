//go:build unix

package sender

import "syscall"

// quiet says that a kept connection is open and that nothing came on it: no end, no alert, no answer that nobody
// asked for. It costs one system call and reads nothing.
func (c *conn) quiet() bool {
	if c.br.Buffered() > 0 {
		return false
	}
	if c.sock == nil {
		return true
	}
	quiet := false
	err := c.sock.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && quiet
}
