package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/e2e"
)

// system is an e2e.System with a receiver process beside it.
type system struct {
	*e2e.System
	o        options
	receiver *exec.Cmd
	stdin    io.Closer
	target   string // http://host:port of the receiver
	secured  string // https://host:port of it
	past     history
	binaries string // the folder of the program's binary
	serial   int
}

func newSystem(ctx context.Context, o options) (s *system, err error) {
	s = &system{o: o}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.binaries, err = os.MkdirTemp("", "waybill-bench-"); err != nil {
		return s, err
	}
	binary, err := e2e.Build(ctx, s.binaries, false)
	if err != nil {
		return s, fmt.Errorf("run this from the repository's root: %w", err)
	}
	settings := map[string]string{}
	if o.statements {
		settings["shared_preload_libraries"] = "pg_stat_statements"
		if os.Getenv("CPUSTAT") != "" {
			settings["log_statement_stats"] = "on"
			settings["log_min_error_statement"] = "log"
		}
	}
	if s.System, err = e2e.New(ctx, e2e.Options{Binary: binary, Settings: settings, Keep: o.keep, Line: s.show}); err != nil {
		return s, err
	}
	if o.keep {
		fmt.Fprintln(os.Stderr, "the data folder is", s.Dir)
	}
	if err = s.startReceiver(); err != nil {
		return s, err
	}
	// The old deliveries' events stand before all others in the catalog.
	if _, err = s.Pool.Exec(ctx, `update positions set last = last + $1`, o.old+1); err != nil {
		return s, err
	}
	for range o.processes {
		if err = s.another(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// show prints what is wrong, and with -v everything, of a program's log.
func (s *system) show(_ string, line []byte) {
	var record struct{ Level string }
	if s.o.verbose || json.Unmarshal(line, &record) != nil || record.Level == "ERROR" {
		fmt.Fprintf(os.Stderr, "%s\n", line)
	}
}

func (s *system) close() {
	if s.System != nil {
		s.System.Close()
	}
	if s.receiver != nil {
		_ = s.stdin.Close()
		_ = s.receiver.Wait()
	}
	_ = os.RemoveAll(s.binaries)
}

func (s *system) startReceiver() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	receiver := exec.Command(self, "receiver", "-authority", s.authority())
	receiver.Stderr = os.Stderr
	out, err := receiver.StdoutPipe()
	if err != nil {
		return err
	}
	if s.stdin, err = receiver.StdinPipe(); err != nil {
		return err
	}
	if err := receiver.Start(); err != nil {
		return err
	}
	s.receiver = receiver
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the receiver did not start: %w", err)
	}
	plain, secured, _ := strings.Cut(strings.TrimSpace(line), " ")
	s.target, s.secured = "http://"+plain, "https://"+secured
	return nil
}

// authority is the file of the certificate that the programs are to trust.
func (s *system) authority() string { return filepath.Join(s.binaries, "authority.pem") }

// another starts one more process of the program.
func (s *system) another(ctx context.Context) error {
	_, err := s.Start(ctx, e2e.Launch{Env: map[string]string{"SSL_CERT_FILE": s.authority()}})
	return err
}

// senderCPU is the CPU time of all processes of the program, the embedded proxy included.
func (s *system) senderCPU() (total time.Duration) {
	for _, p := range s.Programs() {
		total += cpu(p.PID())
	}
	return total
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

// places makes fresh tenants with fresh endpoints, so that no run meets another's rows. kind is a path of the receiver, target its scheme and address.
func (s *system) places(ctx context.Context, target, kind string, tenants, endpoints int) ([]place, error) {
	s.serial++
	secrets := map[string]string{}
	made := make([]place, 0, endpoints)
	for t := range tenants {
		uid := fmt.Sprintf("bench-%d-%d", s.serial, t)
		if err := s.Call(ctx, "PUT", "/v1/tenants/"+uid, map[string]any{"name": uid}, nil); err != nil {
			return nil, err
		}
		for e := t; e < endpoints; e += tenants {
			key := fmt.Sprintf("%d-%d", s.serial, e)
			p := place{tenant: uid, eventType: fmt.Sprintf("bench.t%d", e), path: "/" + kind + "/" + key}
			var made1 struct{ ID, Secret string }
			if err := s.Call(ctx, "POST", "/v1/tenants/"+uid+"/endpoints", map[string]any{"url": target + p.path, "types": []string{p.eventType}}, &made1); err != nil {
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
	if _, err := s.Pool.Exec(ctx, `create extension if not exists pg_stat_statements`); err != nil {
		return err
	}
	rows, err := s.Pool.Query(ctx, `
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
	_, err = s.Pool.Exec(ctx, `select pg_stat_statements_reset()`)
	return err
}

// backendCPU is the CPU time of each kind of the server's processes so far, by what it is for.
func (s *system) backendCPU(ctx context.Context) (map[string]time.Duration, error) {
	rows, err := s.Pool.Query(ctx, `select pid, coalesce(nullif(application_name, ''), backend_type) from pg_stat_activity`)
	if err != nil {
		return nil, err
	}
	total := map[string]time.Duration{}
	var pid int
	var name string
	_, err = pgx.ForEachRow(rows, []any{&pid, &name}, func() error {
		total[name] += cpu(pid)
		return nil
	})
	return total, err
}

// printBackends shows what the server's processes have used since before, in milliseconds per 1,000 of events.
func (s *system) printBackends(ctx context.Context, w io.Writer, before map[string]time.Duration, events int) error {
	if !s.o.statements {
		return nil
	}
	after, err := s.backendCPU(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if used := after[name] - before[name]; used > 0 {
			fmt.Fprintf(w, "%8.1f  %s\n", float64(used.Milliseconds())*1000/float64(events), name)
		}
	}
	return nil
}
