package receive_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/receive"
	"waybill/app/signing"
)

// fakeCatalog answers GET /v1/events as Waybill does: some events a page, and 410 to a cursor that has aged out.
type fakeCatalog struct {
	*httptest.Server
	mu     sync.Mutex
	events []string
	aged   bool // cursors are too old, once
	asked  int
}

func newCatalog(t *testing.T) *fakeCatalog {
	t.Helper()
	c := &fakeCatalog{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		if r.Header.Get("Authorization") != "Bearer wbt_key" {
			t.Errorf("key %q", r.Header.Get("Authorization"))
		}
		after := r.URL.Query().Get("after")
		if c.aged && after != "" {
			c.aged = false
			w.WriteHeader(http.StatusGone)
			return
		}
		from := 0
		if after != "" {
			fmt.Sscanf(after, "c%d", &from)
		}
		to := min(from+2, len(c.events))
		fmt.Fprintf(w, `{"data":[%s],"next":"c%d","more":%v}`, strings.Join(c.events[from:to], ","), to, to < len(c.events))
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *fakeCatalog) publish(events ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, events...)
}

func eventOf(id, resource string, sequence int, status string) string {
	return fmt.Sprintf(`{"id":%q,"type":"order.changed","version":1,"timestamp":"2026-11-17T09:41:05.123Z","occurred_at":"2026-11-17T09:41:05.123Z",`+
		`"resource":{"type":"order","id":%q},"sequence":%d,"data":{"status":%q}}`, id, resource, sequence, status)
}

// The examples in Python and Node do what the kit does: each is started as it stands, sent webhooks, killed, and left to reconcile.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{"python3": {"python3", "receiver.py"}, "node": {"node", "receiver.mjs"}} {
		if _, err := osexec.LookPath(command[0]); err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s is not tried: %v", name, err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			example(t, command[0], filepath.Join("examples", command[1]))
		})
	}
}

func example(t *testing.T, program, file string) {
	key, home := signing.NewSecret(), filepath.Join(t.TempDir(), "inbox")
	catalog := newCatalog(t)
	start := func() (url string, kill func()) {
		command := osexec.CommandContext(t.Context(), program, file, "0")
		command.Env = append(os.Environ(), "WAYBILL_URL="+catalog.URL, "WAYBILL_KEY=wbt_key", "WEBHOOK_SECRET="+signing.NewSecret().Reveal()+" "+key.Reveal(),
			"DATABASE="+home, "RECONCILE_EVERY=0.2")
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		command.Stderr = t.Output()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatalf("%s does not start: %v", program, err)
		}
		return "http://127.0.0.1:" + strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), func() { _ = command.Process.Kill(); _ = command.Wait() }
	}
	url, kill := start()
	defer func() { kill() }()
	post := func(id, body string, signed signing.Key, at time.Time, want int) {
		t.Helper()
		headers, err := signing.Headers(signing.V1, []signing.Key{signed}, id, at.Unix(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headers {
			r.Header.Set(h.Name, h.Value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s is answered %d, want %d", id, answer.StatusCode, want)
		}
	}
	state := func(want string) {
		t.Helper()
		var got string
		for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			answer, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			var rows []struct {
				ID      string
				Version int
				Data    struct{ Status string }
			}
			if err := json.Unmarshal(text, &rows); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			got = ""
			for _, row := range rows {
				got += fmt.Sprintf("%s:%d:%s ", row.ID, row.Version, row.Data.Status)
			}
			if got == want {
				return
			}
		}
		t.Fatalf("the state is %q, want %q", got, want)
	}
	now := time.Now()
	second := eventOf("e2", "A", 2, "paid")
	post("e2", second, key, now, 200)
	post("e2", second, key, now.Add(-time.Minute), 200) // a repeat
	post("e1", eventOf("e1", "A", 1, "new"), key, now, 200)
	post("e9", eventOf("e9", "A", 9, "forged"), signing.NewSecret(), now, 401)
	post("e9", eventOf("e9", "A", 9, "late"), key, now.Add(-time.Hour), 401)
	post("t1", strings.Replace(eventOf("t1", "TEST-1", 1, "x"), `"sequence"`, `"test":true,"sequence"`, 1), key, now, 200)
	post("bad", `{"no":"event"}`, key, now, 200) // it cannot be handled, and holds nothing up
	state("A:2:paid ")
	// What never arrived is found in the catalog, in several pages; what did arrive changes nothing.
	catalog.publish(eventOf("e1", "A", 1, "new"), second, eventOf("e3", "A", 3, "sent"), eventOf("e4", "B", 1, "new"), eventOf("e5", "B", 2, "paid"))
	state("A:3:sent B:2:paid ")
	// After a kill it goes on where it was, and after a cursor that has aged out it reads all that there is.
	kill()
	catalog.mu.Lock()
	catalog.aged = true
	catalog.mu.Unlock()
	catalog.publish(eventOf("e6", "B", 3, "sent"))
	url, kill = start()
	state("A:3:sent B:3:sent ")
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	_, inbox := shop(t)
	catalog := newCatalog(t)
	woken := 0
	r := &receive.Reconciler{URL: catalog.URL + "/", Key: "wbt_key", Inbox: inbox, Bookmark: inbox, Stored: func() { woken++ }}
	check := func(want int, wantErr error) {
		t.Helper()
		missing, err := r.Reconcile(t.Context())
		if missing != want || !errorsIs(err, wantErr) {
			t.Errorf("%d are missing, %v; want %d, %v", missing, err, want, wantErr)
		}
	}
	check(0, nil)
	insert(t, inbox, "e1", eventOf("e1", "A", 1, "new"), noon)
	for i := range 5 {
		catalog.publish(eventOf(fmt.Sprintf("e%d", i+1), "A", i+1, "x"))
	}
	check(4, nil)
	check(0, nil)
	catalog.publish(eventOf("e6", "A", 6, "x"))
	asked := catalog.asked
	check(1, nil)
	if catalog.asked != asked+1 || woken != 5 {
		t.Errorf("%d pages for one event; woken %d times", catalog.asked-asked, woken)
	}
	catalog.mu.Lock()
	catalog.aged = true
	catalog.mu.Unlock()
	catalog.publish(eventOf("e7", "A", 7, "x"))
	check(1, receive.ErrMissed)
	// What is in the inbox is what was published, to the byte.
	w := work(t, inbox, time.Now().Add(time.Hour), fine)
	if !w.Found || string(w.Message.Body) != eventOf("e1", "A", 1, "new") {
		t.Errorf("%s", w.Message.Body)
	}
	catalog.Close()
	if _, err := r.Reconcile(t.Context()); err == nil {
		t.Error("a catalog that is away is reconciled")
	}
}

func errorsIs(err, want error) bool {
	if want == nil {
		return err == nil
	}
	return errors.Is(err, want)
}
