package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/app/signing"
	"waybill/db"
	"waybill/db/queries"
)

// Input is a new endpoint. Only URL and Types are needed.
type Input struct {
	URL           string
	Types         []string
	Description   string
	Scheme        signing.Scheme // empty: v1
	Payload       Payload        // empty: full
	Headers       []Header       // static headers
	Concurrency   int            // 0: 10
	RatePerSecond *int           // nil: no limit of its own
	Preset        string         // a delivery policy's name; empty: the tenant's
	Secret        seal.Secret    // whsec_… (or whsk_… with an ed25519 scheme); empty: one is made
}

// Created is a new endpoint with what its receiver verifies by.
type Created struct {
	Endpoint
	Secret seal.Secret // whsec_…; every endpoint has one, whatever its scheme
}

// Change is what to change of an endpoint: what is nil stays.
type Change struct {
	URL           *string
	Types         []string
	Description   *string
	Scheme        *signing.Scheme
	Payload       *Payload
	Headers       *[]Header // an empty list removes them all
	KeepHeaders   []string  // names in Headers that keep the values they are stored with, and are given without
	Concurrency   *int
	RatePerSecond **int // a nil inside removes the limit
	Preset        *string
}

var (
	endpointInsert     = queries.SQL("EndpointInsert")
	endpointUpdate     = queries.SQL("EndpointUpdate")
	subscriptionInsert = queries.SQL("SubscriptionInsert")
	subscriptionDelete = queries.SQL("SubscriptionDelete")
	endpointRoom       = queries.SQL("EndpointRoom")
)

// Create makes an endpoint in the caller's tenant, active at once; it is not called. It needs endpoints:write.
func (s *Service) Create(ctx context.Context, caller account.Caller, in Input) (Created, error) {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return Created{}, err
	}
	e := Endpoint{
		ID: id.New(id.Endpoint, s.Now()), TenantID: caller.Tenant(), URL: in.URL, Types: in.Types, Description: in.Description,
		Scheme: cmp.Or(in.Scheme, signing.V1), Payload: cmp.Or(in.Payload, Full), Concurrency: cmp.Or(in.Concurrency, DefaultConcurrency),
		RatePerSecond: in.RatePerSecond, Preset: in.Preset,
	}
	wrong := fault.New(fault.Invalid, "This endpoint cannot be saved.")
	s.check(&e, "", wrong)
	checkHeaders(in.Headers, wrong)
	keys := firstKeys(e.Scheme, in.Secret, wrong)
	if err := wrong.OrNil(); err != nil {
		return Created{}, err
	}
	var made Endpoint
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if err := room(ctx, tx, e.TenantID); err != nil {
			return err
		}
		headerSet, err := s.insertHeaders(ctx, tx, e.TenantID, in.Headers)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, endpointInsert, e.ID, e.TenantID, e.URL, e.Description, e.Scheme, e.Payload, headerSet, e.Concurrency,
			e.RatePerSecond, e.Preset, caller.Actor())
		if err != nil {
			return fmt.Errorf("insert endpoint: %w", err)
		}
		if err := subscribe(ctx, tx, e); err != nil {
			return err
		}
		for _, key := range keys {
			if err := s.insertSecret(ctx, tx, e, key, ""); err != nil {
				return err
			}
		}
		detail := map[string]any{"url": shownURL(e.URL), "types": e.Types}
		if err := s.Audit.Record(ctx, tx, caller, "endpoint.created", e.ID, detail); err != nil {
			return err
		}
		made, err = read(ctx, tx, e.TenantID, e.ID)
		return err
	})
	if err != nil {
		return Created{}, err
	}
	return Created{Endpoint: made, Secret: seal.Secret(keys[0].Reveal())}, nil
}

// room is LimitReached when the tenant has as many endpoints as it may.
func room(ctx context.Context, tx pgx.Tx, tenantID string) error {
	var left, most int
	err := tx.QueryRow(ctx, endpointRoom, tenantID).Scan(&left, &most)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("count endpoints: %w", err)
	case left < 1:
		return fault.Newf(fault.LimitReached, "This account may have %d endpoints, and has them. Delete one, or ask your platform for more.", most)
	}
	return nil
}

