package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

func machine() string {
	name := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s, %s", runtime.NumCPU(), name, runtime.Version(), runtime.GOOS)
}

// stat is what /proc/PID/stat says of a process.
type stat struct {
	pid, parent int
	own         time.Duration // of the living process
	ended       time.Duration // of children it has waited for
}

func readStat(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 15 {
		return stat{}, false
	}
	n := func(i int) int { v, _ := strconv.Atoi(fields[i]); return v }
	return stat{pid: pid, parent: n(1), own: time.Duration(n(11)+n(12)) * clockTick, ended: time.Duration(n(13)+n(14)) * clockTick}, true
}

// cpu is the CPU time of a process so far.
func cpu(pid int) time.Duration {
	s, _ := readStat(pid)
	return s.own
}

// cpuTree is the CPU time of a process and its children, those that have ended included: a Postgres server with its backends.
func cpuTree(pid int) time.Duration {
	root, ok := readStat(pid)
	if !ok {
		return 0
	}
	total := root.own + root.ended
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return total
	}
	for _, dir := range dirs {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if s, ok := readStat(child); ok && s.parent == pid {
			total += s.own
		}
	}
	return total
}
