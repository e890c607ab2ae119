package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
	"waybill/db/dbtest"
)

// tenantKey makes a tenant and a key of it.
func (b *bench) tenantKey(t *testing.T, uid, body string) string {
	t.Helper()
	if got := b.call(t, platformKey, "PUT", "/v1/tenants/"+uid, `{"name":"`+uid+`"}`); got.status != 200 {
		t.Fatal(got.body)
	}
	got := b.call(t, platformKey, "POST", "/v1/tenants/"+uid+"/keys", body)
	if got.status != 201 {
		t.Fatal(got.body)
	}
	return field(t, got.body, "key")
}

// wantProblem checks that an answer is a problem of the kind, complete and with its headers.
func wantProblem(t *testing.T, got answer, want fault.Kind) Problem {
	t.Helper()
	var problem Problem
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	if got.status != want.Status() || problem.Status != want.Status() || problem.Type != "https://waybill.test/v1/problems/"+want.Slug() ||
		problem.Title != want.Title() || problem.Detail == "" || got.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("answer is %d %s, want %s", got.status, got.body, want)
	}
	if problem.RequestID == "" || problem.RequestID != got.header.Get("X-Request-Id") {
		t.Errorf("request id %q in the body, %q in the header", problem.RequestID, got.header.Get("X-Request-Id"))
	}
	return problem
}

func TestWhoAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, header := range map[string][]string{
		"nobody":            nil,
		"an unknown key":    {"Bearer wbt_unknown"},
		"another scheme":    {"Basic " + platformKey},
		"no scheme":         {platformKey},
		"two of them":       {"Bearer " + platformKey, "Bearer " + platformKey},
		"two spaces":        {"Bearer  " + platformKey},
		"an empty key":      {"Bearer "},
		"with bytes behind": {"Bearer " + platformKey + "\xff"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.URL+"/v1/tenants", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Authorization"] = header
		got := send(t, r)
		wantProblem(t, got, fault.Unauthenticated)
		if got.header.Get("WWW-Authenticate") != `Bearer realm="waybill"` {
			t.Errorf("%s: WWW-Authenticate is %q", name, got.header.Get("WWW-Authenticate"))
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.URL+"/v1/tenants", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "bearer "+platformKey) // the scheme is case-insensitive: RFC 9110, section 11.1
	if got := send(t, r); got.status != 200 {
		t.Errorf("answer %d %s", got.status, got.body)
	}
	if strings.Contains(b.logs.String(), platformKey) || strings.Contains(b.logs.String(), "wbt_unknown") {
		t.Error("a key is in the log")
	}
}

// Whoever is not known is refused before the body is read (CASES B56): every route answers while the client still holds its body back.
func TestStrangersAreRefusedBeforeTheirBody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, route := range b.Routes() {
		if route.Audience == ForPublic {
			continue
		}
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		path := wildcard.ReplaceAllString(route.Pattern, "x")
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: waybill.test\r\nAuthorization: Bearer nobody\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{", route.Method, path)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s %s: %v", route.Method, path, err)
		}
		if response.StatusCode != 401 || !response.Close {
			t.Errorf("%s %s: %d, connection closed: %v", route.Method, path, response.StatusCode, response.Close)
		}
	}
}

func TestAddressesAndMethods(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wantProblem(t, b.call(t, platformKey, "GET", "/v1/", ""), fault.NotFound)
	wantProblem(t, b.call(t, platformKey, "GET", "/v1/tenants/a/b/c", ""), fault.NotFound)
	got := b.call(t, platformKey, "DELETE", "/v1/tenants", "")
	if got.status != 405 || got.header.Get("Allow") != "GET, HEAD" || !strings.Contains(got.body, "/v1/problems/method-not-allowed") {
		t.Errorf("answer %d, Allow %q: %s", got.status, got.header.Get("Allow"), got.body)
	}
	if got := b.call(t, platformKey, "HEAD", "/v1/tenants", ""); got.status != 200 || got.body != "" {
		t.Errorf("HEAD answers %d %q", got.status, got.body)
	}
	for _, path := range []string{"/v1/tenants/%00", "/v1/tenants/%ff/keys", "/v1/tenants/" + strings.Repeat("a", 5000), "/v1/event-types/%00", "/v1/event-types/a%2Fb"} {
		wantProblem(t, b.call(t, platformKey, "GET", path, ""), fault.NotFound)
	}
}

func TestWhoMayWhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	narrow := field(t, b.call(t, platformKey, "POST", "/v1/tenants/one/keys", `{"scopes":["catalog:read"]}`).body, "key")
	b.tenantKey(t, "two", "")
	wantProblem(t, b.call(t, platformKey, "GET", "/v1/endpoints", ""), fault.Forbidden)
	wantProblem(t, b.call(t, key, "GET", "/v1/tenants", ""), fault.Forbidden)
	wantProblem(t, b.call(t, key, "GET", "/v1/tenants/one", ""), fault.Forbidden)
	wantProblem(t, b.call(t, key, "GET", "/v1/tenants/two", ""), fault.NotFound)
	wantProblem(t, b.call(t, key, "GET", "/v1/tenants/two/endpoints", ""), fault.NotFound)
	wantProblem(t, b.call(t, platformKey, "GET", "/v1/tenants/three/endpoints", ""), fault.NotFound)
	if got := b.call(t, key, "GET", "/v1/tenants/one/endpoints", ""); got.status != 200 {
		t.Errorf("its own address answers %d %s", got.status, got.body)
	}
	problem := wantProblem(t, b.call(t, narrow, "GET", "/v1/endpoints", ""), fault.Forbidden)
	if !strings.Contains(problem.Detail, "endpoints:read") {
		t.Errorf("the missing right is not named: %s", problem.Detail)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	padded := func(size int) string {
		body := `{"name":"Saree shop"`
		return body + strings.Repeat(" ", size-len(body)-1) + "}"
	}
	for _, chunked := range []bool{false, true} {
		for size, want := range map[int]int{DefaultMaxBody: 200, DefaultMaxBody + 1: 413, 10 * DefaultMaxBody: 413} {
			var body io.Reader = strings.NewReader(padded(size))
			if chunked {
				body = io.MultiReader(body) // hides the length
			}
			r, err := http.NewRequestWithContext(t.Context(), "PUT", b.server.URL+"/v1/tenants/one", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+platformKey)
			got := send(t, r)
			if got.status != want {
				t.Errorf("%d bytes, chunked %v: %d %s", size, chunked, got.status, got.body)
			}
			if want == 413 {
				wantProblem(t, got, fault.TooLarge)
			}
		}
	}
	// An announced size is refused before a byte of it has come.
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", platformKey, PublishMaxBody+1)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 413 || !response.Close {
		t.Errorf("answer %+v, %v", response, err)
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		contentType, encoding string
		want                  int
	}{
		{"", "", 200}, {"application/json", "", 200}, {"Application/JSON; charset=UTF-8", "", 200}, {"application/json", "identity", 200},
		{"text/plain", "", 415}, {"application/x-www-form-urlencoded", "", 415}, {"application/json; charset=latin1", "", 415},
		{"application/json; charset", "", 415}, {"application/problem+json", "", 415}, {"application/json", "gzip", 415}, {"application/json", "br", 415},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", b.server.URL+"/v1/tenants/one", strings.NewReader(`{"name":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+platformKey)
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		if got := send(t, r); got.status != c.want {
			t.Errorf("%q, %q: %d %s", c.contentType, c.encoding, got.status, got.body)
		}
	}
}

