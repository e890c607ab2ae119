package embedded

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// newest is what is fetched when there are no data yet.
const newest = 18

// releases are the builds there are of each major version.
var releases = map[int]embeddedpostgres.PostgresVersion{
	13: embeddedpostgres.V13, 14: embeddedpostgres.V14, 15: embeddedpostgres.V15,
	16: embeddedpostgres.V16, 17: embeddedpostgres.V17, 18: embeddedpostgres.V18,
}

// fetchBinaries fetches PostgreSQL of this major version (0: the newest) into the data folder.
func fetchBinaries(ctx context.Context, config Config, l layout, account account, major int) (binaries, error) {
	if config.Offline {
		return binaries{}, fmt.Errorf("%w, and none may be fetched", ErrNoBinaries)
	}
	if major == 0 {
		major = newest
	}
	release, ok := releases[major]
	if !ok {
		return binaries{}, fmt.Errorf("%w, and version %d is not there to be fetched", ErrNoBinaries, major)
	}
	config.Logger.InfoContext(ctx, "no PostgreSQL on this machine; fetching one, once",
		"version", string(release), "from", config.Repository)
	done := make(chan error, 1)
	go func() { done <- fetch(config.Repository, l, release) }() // the library takes no context
	select {
	case err := <-done:
		if err != nil {
			return binaries{}, fmt.Errorf("%w, and PostgreSQL %s for %s could not be fetched from %s: %w",
				ErrNoBinaries, release, system(), config.Repository, err)
		}
	case <-ctx.Done():
		return binaries{}, fmt.Errorf("fetch PostgreSQL: %w", ctx.Err())
	}
	root := filepath.Join(l.binaries, string(release))
	if err := give(root, account); err != nil {
		return binaries{}, err
	}
	found, err := examine(ctx, filepath.Join(root, "bin"), l.place, account)
	if err != nil {
		return binaries{}, fmt.Errorf("the PostgreSQL that was fetched does not run on this machine: %w", err)
	}
	return found, nil
}

// fetch lets the library download, check and unpack. It offers that only as a part of starting a server of its own, which
// cannot be done as root; so it is given a folder that it takes for existing data and that no server starts from, and what
// counts is whether the programs are there afterwards. They are renamed into place when they are whole.
func fetch(repository string, l layout, release embeddedpostgres.PostgresVersion) error {
	if err := os.MkdirAll(l.binaries, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(l.binaries, "fetching-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	noData := filepath.Join(work, "no-data")
	if err := os.Mkdir(noData, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(noData, "PG_VERSION"), []byte(release), 0o600); err != nil {
		return err
	}
	port, err := freePort(0)
	if err != nil {
		return err
	}
	unpacked := filepath.Join(work, "unpacked")
	started := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(release).
		BinaryRepositoryURL(repository).
		CachePath(filepath.Join(work, "cache")).
		RuntimePath(filepath.Join(work, "runtime")).
		BinariesPath(unpacked).
		DataPath(noData).
		Port(uint32(port)).
		StartTimeout(time.Second).
		Logger(io.Discard)).
		Start()
	for _, name := range []string{"postgres", "initdb"} {
		if _, err := os.Stat(filepath.Join(unpacked, "bin", name)); err != nil {
			if started == nil {
				started = err
			}
			return started
		}
	}
	return os.Rename(unpacked, filepath.Join(l.binaries, string(release)))
}

// give hands what was fetched to the account, readable whatever the umask was.
func give(root string, account account) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if account.other {
			if err := os.Lchown(path, account.uid, account.gid); err != nil {
				return err
			}
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()|0o500)
	})
}
