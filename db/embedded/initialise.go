package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"waybill/db"
)

// initialise makes the cluster under another name and renames it when it is whole, so that a crash in the middle leaves
// nothing that looks like a database.
func (s *Server) initialise(ctx context.Context) error {
	leftovers, err := filepath.Glob(filepath.Join(s.layout.place, "new-*"))
	if err != nil {
		return err
	}
	for _, leftover := range leftovers {
		os.RemoveAll(leftover)
	}
	fresh, err := os.MkdirTemp(s.layout.place, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	password := filepath.Join(fresh, "password")
	if err := os.WriteFile(password, []byte(s.password+"\n"), 0o600); err != nil {
		return err
	}
	if s.account.other {
		err := errors.Join(os.Chown(fresh, s.account.uid, s.account.gid), os.Chown(password, s.account.uid, s.account.gid))
		if err != nil {
			return err
		}
	}
	data := filepath.Join(fresh, "data")
	arguments := []string{"-D", data, "--encoding=UTF8", "--locale=C", "--username=" + Role,
		"--auth=scram-sha-256", "--pwfile=" + password}
	if s.config.Settings["fsync"] == "off" {
		arguments = append(arguments, "--no-sync")
	}
	if err := s.initdb(ctx, arguments); err != nil {
		return err
	}
	return os.Rename(data, s.layout.data)
}

func (s *Server) initdb(ctx context.Context, arguments []string) error {
	cmd := s.command("initdb", arguments...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("initdb (%w):\n%s", err, tail(said.String()))
	}
	return nil
}

// makeDatabase creates the database waybill if a first start did not come that far.
func makeDatabase(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", Database).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "create database "+Database)
	if db.Code(err) == "42P04" { // exists
		return nil
	}
	return err
}