func TestBodiesAreReadStrictly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for body, want := range map[string]struct {
		kind  fault.Kind
		field string
	}{
		``:                              {fault.Malformed, ""},
		` `:                             {fault.Malformed, ""},
		`{`:                             {fault.Malformed, ""},
		`{"name":"a"} x`:                {fault.Malformed, ""},
		`{"name":"a"}{"name":"b"}`:      {fault.Malformed, ""},
		`{'name':"a"}`:                  {fault.Malformed, ""},
		`{"name":"a",}`:                 {fault.Malformed, ""},
		"{\"name\":\"\xff\"}":           {fault.Malformed, ""},
		`{"name":"\ud800"}`:             {fault.Malformed, ""},
		"\ufeff{\"name\":\"a\"}":        {fault.Malformed, ""},
		strings.Repeat("[", 60_000):     {fault.Invalid, "body"},
		`null`:                          {fault.Invalid, "name"},
		`[]`:                            {fault.Invalid, "body"},
		`"name"`:                        {fault.Invalid, "body"},
		`{"name":7}`:                    {fault.Invalid, "name"},
		`{"name":"a","name":"b"}`:       {fault.Invalid, "name"},
		`{"name":"a","Name":"b"}`:       {fault.Invalid, "Name"},
		`{"name":"a","limits":[]}`:      {fault.Invalid, "limits"},
		`{"name":"a","limits":{"x":1}}`: {fault.Invalid, "limits.x"},
		`{"name":"a","limits":{"concurrency":"5"}}`:          {fault.Invalid, "limits.concurrency"},
		`{"name":"a","limits":{"concurrency":1e99}}`:         {fault.Invalid, "limits.concurrency"},
		`{"name":"a","limits":{"concurrency":1.5}}`:          {fault.Invalid, "limits.concurrency"},
		`{"name":"a\u0000"}`:                                 {fault.Invalid, "name"},
		`{"name":"a","` + strings.Repeat("x", 5000) + `":1}`: {fault.Invalid, strings.Repeat("x", 200) + "…"},
	} {
		problem := wantProblem(t, b.call(t, platformKey, "PUT", "/v1/tenants/one", body), want.kind)
		if want.field != "" && (len(problem.Errors) != 1 || problem.Errors[0].Field != want.field) {
			t.Errorf("%.60s: %+v, want field %s", body, problem.Errors, want.field)
		}
	}
	wantProblem(t, b.call(t, platformKey, "GET", "/v1/tenants/one", ""), fault.NotFound)
}

func TestParametersAreReadStrictly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for query, want := range map[string]fault.Kind{
		"limit=1": "", "limit=200": "", "": "", "limit=0": fault.Invalid, "limit=201": fault.Invalid, "limit=x": fault.Invalid, "limit=": fault.Invalid,
		"limit=1&limit=2": fault.Invalid, "Limit=1": fault.Invalid, "x=1": fault.Invalid, "%zz=1": fault.Malformed, "after=": "", "after=%00": fault.Malformed,
		"limit=99999999999999999999": fault.Invalid, "after=" + strings.Repeat("A", 10_000): fault.Malformed, "a;b=1": fault.Malformed,
	} {
		got := b.call(t, platformKey, "GET", "/v1/tenants?"+query, "")
		if want == "" && got.status == 200 {
			continue
		}
		wantProblem(t, got, want)
	}
	wantProblem(t, b.call(t, platformKey, "PUT", "/v1/tenants/one?dry_run=true", `{"name":"a"}`), fault.Invalid)
	wantProblem(t, b.call(t, platformKey, "GET", "/v1/tenants/one", ""), fault.NotFound)
}

