package web_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
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
	"waybill/app/policy"
	"waybill/db"
	"waybill/db/dbtest"
	"waybill/db/queries"
	"waybill/web/dashboard"
)

// The tests of the second wall take the first one away. Everything that is served for a tenant is done once for one who has one of everything; and each
// statement is stopped on its way, and asked once more by another tenant who has nothing: with every condition on tenant_id taken out of it, and as it is, with
// the id of the tenant that it was meant for. Behind the wall nothing may come of that. Without the wall, much does: that is counted, too.

// mutant is a statement as somebody else asks it.
type mutant struct {
	name, how string
	sql       string
	args      []any
}

var (
	conditionOnTenant = regexp.MustCompile(`(?:\b[a-z]+\.)?\btenant_id(?: \|\| '')? = (\$\d+|@\w+)`)
	joinOfTenants     = regexp.MustCompile(`\b[a-z]+\.tenant_id = [a-z]+\.tenant_id`)
	conditionOnSelf   = regexp.MustCompile(`\bid = (\$\d+)`) // of the table tenants
	sqlComment        = regexp.MustCompile(`(?m)^--.*$`)
)

// withoutTenant takes the conditions on the tenant out of a statement. Parameters keep their places and their types.
func withoutTenant(sql string) string {
	code := sqlComment.ReplaceAllString(sql, "")
	code = conditionOnTenant.ReplaceAllString(code, "(length(($1)::text) >= 0)")
	code = joinOfTenants.ReplaceAllString(code, "true")
	if strings.Contains(code, "from tenants\n") || strings.Contains(code, "update tenants\n") {
		code = conditionOnSelf.ReplaceAllString(code, "(length(($1)::text) >= 0)")
	}
	return code
}

// robber watches the statements that are made for the tenant of, and asks each as the tenant as.
type robber struct {
	t           *testing.T
	of, as      dbtest.Tenant
	all, walled *pgxpool.Pool

	mu    sync.Mutex
	asked map[string]int
	named map[string]bool // statements of db/queries that were seen
	held  int             // mutants from which the wall kept everything
	leaks map[string]bool // statements of which a mutant gets hold of something without the wall
}

func (r *robber) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.rob(data.SQL, data.Args)
	return ctx
}
func (r *robber) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (r *robber) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		r.rob(q.SQL, q.Arguments)
	}
	return ctx
}
func (r *robber) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *robber) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// rob asks a statement as somebody else, before it is carried out.
func (r *robber) rob(sql string, args []any) {
	if !strings.Contains(sqlComment.ReplaceAllString(sql, ""), "tenant") {
		return
	}
	name := nameOf(sql)
	if name == "WallTenant" || strings.HasPrefix(sql, "set role") {
		return
	}
	r.mu.Lock()
	r.asked[sql]++
	first := r.asked[sql] <= 4
	r.named[name] = true
	r.mu.Unlock()
	if !first {
		return
	}
	own, _ := r.try(r.all, mutant{sql: sql, args: r.inPlace(args)}) // what the first wall leaves
	for _, m := range []mutant{
		{name, "without its tenant", withoutTenant(sql), args},
		{name, "with the other's tenant", sql, args},
	} {
		got, err := r.try(r.walled, m)
		if err == "" && got != own && got != nothing {
			r.t.Errorf("%s %s gets through the wall:\n%s\ninstead of\n%s", m.name, m.how, got, own)
		}
		if err != "" && !strings.Contains(err, "row-level security") && !strings.Contains(err, "permission denied") {
			r.t.Errorf("%s %s cannot be tried: %s\n%s", m.name, m.how, err, m.sql)
		}
		taken, err := r.try(r.all, m)
		r.mu.Lock()
		r.held++
		if strings.Contains(err, "lock timeout") || err == "" && taken != own {
			r.leaks[m.name+" "+m.how] = true
		}
		r.mu.Unlock()
	}
}

const nothing = "0 rows, 0 changed: "

// inPlace are the arguments with the robber's own tenant.
func (r *robber) inPlace(args []any) []any {
	own := slices.Clone(args)
	for i, arg := range own {
		switch arg := arg.(type) {
		case string:
			switch arg {
			case r.of.ID:
				own[i] = r.as.ID
			case r.of.UID:
				own[i] = r.as.UID
			}
		case pgx.NamedArgs:
			named := pgx.NamedArgs{}
			for name, value := range arg {
				named[name] = value
				if value == r.of.ID {
					named[name] = r.as.ID
				}
			}
			own[i] = named
		}
	}
	return own
}

