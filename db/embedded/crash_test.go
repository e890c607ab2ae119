package embedded_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"waybill/db/embedded"
)

// The server is killed under a program that goes on: it comes back at the same address with everything committed.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := start(t, embedded.Config{Dir: preparedFolder(t)})
	query(t, server.URL(), "create table parcels (id int); insert into parcels values (1)")
	for range 2 {
		pid := server.PID()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server is back", func() bool {
			if now := server.PID(); now == 0 || now == pid {
				return false
			}
			_, err := tryQuery(t.Context(), server.URL(), "select 1")
			return err == nil
		})
		query(t, server.URL(), "insert into parcels values (1)")
	}
	wantParcels(t, server.URL(), "3")
}

func TestRestart(t *testing.T) {
	t.Parallel()
	server := start(t, embedded.Config{Dir: preparedFolder(t)})
	before, pid := server.URL(), server.PID()
	query(t, before, "create table parcels (id int)")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server.URL() != before || server.PID() == pid {
		t.Errorf("address %s and process %d, were %s and %d", server.URL(), server.PID(), before, pid)
	}
	wantParcels(t, before, "0")
	stop(t, server)
	if err := server.Restart(t.Context()); err == nil {
		t.Error("a closed server was started again")
	}
	if err := server.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// The program is killed: its server does not outlive it, and the next program finds everything committed.
func TestProgramKilled(t *testing.T) {
	t.Parallel()
	dir := preparedFolder(t)
	program := startProgram(t, dir, nil)
	if program.url == "" {
		skipWithoutBinaries(t, program.said)
		t.Fatal(program.said)
	}
	query(t, program.url, "create table parcels (id int); insert into parcels values (1)")
	if err := program.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.cmd.Wait()
	if runtime.GOOS == "linux" {
		eventually(t, "the server has ended", func() bool {
			_, err := tryQuery(t.Context(), program.url, "select 1")
			return err != nil
		})
	}
	server := start(t, embedded.Config{Dir: dir})
	wantParcels(t, server.URL(), "1")
}

// Right after the kill the old server may still be shutting down, and a server may have been left running where the
// kernel does not stop it: the next start deals with both.
func TestServerLeftRunning(t *testing.T) {
	t.Parallel()
	dir := preparedFolder(t)
	server := start(t, embedded.Config{Dir: dir})
	query(t, server.URL(), "create table parcels (id int); insert into parcels values (1)")
	stop(t, server)

	bin := embedded.BinDir(server)
	left := exec.Command(filepath.Join(bin, "postgres"), "-D", server.DataDir(),
		"-c", "unix_socket_directories=", "-c", "listen_addresses=127.0.0.1", "-c", "port="+port(t, server.URL()))
	if uid := ownerOf(t, server.DataDir()); uid != os.Geteuid() {
		left.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	left.Dir = "/"
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- left.Wait() }()
	eventually(t, "the left server answers", func() bool {
		_, err := tryQuery(t.Context(), server.URL(), "select 1")
		return err == nil
	})
	again := start(t, embedded.Config{Dir: dir})
	if err := <-gone; err != nil {
		t.Errorf("the left server was not stopped in order: %v", err)
	}
	wantParcels(t, again.URL(), "1")
}

// A second program on the same folder is told who has it, or uses the first one's server if it says so.
func TestSecondProgram(t *testing.T) {
	t.Parallel()
	dir := preparedFolder(t)
	first := start(t, embedded.Config{Dir: dir})
	if _, err := tryStart(t, embedded.Config{Dir: dir}); !errors.Is(err, embedded.ErrInUse) || !strings.Contains(err.Error(), "WAYBILL_DATA") {
		t.Errorf("error %v, want ErrInUse with a way out", err)
	}
	second := startProgram(t, dir, nil)
	if !strings.Contains(second.said, "in use by another program") {
		t.Errorf("the second program says %q", second.said)
	}
	joined := start(t, embedded.Config{Dir: dir, Join: true})
	if joined.URL() != first.URL() {
		t.Errorf("joined %s, want %s", joined.URL(), first.URL())
	}
	stop(t, joined)
	query(t, first.URL(), "select 1")
}

func skipWithoutBinaries(t *testing.T, said string) {
	t.Helper()
	if strings.Contains(said, embedded.ErrNoBinaries.Error()) && os.Getenv("CI") != "true" {
		t.Skip(said)
	}
}
