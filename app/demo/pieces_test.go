package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"waybill/app/egress"
	"waybill/app/policy"
	"waybill/app/receive"
)

func listener(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// inUse is what net.Listen says of a taken address.
func inUse() error {
	return &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
}

// fakeListener is one that was opened.
type fakeListener struct{ at string }

func (f fakeListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (f fakeListener) Close() error              { return nil }
func (f fakeListener) Addr() net.Addr            { a, _ := net.ResolveTCPAddr("tcp", f.at); return a }

func TestTheDashboardTakesTheNextFreePort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addr  string
		taken []string
		want  string
		moved bool
		fails string
	}{
		"free":                        {addr: ":8080", want: ":8080"},
		"taken":                       {addr: ":8080", taken: []string{":8080"}, want: ":8081", moved: true},
		"taken on one address only":   {addr: ":8080", taken: []string{"127.0.0.1:8080", "127.0.0.1:8081"}, want: ":8082", moved: true},
		"another host's is no matter": {addr: "10.0.0.1:8080", taken: []string{"127.0.0.1:8080"}, want: "10.0.0.1:8080"},
		"any":                         {addr: "127.0.0.1:0", want: "127.0.0.1:0"},
		"the last":                    {addr: "127.0.0.1:65535", taken: []string{"127.0.0.1:65535"}, want: "127.0.0.1:0", moved: true},
		"no port":                     {addr: "localhost", fails: "must be host:port"},
		"no such port":                {addr: ":a-port-of-that-name", fails: "there is no port"},
		"not allowed":                 {addr: "127.0.0.1:80", fails: "permission denied"},
	} {
		ln, moved, err := listenNear(c.addr, func(_, address string) (net.Listener, error) {
			for _, taken := range c.taken {
				if address == taken {
					return nil, inUse()
				}
			}
			if strings.HasSuffix(address, ":80") {
				return nil, os.NewSyscallError("bind", syscall.EACCES)
			}
			return fakeListener{address}, nil
		})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || ln.(fakeListener).at != c.want || moved != c.moved {
			t.Errorf("%s: %v, moved %v, %v; want %s, %v", name, ln, moved, err, c.want, c.moved)
		}
	}
}

func TestATakenPortIsFoundOut(t *testing.T) {
	t.Parallel()
	taken := listener(t, "127.0.0.1:0")
	defer taken.Close()
	ln, moved, err := listenNear(taken.Addr().String(), net.Listen)
	if err != nil || !moved {
		t.Fatalf("moved %v, %v", moved, err)
	}
	ln.Close()
}

func TestTheSellersListenWhereNothingElseDoes(t *testing.T) {
	t.Parallel()
	for have, want := range map[string]string{
		"127.0.0.1 127.0.0.2 ::1": "127.0.0.2",
		"127.0.0.1 ::1":           "::1",
		"127.0.0.1":               "127.0.0.1",
		"":                        "invalid IP",
	} {
		host, err := receiverHost(func(_, address string) (net.Listener, error) {
			if a := netip.MustParseAddrPort(address); strings.Contains(" "+have+" ", " "+a.Addr().String()+" ") {
				return fakeListener{address}, nil
			}
			return nil, syscall.EADDRNOTAVAIL
		})
		if host.String() != want || (err != nil) != (have == "") {
			t.Errorf("with %q: %s, %v; want %s", have, host, err, want)
		}
	}
	// The API accepts the URL that each gives.
	for _, host := range receiverHosts {
		url := "http://" + netip.AddrPortFrom(host, 4471).String() + hookPath
		if got, err := egress.CheckURL(url, egress.URLOptions{AllowHTTP: true, Allow: []netip.Prefix{netip.PrefixFrom(host, host.BitLen())}}); err != nil || got != url {
			t.Errorf("%s: %s, %v", url, got, err)
		}
	}
}

func TestOwnAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{"0.0.0.0:8080": "http://127.0.0.1:8080", "[::]:9": "http://127.0.0.1:9", "127.0.0.3:1": "http://127.0.0.3:1", "[::1]:2": "http://[::1]:2"} {
		if got := selfURL(fakeListener{addr}.Addr()); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

func TestThePolicyIsAPolicyFile(t *testing.T) {
	t.Parallel()
	set, err := policy.Load([]byte(policyYAML))
	if err != nil {
		t.Fatal(err)
	}
	p, ok := set.Preset(Preset)
	if !ok || p.Attempts() != set.Standard().Attempts() {
		t.Errorf("preset there: %v, with %d attempts; want as many as the standard policy, %d", ok, p.Attempts(), set.Standard().Attempts())
	}
	// In the outage no delivery may run out of attempts.
	if outage := BadWeek().Outage; p.Shortest() < 2*outage {
		t.Errorf("the schedule may end after %s, the outage lasts %s", p.Shortest(), outage)
	}
}

func TestADoorsMoods(t *testing.T) {
	t.Parallel()
	stored := 0
	d := newDoor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stored++ }))
	post := func(consignment, status string) int {
		w := httptest.NewRecorder()
		body := fmt.Sprintf(`{"id":"evt_1","type":"consignment.%s","resource":{"type":"consignment","id":%q}}`, status, consignment)
		d.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		return w.Code
	}
	met := d.expect("C-1", "loaded", lies)
	for _, c := range []struct {
		consignment, status string
		mood                mood
		code, stored        int
	}{
		{"C-2", "loaded", well, 200, 1},
		{"C-1", "booked", well, 200, 2},
		{"C-1", "loaded", well, 500, 3}, // by the rule: stored, and denied
		{"C-1", "loaded", well, 200, 4}, // which is used up
		{"C-1", "loaded", breaks, 500, 4},
		{"C-1", "loaded", upgrades, 503, 4},
	} {
		d.setAlways(c.mood)
		if code := post(c.consignment, c.status); code != c.code || stored != c.stored {
			t.Errorf("%+v: answered %d, stored %d", c, code, stored)
		}
	}
	select {
	case <-met:
	default:
		t.Error("the rule does not say that it was met")
	}
	if d.failures() != 3 {
		t.Errorf("%d failures, want 3", d.failures())
	}
	d.setAlways(sleeps)
	d.wake()
	if code := post("C-1", "booked"); code != http.StatusServiceUnavailable {
		t.Errorf("woken from its sleep it answers %d", code)
	}
}

