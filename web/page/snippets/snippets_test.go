package snippets_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"waybill/app/signing"
	"waybill/web/page/snippets"
)

// rack serves config.ru where there is no Rack: it is all of it that the receiver uses.
const rack = `
require "socket"
require "stringio"
def run(app) = $app = app
load ARGV[0]
server = TCPServer.new("127.0.0.1", ENV["PORT"].to_i)
loop do
  Thread.new(server.accept) do |client|
    method, path, = (client.gets || next).split
    env = { "REQUEST_METHOD" => method, "PATH_INFO" => path }
    while (line = client.gets.chomp) != ""
      name, value = line.split(":", 2)
      env["HTTP_" + name.upcase.tr("-", "_")] = value.strip
    end
    env["rack.input"] = StringIO.new(client.read(env["HTTP_CONTENT_LENGTH"].to_i) || "")
    status, _, body = $app.call(env)
    client.write "HTTP/1.1 #{status} x\r\nContent-Length: #{body.join.bytesize}\r\nConnection: close\r\n\r\n#{body.join}"
    client.close
  end
end
`

// program is how a receiver is run by the tests: the command that must be there, and its arguments once the file lies in dir.
type program struct {
	command string
	start   func(t *testing.T, dir, file, port string) *exec.Cmd
	pair    []string // what succeeds only if it can verify v1a; nil: it always can
}

func command(name string, arguments ...string) func(*testing.T, string, string, string) *exec.Cmd {
	return func(t *testing.T, _, file, port string) *exec.Cmd {
		all := make([]string, len(arguments))
		for i, a := range arguments {
			all[i] = strings.NewReplacer("<file>", file, "<port>", port).Replace(a)
		}
		return exec.CommandContext(t.Context(), name, all...)
	}
}

