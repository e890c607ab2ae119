package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"

	"waybill/app/policy"
	"waybill/app/server"
)

// parse says whether the program understands a command line, and gives the roles it would start.
func parse(t *testing.T, line string) []string {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(strings.Fields(line)); err != nil {
		t.Errorf("`waybill %s` is not understood: %v", line, err)
	}
	return c.Serve.Only
}

// fly is what fly.toml says, as far as the program must agree with it.
type fly struct {
	KillSignal  string            `toml:"kill_signal"`
	KillTimeout string            `toml:"kill_timeout"`
	Env         map[string]string `toml:"env"`
	Processes   map[string]string `toml:"processes"`
	Build       struct {
		Dockerfile string `toml:"dockerfile"`
	} `toml:"build"`
	Deploy struct {
		ReleaseCommand string `toml:"release_command"`
		Strategy       string `toml:"strategy"`
	} `toml:"deploy"`
	HTTP struct {
		Processes    []string `toml:"processes"`
		InternalPort int      `toml:"internal_port"`
		ForceHTTPS   bool     `toml:"force_https"`
		Checks       []check  `toml:"checks"`
	} `toml:"http_service"`
	Checks map[string]check `toml:"checks"`
}

type check struct {
	Processes []string `toml:"processes"`
	Type      string   `toml:"type"`
	Port      int      `toml:"port"`
	Path      string   `toml:"path"`
	Interval  string   `toml:"interval"`
	Timeout   string   `toml:"timeout"`
}

// What fly.toml starts is what the program understands: each command, each variable, each port and path that is asked.
func TestFly(t *testing.T) {
	t.Parallel()
	var f fly
	if _, err := toml.DecodeFile("../fly.toml", &f); err != nil {
		t.Fatal(err)
	}
	groups := map[string][]string{}
	for name, command := range f.Processes {
		groups[name] = parse(t, command)
	}
	for name, role := range map[string]server.Role{"web": server.Web, "worker": server.Worker, "proxy": server.Proxy} {
		if !slices.Equal(groups[name], []string{string(role)}) {
			t.Errorf("group %s starts %v, want %s alone", name, groups[name], role)
		}
	}
	if len(groups) != 3 {
		t.Errorf("process groups %v", groups)
	}
	parse(t, f.Deploy.ReleaseCommand)
	if f.Deploy.ReleaseCommand != "migrate" || f.Deploy.Strategy != "rolling" || f.Build.Dockerfile != "Dockerfile" || f.KillSignal != "SIGTERM" {
		t.Errorf("deploy %+v, build %+v, signal %s", f.Deploy, f.Build, f.KillSignal)
	}

	// What is on the wire is answered before a machine stops: the longest timeout that a policy may have, and the grace.
	grace, err := time.ParseDuration(f.KillTimeout)
	if err != nil || grace < policy.MaxTimeout+5*time.Second {
		t.Errorf("kill_timeout %q is shorter than %s and 5 s", f.KillTimeout, policy.MaxTimeout)
	}

	env := map[string]string{
		"WAYBILL_DATABASE_URL": "postgres://waybill@db.internal/waybill", "WAYBILL_PLATFORM_KEY": strings.Repeat("k", 40),
		"WAYBILL_SECRET_KEYS": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "WAYBILL_SMTP_URL": "smtp://mail.internal:587",
	}
	for name, value := range f.Env {
		env[name] = value
	}
	known := variables(t)
	for name := range env {
		if !slices.Contains(known, name) {
			t.Errorf("the README knows no variable %s", name)
		}
	}
	config, err := server.FromEnv(func(name string) string { return env[name] }, []server.Role{server.Web})
	if err != nil {
		t.Fatalf("the program refuses this environment: %v", err)
	}
	if config.Development() || config.ProxyURL == "" {
		t.Errorf("not a production's configuration: %+v", config)
	}
	if !f.HTTP.ForceHTTPS || f.HTTP.InternalPort != 8080 || config.Addr != ":8080" || !slices.Equal(f.HTTP.Processes, []string{"web"}) {
		t.Errorf("http_service %+v beside WAYBILL_ADDR %s", f.HTTP, config.Addr)
	}
	for _, c := range f.HTTP.Checks {
		if c.Path != "/readyz" {
			t.Errorf("the check of the service asks %s", c.Path)
		}
		// A machine that is about to stop serves on until the check has seen it, and has the time for that.
		interval, err := time.ParseDuration(c.Interval)
		patience, err2 := time.ParseDuration(c.Timeout)
		if err != nil || err2 != nil || config.Drain <= interval+patience || grace < config.Drain+5*time.Second {
			t.Errorf("the drain of %s is for a check every %q with a timeout of %q, and kill_timeout is %s", config.Drain, c.Interval, c.Timeout, grace)
		}
	}
	for name, c := range f.Checks {
		port := 8080
		if name == "proxy" {
			port = 4750
		}
		if c.Port != port || c.Type == "http" && c.Path != "/readyz" {
			t.Errorf("check %s: %+v", name, c)
		}
	}
	if !strings.HasSuffix(f.Processes["proxy"], ":4750") || !strings.HasSuffix(config.ProxyURL, ":4750") {
		t.Errorf("the proxy listens by `%s` and is looked for at %s", f.Processes["proxy"], config.ProxyURL)
	}
}

// variables are the names in the README's table.
func variables(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(WAYBILL_[A-Z_]+)`").FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		t.Fatalf("the README's table has the variables %v", names)
	}
	return names
}

// What the README says of connections is what a process may open.
func TestScalingSaysHowManyConnections(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("each brings up to %d connections", server.Conns); !strings.Contains(string(text), want) {
		t.Errorf("the README does not say %q", want)
	}
}

// The image is built in one stage and run in another, as nobody, static, and asked by the program's own command whether it is well.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := string(text)
	last := dockerfile[strings.LastIndex(dockerfile, "\nFROM "):]
	for _, want := range []string{"USER nonroot", "STOPSIGNAL SIGTERM", `ENTRYPOINT ["/waybill"]`, "COPY --from=build /waybill /waybill", "EXPOSE 8080"} {
		if !strings.Contains(last, want) {
			t.Errorf("the last stage has no %q", want)
		}
	}
	if strings.Count(dockerfile, "FROM ") != 2 || !strings.Contains(dockerfile, "CGO_ENABLED=0 go build") || !strings.Contains(dockerfile, " ./app\n") {
		t.Error("not a static build in a stage of its own")
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if version == nil || !strings.Contains(dockerfile, "FROM golang:"+string(version[1])+"-") {
		t.Errorf("the image builds with another Go than %s", version)
	}
	for _, pattern := range []string{`HEALTHCHECK .*CMD \["/waybill", "(.*)"\]`, `(?m)^CMD \["(.*)"\]`} {
		command := regexp.MustCompile(pattern).FindStringSubmatch(last)
		if command == nil {
			t.Errorf("no line %s", pattern)
			continue
		}
		parse(t, command[1])
	}
}
