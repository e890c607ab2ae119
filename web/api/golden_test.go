package api

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// transcript is a conversation with the API as it is kept in a golden file: what differs from run to run is replaced.
type transcript struct {
	*bench
	text   strings.Builder
	names  map[string]string // ids as they are called in the file
	counts map[string]int
	called map[string]bool // method and path
}

func newTranscript(t *testing.T) *transcript {
	return &transcript{bench: newBench(t), names: map[string]string{}, counts: map[string]int{}, called: map[string]bool{}}
}

var (
	idForm     = regexp.MustCompile(`\b(tnt|ep|evt|dlv|att|key|sec|ses|aud|rcv)_[0-9A-HJKMNP-TV-Z]{26}\b`)
	timeForm   = regexp.MustCompile(`"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"`)
	secretForm = regexp.MustCompile(`\b(whsec|whsk|whpk)_[A-Za-z0-9+/]{20,}=*`)
	tokenForm  = regexp.MustCompile(`\b(wbt|wbp|wbl)_[0-9a-z]{8,40}\b`)
	otherForm  = regexp.MustCompile(`"(fingerprint)": "[0-9a-f]{8}"|"(request_id)": "req_[0-9a-f]{24}"|"(next)": "[A-Za-z0-9_-]+"|"(cursor)": "[A-Za-z0-9_-]+"|"(id)": "lse_[0-9a-f]+"`)
	cursorForm = regexp.MustCompile(`([?&]after=|"cursor":")[A-Za-z0-9_-]{10,}`)
)

// plain replaces what differs from run to run.
func (s *transcript) plain(text string) string {
	text = idForm.ReplaceAllStringFunc(text, func(id string) string {
		if s.names[id] == "" {
			prefix, _, _ := strings.Cut(id, "_")
			s.counts[prefix]++
			s.names[id] = fmt.Sprintf("%s_%d", prefix, s.counts[prefix])
		}
		return s.names[id]
	})
	text = timeForm.ReplaceAllString(text, `"TIME"`)
	text = secretForm.ReplaceAllString(text, "${1}_…")
	text = cursorForm.ReplaceAllString(text, "${1}…")
	text = tokenForm.ReplaceAllString(text, "${1}_…")
	return otherForm.ReplaceAllString(text, `"$1$2$3$4$5": "…"`)
}

// say sends a request, notes it with its answer, and returns the body.
func (s *transcript) say(t *testing.T, key, method, path, body string, want int) string {
	t.Helper()
	s.called[method+" "+path] = true
	got := s.call(t, key, method, path, body)
	if got.status != want {
		t.Errorf("%s %s answers %d, want %d: %s", method, path, got.status, want, got.body)
	}
	shown := got.body
	if got.body != "" {
		var value any
		if err := json.Unmarshal([]byte(got.body), &value); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, got.body)
		}
		indented := &strings.Builder{}
		encoder := json.NewEncoder(indented)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			t.Fatal(err)
		}
		shown = indented.String()
	}
	fmt.Fprintf(&s.text, "%s %s\n", method, s.plain(path))
	if body != "" {
		fmt.Fprintf(&s.text, "%s\n", s.plain(body))
	}
	fmt.Fprintf(&s.text, "→ %d %s\n%s\n", got.status, got.header.Get("Content-Type"), s.plain(shown))
	return got.body
}

// field is one member of a JSON object.
func field(t *testing.T, body string, path ...string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatal(err)
	}
	for _, name := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[name]
		case []any:
			var n int
			if _, err := fmt.Sscan(name, &n); err != nil || n >= len(at) {
				t.Fatalf("%s has no item %s", body, name)
			}
			value = at[n]
		}
	}
	text, ok := value.(string)
	if !ok {
		t.Fatalf("%s has no text %q", body, path)
	}
	return text
}

// compare holds the transcript against its golden file.
func (s *transcript) compare(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	got := s.text.String()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range gotLines {
		if i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s differs from line %d on (go test -update writes it anew):\n%s\nwant\n%s", file, i+1,
				strings.Join(gotLines[i:min(i+8, len(gotLines))], "\n"), strings.Join(wantLines[min(i, len(wantLines)):min(i+8, len(wantLines))], "\n"))
		}
	}
	t.Fatalf("%s is longer than what was said", file)
}

