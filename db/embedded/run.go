package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
)

// portRule says whether a start may move to another port.
type portRule bool

const (
	portChosen portRule = false // take the last one if it is free, else any
	portKept   portRule = true  // programs know the address already
)

// run starts the postmaster and waits until it answers. Two things pass by themselves and are tried again: a port that
// somebody else took in the moment between choosing and using it, and processes of a killed server that are not gone yet.
func (s *Server) run(ctx context.Context, rule portRule) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.StartTimeout)
	defer cancel()
	for {
		if err := clearLeftover(ctx, s.layout.data, s.logger); err != nil {
			return err
		}
		if rule == portChosen {
			port, err := choosePort(s.layout.port)
			if err != nil {
				return err
			}
			s.port = port
		}
		said, err := s.runOnce(ctx)
		if err == nil {
			return nil
		}
		passing := strings.Contains(said, "could not bind") || strings.Contains(said, "still in use")
		if !passing {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// runOnce returns, beside the error, what the server wrote to its log.
func (s *Server) runOnce(ctx context.Context) (string, error) {
	log, before, err := openLog(s.layout.log, s.account)
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := s.command("postgres", s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithUs(cmd.SysProcAttr)
	p, err := launch(cmd)
	if err != nil {
		return "", fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if err := s.ready(ctx, p); err != nil {
		p.stop()
		said := readFrom(s.layout.log, before)
		return said, fmt.Errorf("%w; %s ends with:\n%s", err, s.layout.log, tail(said))
	}
	s.process = p
	go s.watch(p)
	// Only a convenience for whoever connects with psql: it may fail.
	_ = writeSafely(s.layout.port, strconv.Itoa(s.port)+"\n")
	return "", nil
}

// ready waits for the server's own word in its pid file before it connects: until then another server may be listening on
// the port, and ours be about to find out.
func (s *Server) ready(ctx context.Context, p *process) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	var last error
	err := until(ctx, func() (bool, error) {
		if r, ok := readPID(s.layout.data); !ok || r.pid != p.pid || !r.ready {
			return false, nil
		}
		last = ping(ctx, s.url("postgres"))
		if code := db.Code(last); code != "" && !db.IsUnavailable(last) {
			return false, last // it answers, and does not want us
		}
		return last == nil, nil
	})
	switch {
	case p.ended():
		return fmt.Errorf("the server ended while it started (%s)", p.end())
	case err == nil:
		return nil
	case db.Code(err) == "28P01":
		return fmt.Errorf("the server does not take the password in %s: %w", s.layout.password, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the server did not answer in time: %w", errors.Join(err, last))
	}
	return err
}

func ping(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// arguments are fixed where safety or reachability hang on them; everything else is the caller's.
func (s *Server) arguments() []string {
	settings := map[string]string{"timezone": "UTC", "log_timezone": "UTC", "log_line_prefix": "%m [%p] %a "}
	maps.Copy(settings, s.config.Settings)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = strconv.Itoa(s.port)
	settings["unix_socket_directories"] = ""
	settings["logging_collector"] = "off"
	arguments := []string{"-D", s.layout.data}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "-c", name+"="+settings[name])
	}
	return arguments
}

// command prepares one of the server's programs, as the server's account, in a process group of its own (so that ^C in a
// terminal reaches only this program, which then stops the server in order), in English, and without any PG* variable.
func (s *Server) command(name string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(s.binaries.path(name), arguments...)
	cmd.Dir = s.layout.place
	cmd.Env = serverEnv(s.layout.place)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account.credential(), Setpgid: true}
	return cmd
}

func serverEnv(home string) []string {
	env := []string{"LC_ALL=C", "TZ=UTC", "HOME=" + home}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// choosePort takes the port of the last start if it is free, because people keep addresses, and any free one otherwise.
func choosePort(file string) (int, error) {
	if text, err := os.ReadFile(file); err == nil {
		if port, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && port > 1023 && port < 65536 {
			if _, err := freePort(port); err == nil {
				return port, nil
			}
		}
	}
	return freePort(0)
}

func freePort(port int) (int, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// maxLog is the size beyond which a start puts the server's log aside.
const maxLog = 8 << 20

// openLog also returns the size the log has now. The server writes to the file itself, so that it goes on when we are gone.
func openLog(path string, account account) (*os.File, int64, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("the server's log: %w", err)
	}
	if account.other {
		if err := log.Chown(account.uid, account.gid); err != nil {
			log.Close()
			return nil, 0, err
		}
	}
	info, err := log.Stat()
	if err != nil {
		log.Close()
		return nil, 0, err
	}
	return log, info.Size(), nil
}

func readFrom(path string, offset int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, _ := io.ReadAll(io.NewSectionReader(file, offset, 64<<10)) // what can be read is enough
	return string(text)
}

// tail is the last lines of a text, for an error message.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > 12 {
		lines = lines[len(lines)-12:]
	}
	return strings.Join(lines, "\n")
}
