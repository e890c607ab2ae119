package e2e

import (
	"io"
	"net"
	"testing"
	"time"
)

// heard accepts one connection and returns everything that came over it when it has ended.
func heard(t *testing.T) (addr string, text <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	said := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		said <- string(all)
	}()
	return ln.Addr().String(), said
}

func TestRelay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stall, resume bool
		want          string
	}{
		"moving":                    {want: "one two"},
		"given up during a stall":   {stall: true, want: "one "},
		"given up after it resumed": {stall: true, resume: true, want: "one two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, said := heard(t)
			r, err := NewRelay(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			conn, err := net.Dial("tcp", r.Addr())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, "one ")
			before := time.Now()
			if c.stall {
				if err := Until(t.Context(), 5*time.Second, "the first part is through", func() (bool, error) { return r.passed.Load() == 4, nil }); err != nil {
					t.Fatal(err)
				}
				r.Stall()
			}
			_, _ = io.WriteString(conn, "two")
			if c.resume {
				r.Resume()
				if err := Until(t.Context(), 5*time.Second, "the second part is through", func() (bool, error) { return r.passed.Load() == 7, nil }); err != nil {
					t.Fatal(err)
				}
			}
			conn.Close()
			select {
			case got := <-said:
				if got != c.want {
					t.Errorf("the other side heard %q, want %q", got, c.want)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the other side was not told of the end")
			}
			if r.Stalled(before, time.Now()) != c.stall {
				t.Errorf("Stalled says %v", !c.stall)
			}
		})
	}
}
