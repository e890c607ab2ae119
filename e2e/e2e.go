// Package e2e runs Waybill as it is run: processes of the real program, a real Postgres with fsync on, receivers that keep a book of every
// request, and a checker that compares what publishers committed, what receivers saw and what the database says.
//
// A System is the machine room: Postgres, the program's processes, the API. A Receiver answers by script, honestly or not, on 127.0.0.2,
// which only the egress proxy of these runs allows. A Ledger holds both sides of the bargain, and its Check finds every way in which they
// do not agree. The tests of this package, the benchmark (e2e/bench) and the chaos (e2e/chaos) share all three.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Build makes the program's binary in dir and returns its path. It runs wherever the module is the working directory's. race builds it with
// the race detector, which reports to the log and ends the program at its next stop with exit code 66.
func Build(ctx context.Context, dir string, race bool) (string, error) {
	return build(ctx, filepath.Join(dir, "waybill"), race)
}

// Later is the name of the one migration that BuildLater's program has beyond this one's.
const Later = "9999_later"

// BuildLater makes the binary of a version that is to come, and returns its path: the program with one more migration, which makes a table that
// nobody uses.
func BuildLater(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	file := filepath.Join(dir, Later+".sql")
	if err := os.WriteFile(file, []byte("create table of_later (id integer primary key);\n"), 0o600); err != nil {
		return "", err
	}
	name := filepath.Join(strings.TrimSpace(string(root)), "db", "migrations", Later+".sql")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{name: file}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	return build(ctx, filepath.Join(dir, "waybill-later"), false, "-overlay", list)
}

func build(ctx context.Context, binary string, race bool, arguments ...string) (string, error) {
	arguments = append([]string{"build", "-o", binary}, arguments...)
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
