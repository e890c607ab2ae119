package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// running is what a postmaster.pid says.
type running struct {
	pid   int
	port  int  // 0 until the server has got that far
	ready bool // it listens and lets clients in
}

// readPID reads the lock file of a cluster: the process id is its first line, the port its fourth, its state the eighth
// (src/include/utils/pidfile.h of PostgreSQL).
func readPID(data string) (running, bool) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return running{}, false
	}
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return running{}, false
	}
	r := running{pid: pid}
	if len(lines) > 3 {
		r.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
	}
	if len(lines) > 7 {
		r.ready = strings.TrimSpace(lines[7]) == "ready"
	}
	return r, true
}

// clearLeftover sees to it that no server of an earlier program runs on these data. We hold the folder's lock, so whatever
// runs has lost its program. A pid file whose number now belongs to a stranger, as happens in containers, is removed;
// PostgreSQL would take the stranger for a server and refuse to start.
func clearLeftover(ctx context.Context, data string, logger *slog.Logger) error {
	left, ok := readPID(data)
	if !ok || !alive(left.pid) {
		return nil
	}
	if !serves(left.pid, data) {
		err := os.Remove(filepath.Join(data, "postmaster.pid"))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	logger.InfoContext(ctx, "stopping the server that an earlier program left", "pid", left.pid)
	for _, way := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, fastStop}, {syscall.SIGQUIT, immediateStop}, {syscall.SIGKILL, immediateStop}} {
		_ = syscall.Kill(left.pid, way.signal)
		waiting, cancel := context.WithTimeout(ctx, way.wait)
		err := until(waiting, func() (bool, error) { return !serves(left.pid, data), nil })
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the server with process id %d, left by an earlier program, cannot be stopped", left.pid)
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// serves says whether pid is a postgres that was started, by us, on these data.
func serves(pid int, data string) bool {
	if !alive(pid) {
		return false
	}
	if runtime.GOOS == "linux" {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty for one that is dead but not reaped
		if err != nil {
			return false
		}
		for _, word := range bytes.Split(line, []byte{0}) {
			if string(word) == data {
				return true
			}
		}
		return false
	}
	line, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(line), "-D "+data+" ")
}
