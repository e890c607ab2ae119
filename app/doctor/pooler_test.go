package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// pooled is a client's connection to a pooler: in transaction mode each transaction takes the free server process that was used last.
type pooled struct {
	pooler  *pool
	session uint32 // in session mode: its own
	held    uint32
}

type pool struct {
	free []uint32 // the last one is taken first
	next uint32
}

func (p *pool) take() uint32 {
	if len(p.free) == 0 {
		p.next++
		return p.next
	}
	pid := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return pid
}

func (c *pooled) Announced() uint32 { return 77 }

func (c *pooled) Serving(context.Context) (uint32, error) {
	switch {
	case c.session != 0:
		return c.session, nil
	case c.held != 0:
		return c.held, nil
	}
	pid := c.pooler.take()
	c.pooler.free = append(c.pooler.free, pid)
	return pid, nil
}

func (c *pooled) Hold(context.Context) error {
	if c.session == 0 {
		c.held = c.pooler.take()
	}
	return nil
}

func (c *pooled) Release(context.Context) error {
	if c.held != 0 {
		c.pooler.free, c.held = append(c.pooler.free, c.held), 0
	}
	return nil
}

// A pooler in transaction mode is told from one in session mode, whichever server process it takes first.
func TestPoolerModes(t *testing.T) {
	t.Parallel()
	for _, free := range [][]uint32{nil, {101}, {101, 102}, {101, 102, 103}} {
		p := &pool{free: free}
		if moved, err := migrates(t.Context(), &pooled{pooler: p}, []backend{&pooled{pooler: p}, &pooled{pooler: p}, &pooled{pooler: p}}); err != nil || !moved {
			t.Errorf("transaction mode with %v free: %v, %v", free, moved, err)
		}
	}
	if moved, err := migrates(t.Context(), &pooled{session: 1}, []backend{&pooled{session: 2}, &pooled{session: 3}}); err != nil || moved {
		t.Errorf("session mode: %v, %v", moved, err)
	}
}

// What the server says on connecting is put into words, and the address's password is in none of them.
func TestUnreachableInWords(t *testing.T) {
	t.Parallel()
	o := &Options{DatabaseURL: "postgres://u:hunter2@db.example.com:6432/waybill"}
	for message, c := range map[string]struct {
		code, want string
	}{
		"unsupported startup parameter: statement_timeout": {"08P01", "a pooler in front of Postgres at db.example.com:6432 refuses session settings"},
		"password authentication failed":                   {"28P01", "db.example.com:6432 refuses us"},
		`database "waybill" does not exist`:                {"3D000", "has no such database"},
		"sorry, too many clients already":                  {"53300", "has no connection left"},
		"something else":                                   {"XX000", "something else (XX000)"},
	} {
		f := &findings{check: "database"}
		o.unreachable(f, errors.Join(&pgconn.PgError{Code: c.code, Message: message}))
		if len(f.all) != 1 || f.all[0].Level != Fail || !strings.Contains(f.all[0].Found, c.want) || strings.Contains(f.all[0].Found, "hunter2") {
			t.Errorf("%s: %+v", message, f.all)
		}
	}
}