func TestDecodeQuery(t *testing.T) {
	t.Parallel()
	type query struct {
		PageQuery
		Since *time.Time `query:"since"`
		Live  bool       `query:"live"`
		Slow  *int       `query:"slow" minimum:"0" maximum:"10"`
		Types []string   `query:"type" maxLength:"3"`
		Form  string     `query:"form" enum:"full,thin"`
	}
	read := func(text string) (query, error) {
		return DecodeQuery[query](httptest.NewRequest("GET", "/?"+text, nil))
	}
	got, err := read("since=2026-11-17T15:11:05%2B05:30&live=true&slow=0&type=a&type=b&form=thin&limit=7&after=abc")
	if err != nil || !got.Since.Equal(time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC)) || !got.Live || *got.Slow != 0 || len(got.Types) != 2 ||
		got.Form != "thin" || got.Limit != 7 || got.After != "abc" {
		t.Errorf("read %+v, %v", got, err)
	}
	if got, err = read(""); err != nil || got.Limit != 50 || got.Since != nil || got.Slow != nil || got.Types != nil {
		t.Errorf("read %+v, %v", got, err)
	}
	_, err = read("since=2026-11-17T15:11:05+05:30&live=yes&slow=11&type=abcd&form=fat&limit=-1")
	if fields := fault.From(err).Fields; fault.KindOf(err) != fault.Invalid || len(fields) != 6 {
		t.Errorf("%v", err)
	}
	_, err = read("form=%00&type=%ff")
	if fields := fault.From(err).Fields; fault.KindOf(err) != fault.Invalid || len(fields) != 2 {
		t.Errorf("%v", err)
	}
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC)
	b := newBenchOn(t, dbtest.New(t), func() time.Time { return now })
	key := b.tenantKey(t, "one", `{"requests_per_second":3}`)
	usual := b.tenantKey(t, "two", "")
	for i := range 6 {
		got := b.call(t, key, "GET", "/v1/endpoints", "")
		if got.status != 200 || got.header.Get("RateLimit-Limit") != "6" || got.header.Get("RateLimit-Remaining") != fmt.Sprint(5-i) {
			t.Fatalf("call %d: %d %v", i, got.status, got.header)
		}
	}
	got := b.call(t, key, "GET", "/v1/endpoints", "")
	wantProblem(t, got, fault.RateLimited)
	for name, want := range map[string]string{
		"Retry-After": "1", "RateLimit-Reset": "2", "RateLimit-Remaining": "0", "RateLimit": `"key";r=0;t=2`, "RateLimit-Policy": `"key";q=6;w=2`,
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	now = now.Add(time.Second)
	for i, want := range []int{200, 200, 200, 429} {
		if got := b.call(t, key, "GET", "/v1/endpoints", ""); got.status != want {
			t.Errorf("a second later, call %d: %d", i, got.status)
		}
	}
	// Another key has a bucket of its own, and the platform none.
	if got := b.call(t, usual, "GET", "/v1/endpoints", ""); got.status != 200 || got.header.Get("RateLimit-Limit") != "100" || got.header.Get("RateLimit-Remaining") != "99" {
		t.Errorf("%d %v", got.status, got.header)
	}
	for range 200 {
		if got := b.call(t, platformKey, "GET", "/v1/problems/gone", ""); got.status != 200 {
			t.Fatal(got.status)
		}
	}
	if got := b.call(t, platformKey, "GET", "/v1/tenants", ""); got.status != 200 || got.header.Get("RateLimit-Limit") != "" {
		t.Errorf("%d %v", got.status, got.header)
	}
	now = now.Add(time.Hour)
	b.call(t, usual, "GET", "/v1/endpoints", "")
	if n := len(b.limits.buckets); n != 1 {
		t.Errorf("%d buckets are kept for ever", n)
	}
}

