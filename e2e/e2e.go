// Package e2e runs Waybill as it is run: processes of the real program, a real Postgres with fsync on, receivers that keep a book of every
// request, and a checker that compares what publishers committed, what receivers saw and what the database says.
//
// A System is the machine room: Postgres, the program's processes, the API. A Receiver answers by script, honestly or not, on 127.0.0.2,
// which only the egress proxy of these runs allows. A Ledger holds both sides of the bargain, and its Check finds every way in which they
// do not agree. The tests of this package, the benchmark (e2e/bench) and the chaos (e2e/chaos) share all three.
package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// Build makes the program's binary in dir and returns its path. It runs wherever the module is the working directory's. race builds it with
// the race detector, which reports to the log and ends the program at its next stop with exit code 66.
func Build(ctx context.Context, dir string, race bool) (string, error) {
	binary := filepath.Join(dir, "waybill")
	arguments := []string{"build", "-o", binary}
	if race {
		arguments = append(arguments, "-race")
	}
	if out, err := exec.CommandContext(ctx, "go", append(arguments, "waybill/app")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return binary, nil
}

// Until asks again and again, a hundred times a second, until done says yes; it gives up with an error that names what was waited for.
func Until(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("not within %s: %s: %w", within, what, err)
			}
			return fmt.Errorf("not within %s: %s", within, what)
		case <-tick.C:
		}
	}
}
