package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"waybill/e2e"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

const tenants = 4

// plan makes tenants and endpoints: a few of each kind of receiver, with every scheme, both forms, small limits and overlapping subscriptions.
func (c *chaos) plan(ctx context.Context) error {
	random := c.random("plan")
	for t := range tenants {
		uid := fmt.Sprintf("tenant-%d", t)
		limit := pick(random, 2, 3, 5, 8)
		c.ledger.AddTenant(uid, limit)
		if err := c.system.Tenant(ctx, uid, limit); err != nil {
			return err
		}
		c.types[uid] = []string{"order.paid", "order.sent", "stock.low"}
		for n := range 3 + random.IntN(4) {
			manner := pick(random, good, good, good, slow, flaky, hostile, hostile)
			if t == 0 && n == 0 {
				manner = gone
			}
			place := &e2e.Place{
				Key: fmt.Sprintf("%s-%d", uid, n), Tenant: uid, Limit: pick(random, 1, 2, 2, 3, 5),
				Types: pick(random, []string{"*"}, []string{"order.*"}, []string{"order.paid"}, []string{"stock.low", "order.sent"}),
				// Each scheme and form at every kind of receiver, over many seeds.
				Scheme: pick(random, "v1", "v1", "v1", "v1+v1a", "v1a", "hex"), Form: pick(random, "full", "full", "full", "thin"),
				Script: c.script(manner),
			}
			if err := c.system.Endpoint(ctx, c.ledger, c.hooks, place); err != nil {
				return err
			}
			c.places = append(c.places, place)
			c.tell("%s: %s, limit %d of its tenant's %d, %s, %s, wants %v", place.Key, manner, place.Limit, limit, place.Scheme, place.Form, place.Types)
		}
	}
	return nil
}

// manner is how a receiver behaves.
type manner string

const (
	good    manner = "good"    // hardly ever fails
	slow    manner = "slow"    // answers after a while
	flaky   manner = "flaky"   // fails often, with all kinds of codes
	hostile manner = "hostile" // now and then anything that e2e.Kinds lists
	gone    manner = "gone"    // 410 from the hundredth event or so
)

// script decides by seed, place, event and count alone, so that the order in which requests come changes no answer.
func (c *chaos) script(m manner) e2e.Script {
	return func(h e2e.Hit) e2e.Answer {
		random := c.random(fmt.Sprint(h.Place.Key, h.ID, h.N))
		ok := e2e.Answer{Kind: e2e.Reply, Status: 200, After: time.Duration(random.IntN(20)) * time.Millisecond}
		dice := random.Float64()
		switch {
		case m == good && dice < 0.02:
			ok.Status = 500
		case m == slow:
			ok.After = time.Duration(50+random.IntN(250)) * time.Millisecond
		case m == flaky && dice < 0.4:
			ok.Status = pick(random, 500, 503, 429, 400, 401, 404, 302, 299, 204)
		case m == hostile && dice < 0.3:
			return e2e.Answer{Kind: pick(random, e2e.Kinds()[1:]...)}
		case m == gone && dice < 0.01:
			ok.Status = 410
		}
		return ok
	}
}
