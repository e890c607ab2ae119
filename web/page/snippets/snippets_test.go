package snippets_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"waybill/app/signing"
	"waybill/web/page/snippets"
)

// request is what a snippet is given, and what it must say.
type request struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	want    bool
}

func requests(t *testing.T) map[string]request {
	t.Helper()
	old, key, other := signing.NewSecret(), signing.NewSecret(), signing.NewSecret()
	const body = `{"id":"evt_1","data":{"n": 9007199254740993,"s":"₹"}}`
	made := func(at time.Time, keys ...signing.Key) map[string]string {
		headers, err := signing.Headers(signing.V1, keys, "evt_1", at.Unix(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, h := range headers {
			all[h.Name] = h.Value
		}
		return all
	}
	secret, now := string(key.Reveal()), time.Now()
	return map[string]request{
		"right":               {secret, made(now, key), body, true},
		"while it is rotated": {secret, made(now, key, old), body, true},
		"another secret":      {secret, made(now, other), body, false},
		"another body":        {secret, made(now, key), strings.Replace(body, "n\": 9", "n\":9", 1), false},
		"too old":             {secret, made(now.Add(-6*time.Minute), key), body, false},
		"too new":             {secret, made(now.Add(6*time.Minute), key), body, false},
		"without headers":     {secret, map[string]string{}, body, false},
	}
}

func TestGo(t *testing.T) {
	t.Parallel()
	for name, r := range requests(t) {
		header := http.Header{}
		for key, value := range r.Headers {
			header.Set(key, value)
		}
		if err := snippets.Verify(r.Secret, header, []byte(r.Body), time.Now()); (err == nil) != r.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(snippets.Go, "func Verify(") {
		t.Error("what is shown is not what is run")
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no Python on this machine")
		}
		t.Skip("no Python on this machine")
	}
	for name, r := range requests(t) {
		given, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		run := exec.CommandContext(t.Context(), python, "-c", snippets.Python+"\nimport json, sys\nr = json.load(sys.stdin)\nprint(verify(r['secret'], r['headers'], r['body'].encode()))\n")
		run.Stdin = strings.NewReader(string(given))
		said, err := run.CombinedOutput()
		if want := map[bool]string{true: "True", false: "False"}[r.want]; err != nil || strings.TrimSpace(string(said)) != want {
			t.Errorf("%s: %s, %v, want %s", name, said, err, want)
		}
	}
}
