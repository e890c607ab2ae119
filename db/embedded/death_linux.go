package embedded

import "syscall"

// dieWithUs makes the server shut down fast when this program dies, even by kill -9.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
