package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// oldest is the oldest major version that the migrations run on.
const oldest = 13

// binaries is a folder with postgres and initdb.
type binaries struct {
	dir     string
	version string // as the server says it, "15.18"
	major   int
}

func (b binaries) path(name string) string { return filepath.Join(b.dir, name) }

// findBinaries prefers the postgres of the PATH, then the newest of the usual places, then a fetched one. Data that exist
// need their own major version: PostgreSQL does not read another's.
func findBinaries(ctx context.Context, config Config, l layout, account account, major int) (binaries, error) {
	var others []string
	for _, dir := range serverDirs(l.binaries) {
		found, err := examine(ctx, dir, l.place, account)
		if err != nil {
			continue // not a server, or not one this account may run
		}
		if found.major >= oldest && (major == 0 || found.major == major) {
			return found, nil
		}
		others = append(others, found.version+" in "+found.dir)
	}
	fetched, err := fetchBinaries(ctx, config, l, account, major)
	if err == nil {
		return fetched, nil
	}
	if major == 0 {
		return binaries{}, fmt.Errorf("%w. Install PostgreSQL %d or newer, or name a server in WAYBILL_DATABASE_URL", err, oldest)
	}
	if len(others) == 0 {
		others = []string{"none"}
	}
	return binaries{}, fmt.Errorf("%s was made by PostgreSQL %d, which is not on this machine (found: %s) and was not fetched (%v). "+
		"Install PostgreSQL %d; or dump the data with it and load them into a new folder; or, if they may go, move %s away",
		l.data, major, strings.Join(others, ", "), err, major, l.data)
}

// serverDirs are the folders to look into, each server once however many links lead to it.
func serverDirs(fetched string) []string {
	var dirs []string
	for _, dir := range slices.Concat(fetchedDirs(fetched), onPath(), usualPlaces()) {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err == nil && !slices.Contains(dirs, filepath.Dir(real)) {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	return dirs
}

// onPath is the folder of the postgres that a shell would run, if there is one.
func onPath() []string {
	path, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil
	}
	return []string{filepath.Dir(path)}
}

// places are patterns of where systems put PostgreSQL's server programs.
var places = []string{
	"/usr/lib/postgresql/*/bin",                            // Debian, Ubuntu, SUSE
	"/usr/pgsql-*/bin",                                     // Red Hat with the project's packages
	"/usr/libexec/postgresql*",                             // Alpine
	"/usr/lib/postgresql*/bin",                             // Gentoo, SUSE
	"/usr/bin",                                             // Fedora, Arch
	"/usr/local/pgsql/bin",                                 // built from source
	"/opt/homebrew/opt/postgresql*/bin",                    // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                       // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",       // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin",   // Postgres.app
	"/Library/PostgreSQL/*/bin",                            // EDB's installer
	"/opt/local/lib/postgresql*/bin",                       // MacPorts
	"/usr/local/bin",                                       // FreeBSD
	"/nix/var/nix/profiles/default/bin",                    // Nix
	"/run/current-system/sw/bin",                           // NixOS
	"/usr/local/lib/postgresql/bin", "/opt/postgresql/bin", // images
}

// usualPlaces are the folders of places that exist, newest version first.
func usualPlaces() []string {
	var dirs []string
	for _, pattern := range places {
		matches, _ := filepath.Glob(pattern) // the patterns are sound
		dirs = append(dirs, matches...)
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return versionIn(b) - versionIn(a) })
	return dirs
}

var digits = regexp.MustCompile(`[0-9]+`)

// versionIn is the major version in a path such as /usr/lib/postgresql/15/bin, 0 if it has none.
func versionIn(dir string) int {
	version, _ := strconv.Atoi(digits.FindString(dir))
	return version
}

// examine asks the postgres in dir for its version, as the account that is to run it.
func examine(ctx context.Context, dir, place string, account account) (binaries, error) {
	b := binaries{dir: dir}
	if _, err := os.Stat(b.path("initdb")); err != nil {
		return b, err
	}
	if _, err := os.Stat(b.path("postgres")); err != nil {
		return b, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path("postgres"), "--version")
	cmd.Dir = place
	cmd.Env = serverEnv(place)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account.credential()}
	said, err := cmd.Output()
	if err != nil {
		return b, err
	}
	b.version, b.major, err = parseVersion(string(said))
	return b, err
}

var versionPattern = regexp.MustCompile(`^postgres \(.*?\) (([0-9]+)[^ \n]*)`)

// parseVersion reads "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "… 19beta1" and the like.
func parseVersion(said string) (version string, major int, err error) {
	match := versionPattern.FindStringSubmatch(said)
	if match == nil {
		return "", 0, fmt.Errorf("%q is no version of PostgreSQL", said)
	}
	major, err = parseMajor(match[2])
	return match[1], major, err
}

func parseMajor(text string) (int, error) {
	whole, _, _ := strings.Cut(text, ".") // 9.6 and older had two numbers
	major, err := strconv.Atoi(whole)
	if err != nil {
		return 0, errors.New("not a version: " + text)
	}
	return major, nil
}

// fetchedDirs are folders that an earlier start fetched, newest version first.
func fetchedDirs(root string) []string {
	matches, _ := filepath.Glob(filepath.Join(root, "[0-9]*", "bin"))
	slices.SortFunc(matches, func(a, b string) int {
		return versionIn(strings.TrimPrefix(b, root)) - versionIn(strings.TrimPrefix(a, root))
	})
	return matches
}

// system names the machine in messages.
func system() string { return runtime.GOOS + "/" + runtime.GOARCH }
