package web_test

import (
	"bytes"
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/inbox"
	"waybill/app/lane"
	"waybill/app/limit"
	"waybill/app/notice"
	"waybill/app/operator"
	"waybill/app/outbox"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/dbtest"
	"waybill/web"
	programs "waybill/web/api"
	"waybill/web/dashboard"
)

// bench is the web on a database of its own, behind a real server over TLS.
type bench struct {
	*web.Web
	t         testing.TB
	pool      *pgxpool.Pool
	server    *httptest.Server
	accounts  *account.Service
	logs      *safeBuffer
	endpoints *endpoint.Service
	mails     *notice.Outbox
	operators *operator.Service
	inboxes   *inbox.Service
	steps     []sender.Step // what a connection check finds
	tenant    dbtest.Tenant
}

type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// lanes locks the true rows and wakes nobody: there are no workers here.
type lanes struct{ pool db.Pool }

func (l lanes) Lock(ctx context.Context, tx pgx.Tx, ids ...string) error {
	return lane.Lock(ctx, tx, ids...)
}
func (l lanes) Wake(context.Context, pgx.Tx, []string, []string) error { return nil }
func (l lanes) Settle(ctx context.Context, endpointID string, rev int64) error {
	return lane.Settle(ctx, l.pool, endpointID, rev)
}

type tests struct{}

func (tests) AddTest(ctx context.Context, tx pgx.Tx, t endpoint.Test) (string, string, error) {
	return outbox.AddTest(ctx, tx, time.Now(), outbox.Test(t))
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, dbtest.New(t), nil)
}

// newBenchOn serves from pool; rows are put in by way of rows, or pool when that is nil.
func newBenchOn(t *testing.T, pool, rows *pgxpool.Pool) *bench {
	t.Helper()
	return newBenchBehind(t, pool, rows, dbtest.Wall(t, pool, nil))
}

