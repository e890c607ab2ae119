package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/outbox"
	"waybill/app/server"
	"waybill/db/dbtest"
)

// scrape reads /metrics and returns the status, and the samples by name with labels.
func scrape(t testing.TB, addr, key string) (int, map[string]string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	samples := map[string]string{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && !strings.HasPrefix(name, "#") {
			samples[name+"}"] = value
		} else if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			samples[name] = value
		}
	}
	return answer.StatusCode, samples
}

var (
	documented = regexp.MustCompile("(?m)^\\| `(waybill_[a-z_]+)`\\*? \\|([^|]*)\\|")
	labelled   = regexp.MustCompile(`([a-z_]+)="`)
	suffix     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// readmeMetrics is the README's table: names and their labels.
func readmeMetrics(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, row := range documented.FindAllStringSubmatch(string(text), -1) {
		table[row[1]] = strings.NewReplacer("`", "", " ", "").Replace(row[2])
	}
	return table
}

// labels are the labels of each metric of ours among samples, as the table has them.
func labelsOf(samples map[string]string) map[string]string {
	found := map[string]string{}
	for sample := range samples {
		name, rest, _ := strings.Cut(sample, "{")
		if !strings.HasPrefix(name, "waybill_") {
			continue
		}
		var labels []string
		for _, l := range labelled.FindAllStringSubmatch(rest, -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		name = suffix.ReplaceAllString(name, "")
		if set := strings.Join(labels, ","); len(set) >= len(found[name]) {
			found[name] = set
		}
	}
	return found
}

func sortedLabels(s string) string {
	parts := strings.Split(s, ",")
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// The README's table is what a scrape of the whole program finds, by name and labels; and what happened is counted.
func TestMetrics(t *testing.T) {
	t.Parallel()
	sys := start(t, func(c *server.Config) { c.MetricsAddr = "127.0.0.1:0" })
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	rcv := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "broken") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL + "/hooks"})
	sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL + "/broken"})
	sys.publish(tenant.UID, outbox.Event{Type: "order.paid", Data: []byte(`{}`)})
	for range 2 {
		rcv.next(t)
	}
	eventually(t, sys.Pool, 10*time.Second, 2, `select count(*) from attempts`)
	for _, address := range []string{"/v1/events", "/v1/no/such/address", "/deliveries", "//odd/../ways"} {
		answer, err := http.Get("http://" + sys.Addr() + address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	status, samples := scrape(t, sys.MetricsAddr(), "")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	for sample, want := range map[string]string{
		`waybill_attempts_total{class="delivered"}`:             "1",
		`waybill_attempts_total{class="status"}`:                "1",
		`waybill_attempts_total{class="tls"}`:                   "0",
		`waybill_attempt_seconds_count{result="failed"}`:        "1",
		`waybill_events_dispatched_total`:                       "1",
		`waybill_outbox_events`:                                 "0",
		`waybill_database_up`:                                   "1",
		`waybill_lanes{state="blocked"}`:                        "0",
		`waybill_lane_places`:                                   "500",
		`waybill_proxy_connects_total{verdict="failed"}`:        "0",
		`waybill_database_connections{pool="web",state="most"}`: "12",
		`waybill_http_requests_total{method="GET",route="/v1/events",status="401",surface="api"}`:        "1",
		`waybill_http_requests_total{method="GET",route="other",status="404",surface="api"}`:             "1",
		`waybill_http_requests_total{method="GET",route="/deliveries",status="303",surface="dashboard"}`: "1",
	} {
		if samples[sample] != want {
			t.Errorf("%s is %q, want %s", sample, samples[sample], want)
		}
	}
	if samples[`waybill_proxy_connects_total{verdict="connected"}`] == "0" || samples[`waybill_proxy_connects_total{verdict="blocked"}`] == "0" {
		t.Error("the connections of the attempts and of the self-test are not counted")
	}
	for sample := range samples {
		for _, secret := range []string{tenant.ID, tenant.UID, "order.paid", "127.0.0.2", "odd"} {
			if strings.Contains(sample, secret) {
				t.Errorf("%s names %s", sample, secret)
			}
		}
	}
	found, table := labelsOf(samples), readmeMetrics(t)
	for _, optional := range server.OptionalMetrics(sys.Server) {
		found[optional] = table[optional] // its source does not count yet in this build; TestOptionalMetrics shows it
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if got, ok := found[name]; !ok || sortedLabels(got) != sortedLabels(table[name]) {
			t.Errorf("the README has %s{%s}, the scrape {%s} (%v)", name, table[name], got, ok)
		}
	}
	for name := range found {
		if _, ok := table[name]; !ok {
			t.Errorf("%s is not in the README", name)
		}
	}
}

// Who may read them: on the program's own address, platform keys alone.
func TestMetricsNeedAKey(t *testing.T) {
	t.Parallel()
	sys := start(t)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	_, secret, err := sys.Services.Accounts.KeyCreate(t.Context(), account.Waybill("test", tenant.ID), account.KeyInput{Name: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"": 401, "nonsense": 401, secret.Reveal(): 401, "0123456789abcdef0123456789abcdef": 200} {
		if got, _ := scrape(t, sys.Addr(), key); got != want {
			t.Errorf("with key %.4q: %d, want %d", key, got, want)
		}
	}
	if sys.MetricsAddr() != "" {
		t.Error("there is an address without a key that nobody asked for")
	}
	worker := sys.another(func(c *server.Config) {
		c.Roles, c.MetricsAddr = []server.Role{server.Worker}, "127.0.0.1:0"
	})
	if got, _ := scrape(t, worker.Addr(), "0123456789abcdef0123456789abcdef"); got != 200 {
		t.Errorf("a worker without the web answers the key with %d", got)
	}
	if got, samples := scrape(t, worker.MetricsAddr(), ""); got != 200 || samples["waybill_lane_places"] == "" {
		t.Errorf("a worker without the web answers %d with %d samples", got, len(samples))
	}
	proxy := sys.another(func(c *server.Config) {
		c.Roles, c.MetricsAddr = []server.Role{server.Proxy}, "127.0.0.1:0"
	})
	if got, samples := scrape(t, proxy.MetricsAddr(), ""); got != 200 || samples[`waybill_proxy_connects_total{verdict="blocked"}`] == "" {
		t.Errorf("a proxy alone answers %d with %d samples", got, len(samples))
	}
}

// Without the database there is an answer, and its figures are missing rather than zero.
func TestMetricsWithoutDatabase(t *testing.T) {
	t.Parallel()
	sys := start(t, func(c *server.Config) { c.MetricsAddr, c.Roles = "127.0.0.1:0", []server.Role{server.Web} })
	sys.Pool.Close()
	status, samples := scrape(t, sys.MetricsAddr(), "")
	if status != http.StatusOK || samples["waybill_database_up"] != "0" {
		t.Errorf("status %d, up %q", status, samples["waybill_database_up"])
	}
	for _, name := range []string{"waybill_outbox_events", `waybill_lanes{state="idle"}`, "waybill_due_late_seconds"} {
		if v, ok := samples[name]; ok {
			t.Errorf("%s is %s although nobody knows", name, v)
		}
	}
	if got, _ := scrape(t, sys.Addr(), strings.Repeat("x", 40)); got != http.StatusServiceUnavailable {
		t.Errorf("a key that cannot be checked is answered with %d", got)
	}
	if got, _ := scrape(t, sys.Addr(), "0123456789abcdef0123456789abcdef"); got != http.StatusOK {
		t.Errorf("the configured key is answered with %d", got)
	}
}

// An outbox that nobody empties and a delivery that nobody sends show with their age.
func TestMetricsOfWhatWaits(t *testing.T) {
	t.Parallel()
	sys := start(t, func(c *server.Config) { c.MetricsAddr, c.Roles = "127.0.0.1:0", []server.Role{server.Web} })
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, sys.Pool, dbtest.Endpoint{TenantID: tenant.ID})
	sys.publish(tenant.UID, outbox.Event{Data: []byte(`{}`)}, outbox.Event{Data: []byte(`{}`)})
	for _, sql := range []string{
		`update outbox set published_at = now() - interval '90 seconds'`,
		fmt.Sprintf(`update lanes set state = 'queued' where endpoint_id = '%s'`, ep.ID),
		fmt.Sprintf(`insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger)
			values ('dlv_1', current_date, '%s', '%s', 1, 'evt_1', 'full', 1, now() - interval '30 seconds', 'first')`, tenant.ID, ep.ID),
	} {
		if _, err := sys.Pool.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_, samples := scrape(t, sys.MetricsAddr(), "")
	if samples["waybill_outbox_events"] != "2" || !strings.HasPrefix(samples["waybill_outbox_oldest_seconds"], "9") {
		t.Errorf("outbox: %s of %s s", samples["waybill_outbox_events"], samples["waybill_outbox_oldest_seconds"])
	}
	if !strings.HasPrefix(samples["waybill_due_late_seconds"], "3") || samples[`waybill_lanes{state="queued"}`] != "1" {
		t.Errorf("late by %s s, %s lanes queued", samples["waybill_due_late_seconds"], samples[`waybill_lanes{state="queued"}`])
	}
}
