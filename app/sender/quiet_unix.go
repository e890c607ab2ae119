//go:build unix

package sender

import "syscall"

// silent says that nothing waits on the socket: no end, no alert, no answer that nobody asked for. It costs one
// system call and takes nothing.
func (c *conn) silent() bool {
	if c.sock == nil {
		return true
	}
	silent := false
	err := c.sock.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && silent
}