func TestASleepEndsWithTheCall(t *testing.T) {
	t.Parallel()
	d := newDoor(nil)
	d.setAlways(sleeps)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("{}")))
}

func TestADoorIsShutAndOpenedAtTheSameAddress(t *testing.T) {
	t.Parallel()
	d := newDoor(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer d.close()
	if err := d.open(netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Fatal(err)
	}
	addr := d.address()
	d.shut()
	d.shut()
	if _, err := net.Dial("tcp", addr.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a shut door answers a call with %v", err)
	}
	for range 2 {
		if err := d.reopen(); err != nil || d.address() != addr {
			t.Fatalf("reopened at %s, %v; want %s", d.address(), err, addr)
		}
	}
	resp, err := http.Post("http://"+addr.String(), "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("after opening: %v", err)
	}
	resp.Body.Close()
}

func TestLedgerCounts(t *testing.T) {
	t.Parallel()
	l := newLedger("a", "b")
	at := time.Now()
	l.committing("a", "evt_1", at)
	l.committed("a")
	l.rolledBack("a", "evt_2")
	l.arrived("a", receive.Arrival{Outcome: receive.Stored, EventID: "evt_1", At: at.Add(time.Second)})
	l.arrived("a", receive.Arrival{Outcome: receive.Repeat, EventID: "evt_1", At: at.Add(9 * time.Second)})
	l.arrived("a", receive.Arrival{Outcome: receive.Refused, Status: 401})
	l.arrived("a", receive.Arrival{Outcome: receive.Refused, Status: 400})
	l.arrived("a", receive.Arrival{Outcome: receive.Failed, Status: 503})
	l.worked("a", true)
	l.worked("a", false)
	want := Tally{Committed: 1, RolledBack: 1, Stored: 1, Repeats: 1, Refused: 2, Unsigned: 1, Failed: 1, Applied: 1, Stale: 1, Slowest: time.Second}
	if got := l.tally("a"); got != want || l.sum() != want {
		t.Errorf("tally %+v\n want %+v", got, want)
	}
	if l.tally("b") != (Tally{}) {
		t.Errorf("the other's tally is %+v", l.tally("b"))
	}
	// An event that was rolled back and arrives all the same shows.
	l.arrived("a", receive.Arrival{Outcome: receive.Stored, EventID: "evt_2", At: at})
	if l.tally("a").Ghosts != 1 {
		t.Error("an arrival of what was rolled back is not counted")
	}
	l.mark("a")
	if l.slowest("a") != 0 || l.tally("a").Slowest != time.Second {
		t.Error("a mark must reset what was slowest since, and only that")
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	c := &console{out: &out, started: now, now: func() time.Time { return now.Add(3100 * time.Millisecond) }}
	c.say("%s %s.", count(1204, "update"), "wait")
	c.blank()
	c.note("as a note")
	c.quiet = true
	c.say("not said")
	c.note("not noted")
	c.blank()
	c.always("said")
	if want := "     3.1 s  1,204 updates wait.\n\n            as a note\n     3.1 s  said\n"; out.String() != want {
		t.Errorf("it printed\n%q\nwant\n%q", out.String(), want)
	}
}

func TestWording(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		clock(0): "0.0 s", clock(119900 * time.Millisecond): "119.9 s", clock(185 * time.Second): "3:05 min", clock(2*time.Hour + 9*time.Second): "120:09 min",
		short(0): "1 ms", short(999 * time.Millisecond): "999 ms", short(1500 * time.Millisecond): "1.5 s", short(15 * time.Second): "15 s",
		count(1, "update"): "1 update", count(0, "update"): "0 updates", number(1234567): "1,234,567", number(999): "999", number(-1000): "-1,000",
		have(1, "update"): "1 update has", have(2, "update"): "2 updates have", waitFor(1, "update"): "1 update waits", waitFor(3, "update"): "3 updates wait",
		none(0): "none", none(2): "2", words("in_transit"): "in transit",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
