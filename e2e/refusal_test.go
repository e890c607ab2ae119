package e2e

import (
	"errors"
	"maps"
	"os/exec"
	"strings"
	"testing"
)

func asRefusal(err error, into **Refusal) bool { return errors.As(err, into) }

// TestRefusals starts the program with configurations it must refuse, by the names of the variables and with what is allowed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	binary, err := built.binary()
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("A", 43) + "=" // 32 bytes in base64
	production := map[string]string{"WAYBILL_DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "WAYBILL_ADDR": "127.0.0.1:0", "WAYBILL_URL": "https://hooks.example.com",
		"WAYBILL_SECRET_KEYS": key, "WAYBILL_PLATFORM_KEY": strings.Repeat("k", 32)}
	for name, c := range map[string]struct {
		env       map[string]string
		arguments []string
		code      int
		says      []string // all of these
		hides     string   // and never this
	}{
		"no keys in production": {env: map[string]string{"WAYBILL_SECRET_KEYS": "", "WAYBILL_PLATFORM_KEY": ""}, code: 1,
			says: []string{"WAYBILL_SECRET_KEYS: is missing", "openssl rand -base64 32", "WAYBILL_PLATFORM_KEY: is missing"}},
		"a key of the wrong length": {env: map[string]string{"WAYBILL_SECRET_KEYS": "c2VjcmV0LXRoYXQtaXMtc2hvcnQ="}, code: 1,
			says: []string{"WAYBILL_SECRET_KEYS:", "it must have exactly 32"}, hides: "c2VjcmV0LXRoYXQtaXMtc2hvcnQ="},
		"a key that is no base64": {env: map[string]string{"WAYBILL_SECRET_KEYS": "not+base64!"}, code: 1, says: []string{"WAYBILL_SECRET_KEYS:", "base64"}, hides: "not+base64!"},
		"a short platform key": {env: map[string]string{"WAYBILL_PLATFORM_KEY": "shortsecret"}, code: 1,
			says: []string{"WAYBILL_PLATFORM_KEY: has 11 characters; it must have 32 or more"}, hides: "shortsecret"},
		"no public address":         {env: map[string]string{"WAYBILL_URL": ""}, code: 1, says: []string{"WAYBILL_URL: is missing", "https://hooks.example.com"}},
		"a public address in clear": {env: map[string]string{"WAYBILL_URL": "http://hooks.example.com"}, code: 1, says: []string{"WAYBILL_URL: must begin with https://"}},
		"an address that is none":   {env: map[string]string{"WAYBILL_ADDR": "8080"}, code: 1, says: []string{"WAYBILL_ADDR: must be host:port or :port"}},
		"another database": {env: map[string]string{"WAYBILL_DATABASE_URL": "mysql://root:hunter2@db/waybill"}, code: 1,
			says: []string{"WAYBILL_DATABASE_URL: must be postgres://"}, hides: "hunter2"},
		"neither true nor false": {env: map[string]string{"WAYBILL_ALLOW_HTTP": "perhaps", "WAYBILL_MIGRATE": "soon"}, code: 1,
			says: []string{"WAYBILL_ALLOW_HTTP: must be true or false", "WAYBILL_MIGRATE: must be true or false"}},
		"a network that is none":     {env: map[string]string{"WAYBILL_EGRESS_ALLOW": "everything"}, code: 1, says: []string{"WAYBILL_EGRESS_ALLOW:"}},
		"a proxy that is none":       {env: map[string]string{"WAYBILL_PROXY_URL": "socks5://proxy:1080"}, code: 1, says: []string{"WAYBILL_PROXY_URL: must be http://host:port"}},
		"a proxy behind a proxy":     {env: map[string]string{"WAYBILL_PROXY_URL": "http://127.0.0.1:4750"}, arguments: []string{"--only", "proxy"}, code: 1, says: []string{"WAYBILL_PROXY_URL: names another proxy"}},
		"a policy that is not there": {env: map[string]string{"WAYBILL_POLICY": "/nowhere/policy.yaml"}, code: 1, says: []string{"WAYBILL_POLICY", "/nowhere/policy.yaml"}},
		"a database that is away":    {code: 1, says: []string{"start database"}},
		"a part that is none":        {arguments: []string{"--only", "postman"}, code: 2, says: []string{"--only must be one of", "postman"}},
		"a flag that is none":        {arguments: []string{"--fast"}, code: 2, says: []string{"unknown flag --fast", "waybill --help"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := maps.Clone(production)
			maps.Copy(set, c.env)
			set["WAYBILL_DATA"] = t.TempDir()
			cmd := exec.CommandContext(t.Context(), binary, append([]string{"serve"}, c.arguments...)...)
			cmd.Env = environment(set)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("ended with %v, want exit code %d", err, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(string(out), text) {
					t.Errorf("does not say %q:\n%s", text, out)
				}
			}
			if c.hides != "" && strings.Contains(string(out), c.hides) {
				t.Errorf("shows %q:\n%s", c.hides, out)
			}
		})
	}
}
