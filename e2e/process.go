package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Program is one process of Waybill. Its methods may be called at the same time.
type Program struct {
	Name  string   // for people: "worker 2"
	Roles []string // what it was started with; none: everything

	cmd   *exec.Cmd
	pid   int
	ended chan struct{} // closed when it has ended
	ready chan struct{} // closed when it has said its address
	asked atomic.Bool   // somebody here has ended it, or tried to

	mu    sync.Mutex
	addr  string
	lines []string
	rest  []byte
	line  func(program string, line []byte)
}

// keptLines is how many of the last lines of a program's log are remembered.
const keptLines = 4000

// Launch is how a Program is started.
type Launch struct {
	Name   string
	Binary string            // another version of the program; empty: the system's
	Roles  []string          // web, worker, proxy; none: all
	Env    map[string]string // over what System gives every process; an empty value takes a variable away
}

// Spawn starts a process and does not wait for it to be ready. Arguments are those behind the binary's name.
func spawn(binary string, arguments []string, env []string, l Launch, line func(string, []byte)) (*Program, error) {
	p := &Program{Name: l.Name, Roles: l.Roles, cmd: exec.Command(binary, arguments...), ended: make(chan struct{}), ready: make(chan struct{}), line: line}
	p.cmd.Env, p.cmd.Stderr, p.cmd.Stdout = env, p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C is ours to pass on
	dieWithUs(p.cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that started the process ends: this one lives as long as the process.
		runtime.LockOSThread()
		err := p.cmd.Start()
		if err == nil {
			p.pid = p.cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // what it says is in ProcessState
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", l.Name, err)
	}
	return p, nil
}

// Write takes the program's log. It is the process's standard error.
func (p *Program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, text...)
	for {
		end := bytes.IndexByte(p.rest, '\n')
		if end < 0 {
			return len(text), nil
		}
		p.take(p.rest[:end])
		p.rest = p.rest[end+1:]
	}
}

func (p *Program) take(line []byte) {
	if p.addr == "" && bytes.Contains(line, []byte("waybill is running")) {
		var record struct{ Addr string }
		if json.Unmarshal(line, &record) == nil && record.Addr != "" {
			p.addr = record.Addr
			close(p.ready)
		}
	}
	if len(p.lines) >= keptLines {
		p.lines = slices.Delete(p.lines, 0, keptLines/4)
	}
	p.lines = append(p.lines, string(line))
	if p.line != nil {
		p.line(p.Name, line)
	}
}

// Addr is where the process listens: the proxy's address if it is nothing else. Empty until it is ready.
func (p *Program) Addr() string { p.mu.Lock(); defer p.mu.Unlock(); return p.addr }

// PID is the process id.
func (p *Program) PID() int { return p.pid }

// Log is the last lines of its log.
func (p *Program) Log() []string { p.mu.Lock(); defer p.mu.Unlock(); return slices.Clone(p.lines) }

// Tail is the last n lines of its log, for an error message.
func (p *Program) Tail(n int) string {
	lines := p.Log()
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Alive says that the process has not ended.
func (p *Program) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Has says that the process was started with this role.
func (p *Program) Has(role string) bool { return len(p.Roles) == 0 || slices.Contains(p.Roles, role) }

// WaitReady waits until the program says that it runs.
func (p *Program) WaitReady(ctx context.Context, within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ready:
		return nil
	case <-p.ended:
		return fmt.Errorf("%s ended while it started (%s):\n%s", p.Name, p.cmd.ProcessState, p.Tail(15))
	case <-timer.C:
		return fmt.Errorf("%s was not ready within %s:\n%s", p.Name, within, p.Tail(15))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Program) Kill() {
	p.asked.Store(true)
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.ended
}

// Signal sends one signal, such as SIGTERM, and does not wait.
func (p *Program) Signal(s syscall.Signal) error {
	p.asked.Store(p.asked.Load() || s != syscall.SIGSTOP && s != syscall.SIGCONT)
	return p.cmd.Process.Signal(s)
}

// Died says how the process ended if nobody here has asked it to, and is empty otherwise.
func (p *Program) Died() string {
	if p.Alive() || p.asked.Load() {
		return ""
	}
	return fmt.Sprintf("%s ended by itself or by somebody else: %s\n%s", p.Name, p.cmd.ProcessState, p.Tail(15))
}

// WaitExit waits for the end of the process and returns its exit code; -1 means a signal.
func (p *Program) WaitExit(within time.Duration) (int, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(within):
		return 0, fmt.Errorf("%s had not ended after %s:\n%s", p.Name, within, p.Tail(15))
	}
}

// Ready is the status of its /readyz, and 0 with an error when it does not answer.
func (p *Program) Ready(ctx context.Context) (int, error) {
	if p.Addr() == "" {
		return 0, errors.New("not ready: it has no address yet")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Addr()+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// Crashes are the lines of the log that tell of a panic or a data race.
func (p *Program) Crashes() (lines []string) {
	log := p.Log()
	for i, line := range log {
		for _, word := range []string{"DATA RACE", "panic:", "fatal error:", "panicked"} {
			if strings.Contains(line, word) {
				lines = append(lines, strings.Join(log[i:min(i+40, len(log))], "\n"))
				break
			}
		}
	}
	return lines
}

// Children are the processes whose parent is pid, such as the backends of a Postgres server. It reads /proc.
func Children(pid int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // fails for a bad pattern only
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}
