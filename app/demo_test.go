package main

import (
	"bytes"
	"strings"
	"testing"

	"waybill/db/dbtest"
)

func TestDemoStopsByItself(t *testing.T) {
	t.Parallel()
	env := map[string]string{"WAYBILL_DATABASE_URL": dbtest.NewURL(t), "WAYBILL_ADDR": "127.0.0.1:0", "WAYBILL_DATA": t.TempDir()}
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"demo", "--for", "6s", "--quiet"}, streams{out: &out, err: &log, getenv: func(name string) string { return env[name] }})
	if code != 0 {
		t.Errorf("exit code %d, %s", code, log.String())
	}
	for _, want := range []string{"First delivery verified ", "Dashboard of Meenakshi Sarees", "Stopped in "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s%s", want, out.String(), log.String())
		}
	}
	if strings.Contains(out.String(), "A stranger") {
		t.Errorf("--quiet prints the story:\n%s", out.String())
	}
}

func TestDemoRefusesANegativeTime(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"demo", "--for=-1s"}, streams{out: &out, err: &log, getenv: func(string) string { return "" }})
	if code != 1 || !strings.Contains(log.String(), "--for must be a time") {
		t.Errorf("exit code %d, %s", code, log.String())
	}
}