// try carries a statement out, undoes it, and says what it returned and how much it changed, or the error.
func (r *robber) try(pool *pgxpool.Pool, m mutant) (got, failed string) {
	ctx, cancel := context.WithTimeout(db.AsTenant(context.Background(), r.as.ID), time.Minute)
	defer cancel()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return "", err.Error()
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "set local lock_timeout = '50ms'"); err != nil {
		return "", err.Error()
	}
	before, err := changes(ctx, tx)
	if err != nil {
		return "", err.Error()
	}
	rows, err := tx.Query(ctx, m.sql, m.args...)
	if err != nil {
		return "", err.Error()
	}
	var lines []string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return "", err.Error()
		}
		lines = append(lines, fmt.Sprint(values))
	}
	if rows.Err() != nil {
		return "", rows.Err().Error()
	}
	after, err := changes(ctx, tx)
	if err != nil {
		return "", err.Error()
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d rows, %d changed: %s", len(lines), after-before, strings.Join(lines, "\n")), ""
}

// changes counts what the connection has changed lately, rows of jobs and those that nobody outside can read left out.
func changes(ctx context.Context, tx pgx.Tx) (n int, err error) {
	err = tx.QueryRow(ctx, `select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::integer from pg_stat_xact_user_tables
		where schemaname = 'waybill' and relname not in ('river_job', 'recovery_picks')`).Scan(&n)
	return n, err
}

var filterMark = "/* filter */"

// nameOf is the statement's name in db/queries.
func nameOf(sql string) string {
	for _, q := range queries.All() {
		head, _, _ := strings.Cut(q.SQL, filterMark)
		if strings.HasPrefix(sql, head) {
			return q.Name
		}
	}
	return "a statement of " + strings.Join(strings.Fields(sqlComment.ReplaceAllString(sql, "")), " ")
}

