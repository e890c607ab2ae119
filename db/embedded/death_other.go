//go:build !linux

package embedded

import "syscall"

// dieWithUs can do nothing here; the next start stops a server that was left running.
func dieWithUs(*syscall.SysProcAttr) {}
