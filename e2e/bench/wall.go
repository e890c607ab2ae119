package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"waybill/app/seal"
	"waybill/app/server"
)

// wallRounds is how often each address is asked for on either side of the wall.
const wallRounds = 100

// undisturbed is the quantile that is compared: what else happens on the machine only ever adds.
const undisturbed = 0.25

// wall measures what the second wall between tenants costs who reads: the same pages and calls of two web processes on one database, one with the wall and one
// without, in turns. Nine in ten of the calls of "one tenant" find a connection that shows it already; of "50 tenants" hardly any.
func wall(ctx context.Context, s *system, f *figures) error {
	if s.o.old == 0 {
		return nil
	}
	if s.past.uid == "" {
		past, err := s.fill(ctx, s.o.old)
		if err != nil {
			return err
		}
		s.past = past
	}
	var sides [2]*server.Server
	for i, noWall := range []bool{false, true} {
		data, err := os.MkdirTemp("", "waybill-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(data)
		sides[i], err = server.Start(ctx, server.Config{DatabaseURL: s.DatabaseURL, Addr: "127.0.0.1:0", URL: "http://waybill.test", SecretKeys: seal.NewKey(),
			PlatformKey: seal.Secret(s.PlatformKey), AllowHTTP: true, Data: data, Roles: []server.Role{server.Web}, NoWall: noWall}, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer sides[i].Stop(context.WithoutCancel(ctx))
	}
	client, _, err := s.signIn(ctx, s.past.uid)
	if err != nil {
		return err
	}
	var delivery string
	if err := s.Pool.QueryRow(ctx, `select id from deliveries where endpoint_id = $1 and status = 'undelivered' order by day desc, id desc limit 1`,
		s.past.endpoint).Scan(&delivery); err != nil {
		return err
	}
	both := func(n int, ask func(base string) error) (with, without []float64, err error) {
		for round := range n + 5 {
			for turn := range 2 {
				side := (round + turn) % 2
				begun := time.Now()
				if err := ask("http://" + sides[side].Addr()); err != nil {
					return nil, nil, err
				}
				took := float64(time.Since(begun).Microseconds()) / 1000
				switch {
				case round < 5: // connections are opened, statements planned
				case side == 0:
					with = append(with, took)
				default:
					without = append(without, took)
				}
			}
		}
		return with, without, nil
	}
	tell := func(what string, with, without []float64) {
		a, b := quantile(with, undisturbed), quantile(without, undisturbed)
		f.add("behind the wall, ms: "+what, a)
		f.add("without it, ms: "+what, b)
		f.add("% more behind the wall: "+what, (a/b-1)*100)
	}
	var all [2]float64
	for _, path := range []string{"/", "/endpoints", "/endpoints/" + s.past.endpoint, "/deliveries", "/deliveries?status=undelivered", "/deliveries?code=503", "/deliveries?type=bench.old.t3",
		"/deliveries?endpoint=" + s.past.endpoint, "/deliveries?q=C-4470", "/deliveries/" + delivery, "/undelivered", "/events", "/events?type=bench.old.t3", "/keys", "/team", "/activity"} {
		with, without, err := both(wallRounds, func(base string) error {
			_, err := look(ctx, client, base+path)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all[0] += quantile(with, undisturbed)
		all[1] += quantile(without, undisturbed)
		tell("page "+plainPath(path, s.past.endpoint, delivery), with, without)
	}
	f.add("% more behind the wall: all pages", (all[0]/all[1]-1)*100)

	keys := map[string]string{}
	uids := []string{s.past.uid}
	for i := range 50 {
		uids = append(uids, fmt.Sprintf("bench-old-%d", i))
	}
	for _, uid := range uids {
		var key struct{ Key string }
		if err := s.Call(ctx, "POST", "/v1/tenants/"+uid+"/keys", map[string]any{"name": "bench", "requests_per_second": 10000}, &key); err != nil {
			return err
		}
		keys[uid] = key.Key
	}
	call := func(uid, address string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+keys[uid])
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", res.Status, text)
		}
		return err
	}
	for _, path := range []string{"/v1/endpoints", "/v1/deliveries?limit=50", "/v1/events?limit=50", "/v1/deliveries/" + delivery} {
		with, without, err := both(10*wallRounds, func(base string) error { return call(s.past.uid, base+path) })
		if err != nil {
			return err
		}
		tell("one tenant, "+plainPath(path, s.past.endpoint, delivery), with, without)
		if path == "/v1/deliveries/"+delivery {
			break
		}
		turn := 0
		with, without, err = both(10*wallRounds, func(base string) error {
			turn++
			return call(uids[1+turn/2%50], base+path) // the same for both sides
		})
		if err != nil {
			return err
		}
		tell("50 tenants, "+plainPath(path, s.past.endpoint, delivery), with, without)
	}
	return nil
}
