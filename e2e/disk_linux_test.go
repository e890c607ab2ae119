package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"waybill/db/embedded"
)

// TestDiskFull gives Postgres a small disk and fills it up. Publishers are told so and nothing that was committed is lost: once there is room again,
// everything goes on by itself.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir, err := TempDir("waybill-e2e-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m,mode=0755"); errors.Is(err, syscall.EPERM) {
		t.Skip("no right to mount a small disk here")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	server, err := StartPostgres(t.Context(), embedded.Config{Dir: filepath.Join(dir, "data"), Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	r := newRigOn(t, quick, server)
	program := r.start(Launch{})
	r.tenant("disk", 0)
	place := r.place("disk", "disk", nil)
	r.publish(place, "before", 20)
	if err := r.ledger.WaitSeen(20, 20*time.Second); err != nil {
		t.Fatal(err)
	}

	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	var refused [][]Event
	var last *Refusal
	for n := 0; len(refused) < 5 && n < 500; n++ {
		fill(t, ballast) // also what the server sets free itself
		events := Events("disk", place.Types[0], fmt.Sprintf("full-%d", n), 20)
		err := r.PublishAPI(t.Context(), r.ledger, events...)
		switch {
		case err == nil:
		case !asRefusal(err, &last):
			t.Fatal(err)
		case last.Status != http.StatusServiceUnavailable:
			t.Fatalf("with the disk full a publisher is answered %d: %s", last.Status, last.Text)
		default:
			refused = append(refused, events)
			time.Sleep(200 * time.Millisecond)
		}
	}
	if len(refused) == 0 {
		t.Fatal("the disk was never full")
	}
	t.Logf("%d calls were refused, the last with %s", len(refused), last.Text)
	if !program.Alive() {
		t.Fatal("the program has ended")
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for _, events := range refused { // a publisher does not know whether it was heard, and asks again
		if err := Until(t.Context(), time.Minute, "publishing works again", func() (bool, error) {
			err := r.PublishAPI(t.Context(), r.ledger, events...)
			return err == nil, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.balances(time.Minute)
}

// fill writes to a file until nothing more fits on its disk.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/16]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