var programs = map[string]program{
	"go": {command: "go", start: func(t *testing.T, dir, file, _ string) *exec.Cmd {
		t.Helper()
		// Built and then run, so that ending it ends the receiver.
		binary := filepath.Join(dir, "receiver")
		if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return exec.CommandContext(t.Context(), binary)
	}},
	"python": {command: "python3", start: command("python3", "<file>"), pair: []string{"python3", "-c", "import cryptography.hazmat.primitives.asymmetric.ed25519"}},
	"node":   {command: "node", start: command("node", "<file>")},
	"java":   {command: "java", start: command("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "<file>")},
	"php":    {command: "php", start: command("php", "-S", "127.0.0.1:<port>", "<file>"), pair: []string{"php", "-r", "exit(function_exists('sodium_crypto_sign_verify_detached') ? 0 : 1);"}},
	"ruby":   {command: "ruby", start: command("ruby", "-e", rack, "<file>"), pair: []string{"ruby", "-ropenssl", "-e", `OpenSSL::PKey.read(["302a300506032b6570032100"].pack("H*") + "x" * 32)`}},
	"csharp": {command: "dotnet", start: func(t *testing.T, dir, file, _ string) *exec.Cmd {
		t.Helper()
		project := filepath.Join(dir, "receiver")
		for _, step := range [][]string{{"dotnet", "new", "web", "--no-restore", "-o", project}, {"cp", file, project}, {"dotnet", "build", project}} {
			if said, err := exec.CommandContext(t.Context(), step[0], step[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", step, err, said)
			}
		}
		return exec.CommandContext(t.Context(), "dotnet", "run", "--no-build", "--project", project)
	}, pair: []string{"false"}},
}

// required are the languages that CI has; another one is run where it is.
var required = []string{"go", "python", "node", "java"}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// begin runs a receiver and waits until it listens. It returns its address.
func begin(t *testing.T, r snippets.Receiver, p program, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, r.File)
	if err := os.WriteFile(file, []byte(r.Code), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 { // somebody else may take the port meanwhile
		port := freePort(t)
		run := p.start(t, dir, file, port)
		var said bytes.Buffer
		run.Env, run.Stdout, run.Stderr = append(append(os.Environ(), env...), "PORT="+port), &said, &said
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = run.Wait(); close(ended) }()
		t.Cleanup(func() {
			_ = run.Process.Kill()
			<-ended
		})
		if listens(t.Context(), "127.0.0.1:"+port, ended) {
			return "http://127.0.0.1:" + port
		}
		select {
		case <-ended:
			t.Logf("it ended: %s", said.String())
		default:
			t.Fatal("it does not listen")
		}
	}
	t.Fatal("it ended each time")
	return ""
}

func listens(ctx context.Context, address string, ended chan struct{}) bool {
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			conn.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// A request as it is sent, and what the receiver must say to it.
type request struct {
	headers []signing.Header
	body    string
	status  int
	pair    bool // needs v1a
}

const body = `{"id":"evt_1","data":{"n": 9007199254740993,"s":"₹ \u00e9","z":[1.0, 2]}}`

func requests(t *testing.T, secret, older, pair signing.Key) map[string]request {
	t.Helper()
	now := time.Now()
	made := func(scheme signing.Scheme, at time.Time, keys ...signing.Key) []signing.Header {
		headers, err := signing.Headers(scheme, keys, "evt_1", at.Unix(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return headers
	}
	other, strange := signing.NewSecret(), signing.NewKeyPair()
	odd := func(value string) []signing.Header {
		headers := made(signing.V1, now, secret)
		headers[2].Value = value
		return headers
	}
	good := made(signing.V1, now, secret)
	return map[string]request{
		"v1":                          {headers: good, body: body, status: 200},
		"v1, the older secret":        {headers: made(signing.V1, now, older), body: body, status: 200},
		"v1, while it is rotated":     {headers: made(signing.V1, now, other, secret), body: body, status: 200},
		"v1, almost five minutes old": {headers: made(signing.V1, now.Add(-4*time.Minute), secret), body: body, status: 200},
		"v1, tampered with":           {headers: good, body: strings.Replace(body, "n\": 9", "n\":9", 1), status: 401},
		"v1, another secret":          {headers: made(signing.V1, now, other), body: body, status: 401},
		"v1, too old":                 {headers: made(signing.V1, now.Add(-6*time.Minute), secret), body: body, status: 401},
		"v1, too new":                 {headers: made(signing.V1, now.Add(6*time.Minute), secret), body: body, status: 401},
		"v1, another time":            {headers: []signing.Header{good[0], {Name: good[1].Name, Value: fmt.Sprint(now.Unix() - 1)}, good[2]}, body: body, status: 401},
		"v1, another id":              {headers: []signing.Header{{Name: good[0].Name, Value: "evt_2"}, good[1], good[2]}, body: body, status: 401},
		"v1, an empty body":           {headers: good, status: 401},
		"v1, cut off":                 {headers: odd(good[2].Value[:20]), body: body, status: 401},
		"v1, as hex":                  {headers: odd("v1=" + good[2].Value[3:]), body: body, status: 401},
		"a scheme to come":            {headers: odd("v2,AAAA " + good[2].Value), body: body, status: 200},
		"no signature":                {headers: odd("v1,"), body: body, status: 401},
		"nonsense":                    {headers: odd("v1,!!! v1a,??? v1=zz,v1= ,"), body: body, status: 401},
		"without headers":             {body: body, status: 401},
		"hex":                         {headers: made(signing.Hex, now, secret), body: body, status: 200},
		"hex, while it is rotated":    {headers: made(signing.Hex, now, other, older), body: body, status: 200},
		"hex, tampered with":          {headers: made(signing.Hex, now, secret), body: body + " ", status: 401},
		"hex, another secret":         {headers: made(signing.Hex, now, other), body: body, status: 401},
		"hex, too old":                {headers: made(signing.Hex, now.Add(-6*time.Minute), secret), body: body, status: 401},
		"v1a":                         {headers: made(signing.V1a, now, pair), body: body, status: 200, pair: true},
		"v1a, while it is rotated":    {headers: made(signing.V1a, now, strange, pair), body: body, status: 200, pair: true},
		"v1 and v1a, the second":      {headers: made(signing.V1AndV1a, now, other, pair), body: body, status: 200, pair: true},
		"v1 and v1a, the first":       {headers: made(signing.V1AndV1a, now, secret, strange), body: body, status: 200},
		"v1a, tampered with":          {headers: made(signing.V1a, now, pair), body: body + " ", status: 401},
		"v1a, another key":            {headers: made(signing.V1a, now, strange), body: body, status: 401},
		"v1a, too old":                {headers: made(signing.V1a, now.Add(-6*time.Minute), pair), body: body, status: 401},
	}
}

func TestReceivers(t *testing.T) {
	t.Parallel()
	for _, r := range snippets.Receivers() {
		p, known := programs[r.Slug]
		if !known {
			t.Errorf("nobody runs the receiver in %s", r.Name)
			continue
		}
		t.Run(r.Slug, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(p.command); err != nil {
				for _, name := range required {
					if name == r.Slug && os.Getenv("CI") == "true" {
						t.Fatalf("%s is not on this machine", r.Name)
					}
				}
				t.Skipf("%s is not on this machine", r.Name)
			}
			secret, older, pair := signing.NewSecret(), signing.NewSecret(), signing.NewKeyPair()
			paired := p.pair == nil || exec.CommandContext(t.Context(), p.pair[0], p.pair[1:]...).Run() == nil
			address := begin(t, r, p, "WEBHOOK_SECRETS="+secret.Reveal()+" "+older.Reveal(), "WEBHOOK_PUBLIC_KEYS="+pair.Public().Reveal())
			for name, q := range requests(t, secret, older, pair) {
				if q.pair && !paired {
					continue
				}
				if status, said := send(t, address, q); status != q.status {
					t.Errorf("%s: answered %d %s, want %d", name, status, said, q.status)
				}
			}
		})
	}
}

func send(t *testing.T, address string, q request) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/hooks", strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range q.headers {
		r.Header[h.Name] = []string{h.Value}
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(said))
}

// A receiver is a page: it fits one, and says nothing that a program does not need.
func TestAReceiverIsAPage(t *testing.T) {
	t.Parallel()
	for _, r := range snippets.Receivers() {
		if lines := strings.Count(r.Code, "\n"); lines < 40 || lines > 115 {
			t.Errorf("%s has %d lines", r.Name, lines)
		}
		for i, line := range strings.Split(r.Code, "\n") {
			if len(line) > 140 || strings.Contains(line, "go:build") {
				t.Errorf("%s, line %d: %s", r.Name, i+1, line)
			}
		}
		if r.Run == "" || r.Pair == "" || !strings.HasSuffix(r.Pair, ".") {
			t.Errorf("%+v", r)
		}
	}
}
