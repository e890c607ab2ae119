package dbtest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db/dbtest"
)

// userEnv makes TestUser a program that uses the shared server until its standard input ends.
const userEnv = "WAYBILL_DBTEST_TEST_USER"

func TestUser(t *testing.T) {
	if os.Getenv(userEnv) == "" {
		return // it is a part of TestSharedServer
	}
	url := dbtest.AdminURL(t)
	dbtest.NewURL(t)
	fmt.Println("url", url)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type user struct {
	cmd *exec.Cmd
	url string
}

// startUser starts a test program whose shared server lives below temp.
func startUser(t *testing.T, temp string) *user {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestUser$")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, userEnv+"=1", dbtest.EnvURL+"=")
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u := &user{cmd: cmd}
	t.Cleanup(u.kill)
	var said strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "url "); ok {
			u.url = url
			return u
		}
		fmt.Fprintln(&said, lines.Text())
	}
	if strings.Contains(said.String(), "SKIP") {
		t.Skip(said.String())
	}
	t.Fatalf("the other test program says:\n%s", said.String())
	return nil
}

// kill is kill -9.
func (u *user) kill() {
	_ = u.cmd.Process.Kill()
	_ = u.cmd.Wait()
}

// The server is shared, outlives the program that started it, ends with its last user however that ends, and comes back
// after anything was killed.
func TestSharedServer(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "waybill-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The last keeper may still be writing.
		eventually(t, "the folder is removed", func() bool { return os.RemoveAll(temp) == nil })
	})
	if err := os.Chmod(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(temp, "waybill-dbtest-"+strconv.Itoa(os.Getuid()))

	first, second := startUser(t, temp), startUser(t, temp)
	if first.url != second.url {
		t.Errorf("two programs have two servers, %s and %s", first.url, second.url)
	}
	first.kill()
	third := startUser(t, temp)
	if third.url != second.url {
		t.Errorf("after the first program's end the server is %s, was %s", third.url, second.url)
	}
	second.kill()
	third.kill()
	eventually(t, "the server has ended, in order", func() bool {
		_, err := os.Stat(filepath.Join(folder, "clean"))
		return err == nil && !answers(t, third.url)
	})

	fourth := startUser(t, temp)
	if left := databases(t, fourth.url, `waybill\_test\_%`); left != 1 {
		t.Errorf("%d databases of tests, want only the one of the program that runs", left)
	}
	if err := killKeeper(folder); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has ended with its keeper", func() bool { return !answers(t, fourth.url) })
	fifth := startUser(t, temp)
	if !answers(t, fifth.url) {
		t.Error("there is no server after the keeper was killed")
	}
	fourth.kill()
	fifth.kill()
	eventually(t, "the server has ended, in order", func() bool {
		_, err := os.Stat(filepath.Join(folder, "clean"))
		return err == nil && !answers(t, fifth.url)
	})
}

// killKeeper finds the keeper by the lock of the server that it runs.
func killKeeper(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "server", "postgres.lock"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	keeper, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return keeper.Kill()
}

func answers(t *testing.T, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return false
	}
	defer conn.Close(t.Context())
	return conn.Ping(t.Context()) == nil
}

func databases(t *testing.T, url, like string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var count int
	if err := conn.QueryRow(t.Context(), "select count(*) from pg_database where datname like $1", like).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}
