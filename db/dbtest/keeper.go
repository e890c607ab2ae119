package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db/embedded"
)

// The shared server lives in a folder below the system's temporary one. Each test program holds a shared lock on the
// file `users` for as long as it lives; the kernel gives it up however the program ends. The server is run by a keeper, a
// second process of the test program that first needed one, which stops it when it has found the file without users for a
// while, and which the server in turn does not outlive. The folder stays, so that the next run starts in a tenth of a
// second and finds its template; since nothing in it is worth a sync to disk, it is made anew unless the last keeper left
// the mark `clean`.

// keeperEnv, set to the folder, makes a test program be the keeper instead of running its tests.
const keeperEnv = "WAYBILL_DBTEST_KEEPER"

// linger is how long the keeper waits for another user: the next package's tests come within that time or pay a start.
const linger = 3 * time.Second

func init() {
	if folder := os.Getenv(keeperEnv); folder != "" {
		if err := keep(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func missing(err error) bool { return errors.Is(err, embedded.ErrNoBinaries) }

// joinServer is the maintenance database's connection string of the shared server, started if nobody runs it, and this
// program's lock on `users`: it must be kept where the garbage collector sees it, which closes files that nobody can reach.
func joinServer() (url string, using *os.File, err error) {
	folder, err := sharedFolder()
	if err != nil {
		return "", nil, err
	}
	// While a keeper stops its server it has the lock for itself, and this waits.
	if using, err = lockFolder(folder, "users", syscall.LOCK_SH); err != nil {
		return "", nil, err
	}
	starting, err := lockFolder(folder, "starting", syscall.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	defer unlock(starting)
	if url, err = running(folder); err == nil {
		return url, using, nil
	}
	url, err = startKeeper(folder)
	return url, using, err
}

// sharedFolder refuses one that somebody else made under our name in a folder open to all.
func sharedFolder() (string, error) {
	folder := filepath.Join(os.TempDir(), "waybill-dbtest-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || ok && int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s belongs to somebody else", folder)
	}
	return folder, os.Chmod(folder, 0o755)
}

func lockFolder(folder, name string, how int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// unlock gives the lock up before it closes the file, of which a child between its fork and its exec has a copy.
func unlock(file *os.File) {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) // fails only for a bad descriptor
	file.Close()
}

func serverDir(folder string) string { return filepath.Join(folder, "server") }
func cleanMark(folder string) string { return filepath.Join(folder, "clean") }

var errNotRunning = errors.New("no keeper runs")

// running is the address of the server, which the keeper wrote down, if a keeper lives.
func running(folder string) (string, error) {
	alive, err := lockFolder(folder, "keeper", syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		unlock(alive)
		return "", errNotRunning
	}
	text, err := os.ReadFile(filepath.Join(folder, "url"))
	if err != nil {
		return "", err
	}
	url := strings.TrimSpace(string(text))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	return url, conn.Close(ctx)
}

// startKeeper waits for the keeper it starts until that has written the address, or has ended.
func startKeeper(folder string) (string, error) {
	if err := os.Remove(filepath.Join(folder, "url")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(folder, "keeper.log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := exec.Command(program)
	cmd.Dir = folder // not the package's: that may be gone while the keeper lives
	cmd.Env = append(os.Environ(), keeperEnv+"="+folder)
	cmd.Stdout, cmd.Stderr = log, log // not ours: `go test` waits until those are closed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		if url, err := running(folder); err == nil {
			return url, nil
		}
		select {
		case <-tick.C:
		case <-ended:
			said, _ := os.ReadFile(log.Name())
			if strings.Contains(string(said), embedded.ErrNoBinaries.Error()) {
				return "", embedded.ErrNoBinaries
			}
			return "", fmt.Errorf("the test server did not start:\n%s", said)
		case <-late:
			_ = cmd.Process.Kill()
			return "", fmt.Errorf("the test server did not start within a minute; see %s", log.Name())
		}
	}
}

// keep is the keeper: it runs the server until nobody uses it.
func keep(folder string) error {
	alive, err := becomeKeeper(folder)
	if err != nil {
		return err
	}
	defer unlock(alive)
	if err := os.Remove(cleanMark(folder)); err != nil {
		if err := wipe(folder); err != nil {
			return err
		}
	}
	server, err := startServer(folder)
	if err != nil {
		if err := wipe(folder); err != nil { // it may have been made by another version of PostgreSQL
			return err
		}
		if server, err = startServer(folder); err != nil {
			return err
		}
	}
	defer server.Close()
	admin := withDatabase(server.URL(), "postgres")
	if err := sweep(admin); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "url.new"), []byte(admin+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(folder, "url.new"), filepath.Join(folder, "url")); err != nil {
		return err
	}
	users, err := untilUnused(folder)
	if err != nil {
		return err
	}
	defer unlock(users) // after the mark: whoever waits for it finds everything settled
	if err := server.Close(); err != nil {
		return err
	}
	return os.WriteFile(cleanMark(folder), nil, 0o600)
}

// becomeKeeper tries for a while, because those who ask whether a keeper lives hold the lock for a moment.
func becomeKeeper(folder string) (*os.File, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for {
		alive, err := lockFolder(folder, "keeper", syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return alive, err
		}
		select {
		case <-tick.C:
		case <-late:
			return nil, fmt.Errorf("there is another keeper: %w", err)
		}
	}
}

// startServer gives up what a test does not need: nothing it stores has to survive a crash of the machine.
func startServer(folder string) (*embedded.Server, error) {
	return embedded.Start(context.Background(), embedded.Config{
		Dir: serverDir(folder), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Offline: true,
		Settings: map[string]string{
			"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
			"max_connections": "300", "shared_buffers": "128MB",
			"wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "2GB", "checkpoint_timeout": "1h",
			"autovacuum": "off", "jit": "off",
		},
	})
}

// wipe also removes the data when they were put elsewhere.
func wipe(folder string) error {
	link := filepath.Join(serverDir(folder), "postgres")
	if target, err := os.Readlink(link); err == nil {
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	return os.RemoveAll(serverDir(folder))
}

// untilUnused returns with the lock on `users`, when that was free for a while.
func untilUnused(folder string) (*os.File, error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	since := time.Now()
	for range tick.C {
		users, err := lockFolder(folder, "users", syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			since = time.Now()
			continue
		}
		if err != nil {
			return nil, err
		}
		if time.Since(since) >= linger {
			return users, nil
		}
		unlock(users)
	}
	return nil, errors.New("the ticker ended")
}

// sweep drops what killed test programs left, and the templates when there are many: their migrations have moved on.
func sweep(admin string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `
		select datname from pg_database
		where datname like 'waybill\_test\_%' or datname like 'waybill\_template\_%'
			and (select count(*) from pg_database where datname like 'waybill\_template\_%') > 4`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "drop database "+name); err != nil {
			return err
		}
	}
	return nil
}
