package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db/embedded"
)

// programEnv, set to a folder, makes the test program one that runs the embedded server of that folder until its standard
// input ends. It prints the URL and the server's process id, or what went wrong.
const programEnv = "WAYBILL_EMBEDDED_TEST_PROGRAM"

// repositoryEnv makes such a program fetch from there, and see no server that the machine has.
const repositoryEnv = "WAYBILL_EMBEDDED_TEST_REPOSITORY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(programEnv); dir != "" {
		repository := os.Getenv(repositoryEnv)
		if repository != "" {
			embedded.Places(nil)
		}
		server, err := embedded.Start(context.Background(), embedded.Config{
			Dir: dir, Repository: repository, Offline: repository == "",
		})
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
			os.Exit(1)
		}
		fmt.Println(server.URL(), server.PID())
		_, _ = io.Copy(io.Discard, os.Stdin)
		if err := server.Close(); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if dir, _ := prepared(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// program is a second process that runs a server.
type program struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
	pid   int // of the server
	said  string
}

// startProgram starts one as this user, or as the one of credential.
func startProgram(t *testing.T, dir string, credential *syscall.Credential, env ...string) *program {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if credential != nil {
		path = copyForAll(t, path)
	}
	cmd := exec.Command(path)
	cmd.Dir = "/"
	cmd.Env = append(append(os.Environ(), programEnv+"="+dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: cmd, stdin: stdin}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the program said nothing: %v", err)
	}
	p.said = strings.TrimSpace(line)
	if url, pid, ok := strings.Cut(p.said, " "); ok && url != "error" {
		p.url = url
		if p.pid, err = strconv.Atoi(pid); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// copyForAll puts a program where every user can run it.
func copyForAll(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(folder(t), "program")
	if err := os.WriteFile(copied, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return copied
}

// folder is a temporary one that every user can enter; t.TempDir's is closed to all others.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "waybill-embedded-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A server whose program was killed may still be writing its last files.
		eventually(t, "the folder is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start is embedded.Start for a test: without a sync of the new cluster to disk, closed at the end.
func start(t *testing.T, config embedded.Config) *embedded.Server {
	t.Helper()
	server, err := tryStart(t, config)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func tryStart(t *testing.T, config embedded.Config) (*embedded.Server, error) {
	t.Helper()
	config.Offline = config.Repository == ""
	server, err := embedded.Start(t.Context(), config)
	if errors.Is(err, embedded.ErrNoBinaries) && os.Getenv("CI") != "true" && config.Repository == "" {
		t.Skip(err)
	}
	if err == nil {
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return server, err
}

// prepared is a data folder that a server has made and left. Its copies save the tests the making.
var prepared = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "waybill-embedded-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	server, err := embedded.Start(context.Background(), embedded.Config{
		Dir: dir, Offline: true, Settings: map[string]string{"fsync": "off"},
	})
	if err != nil {
		return dir, err
	}
	return dir, server.Close()
})

// preparedFolder is a copy of it.
func preparedFolder(t *testing.T) string {
	t.Helper()
	from, err := prepared()
	if errors.Is(err, embedded.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(folder(t), "data")
	if said, err := exec.Command("cp", "-Rp", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if err := os.Remove(filepath.Join(dir, "postgres.port")); err != nil { // everybody's first choice otherwise
		t.Fatal(err)
	}
	return dir
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	text, err := tryQuery(t.Context(), url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// tryQuery is the text of the first column of the first row, if there is one.
func tryQuery(ctx context.Context, url, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	for _, result := range results {
		if len(result.Rows) > 0 {
			return string(result.Rows[0][0]), nil
		}
	}
	return "", nil
}

// eventually waits up to half a minute for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
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
