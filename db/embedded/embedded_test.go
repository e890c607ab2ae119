package embedded_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"waybill/db"
	"waybill/db/embedded"
)

// One folder through its life: made, reused, and met again in the states that crashes and people leave it in.
func TestFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "deep", "data")
	server := start(t, embedded.Config{Dir: dir, Settings: map[string]string{"work_mem": "5MB"}})
	address := server.URL()

	t.Run("is a safe server", func(t *testing.T) {
		for setting, want := range map[string]string{
			"fsync": "on", "listen_addresses": "127.0.0.1", "server_encoding": "UTF8", "lc_collate": "C",
			"unix_socket_directories": "", "work_mem": "5MB", "timezone": "UTC", "port": port(t, address),
		} {
			// lc_collate is no setting any more since PostgreSQL 16.
			if got := query(t, address, "select coalesce(current_setting('"+setting+"', true), 'C')"); got != want {
				t.Errorf("%s is %q, want %q", setting, got, want)
			}
		}
		if _, err := tryQuery(t.Context(), withPassword(t, address, "guess"), "select 1"); db.Code(err) != "28P01" {
			t.Errorf("a wrong password: error %v, want 28P01", err)
		}
		info, err := os.Stat(filepath.Join(dir, "postgres.password"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the password file: mode %v, error %v, want 0600", info.Mode(), err)
		}
		if owner := ownerOf(t, server.DataDir()); owner == 0 {
			t.Error("the data belong to root")
		}
	})
	query(t, address, "create table parcels (id int); insert into parcels values (1)")
	stop(t, server)

	t.Run("reused at the same address", func(t *testing.T) {
		server := start(t, embedded.Config{Dir: dir})
		if server.URL() != address {
			t.Errorf("the address is %s, was %s", server.URL(), address)
		}
		wantParcels(t, server.URL(), "1")
		stop(t, server)
	})

	t.Run("port taken by another program", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:"+port(t, address))
		if err != nil {
			t.Skip("somebody has taken it already: ", err)
		}
		defer listener.Close()
		server := start(t, embedded.Config{Dir: dir})
		if port(t, server.URL()) == port(t, address) {
			t.Error("the port is the taken one")
		}
		wantParcels(t, server.URL(), "1")
		stop(t, server)
	})

	t.Run("stale pid file with the number of another process", func(t *testing.T) {
		stranger := exec.Command("sleep", "60")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		defer stranger.Wait()
		defer stranger.Process.Kill()
		writePID(t, server.DataDir(), stranger.Process.Pid)
		server := start(t, embedded.Config{Dir: dir})
		wantParcels(t, server.URL(), "1")
		stop(t, server)
		if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the other process was touched: %v", err)
		}
	})

	t.Run("stale pid file of a dead process", func(t *testing.T) {
		dead := exec.Command("true")
		if err := dead.Run(); err != nil {
			t.Fatal(err)
		}
		writePID(t, server.DataDir(), dead.Process.Pid)
		server := start(t, embedded.Config{Dir: dir})
		wantParcels(t, server.URL(), "1")
		stop(t, server)
	})

	t.Run("password lost", func(t *testing.T) {
		password := filepath.Join(dir, "postgres.password")
		if err := os.Rename(password, password+".away"); err != nil {
			t.Fatal(err)
		}
		wantError(t, dir, "is missing; put it back")
		if err := os.WriteFile(password, []byte("a-password-of-something-else\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		wantError(t, dir, "does not take the password in "+password)
		if err := os.Rename(password+".away", password); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("data of another version", func(t *testing.T) {
		file := filepath.Join(server.DataDir(), "PG_VERSION")
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, file, "99\n")
		wantError(t, dir, "was made by PostgreSQL 99", "which is not on this machine (found: ", "move "+server.DataDir()+" away")
		overwrite(t, file, "nonsense\n")
		wantError(t, dir, "PG_VERSION")
		overwrite(t, file, string(before))
		server := start(t, embedded.Config{Dir: dir})
		wantParcels(t, server.URL(), "1")
		stop(t, server)
	})

	t.Run("a start that was interrupted in the middle", func(t *testing.T) {
		if err := os.Rename(server.DataDir(), server.DataDir()+".away"); err != nil {
			t.Fatal(err)
		}
		half := filepath.Join(filepath.Dir(server.DataDir()), "new-123", "data")
		if err := os.MkdirAll(half, 0o700); err != nil {
			t.Fatal(err)
		}
		server := start(t, embedded.Config{Dir: dir})
		query(t, server.URL(), "create table parcels (id int)")
		wantParcels(t, server.URL(), "0")
		stop(t, server)
		if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what the interrupted start left is still there: %v", err)
		}
	})

	t.Run("a data folder that is none", func(t *testing.T) {
		if err := os.Remove(filepath.Join(server.DataDir(), "PG_VERSION")); err != nil {
			t.Fatal(err)
		}
		wantError(t, dir, "holds no database")
	})
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	file := filepath.Join(dir, "file")
	overwrite(t, file, "x")
	wantError(t, filepath.Join(file, "data"), "WAYBILL_DATA")

	_, err := tryStart(t, embedded.Config{Dir: preparedFolder(t), Settings: map[string]string{"max_connections": "many"}})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "max_connections"`) {
		t.Errorf("error %v, want one with what the server wrote", err)
	}
}

func stop(t *testing.T, server *embedded.Server) {
	t.Helper()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantParcels(t *testing.T, url, want string) {
	t.Helper()
	if got := query(t, url, "select count(*) from parcels"); got != want {
		t.Errorf("%s parcels, want %s", got, want)
	}
}

func wantError(t *testing.T, dir string, parts ...string) {
	t.Helper()
	_, err := tryStart(t, embedded.Config{Dir: dir})
	if err == nil {
		t.Fatal("it started")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want %q in it", err, part)
		}
	}
}

func writePID(t *testing.T, data string, pid int) {
	t.Helper()
	overwrite(t, filepath.Join(data, "postmaster.pid"), strconv.Itoa(pid)+"\n"+data+"\n1700000000\n5432\n\n127.0.0.1\n")
	if uid := ownerOf(t, data); uid != os.Geteuid() {
		if err := os.Chown(filepath.Join(data, "postmaster.pid"), uid, -1); err != nil {
			t.Fatal(err)
		}
	}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

func port(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func withPassword(t *testing.T, address, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(embedded.Role, password)
	return u.String()
}
