package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/seal"
	"waybill/db"
	"waybill/db/embedded"
)

// system is a Postgres of its own, the program's processes, and a receiver process.
type system struct {
	o        options
	dir      string
	postgres *embedded.Server
	pool     *pgxpool.Pool
	programs []*program
	receiver *exec.Cmd
	stdin    io.Closer
	target   string // http://host:port of the receiver
	keys     seal.Secret
	platform string
	binary   string
	serial   int
}

// program is one process of Waybill.
type program struct {
	cmd  *exec.Cmd
	addr string
}

func newSystem(ctx context.Context, o options) (s *system, err error) {
	s = &system{o: o, keys: seal.NewKey(), platform: "bench-platform-key-0123456789abcdef"}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "waybill-bench-"); err != nil {
		return s, err
	}
	s.binary = filepath.Join(s.dir, "waybill")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "./app").CombinedOutput(); err != nil {
		return s, fmt.Errorf("build the program (run this from the repository's root): %w\n%s", err, out)
	}
	settings := map[string]string{}
	if o.statements {
		settings["shared_preload_libraries"] = "pg_stat_statements,auto_explain"
		settings["auto_explain.log_min_duration"], settings["auto_explain.log_analyze"], settings["auto_explain.log_buffers"] = "60ms", "on", "on"
	}
	if s.postgres, err = embedded.Start(ctx, embedded.Config{Dir: filepath.Join(s.dir, "data"), Settings: settings}); err != nil {
		return s, err
	}
	if _, err = db.Migrate(ctx, s.postgres.URL(), slog.New(slog.DiscardHandler)); err != nil {
		return s, err
	}
	if s.pool, err = db.Open(ctx, s.postgres.URL(), db.Options{AppName: "bench", MaxConns: 8}); err != nil {
		return s, err
	}
	if err = s.startReceiver(ctx); err != nil {
		return s, err
	}
	for range o.processes {
		if _, err = s.startProgram(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *system) close() {
	for _, p := range s.programs {
		_ = p.cmd.Process.Signal(os.Interrupt)
		_ = p.cmd.Wait()
	}
	if s.receiver != nil {
		_ = s.stdin.Close()
		_ = s.receiver.Wait()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.postgres != nil {
		_ = s.postgres.Close()
	}
	if !s.o.keep {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *system) startReceiver(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.receiver = exec.Command(self, "receiver")
	s.receiver.Stderr = os.Stderr
	out, err := s.receiver.StdoutPipe()
	if err != nil {
		return err
	}
	if s.stdin, err = s.receiver.StdinPipe(); err != nil {
		return err
	}
	if err := s.receiver.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the receiver did not start: %w", err)
	}
	s.target = "http://" + strings.TrimSpace(line)
	return nil
}

// startProgram starts one more process with all roles and waits until it is ready.
func (s *system) startProgram(ctx context.Context) (*program, error) {
	cmd := exec.Command(s.binary, "serve")
	cmd.Env = append(os.Environ(), "WAYBILL_DATABASE_URL="+s.postgres.URL(), "WAYBILL_ADDR=127.0.0.1:0", "WAYBILL_URL=http://bench.test",
		"WAYBILL_SECRET_KEYS="+s.keys.Reveal(), "WAYBILL_PLATFORM_KEY="+s.platform, "WAYBILL_ALLOW_HTTP=true", "WAYBILL_EGRESS_ALLOW=127.0.0.2/32",
		"WAYBILL_DATA="+filepath.Join(s.dir, "data"))
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &program{cmd: cmd}
	addr := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(log)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var record struct{ Msg, Addr, Level string }
			if json.Unmarshal(lines.Bytes(), &record) == nil && record.Addr != "" {
				addr <- record.Addr
			}
			if s.o.verbose || record.Level == "ERROR" || record.Level == "" {
				fmt.Fprintln(os.Stderr, lines.Text())
			}
		}
	}()
	select {
	case p.addr = <-addr:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		return nil, errors.New("the program did not start within 30 s")
	}
	s.programs = append(s.programs, p)
	return p, nil
}

// senderCPU is the CPU time of all processes of the program, the embedded proxy included.
func (s *system) senderCPU() (total time.Duration) {
	for _, p := range s.programs {
		total += cpu(p.cmd.Process.Pid)
	}
	return total
}

// call asks the API as the platform.
func (s *system) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.programs[0].addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.platform)
	req.Header.Set("Content-Type", "application/json")
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
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// tell talks to the receiver.
func (s *system) tell(what string, in []byte, out any) error {
	res, err := http.Post(s.target+"/control/"+what, "application/json", bytes.NewReader(in))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("receiver: %s: %s", what, res.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// place is one endpoint with the type it alone subscribes to.
type place struct {
	tenant, endpoint, eventType, path string
}

// places makes fresh tenants with fresh endpoints, so that no run meets another's rows. kind is a path of the receiver.
func (s *system) places(ctx context.Context, kind string, tenants, endpoints int) ([]place, error) {
	s.serial++
	secrets := map[string]string{}
	made := make([]place, 0, endpoints)
	for t := range tenants {
		uid := fmt.Sprintf("bench-%d-%d", s.serial, t)
		if err := s.call(ctx, "PUT", "/v1/tenants/"+uid, map[string]any{"name": uid}, nil); err != nil {
			return nil, err
		}
		for e := t; e < endpoints; e += tenants {
			key := fmt.Sprintf("%d-%d", s.serial, e)
			p := place{tenant: uid, eventType: fmt.Sprintf("bench.t%d", e), path: "/" + kind + "/" + key}
			var made1 struct{ ID, Secret string }
			if err := s.call(ctx, "POST", "/v1/tenants/"+uid+"/endpoints", map[string]any{"url": s.target + p.path, "types": []string{p.eventType}}, &made1); err != nil {
				return nil, err
			}
			p.endpoint, secrets[key] = made1.ID, made1.Secret
			made = append(made, p)
		}
	}
	j, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	return made, s.tell("secrets", j, nil)
}

// printStatements shows the statements that took Postgres longest since the last time, if it keeps count.
func (s *system) printStatements(ctx context.Context, w io.Writer) error {
	if !s.o.statements {
		return nil
	}
	if _, err := s.pool.Exec(ctx, `create extension if not exists pg_stat_statements`); err != nil {
		return err
	}
	rows, err := s.pool.Query(ctx, `
		select calls, total_exec_time, rows, left(regexp_replace(query, '\s+', ' ', 'g'), 110)
		from pg_stat_statements order by total_exec_time desc limit 16`)
	if err != nil {
		return err
	}
	var calls, affected int64
	var ms float64
	var query string
	fmt.Fprintf(w, "%8s %9s %8s %8s\n", "calls", "ms", "rows", "ms/row")
	_, err = pgx.ForEachRow(rows, []any{&calls, &ms, &affected, &query}, func() error {
		fmt.Fprintf(w, "%8d %9.0f %8d %8.3f  %s\n", calls, ms, affected, ms/float64(max(affected, 1)), query)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `select pg_stat_statements_reset()`)
	return err
}
