// Package embedded runs a private Postgres server out of a data folder, for machines where nobody has set one up.
//
// It promises a real server with fsync on: the newest PostgreSQL found on the machine, else one fetched once. The server
// listens on 127.0.0.1 only, asks for a password that stands in the folder, and runs as an unprivileged user when the
// program is root. It stops when Close is called and, on Linux, when the program dies in any other way; on other systems
// the next Start stops what was left. Data survive kill -9 of the program and of the server; a server that dies while
// the program lives is started again at the same address.
//
// Inside the folder:
//
//	postgres.lock       held by the program that runs the server; its process id
//	postgres.password   the password of the role waybill, 0600
//	postgres.port       the port of the last start, taken again if it is free
//	postgres/           data, fetched binaries and server.log; a link to a folder elsewhere if the unprivileged
//	                    user cannot enter this one
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The role and the database that Start makes.
const (
	Role     = "waybill"
	Database = "waybill"
)

// DefaultDir is the data folder when Config names none.
const DefaultDir = ".waybill"

// DefaultRepository is the Maven repository the server's binaries are fetched from.
const DefaultRepository = "https://repo1.maven.org/maven2"

var (
	// ErrInUse means that another living program runs the server of this folder.
	ErrInUse = errors.New("the data folder is in use by another program")
	// ErrNoBinaries means that this machine has no PostgreSQL, and that none was fetched.
	ErrNoBinaries = errors.New("no PostgreSQL server was found on this machine")
)

// Config says where and how the server runs.
type Config struct {
	Dir    string       // data folder, made if it is absent; DefaultDir when empty
	Logger *slog.Logger // what happens is told here; nil: nowhere

	// Settings are parameters of postgresql.conf, by name, such as max_connections. Address and port are not among them.
	Settings map[string]string

	// Join makes Start use the server that another program runs from this folder, instead of answering ErrInUse.
	Join bool

	Offline    bool   // never fetch: ErrNoBinaries instead
	Repository string // base URL of the Maven repository to fetch from; DefaultRepository when empty

	// StartTimeout bounds the wait for the server, crash recovery included; 0: two minutes.
	StartTimeout time.Duration
}

// Server is a running Postgres. Its methods may be called at the same time.
type Server struct {
	config   Config
	logger   *slog.Logger
	layout   layout
	binaries binaries
	account  account
	password string

	lock      *os.File // nil when the server is another program's
	placeLock *os.File // of data kept elsewhere, to which two folders may lead if one was copied

	life context.Context // ends with Close; bounds restarts
	end  context.CancelFunc

	mu      sync.Mutex
	port    int
	process *process
	closed  bool
}

// Start makes the data folder if need be, starts the server and waits until it answers. An error says what to do about it.
func Start(ctx context.Context, config Config) (*Server, error) {
	if config.Dir == "" {
		config.Dir = DefaultDir
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Repository == "" {
		config.Repository = DefaultRepository
	}
	if config.StartTimeout == 0 {
		config.StartTimeout = 2 * time.Minute
	}
	s, err := start(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("embedded Postgres in %s: %w", config.Dir, err)
	}
	return s, nil
}

func start(ctx context.Context, config Config) (*Server, error) {
	layout, err := makeLayout(config.Dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(layout.lock)
	if errors.Is(err, ErrInUse) && config.Join {
		return join(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, logger: config.Logger, layout: layout, lock: lock}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.open(ctx); err != nil {
		s.end()
		unlock(s.placeLock)
		unlock(s.lock)
		return nil, err
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	var err error
	if s.account, err = chooseAccount(s.layout); err != nil {
		return err
	}
	if s.layout, err = settle(s.layout, s.account, s.logger); err != nil {
		return err
	}
	if s.layout.elsewhere() {
		if s.placeLock, err = lockFile(filepath.Join(s.layout.place, "lock")); err != nil {
			return err
		}
	}
	major, err := dataVersion(s.layout.data)
	if err != nil {
		return err
	}
	if s.binaries, err = findBinaries(ctx, s.config, s.layout, s.account, major); err != nil {
		return err
	}
	if s.password, err = loadPassword(s.layout, major != 0); err != nil {
		return err
	}
	if major == 0 {
		if err := s.initialise(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.run(ctx, portChosen); err != nil {
		return err
	}
	if err := makeDatabase(ctx, s.url("postgres")); err != nil {
		s.process.stop()
		return err
	}
	s.logger.InfoContext(ctx, "embedded Postgres is running", "version", s.binaries.version, "port", s.port,
		"data", s.layout.data, "user", s.account.String())
	return nil
}

// join waits for the running server of another program. Its lock says that it lives; that it may still be making the
// folder is why all of it is read again and again.
func join(ctx context.Context, config Config) (*Server, error) {
	s := &Server{config: config, logger: config.Logger}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, config.StartTimeout)
	defer cancel()
	var last error
	err := until(ctx, func() (bool, error) {
		if s.layout, last = makeLayout(config.Dir); last != nil {
			return false, nil
		}
		if s.password, last = loadPassword(s.layout, true); last != nil {
			return false, nil
		}
		running, ok := readPID(s.layout.data)
		if !ok || !running.ready {
			return false, nil
		}
		s.port = running.port
		last = ping(ctx, s.url(Database))
		return last == nil, nil
	})
	if err != nil {
		s.end()
		return nil, fmt.Errorf("join the server of process %s: %w", holder(s.layout.lock), errors.Join(err, last))
	}
	return s, nil
}

// URL is the connection string of the database waybill, with its password.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url(Database)
}

func (s *Server) url(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(Role, s.password), Host: fmt.Sprintf("127.0.0.1:%d", s.port),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Version is the server's version as it says it, such as "17.5"; empty for a joined one.
func (s *Server) Version() string { return s.binaries.version }

// DataDir is the folder of the cluster, an absolute path.
func (s *Server) DataDir() string { return s.layout.data }

// PID is the process id of the server (of the postmaster), 0 when it is not running or another program's.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.pid
}

// Restart stops the server as an administrator would (open transactions are rolled back, connections closed) and starts
// it again at the same address.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.lock == nil {
		return errors.New("embedded Postgres: not running here")
	}
	old := s.process
	s.process = nil // its watcher has nothing to do
	old.stop()
	if err := s.run(ctx, portKept); err != nil {
		return fmt.Errorf("embedded Postgres: restart: %w", err)
	}
	return nil
}

// Close stops the server: sessions end, everything committed is on disk. A joined server goes on. It may be called again.
func (s *Server) Close() error {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.lock == nil {
		return nil
	}
	defer unlock(s.lock)
	defer unlock(s.placeLock)
	if s.process == nil {
		return nil
	}
	if !s.process.stop() {
		return errors.New("embedded Postgres: the server had to be killed; its next start recovers")
	}
	return nil
}

// watch starts the server again when it ended without being asked to.
func (s *Server) watch(p *process) {
	<-p.done
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.process != p {
		return
	}
	s.process = nil
	for try := 1; ; try++ {
		s.logger.Warn("embedded Postgres ended; starting it again", "try", try, "end", p.end())
		err := s.run(s.life, portKept)
		if err == nil || s.life.Err() != nil {
			return
		}
		s.logger.Error("embedded Postgres does not start", "error", err.Error())
		if try == 10 {
			return
		}
		select {
		case <-time.After(time.Duration(try) * 500 * time.Millisecond):
		case <-s.life.Done():
			return
		}
	}
}

// until asks done every 20 ms.
func until(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
