package embedded

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// layout holds absolute paths.
type layout struct {
	dir      string // the data folder
	lock     string
	password string
	port     string

	place    string // dir/postgres, or where that link leads; belongs to the server's account
	data     string // place/data, the cluster
	binaries string // place/binaries, what was fetched
	log      string // place/server.log
}

func makeLayout(dir string) (layout, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return layout{}, fmt.Errorf("make the data folder (WAYBILL_DATA chooses another): %w", err)
		}
		// Against a strict umask: the server's account must be able to pass through.
		if err := os.Chmod(dir, 0o755); err != nil {
			return layout{}, err
		}
	}
	l := layout{
		dir:      dir,
		lock:     filepath.Join(dir, "postgres.lock"),
		password: filepath.Join(dir, "postgres.password"),
		port:     filepath.Join(dir, "postgres.port"),
	}
	place := filepath.Join(dir, "postgres")
	if target, err := filepath.EvalSymlinks(place); err == nil {
		place = target
	}
	return l.at(place), nil
}

func (l layout) at(place string) layout {
	l.place = place
	l.data = filepath.Join(place, "data")
	l.binaries = filepath.Join(place, "binaries")
	l.log = filepath.Join(place, "server.log")
	return l
}

// elsewhere says whether the server's place is outside of the data folder.
func (l layout) elsewhere() bool { return l.place != filepath.Join(l.dir, "postgres") }

// otherBases are where to put data whose own folder the server's account cannot enter, such as a checkout below /root.
var otherBases = []string{"/var/lib/waybill", "/var/tmp/waybill"}

// settle makes the server's place and finds another one, remembered by a link, if the account cannot reach it.
func settle(l layout, account account, logger *slog.Logger) (layout, error) {
	if err := makePlace(l.place, account); err != nil {
		return l, fmt.Errorf("make the data folder (WAYBILL_DATA chooses another): %w", err)
	}
	if account.reaches(l.place) {
		return l, nil
	}
	link := filepath.Join(l.dir, "postgres")
	if l.elsewhere() {
		return l, fmt.Errorf("%s leads to %s, which the user %s cannot enter", link, l.place, account)
	}
	if entries, err := os.ReadDir(link); err != nil || len(entries) > 0 {
		return l, fmt.Errorf("the user %s cannot enter %s, which has data in it; let that user pass (chmod a+x on the folders above it)", account, link)
	}
	var tried []error
	for _, base := range otherBases {
		place, err := makeElsewhere(base, account)
		if err != nil {
			tried = append(tried, err)
			continue
		}
		if err := errors.Join(os.Remove(link), os.Symlink(place, link)); err != nil {
			return l, err
		}
		logger.Warn("the data folder is closed to the server's user; the database is kept elsewhere",
			"folder", l.dir, "user", account.String(), "data", place)
		return l.at(place), nil
	}
	return l, fmt.Errorf("the user %s, which the server runs as, cannot enter %s, and there is no other place: %w",
		account, link, errors.Join(tried...))
}

func makeElsewhere(base string, account account) (string, error) {
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	place, err := os.MkdirTemp(base, "data-")
	if err != nil {
		return "", err
	}
	if err := makePlace(place, account); err != nil {
		return "", err
	}
	if !account.reaches(place) {
		os.Remove(place)
		return "", fmt.Errorf("the user %s cannot enter %s either", account, base)
	}
	return place, nil
}

func makePlace(place string, account account) error {
	if err := os.Mkdir(place, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if account.other {
		return os.Chown(place, account.uid, account.gid)
	}
	return nil
}

// reaches says whether the account can make dir its working folder, by doing it.
func (a account) reaches(dir string) bool {
	if !a.other {
		return true
	}
	cmd := exec.Command("/bin/sh", "-c", ":")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	return cmd.Run() == nil
}

// dataVersion is the major version of PostgreSQL that made the cluster, 0 if there is none.
func dataVersion(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(data); err == nil {
			return 0, fmt.Errorf("%s is there but holds no database; move it away to start anew", data)
		}
		return 0, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return 0, fmt.Errorf("the data belong to another user, who ran this before (%w); run as that user, or choose another folder with WAYBILL_DATA", err)
	}
	if err != nil {
		return 0, err
	}
	major, err := parseMajor(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION: %w", data, err)
	}
	return major, nil
}

// loadPassword reads the role's password, and makes one for a cluster that is yet to be made.
func loadPassword(l layout, mustExist bool) (string, error) {
	text, err := os.ReadFile(l.password)
	if err == nil && len(strings.TrimSpace(string(text))) >= 20 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the database's password cannot be read: %w", err)
	}
	if mustExist {
		return "", fmt.Errorf("%s, the password of the database in %s, is missing; put it back, or move the data away to start anew", l.password, l.data)
	}
	random := make([]byte, 24)
	rand.Read(random) // never fails
	password := base64.RawURLEncoding.EncodeToString(random)
	if err := writeSafely(l.password, password+"\n"); err != nil {
		return "", err
	}
	return password, nil
}

// writeSafely replaces the file at path, mode 0600, so that a crash leaves the old or the new text.
func writeSafely(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}