// newBenchBehind serves tenants from behind wall.
func newBenchBehind(t *testing.T, pool, rows *pgxpool.Pool, wall *db.Wall) *bench {
	t.Helper()
	if rows == nil {
		rows = pool
	}
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, pool: rows, logs: &safeBuffer{}}
	log := slog.New(slog.NewJSONHandler(b.logs, nil))
	knows := func(name string) bool { return name == "standard" || name == "commerce" }
	b.mails = &notice.Outbox{DB: pool, Ring: ring, URL: "https://waybill.test", Now: time.Now}
	b.accounts = &account.Service{DB: pool, Now: time.Now, KnowsPreset: knows, Mails: b.mails, Ring: ring}
	// The tests themselves work for all tenants; what is served stands behind the wall.
	mails := *b.mails
	mails.DB = wall
	accounts := *b.accounts
	accounts.DB, accounts.Mails = wall, &mails
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "the API", http.StatusTeapot) })
	b.endpoints = &endpoint.Service{
		DB: pool, Audit: b.accounts, Ring: ring, Lanes: lanes{pool}, Tests: tests{}, KnowsPreset: knows, Now: time.Now, Log: log,
	}
	endpoints := *b.endpoints
	endpoints.DB, endpoints.Audit, endpoints.Lanes = wall, &accounts, lanes{wall}
	b.inboxes = &inbox.Service{DB: pool, Ring: ring, Audit: b.accounts, URL: "https://waybill.test", Now: time.Now}
	inboxes := *b.inboxes
	inboxes.DB, inboxes.Audit = wall, &accounts
	b.operators = &operator.Service{DB: pool, Now: time.Now, Accounts: b.accounts, Lanes: lanes{pool}}
	b.Web, err = web.New(web.Config{API: api, Ring: ring, Development: true, Console: consoleConfig(b, pool, ring, log), Dashboard: dashboard.Config{
		URL: "https://waybill.test", Platform: "The freight platform", Log: log, Now: time.Now,
		Accounts:   &accounts,
		Endpoints:  &endpoints,
		Types:      &catalog.Types{DB: pool, Accounts: b.accounts},
		Events:     &catalog.Events{DB: wall},
		Deliveries: &delivery.Service{DB: wall, Ring: ring, Policies: policy.Builtin(), Lanes: lanes{wall}, Audit: &accounts, Recoveries: recoveries{}, Files: exports{}},
		Limits:     &limit.Service{DB: wall, Audit: &accounts, Now: time.Now, MinDays: 30, MaxDays: 90},
		Inboxes:    &inboxes,
		Policies:   policy.Builtin(),
		Rollups:    true,
		Check:      func(context.Context, string, time.Duration) []sender.Step { return b.steps },
		Sources:    []string{"198.51.100.7"},
		Reference:  programs.New(programs.Config{URL: "https://waybill.test", Now: time.Now, Log: log}).Reference,
		Mailbox:    &mails,
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.server = httptest.NewTLSServer(b.Web)
	t.Cleanup(func() {
		b.Close()
		b.server.Close()
		if t.Failed() {
			t.Log(b.logs.String())
		}
	})
	b.tenant = dbtest.AddTenant(t, rows, dbtest.Tenant{Name: "Meera Silk House", TimeZone: "Asia/Kolkata"})
	return b
}

// platform is the platform's caller at work in a tenant.
func platform(tenant dbtest.Tenant) account.Caller {
	return account.Caller{Kind: account.PlatformKey, Name: "tests", Scopes: account.PlatformScopes()}.In(account.Tenant{ID: tenant.ID, UID: tenant.UID})
}

// link is a new portal link into a tenant.
func (b *bench) link(tenant dbtest.Tenant, in account.PortalInput) string {
	b.t.Helper()
	link, err := b.accounts.PortalLinkCreate(b.t.Context(), platform(tenant), in)
	if err != nil {
		b.t.Fatal(err)
	}
	return "/sign-in/link/" + link.Token.Reveal()
}

// browser keeps cookies and follows no redirects.
type browser struct {
	t      testing.TB
	client *http.Client
	base   string
}

func (b *bench) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	client := &http.Client{
		Jar: jar, Transport: b.server.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &browser{t: b.t, client: client, base: b.server.URL}
}

// signedIn is a browser that is signed in to a tenant with every right, or those of in.
func (b *bench) signedIn(tenant dbtest.Tenant, in account.PortalInput) *browser {
	b.t.Helper()
	who := b.browser()
	if got := who.post(b.link(tenant, in), nil); got.status != http.StatusSeeOther {
		b.t.Fatalf("signing in answered %d: %s", got.status, got.body)
	}
	return who
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) location() string { return a.header.Get("Location") }

// words is the page's text without its markup, each run of space as one.
func (a answer) words() string {
	text := html.UnescapeString(tags.ReplaceAllString(a.body, " "))
	return strings.Join(strings.Fields(text), " ")
}

var tags = regexp.MustCompile(`<[^>]*>`)

func (w *browser) request(method, address string, body io.Reader) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+address, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *browser) get(address string) answer {
	w.t.Helper()
	return w.do(w.request(http.MethodGet, address, nil))
}

// post sends a form as a page of ours does.
func (w *browser) post(address string, form url.Values) answer {
	w.t.Helper()
	r := w.request(http.MethodPost, address, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", w.base)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return w.do(r)
}

func (w *browser) do(r *http.Request) answer {
	w.t.Helper()
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// follow posts a form and goes where that leads.
func (w *browser) follow(address string, form url.Values) answer {
	w.t.Helper()
	sent := w.post(address, form)
	if sent.status != http.StatusSeeOther {
		w.t.Fatalf("POST %s answered %d, want a redirect: %s", address, sent.status, sent.words())
	}
	return w.get(sent.location())
}

// says fails the test unless the answer has the status and its text all of the words.
func (a answer) says(t testing.TB, status int, words ...string) {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d, want %d: %s", a.status, status, a.words())
	}
	for _, want := range words {
		if !strings.Contains(a.words(), want) {
			t.Errorf("does not say %q: %s", want, a.words())
		}
	}
}

// owner is a caller who may do everything in the bench's tenant.
func (b *bench) owner() account.Caller { return account.Waybill("tests", b.tenant.ID) }
