package db_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/dbtest"
)

// pgbouncer starts one before the database at url and returns its own. It is in Debian's package of the same name; a machine without it, as the gate's may
// be, skips the test.
func pgbouncer(t *testing.T, url, settings string) string {
	t.Helper()
	binary, err := osexec.LookPath("pgbouncer")
	if err != nil {
		if binary = "/usr/sbin/pgbouncer"; !executable(binary) {
			t.Skip("pgbouncer is not installed")
		}
	}
	to, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	dir, err := os.MkdirTemp("", "waybill-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\nx = host=%s port=%d dbname=%s user=%s password=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nauth_type = any\nunix_socket_dir =\n%s\n",
		to.Host, to.Port, to.Database, to.User, to.Password, port, settings)
	if err := errors.Join(os.WriteFile(ini, []byte(text), 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(binary, ini)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // it does not run as root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("pgbouncer does not listen: %v", err)
		}
	}
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/x?sslmode=disable", to.User, port)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

// Through a pooler in session mode every connection has its settings and keeps its session; one that shares sessions, or drops settings, is refused in words.
func TestPooler(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	t.Run("session", func(t *testing.T) {
		pool, err := db.Open(t.Context(), pgbouncer(t, url, "pool_mode = session"), db.Options{AppName: "pooled", Params: map[string]string{"enable_bitmapscan": "off"}})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		for name, want := range map[string]string{"search_path": db.Schema, "statement_timeout": "30s", "enable_bitmapscan": "off", "application_name": "pooled", "timezone": "UTC", "jit": "off"} {
			var got string
			if err := pool.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, %v; want %q", name, got, err, want)
			}
		}
		if state, err := db.SchemaState(t.Context(), pool); err != nil || state != db.Current {
			t.Errorf("the schema is %s, %v", state, err)
		}
	})
	for mode, c := range map[string]struct {
		settings string
		want     error
	}{
		"transaction": {"pool_mode = transaction", db.ErrSharedSessions},
		"statement":   {"pool_mode = statement", nil}, // refused by itself: it takes no transaction
		"dropped": {"pool_mode = session\nignore_startup_parameters = search_path, statement_timeout, lock_timeout, idle_in_transaction_session_timeout, " +
			"tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count, jit", db.ErrDroppedSettings},
	} {
		t.Run(mode, func(t *testing.T) {
			pool, err := db.Open(t.Context(), pgbouncer(t, url, c.settings), db.Options{})
			if err == nil {
				pool.Close()
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
