package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/db/queries"
)

// MaxFailing is how many failing endpoints are looked at for what they have in common.
const MaxFailing = 2000

// Failing is an endpoint that fails.
type Failing struct {
	EndpointID, URL       string
	TenantUID, TenantName string
	Class                 string // of the last attempt: a word of package verdict
	Code                  int
	Since                 time.Time
	Cause                 string // of a TLS failure; empty when it was not looked at
}

// Host is the host that its address names, in lower case.
func (f Failing) Host() string {
	parsed, err := url.Parse(f.URL)
	if err != nil || parsed.Host == "" {
		return "unreadable address"
	}
	return strings.ToLower(parsed.Hostname())
}

// Incident is what several failing endpoints have in common.
type Incident struct {
	Key       string    // a host, a class, or a cause of TLS
	Code      int       // of the class status: the answer's
	Endpoints []Failing // those that have failed longest first
	Tenants   int
	Since     time.Time // the first of them
}

// Incidents are the failing endpoints of all tenants, grouped in three ways; in each the largest group first.
type Incidents struct {
	Looked    int  // at so many endpoints
	More      bool // there are more that fail
	Hosts     []Incident
	Verdicts  []Incident // by how the last attempt ended: what the proxy, the network or the receiver said
	TLS       []Incident // by why TLS failed
	Undecided int        // TLS failures whose cause was not looked up
}

var consoleFailing = queries.SQL("ConsoleFailing")

// Incidents groups the failing endpoints of all tenants.
func (s *Service) Incidents(ctx context.Context, caller account.Caller) (Incidents, error) {
	if err := may(caller, account.TenantsRead); err != nil {
		return Incidents{}, err
	}
	rows, err := s.DB.Query(ctx, consoleFailing, pgx.NamedArgs{"limit": MaxFailing + 1})
	if err != nil {
		return Incidents{}, fmt.Errorf("list failing endpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Failing, error) {
		var f Failing
		err := row.Scan(&f.EndpointID, &f.URL, &f.TenantUID, &f.TenantName, &f.Class, &f.Code, &f.Since, &f.Cause)
		return f, err
	})
	if err != nil {
		return Incidents{}, fmt.Errorf("list failing endpoints: %w", err)
	}
	more := len(found) > MaxFailing
	if more {
		found = found[:MaxFailing]
	}
	all := group(found)
	all.More = more
	return all, nil
}

// group finds what endpoints have in common. A host is an incident only when two endpoints share it: one alone stands on the page of what needs attention.
func group(found []Failing) Incidents {
	all := Incidents{Looked: len(found)}
	all.Hosts = slices.DeleteFunc(by(found, func(f Failing) (string, int, bool) { return f.Host(), 0, true }), func(i Incident) bool { return len(i.Endpoints) < 2 })
	all.Verdicts = by(found, func(f Failing) (string, int, bool) { return f.Class, f.Code, f.Class != "" })
	all.TLS = by(found, func(f Failing) (string, int, bool) { return f.Cause, 0, f.Class == "tls" && f.Cause != "" })
	for _, f := range found {
		if f.Class == "tls" && f.Cause == "" {
			all.Undecided++
		}
	}
	return all
}

func by(found []Failing, key func(Failing) (string, int, bool)) []Incident {
	type which struct {
		key  string
		code int
	}
	groups := map[which]*Incident{}
	tenants := map[which]map[string]bool{}
	for _, f := range found {
		text, code, ok := key(f)
		if !ok {
			continue
		}
		w := which{text, code}
		if groups[w] == nil {
			groups[w], tenants[w] = &Incident{Key: text, Code: code, Since: f.Since}, map[string]bool{}
		}
		g := groups[w]
		g.Endpoints = append(g.Endpoints, f)
		tenants[w][f.TenantUID] = true
		g.Tenants = len(tenants[w])
		if f.Since.Before(g.Since) {
			g.Since = f.Since
		}
	}
	var all []Incident
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Incident) int {
		return cmp.Or(cmp.Compare(len(b.Endpoints), len(a.Endpoints)), a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Code, b.Code))
	})
	return all
}
