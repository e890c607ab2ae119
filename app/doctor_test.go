package main

import (
	"bytes"
	"strings"
	"testing"

	"waybill/app/seal"
	"waybill/db/dbtest"
)

// The command looks at what its environment describes, prints lines, and ends with 1 when one of them says fail.
func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	keys := seal.NewKey().Reveal()
	env := map[string]string{"WAYBILL_DATABASE_URL": dbtest.NewURL(t), "WAYBILL_URL": "http://localhost:8080", "WAYBILL_ALLOW_HTTP": "true", "WAYBILL_SECRET_KEYS": keys,
		"WAYBILL_PLATFORM_KEY": "short", "WAYBILL_MIGRATE": "perhaps", "WAYBILL_DATA": t.TempDir()}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"doctor"}, streams{out: &out, err: &errs, getenv: func(name string) string { return env[name] }})
	if code != 1 || !strings.Contains(errs.String(), "see the lines that say fail") {
		t.Errorf("code %d, %s", code, errs.String())
	}
	for _, want := range []string{"fail  configuration  WAYBILL_MIGRATE: must be true or false", "fail  configuration  WAYBILL_PLATFORM_KEY: has 5 characters",
		"pass  migrations", "pass  keys", "pass  proxy"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), keys) {
		t.Error("a key is printed")
	}
}