// CASES B61: a busy database is 503 with Retry-After, whatever was asked, and never something about rights.
func TestABusyDatabase(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	busy := dbtest.Open(t, url, db.Options{})
	b := newBenchOn(t, dbtest.Open(t, url, db.Options{LockTimeout: 20 * time.Millisecond}), time.Now)
	key := b.tenantKey(t, "one", "")
	for _, table := range []string{"api_keys", "tenants", "endpoints", "event_ids"} {
		tx, err := busy.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "lock table "+table); err != nil {
			t.Fatal(err)
		}
		for call, who := range map[string]string{
			"GET /v1/endpoints": key, "GET /v1/tenants/one": platformKey,
			`POST /v1/events {"tenant":"one","type":"a","resource":{"type":"a","id":"1"},"data":1}`: platformKey,
		} {
			parts := strings.SplitN(call+" ", " ", 3)
			got := b.call(t, who, parts[0], parts[1], strings.TrimSpace(parts[2]))
			if got.status < 300 {
				continue // this call does not need that table
			}
			wantProblem(t, got, fault.Unavailable)
			if got.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
		if table == "api_keys" {
			wantProblem(t, b.call(t, key, "GET", "/v1/endpoints", ""), fault.Unavailable)
		}
		if err := tx.Rollback(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(b.logs.String(), "lock timeout") {
		t.Error("the cause is not in the log")
	}
}

func TestAPanicIsOurMistake(t *testing.T) {
	t.Parallel()
	logs := &safeBuffer{}
	a := &API{Config: Config{URL: "https://waybill.test", Log: slog.New(slog.NewJSONHandler(logs, nil)), Now: time.Now}, mux: http.NewServeMux()}
	a.mux.Handle("GET /v1/mistake", a.handler(Route{
		Audience: ForPublic, Handle: func(http.ResponseWriter, *http.Request, account.Caller) error { panic("secret cause") },
	}))
	server := httptest.NewServer(a)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v1/mistake", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := send(t, r)
	problem := wantProblem(t, got, fault.Internal)
	if strings.Contains(got.body, "secret cause") {
		t.Errorf("the client is told: %s", got.body)
	}
	if log := logs.String(); !strings.Contains(log, "secret cause") || !strings.Contains(log, problem.RequestID) || !strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log does not tell: %s", log)
	}
}

// pipes is a listener for connections in memory, whose deadlines run by the test's clock.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A byte a second holds a connection for half a minute and no longer; a body that is just slow arrives (CASES B56).
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes int
		want  int
		took  time.Duration
	}{"slow": {20, 200, 20 * time.Second}, "endless": {1000, 400, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			a := &API{Config: Config{URL: "https://waybill.test", Log: slog.New(slog.DiscardHandler), Now: time.Now}, mux: http.NewServeMux()}
			a.mux.Handle("POST /", a.handler(Route{
				Audience: ForPublic, Body: "", Handle: func(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
					text, err := ReadBody(w, r)
					if err != nil {
						return err
					}
					// The deadline was the body's: what follows may take its time.
					select {
					case <-r.Context().Done():
						return r.Context().Err()
					case <-time.After(25 * time.Second):
					}
					return WriteRaw(w, 200, text)
				},
			}))
			listener := pipes{make(chan net.Conn)}
			server := &http.Server{Handler: a}
			go func() { _ = server.Serve(listener) }()
			client, remote := net.Pipe()
			listener.conns <- remote
			started := time.Now()
			written := make(chan struct{})
			go func() {
				defer close(written)
				fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", c.bytes)
				for range c.bytes {
					time.Sleep(time.Second)
					if _, err := client.Write([]byte("1")); err != nil {
						return
					}
				}
			}()
			response, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(started)
			if c.want == 200 {
				took -= 25 * time.Second
			}
			if response.StatusCode != c.want || took != c.took {
				t.Errorf("%s: %d after %v, want %d after %v", name, response.StatusCode, took, c.want, c.took)
			}
			client.Close()
			<-written
			close(listener.conns)
			_ = server.Close()
			synctest.Wait()
		})
	}
}

func TestRequestsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.call(t, platformKey, "PUT", "/v1/tenants/one", `{"name":"secret name"}`)
	b.call(t, platformKey, "GET", "/v1/tenants/two", "")
	var lines []map[string]any
	for line := range strings.Lines(b.logs.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, entry)
	}
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	if lines[0]["route"] != "/v1/tenants/{uid}" || lines[0]["method"] != "PUT" || lines[0]["status"] != 200. || lines[0]["error"] != nil {
		t.Errorf("logged %v", lines[0])
	}
	if lines[1]["status"] != 404. || !strings.Contains(fmt.Sprint(lines[1]["error"]), "no such tenant") || lines[1]["level"] != "INFO" {
		t.Errorf("logged %v", lines[1])
	}
	if bytes.Contains([]byte(b.logs.String()), []byte("secret name")) {
		t.Error("a body is in the log")
	}
}