// Update changes an endpoint of the caller's tenant. A changed URL is unverified again, and what failed at the old one counts no more. When Update returns, no new request starts under the old
// settings. It needs endpoints:write.
func (s *Service) Update(ctx context.Context, caller account.Caller, endpointID string, change Change) (Endpoint, error) {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return Endpoint{}, err
	}
	return s.change(ctx, caller, endpointID, func(tx pgx.Tx, found Endpoint) (int64, error) {
		e := change.onto(found)
		wrong := fault.New(fault.Invalid, "This endpoint cannot be saved.")
		s.check(&e, found.Preset, wrong)
		var headers []Header
		if change.Headers != nil {
			var err error
			if headers, err = s.kept(ctx, tx, found, *change.Headers, change.KeepHeaders); err != nil {
				return 0, err
			}
			checkHeaders(headers, wrong)
		}
		if err := wrong.OrNil(); err != nil {
			return 0, err
		}
		detail := differences(found, e)
		var headerSet *string
		if change.Headers != nil {
			var err error
			if headerSet, err = s.insertHeaders(ctx, tx, e.TenantID, headers); err != nil {
				return 0, err
			}
			detail["headers"] = [2]any{found.HeaderNames, headerNames(headers)}
		}
		if len(detail) == 0 {
			return 0, nil
		}
		if err := s.completeKeys(ctx, tx, e); err != nil {
			return 0, err
		}
		if !slices.Equal(found.Types, e.Types) {
			if err := resubscribe(ctx, tx, e); err != nil {
				return 0, err
			}
		}
		var rev int64
		err := tx.QueryRow(ctx, endpointUpdate, e.TenantID, e.ID, e.URL, e.Description, e.Scheme, e.Payload, headerSet, e.Concurrency,
			e.RatePerSecond, e.Preset, change.Headers != nil).Scan(&rev)
		if err != nil {
			return 0, fmt.Errorf("update endpoint: %w", err)
		}
		if found.URL != e.URL {
			if err := forgetHealth(ctx, tx, found); err != nil {
				return 0, err
			}
		}
		return rev, s.Audit.Record(ctx, tx, caller, "endpoint.changed", e.ID, detail)
	})
}

// onto is found with the change made.
func (c Change) onto(found Endpoint) Endpoint {
	set(&found.URL, c.URL)
	set(&found.Description, c.Description)
	set(&found.Scheme, c.Scheme)
	set(&found.Payload, c.Payload)
	set(&found.Concurrency, c.Concurrency)
	set(&found.RatePerSecond, c.RatePerSecond)
	set(&found.Preset, c.Preset)
	if c.Types != nil {
		found.Types = c.Types
	}
	return found
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// differences maps what a change changes to [before, after], for the activity log. Headers are not in it.
func differences(before, after Endpoint) map[string]any {
	changes := map[string]any{}
	note := func(name string, changed bool, from, to any) {
		if changed {
			changes[name] = [2]any{from, to}
		}
	}
	note("url", before.URL != after.URL, shownURL(before.URL), shownURL(after.URL))
	note("description", before.Description != after.Description, before.Description, after.Description)
	note("scheme", before.Scheme != after.Scheme, before.Scheme, after.Scheme)
	note("payload", before.Payload != after.Payload, before.Payload, after.Payload)
	note("concurrency", before.Concurrency != after.Concurrency, before.Concurrency, after.Concurrency)
	note("preset", before.Preset != after.Preset, before.Preset, after.Preset)
	from, to := rate(before), rate(after)
	note("per_second", from != to, from, to)
	if !slices.Equal(before.Types, after.Types) {
		// Whole lists of hundreds of types would not fit into an entry.
		changes["types_added"] = missing(before.Types, after.Types)
		changes["types_removed"] = missing(after.Types, before.Types)
	}
	return changes
}

func rate(e Endpoint) int {
	if e.RatePerSecond == nil {
		return 0
	}
	return *e.RatePerSecond
}

// missing are those of list that are not in from, 30 at most.
func missing(from, list []string) []string {
	added := []string{}
	for _, item := range list {
		if len(added) < 30 && !slices.Contains(from, item) {
			added = append(added, item)
		}
	}
	return added
}

func subscribe(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	if _, err := tx.Exec(ctx, subscriptionInsert, e.TenantID, e.ID, e.Types); err != nil {
		return fmt.Errorf("insert subscriptions: %w", err)
	}
	return nil
}

func resubscribe(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	if err := unsubscribe(ctx, tx, e); err != nil {
		return err
	}
	return subscribe(ctx, tx, e)
}

func unsubscribe(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	if _, err := tx.Exec(ctx, subscriptionDelete, e.TenantID, e.ID); err != nil {
		return fmt.Errorf("delete subscriptions: %w", err)
	}
	return nil
}

// shownURL is a URL without the user and password it may hold.
func shownURL(stored string) string {
	scheme, rest, _ := strings.Cut(stored, "://")
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = "…@" + authority[i+1:]
	}
	return scheme + "://" + authority + tail
}
