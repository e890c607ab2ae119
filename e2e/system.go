package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/seal"
	"waybill/db"
	"waybill/db/embedded"
)

// ReceiverHost is the address of receivers, and ReceiverNet the only network beside the public ones that the programs may reach.
const (
	ReceiverHost = "127.0.0.2"
	ReceiverNet  = ReceiverHost + "/32"
)

// Options are what systems differ in.
type Options struct {
	Binary   string            // the program (Build)
	Server   *embedded.Server  // a server to make a database on; nil: one of its own, stopped with the system
	Settings map[string]string // of a server of its own
	Offline  bool              // fetch no server's binaries when the machine has none
	Policy   string            // text of the policy file; empty: the built-in policy
	Keep     bool              // leave the folder behind
	// Line is given each line of each program's log; nil: they are only remembered.
	Line func(program string, line []byte)
}

// System is a database and the processes of the program on it.
type System struct {
	Dir         string
	Postgres    *embedded.Server
	DatabaseURL string
	Pool        *pgxpool.Pool // for publishers and questions; not the program's
	PlatformKey string

	o      Options
	keys   seal.Secret
	owns   bool
	policy string

	mu       sync.Mutex
	programs []*Program // those started and not given up
	ever     []*Program
}

// New makes a system with a migrated database and no process yet. Close it.
func New(ctx context.Context, o Options) (_ *System, err error) {
	s := &System{o: o, Postgres: o.Server, keys: seal.NewKey(), PlatformKey: "e2e-platform-key-0123456789abcdef"}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.Dir, err = TempDir("waybill-e2e-"); err != nil {
		return nil, err
	}
	if o.Policy != "" {
		s.policy = filepath.Join(s.Dir, "policy.yaml")
		if err = os.WriteFile(s.policy, []byte(o.Policy), 0o600); err != nil {
			return nil, err
		}
	}
	if s.Postgres == nil {
		if s.Postgres, err = StartPostgres(ctx, embedded.Config{Dir: filepath.Join(s.Dir, "data"), Settings: o.Settings, Offline: o.Offline}); err != nil {
			return nil, err
		}
		s.owns = true
	}
	s.DatabaseURL = s.Postgres.URL()
	if !s.owns {
		if s.DatabaseURL, err = newDatabase(ctx, s.Postgres.URL()); err != nil {
			return nil, err
		}
	}
	if _, err = db.Migrate(ctx, s.DatabaseURL, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if s.Pool, err = db.Open(ctx, s.DatabaseURL, db.Options{AppName: "e2e", MaxConns: 8}); err != nil {
		return nil, err
	}
	return s, nil
}

// TempDir makes a folder that a server's unprivileged account can enter: Postgres would be put elsewhere otherwise, and left there.
func TempDir(prefix string) (string, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// StartPostgres starts a server with fsync on and room for many processes. The folder must not be another server's.
func StartPostgres(ctx context.Context, c embedded.Config) (*embedded.Server, error) {
	settings := map[string]string{"max_connections": "400", "fsync": "on"}
	maps.Copy(settings, c.Settings)
	c.Settings = settings
	return embedded.Start(ctx, c)
}

// CrashPostgres ends the server by a signal: SIGQUIT is an immediate shutdown, SIGKILL a crash. It returns when the server, which is
// started again by itself, answers.
func (s *System) CrashPostgres(ctx context.Context, signal syscall.Signal, within time.Duration) error {
	before := s.Postgres.PID()
	if err := syscall.Kill(before, signal); err != nil {
		return fmt.Errorf("crash Postgres: %w", err)
	}
	return Until(ctx, within, "Postgres answers again", func() (bool, error) {
		if s.Postgres.PID() == before {
			return false, nil
		}
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		err := s.Pool.Ping(ask)
		return err == nil, err
	})
}

func newDatabase(ctx context.Context, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var name string
	if err := conn.QueryRow(ctx, `select 'e2e_' || replace(gen_random_uuid()::text, '-', '')`).Scan(&name); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, "create database "+name); err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Close kills what still runs and takes everything away.
func (s *System) Close() {
	for _, p := range s.Programs() {
		p.Kill()
	}
	if s.Pool != nil {
		s.Pool.Close()
	}
	if s.owns && s.Postgres != nil {
		_ = s.Postgres.Close()
	}
	if s.Dir != "" && !s.o.Keep {
		_ = os.RemoveAll(s.Dir)
	}
}

// Env is the environment of a process: this one's without its WAYBILL_ variables, those every process of the system has, and over's.
func (s *System) Env(over map[string]string) []string {
	set := map[string]string{
		"WAYBILL_DATABASE_URL": s.DatabaseURL, "WAYBILL_ADDR": "127.0.0.1:0", "WAYBILL_URL": "http://waybill.test",
		"WAYBILL_SECRET_KEYS": s.keys.Reveal(), "WAYBILL_PLATFORM_KEY": s.PlatformKey, "WAYBILL_ALLOW_HTTP": "true",
		"WAYBILL_EGRESS_ALLOW": ReceiverNet, "WAYBILL_DATA": filepath.Join(s.Dir, "program"), "WAYBILL_POLICY": s.policy,
	}
	maps.Copy(set, over)
	return environment(set)
}

func environment(set map[string]string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WAYBILL_") })
	for name, value := range set {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// startWithin is how long a process may take to be ready, on a machine that builds and tests other things at the same time.
const startWithin = 45 * time.Second

// Start starts one process and waits until it is ready.
func (s *System) Start(ctx context.Context, l Launch) (*Program, error) {
	p, err := s.Spawn(l)
	if err != nil {
		return nil, err
	}
	if err := p.WaitReady(ctx, startWithin); err != nil {
		s.Kill(p)
		return nil, err
	}
	return p, nil
}

// Spawn starts one process and does not wait.
func (s *System) Spawn(l Launch) (*Program, error) {
	arguments := []string{"serve"}
	if len(l.Roles) > 0 {
		arguments = append(arguments, "--only", strings.Join(l.Roles, ","))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Name == "" {
		l.Name = fmt.Sprintf("process %d", len(s.ever)+1)
	}
	p, err := spawn(cmp.Or(l.Binary, s.o.Binary), arguments, s.Env(l.Env), l, s.o.Line)
	if err != nil {
		return nil, err
	}
	s.programs, s.ever = append(s.programs, p), append(s.ever, p)
	return p, nil
}

// Programs are the processes that were started and not given up.
func (s *System) Programs() []*Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.programs)
}

// Ever is every process that was started, in that order.
func (s *System) Ever() []*Program { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.ever) }

// Forget takes a process that has ended off the list.
func (s *System) Forget(p *Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs = slices.DeleteFunc(s.programs, func(x *Program) bool { return x == p })
}

// Kill ends a process with SIGKILL and takes it off the list.
func (s *System) Kill(p *Program) {
	p.Kill()
	s.Forget(p)
}

// Stop asks a process to stop by SIGTERM, as a platform would, and returns its exit code.
func (s *System) Stop(p *Program, within time.Duration) (int, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	code, err := p.WaitExit(within)
	if err == nil {
		s.Forget(p)
	}
	return code, err
}

// Call asks the API as the platform, at whichever living process serves it. in and out become and are JSON (a
// []byte goes out as it is); both may be nil. An error that is an
// answer is a *Refusal.
func (s *System) Call(ctx context.Context, method, path string, in, out any) error {
	for _, p := range s.Programs() {
		if p.Has("web") && p.Alive() && p.Addr() != "" {
			return s.CallAt(ctx, p.Addr(), method, path, in, out)
		}
	}
	return errors.New("no process serves the API")
}

// Refusal is an answer of the API that is not 2xx.
type Refusal struct {
	Status int
	Text   string
}

func (r *Refusal) Error() string { return fmt.Sprintf("answered %d: %s", r.Status, r.Text) }

// CallAt is Call at one address.
func (s *System) CallAt(ctx context.Context, addr, method, path string, in, out any) error {
	text, ready := in.([]byte)
	if !ready && in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.PlatformKey)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %w", method, path, &Refusal{res.StatusCode, string(answer)})
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// Tenant makes a tenant with a cap of requests at once; 0: the default.
func (s *System) Tenant(ctx context.Context, uid string, concurrency int) error {
	in := map[string]any{"name": uid}
	if concurrency > 0 {
		in["limits"] = map[string]any{"concurrency": concurrency}
	}
	return s.Call(ctx, http.MethodPut, "/v1/tenants/"+uid, in, nil)
}

// Count is the number that a query answers with.
func (s *System) Count(ctx context.Context, sql string, arguments ...any) (n int, err error) {
	err = s.Pool.QueryRow(ctx, sql, arguments...).Scan(&n)
	return n, err
}

// UntilIdle waits until the outbox is empty and nothing is due any more, now or later.
func (s *System) UntilIdle(ctx context.Context, within time.Duration) error {
	left := 0
	err := Until(ctx, within, "the outbox and the table of due deliveries are empty", func() (bool, error) {
		var err error
		left, err = s.Count(ctx, `select (select count(*) from outbox) + (select count(*) from due)`)
		return err == nil && left == 0, err
	})
	if err != nil {
		return fmt.Errorf("%w (%d rows are left)", err, left)
	}
	return nil
}
