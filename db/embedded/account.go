package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// account is whom the server runs as. PostgreSQL refuses to run as root.
type account struct {
	name     string
	uid, gid int
	other    bool // not who we are, which only root can arrange
}

func (a account) String() string {
	if a.name == "" {
		return strconv.Itoa(a.uid)
	}
	return a.name
}

func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// chooseAccount is the program's own user unless that is root; then whoever owns the data already, else postgres, else
// nobody, else the first user of /etc/passwd that is not root (initdb wants one that has a name).
func chooseAccount(l layout) (account, error) {
	if os.Geteuid() != 0 {
		a := account{uid: os.Geteuid(), gid: os.Getegid()}
		if u, err := user.LookupId(strconv.Itoa(a.uid)); err == nil {
			a.name = u.Username
		}
		return a, nil
	}
	if info, err := os.Stat(l.data); err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
			a := account{uid: int(owner.Uid), gid: int(owner.Gid), other: true}
			if u, err := user.LookupId(strconv.Itoa(a.uid)); err == nil {
				a.name = u.Username
			}
			return a, nil
		}
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			if a, err := accountOf(u.Username, u.Uid, u.Gid); err == nil {
				return a, nil
			}
		}
	}
	passwd, err := os.Open("/etc/passwd")
	if err == nil {
		defer passwd.Close()
		if a, ok := firstUnprivileged(passwd); ok {
			return a, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root, and this machine has no other user; run the program as one, or set WAYBILL_DATABASE_URL")
}

func firstUnprivileged(passwd io.Reader) (account, bool) {
	lines := bufio.NewScanner(passwd)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 4 {
			continue
		}
		if a, err := accountOf(fields[0], fields[2], fields[3]); err == nil {
			return a, true
		}
	}
	return account{}, false
}

func accountOf(name, uid, gid string) (account, error) {
	u, err := strconv.ParseUint(uid, 10, 31)
	if err != nil {
		return account{}, err
	}
	g, err := strconv.ParseUint(gid, 10, 31)
	if err != nil {
		return account{}, err
	}
	// macOS's nobody is -2, which its user database gives as such or as 4294967294; neither parses, both are passed over.
	if u == 0 {
		return account{}, fmt.Errorf("%s is root", name)
	}
	return account{name: name, uid: int(u), gid: int(g), other: true}, nil
}
