package e2e

import "syscall"

// dieWithUs ends a process when this program dies in whatever way.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