func TestTheSecondWallHoldsWithoutTheFirst(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	quiet := dbtest.Wall(t, pool, nil)
	r := &robber{t: t, all: pool, walled: quiet.Tenants, asked: map[string]int{}, named: map[string]bool{}, leaks: map[string]bool{}}
	r.as = dbtest.AddTenant(t, pool, dbtest.Tenant{Name: "Nobody's"})
	watched := dbtest.Wall(t, pool, r)
	b := newBenchBehind(t, pool, pool, watched)
	r.of = b.tenant
	own := settle(t, b, b.tenant)
	dbtest.AddEvent(t, pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid"})
	b.join(t, b.tenant, "walker@example.com", account.Owner)
	who := b.as(t, "walker@example.com")

	walk := func(method string, skip func(pattern string) bool) {
		for _, route := range b.Routes() {
			if route.Audience != dashboard.ForMember || route.Stream || route.Method != method || skip(route.Pattern) {
				continue
			}
			if address := own.fill(t, route.Pattern); method == http.MethodPost {
				who.post(address, form(own))
			} else {
				who.get(address)
			}
		}
	}
	all := func(string) bool { return false }
	walk(http.MethodGet, all)
	for _, address := range []string{
		"/deliveries?endpoint=" + own["endpoints"], "/deliveries?q=" + own["events"], "/deliveries?q=C-1", "/deliveries?status=undelivered", "/deliveries?status=held&endpoint=" + own["endpoints"],
		"/deliveries?status=pending", "/deliveries?code=500", "/deliveries?trigger=test", "/undelivered?endpoint=" + own["endpoints"], "/endpoints/" + own["endpoints"] + "/test?delivery=" + own["deliveries"],
		"/events?type=order.*", "/events?q=C-1", "/activity?object=" + own["endpoints"], "/?range=7d",
	} {
		who.get(address)
	}
	r.programs(t, b, watched, own)
	destructive := func(pattern string) bool {
		return strings.HasSuffix(pattern, "/delete") || strings.HasSuffix(pattern, "/remove") || strings.Contains(pattern, "sign-out") || strings.Contains(pattern, "/switch")
	}
	walk(http.MethodPost, destructive)
	walk(http.MethodPost, func(pattern string) bool {
		return !strings.HasSuffix(pattern, "/delete") && !strings.HasSuffix(pattern, "/remove")
	})

	var untried []string
	for _, q := range queries.All() {
		if strings.Contains(sqlComment.ReplaceAllString(q.SQL, ""), "tenant_id") && !strings.Contains(q.SQL, "-- all tenants:") && !r.named[q.Name] {
			untried = append(untried, q.Name)
		}
	}
	if len(r.named) < 120 {
		t.Errorf("only %d statements were tried", len(r.named))
	}
	if len(r.leaks) < 100 {
		t.Errorf("without the wall only %d mutants get hold of anything: the test has lost its teeth", len(r.leaks))
	}
	t.Logf("%d mutants of %d statements were tried; behind the wall none got hold of anything, without it those of %d did", r.held, len(r.named), len(r.leaks))
	t.Logf("what jobs, the dispatcher and the console do keeps to a tenant as well, with the program's own rights, and was not tried: %s", strings.Join(untried, ", "))
}

// programs does what the API has beyond the pages.
func (r *robber) programs(t *testing.T, b *bench, wall *db.Wall, own names) {
	t.Helper()
	ctx := db.AsTenant(t.Context(), b.tenant.ID)
	caller := b.owner()
	accounts := *b.accounts
	accounts.DB = wall
	events := &catalog.Events{DB: wall}
	consumers := &catalog.Consumers{Events: events, Accounts: &accounts}
	deliveries := &delivery.Service{DB: wall, Ring: b.endpoints.Ring, Policies: policy.Builtin(), Lanes: lanes{wall}, Audit: &accounts, Recoveries: recoveries{}, Files: exports{}}
	endpoints := *b.endpoints
	endpoints.DB, endpoints.Audit, endpoints.Lanes = wall, &accounts, lanes{wall}
	done := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := consumers.Put(ctx, caller, "books", nil, catalog.Place{Start: true})
	done("put a consumer", err)
	_, err = consumers.Put(ctx, caller, "books", []string{"order.*"}, catalog.Place{})
	done("change a consumer", err)
	_, err = consumers.Read(ctx, caller, "books")
	done("read a consumer", err)
	_, _, err = consumers.List(ctx, caller, "", 10)
	done("list consumers", err)
	_, _, err = consumers.Standings(ctx, caller, "", 10)
	done("see how far consumers are", err)
	handed, err := consumers.Next(ctx, caller, "books", 10, time.Minute, 0)
	done("read on", err)
	if len(handed.Events) == 0 {
		t.Fatal("there was nothing to read")
	}
	_, err = consumers.Ack(ctx, caller, "books", handed.Events[len(handed.Events)-1].Cursor)
	done("acknowledge", err)
	_, err = consumers.Seek(ctx, caller, "books", catalog.Place{})
	done("seek", err)
	_, err = events.List(ctx, caller, catalog.EventFilter{}, "", 10)
	done("list events", err)
	done("delete a consumer", consumers.Delete(ctx, caller, "books"))
	_, _, err = accounts.KeyRotate(ctx, caller, own["key"], time.Hour)
	done("rotate a key", err)
	_, err = deliveries.List(ctx, caller, delivery.Filter{Tests: delivery.OnlyTests}, "", 10)
	done("list tests", err)
	_, err = endpoints.HeadersReveal(ctx, caller, own["endpoints"])
	done("reveal headers", err)
	_, err = events.Resource(ctx, caller, "consignment", "C-1")
	_ = err // there is none, which is found out by asking
	_, err = events.List(ctx, caller, catalog.EventFilter{ResourceID: "C-1"}, "", 10)
	done("list the events of a resource", err)
	_, err = endpoints.Create(ctx, caller, endpoint.Input{URL: "https://seller.example/more", Types: []string{"*"}, Headers: []endpoint.Header{{Name: "X-Shop", Value: "9"}}})
	done("make an endpoint with headers", err)
	_, err = endpoints.SendTest(ctx, caller, own["endpoints"], endpoint.TestInput{Type: "order.paid"})
	done("send a test", err)
	waiting := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Endpoint: dbtest.Endpoint{ID: own["endpoints"], TenantID: b.tenant.ID}, Status: "pending", Attempts: 1})
	_, _ = deliveries.Resend(ctx, caller, waiting.ID)
	_, err = accounts.SessionList(ctx, caller)
	done("list sessions", err)
	_, err = endpoints.Find(ctx, caller, "seller", 5)
	done("find endpoints", err)
	_, err = deliveries.Preview(ctx, caller, own["endpoints"], delivery.RecoverInput{Since: time.Now().Add(-time.Hour), NewestPerResource: true})
	done("look at a catch-up", err)
	_, err = deliveries.Count(ctx, caller, delivery.Filter{Code: "500"})
	done("count", err)
	_, _ = deliveries.FileStart(ctx, caller, delivery.FileOfDeliveries, delivery.Filter{}) // the walk may have started one
	_, err = deliveries.RecoverTargets(ctx, caller, "", nil, 10)
	done("find what a catch-up can be of", err)
}
