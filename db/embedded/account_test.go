package embedded_test

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"waybill/db/embedded"
)

// As root below a folder that is closed to everybody else, such as /root: the data are kept where the server can go.
func TestClosedFolder(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as somebody else")
	}
	dir := filepath.Join(t.TempDir(), "data")
	server := start(t, embedded.Config{Dir: dir})
	place, err := os.Readlink(filepath.Join(dir, "postgres"))
	if err != nil {
		t.Fatalf("there is no link to another place: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(place) })
	if server.DataDir() != filepath.Join(place, "data") {
		t.Errorf("the data are in %s, want them in %s", server.DataDir(), place)
	}
	query(t, server.URL(), "create table parcels (id int); insert into parcels values (1)")
	stop(t, server)
	again := start(t, embedded.Config{Dir: dir})
	wantParcels(t, again.URL(), "1")

	copied := filepath.Join(t.TempDir(), "data")
	if said, err := exec.Command("cp", "-Rp", dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if _, err := tryStart(t, embedded.Config{Dir: copied}); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("a copy of the folder: error %v, want ErrInUse", err)
	}
	wantParcels(t, again.URL(), "1")
}

// Root continues what a user started, as that user; and the user can go on afterwards.
func TestUserAndRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	nobody := credentialOf(t, "nobody")
	parent := folder(t)
	if err := os.Chown(parent, int(nobody.Uid), int(nobody.Gid)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "data")
	program := startProgram(t, dir, nobody)
	if program.url == "" {
		skipWithoutBinaries(t, program.said)
		t.Fatal(program.said)
	}
	query(t, program.url, "create table parcels (id int); insert into parcels values (1)")
	program.stdin.Close()
	if err := program.cmd.Wait(); err != nil {
		t.Fatalf("the program: %v", err)
	}
	server := start(t, embedded.Config{Dir: dir})
	wantParcels(t, server.URL(), "1")
	if owner := ownerOf(t, server.DataDir()); owner != int(nobody.Uid) {
		t.Errorf("the data belong to %d, want the user who made them, %d", owner, nobody.Uid)
	}
	stop(t, server)
	again := startProgram(t, dir, nobody)
	if again.url == "" {
		t.Fatal(again.said)
	}
	wantParcels(t, again.url, "1")
}

// A user meets the data of another one: told, and nothing is changed.
func TestDataOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	nobody := credentialOf(t, "nobody")
	dir := preparedFolder(t)
	if ownerOf(t, filepath.Join(dir, "postgres", "data")) == int(nobody.Uid) {
		t.Skip("the server runs as nobody on this machine")
	}
	program := startProgram(t, dir, nobody)
	if !strings.Contains(program.said, "permission denied") || !strings.Contains(program.said, "run as that user") {
		t.Errorf("the program says %q", program.said)
	}
}

func credentialOf(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Skip(err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Skip(err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		t.Skip(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