// Every route is spoken to, as it was meant to be and once wrongly, and answers as the golden files say.
func TestTenantRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`, 200)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop","limits":{"concurrency":7},"preset":"commerce","time_zone":"Asia/Kolkata"}`, 200)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop & sons","limits":{}}`, 200)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"","limits":{"concurrency":0},"time_zone":"Mars"}`, 422)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop","limits":{"events_per_second":100,"events_per_day_soft":800,"events_per_day":1000,"endpoints":1,"payload_bytes":1000,"retention_days":45}}`, 200)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop","limits":{"events_per_second":0}}`, 200)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop","limits":{"retention_days":3,"events_per_day":-1}}`, 422)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-1/limits", "", 200)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/endpoints", `{"url":"https://seller.example/","types":["*"]}`, 201)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/endpoints", `{"url":"https://seller.example/","types":["*"]}`, 403)
	s.say(t, platformKey, "POST", "/v1/events", `{"tenant":"shop-1","type":"a.b","resource":{"type":"c","id":"1"},"data":"`+strings.Repeat("x", 1000)+`"}`, 413)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop%2F2", `{"name":"x"}`, 422)
	s.say(t, platformKey, "PUT", "/v1/tenants/shop-2", `{"name":"Carrier"}`, 200)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-1", "", 200)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-3", "", 404)
	next := field(t, s.say(t, platformKey, "GET", "/v1/tenants?limit=1", "", 200), "next")
	s.say(t, platformKey, "GET", "/v1/tenants?limit=1&after="+next, "", 200)
	s.say(t, platformKey, "GET", "/v1/tenants?after=x", "", 400)
	s.compare(t, "tenants")
}

func TestKeyRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.call(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`)
	made := s.say(t, platformKey, "POST", "/v1/tenants/shop-1/keys", "", 201)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/keys",
		`{"name":"laptop","scopes":["deliveries:read","catalog:read"],"expires_at":"2126-11-17T09:41:05+05:30","requests_per_second":5}`, 201)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/keys", `{"scopes":["root"]}`, 422)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/keys", `{"expires_at":"2001-01-01T00:00:00Z"}`, 422)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/keys", `{"expires_at":"tomorrow"}`, 422)
	s.say(t, platformKey, "POST", "/v1/tenants/nobody/keys", "", 404)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-1/keys", "", 200)
	key := field(t, made, "key")
	s.say(t, key, "GET", "/v1/endpoints", "", 200)
	s.say(t, platformKey, "DELETE", "/v1/tenants/shop-1/keys/"+field(t, made, "id"), "", 204)
	s.say(t, platformKey, "DELETE", "/v1/tenants/shop-1/keys/"+field(t, made, "id"), "", 404)
	s.say(t, key, "GET", "/v1/endpoints", "", 401)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/portal-links", "", 201)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/portal-links", `{"label":"Anna","read_only":true}`, 201)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/portal-links", `{"read_only":true,"capabilities":["endpoints:write"]}`, 422)
	s.compare(t, "keys")
}

func TestEndpointRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.call(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`)
	key := field(t, s.call(t, platformKey, "POST", "/v1/tenants/shop-1/keys", "").body, "key")
	made := s.say(t, key, "POST", "/v1/endpoints", `{"url":"https://seller.example/hooks","types":["consignment.*","order.paid","order.paid"]}`, 201)
	one := "/v1/endpoints/" + field(t, made, "id")
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/endpoints", `{"url":"https://Other.Example","types":["*"],"description":"All of it","scheme":"v1+v1a",
"payload":"thin","headers":{"X-Shop":"1","Authorization":"Bearer x"},"limits":{"concurrency":5,"per_second":20},"preset":"commerce"}`, 201)
	s.say(t, key, "POST", "/v1/endpoints", `{"url":"http://127.0.0.1/","types":[],"scheme":"v9","headers":{"Host":"x","X-A":"a\r\nb"},"limits":{"concurrency":0}}`, 422)
	s.say(t, key, "POST", "/v1/endpoints", `{"url":"https://a.example/","types":"*"}`, 422)
	s.say(t, key, "POST", "/v1/endpoints", `{"url":"https://a.example/","types":["*"],"secret":"whsec_AAAA"}`, 422)
	s.say(t, key, "GET", one, "", 200)
	s.say(t, key, "GET", "/v1/endpoints/ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R", "", 404)
	next := field(t, s.say(t, key, "GET", "/v1/endpoints?limit=1", "", 200), "next")
	s.say(t, key, "GET", "/v1/endpoints?limit=1&after="+next, "", 200)
	s.say(t, key, "GET", "/v1/endpoints?state=paused", "", 200)
	s.say(t, key, "GET", "/v1/endpoints?state=asleep", "", 422)
	s.say(t, key, "PATCH", one, `{"description":"Orders","limits":{"per_second":3},"headers":{"X-Shop":"2"}}`, 200)
	s.say(t, key, "PATCH", one, `{"limits":{"per_second":null}}`, 200)
	s.say(t, key, "PATCH", one, `{"types":[]}`, 422)
	s.say(t, key, "PATCH", one, `{}`, 200)
	s.say(t, key, "PUT", one, `{"url":"https://seller.example/new","types":["order.*"]}`, 200)
	s.say(t, key, "PUT", one, `{"url":"https://seller.example/new"}`, 422)
	s.say(t, key, "POST", one+"/headers/reveal", "", 200)
	s.say(t, key, "POST", one+"/pause", "", 200)
	s.say(t, key, "POST", one+"/disable", `{}`, 200)
	s.say(t, key, "POST", one+"/pause", "", 409)
	s.say(t, key, "POST", one+"/pause", `{"why":"x"}`, 422)
	s.say(t, key, "POST", one+"/enable", "", 200)
	s.say(t, key, "POST", one+"/test", "", 202)
	s.say(t, key, "POST", one+"/test", `{"type":"order.paid","data":{"n":9007199254740993}}`, 202)
	s.say(t, key, "POST", one+"/test", `{"type":"order.*"}`, 422)
	s.say(t, key, "DELETE", one, "", 204)
	s.say(t, key, "DELETE", one, "", 404)
	s.compare(t, "endpoints")
}

func TestSecretRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.call(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`)
	key := field(t, s.call(t, platformKey, "POST", "/v1/tenants/shop-1/keys", "").body, "key")
	made := s.call(t, key, "POST", "/v1/endpoints", `{"url":"https://seller.example/hooks","types":["*"],"scheme":"v1+v1a"}`).body
	endpointID := field(t, made, "id")
	one := "/v1/endpoints/" + endpointID
	s.say(t, key, "GET", one+"/secrets", "", 200)
	rotated := s.say(t, key, "POST", one+"/rotate", "", 200)
	s.say(t, key, "POST", one+"/rotate", `{"overlap_seconds":0,"secret":"whsec_`+strings.Repeat("QUJD", 8)+`"}`, 200)
	s.say(t, key, "POST", one+"/rotate", `{"overlap_seconds":604801}`, 422)
	s.say(t, key, "POST", one+"/rotate", `{"overlap_seconds":9223372036854775807}`, 422)
	s.say(t, key, "POST", one+"/rotate", `{"overlap_seconds":-1}`, 422)
	s.say(t, key, "POST", one+"/rotate", `{"overlap_seconds":1.5}`, 422)
	list := s.call(t, key, "GET", one+"/secrets", "").body
	inForce := field(t, list, "data", "0", "id")
	revealed := s.say(t, key, "POST", one+"/secrets/"+inForce+"/reveal", "", 200)
	if field(t, revealed, "secret") != "whsec_"+strings.Repeat("QUJD", 8) {
		t.Error("the secret that was brought along is not the one that is shown")
	}
	s.say(t, key, "POST", one+"/secrets/"+inForce+"/expire", "", 409)
	old := field(t, rotated, "secrets", "2", "id")
	s.say(t, key, "POST", one+"/secrets/"+old+"/expire", "", 204)
	s.say(t, key, "POST", one+"/secrets/"+old+"/expire", "", 404)
	s.say(t, "", "GET", "/v1/public-keys/"+endpointID, "", 200)
	s.say(t, "", "GET", "/v1/public-keys/ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R", "", 404)
	s.compare(t, "secrets")
}

func TestEventTypeRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.call(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`)
	key := field(t, s.call(t, platformKey, "POST", "/v1/tenants/shop-1/keys", "").body, "key")
	s.say(t, platformKey, "PUT", "/v1/event-types/consignment.delivered", `{"description":"It has arrived.","group":"Consignments",
"schema":{"type":"object","properties":{"weight":{"type":"number"}}},"example":{"weight":12.50},"schema_version":2}`, 200)
	s.say(t, platformKey, "PUT", "/v1/event-types/consignment.booked", `{"deprecated":true,"schema":null}`, 200)
	s.say(t, platformKey, "PUT", "/v1/event-types/consignment-booked", `{"schema":[],"schema_version":-1,"description":"a\u0000"}`, 422)
	s.say(t, key, "PUT", "/v1/event-types/consignment.booked", `{}`, 403)
	next := field(t, s.say(t, key, "GET", "/v1/event-types?limit=1", "", 200), "next")
	s.say(t, key, "GET", "/v1/event-types?limit=1&after="+next, "", 200)
	s.say(t, platformKey, "GET", "/v1/event-types?group=Consignments", "", 200)
	s.say(t, key, "GET", "/v1/event-types/consignment.delivered", "", 200)
	s.say(t, key, "GET", "/v1/event-types/consignment.lost", "", 404)
	s.compare(t, "event_types")
}

func TestPublishRoute(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.call(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`)
	key := field(t, s.call(t, platformKey, "POST", "/v1/tenants/shop-1/keys", "").body, "key")
	event := `{"id":"one","tenant":"shop-1","type":"consignment.booked","resource":{"type":"consignment","id":"C-4471"},"data":{"weight":12}}`
	other := `{"tenant":"shop-1","type":"consignment.loaded","resource":{"type":"consignment","id":"C-4471"},"sequence":2,"version":3,"occurred_at":"2026-11-17T09:41:05.123Z","data":{}}`
	s.say(t, platformKey, "POST", "/v1/events", event, 202)
	s.say(t, platformKey, "POST", "/v1/events", event, 200)
	s.say(t, platformKey, "POST", "/v1/events", strings.Replace(event, "12", "13", 1), 409)
	s.say(t, platformKey, "POST", "/v1/events", `{"events":[`+event+","+other+`]}`, 202)
	s.say(t, platformKey, "POST", "/v1/events", `{"events":[`+event+`]}`, 200)
	s.say(t, platformKey, "POST", "/v1/events", strings.Replace(event, "shop-1", "shop-9", 1), 422)
	s.say(t, platformKey, "POST", "/v1/events", `{"events":[`+other+`,{"tenant":"shop-1","Type":"a","resource":{"type":"c","ID":1},"data":1},7]}`, 422)
	s.say(t, platformKey, "POST", "/v1/events", `{}`, 422)
	s.say(t, key, "POST", "/v1/events", event, 403)
	s.compare(t, "publish")
}

func TestDocumentRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	for _, kind := range s.problemTypes() {
		s.say(t, "", "GET", strings.TrimPrefix(kind.Type, "https://waybill.test"), "", 200)
	}
	s.say(t, "", "GET", "/v1/problems/nothing", "", 404)
	s.say(t, "", "GET", "/v1/nowhere", "", 404)
	s.say(t, "", "DELETE", "/v1/openapi.json", "", 405)
	s.compare(t, "documents")
}

// Golden files hold nothing that was secret once.
func TestGoldenFilesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []*regexp.Regexp{tokenForm, idForm} {
			found := form.FindAllString(string(text), -1)
			found = slices.DeleteFunc(found, func(s string) bool { return s == "ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R" })
			if len(found) > 0 {
				t.Errorf("%s holds %q", file, found)
			}
		}
	}
}
