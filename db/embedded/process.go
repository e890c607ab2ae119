package embedded

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a started postmaster.
type process struct {
	pid   int
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	state *os.ProcessState
}

// launch starts cmd on a thread of its own that lives as long as the process: the kernel sends the death signal when the
// thread that started the process ends, not when the program does.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // what it says is in the state
		p.state = cmd.ProcessState
		close(p.done)
	}()
	return p, <-started
}

// end tells how the process ended, once it has.
func (p *process) end() string {
	if p.state == nil {
		return "unknown"
	}
	return p.state.String()
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// How long a server may take for each way of stopping: fast (roll back, checkpoint), immediate (leave it to recovery).
const (
	fastStop      = 20 * time.Second
	immediateStop = 5 * time.Second
)

// stop ends the server as gently as it lets itself be ended, and says whether its data are in a clean state.
func (p *process) stop() bool {
	for _, way := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, fastStop}, {syscall.SIGQUIT, immediateStop}, {syscall.SIGKILL, immediateStop}} {
		_ = p.cmd.Process.Signal(way.signal) // an error means that it has ended
		select {
		case <-p.done:
			return way.signal == syscall.SIGINT
		case <-time.After(way.wait):
		}
	}
	return false
}
