package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"
)

// lookTimes is how often each page is fetched in one run.
const lookTimes = 9

// pages measures what it costs to look at each page of a tenant with a fifth of the old deliveries: the time from the request to the last byte, the
// program's and the database's work together, over loopback.
func pages(ctx context.Context, s *system, f *figures) error {
	if s.past.uid == "" {
		return nil
	}
	client, base, err := s.signIn(ctx, s.past.uid)
	if err != nil {
		return err
	}
	var delivery, event string
	if err := s.Pool.QueryRow(ctx, `select id, event_id from deliveries where endpoint_id = $1 and status = 'undelivered' order by day desc, id desc limit 1`,
		s.past.endpoint).Scan(&delivery, &event); err != nil {
		return err
	}
	of := fmt.Sprintf("page at %d deliveries of the tenant, ms: ", s.past.of)
	for _, path := range []string{"/", "/?range=7d", "/endpoints", "/endpoints/" + s.past.endpoint, "/deliveries", "/deliveries?status=undelivered", "/deliveries?status=pending",
		"/deliveries?status=recovered", "/deliveries?code=503", "/deliveries?code=404", "/deliveries?trigger=retry", "/deliveries?slower=1000", "/deliveries?type=bench.old.t3", "/deliveries?type=bench.*",
		"/deliveries?status=undelivered&type=bench.old.t3", "/deliveries?endpoint=" + s.past.endpoint, "/deliveries?endpoint=" + s.past.endpoint + "&code=5xx", "/deliveries?range=7d",
		"/deliveries?q=C-4470", "/deliveries?q=" + event, "/deliveries/" + delivery, "/undelivered", "/events", "/events?type=bench.old.t3", "/events?q=C-4470", "/events/" + event,
		"/event-types", "/keys", "/team", "/activity", "/settings"} {
		var took []float64
		for range lookTimes {
			begun := time.Now()
			size, err := look(ctx, client, base+path)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			took = append(took, float64(time.Since(begun).Microseconds())/1000)
			if size > 100<<10 {
				return fmt.Errorf("%s is %d bytes", path, size)
			}
		}
		f.add(of+plainPath(path, s.past.endpoint, delivery, event), quantile(took, 0.5))
	}
	return nil
}

// plainPath is a path without the ids of a run.
func plainPath(path string, ids ...string) string {
	for _, id := range ids {
		path = strings.ReplaceAll(path, id, "…")
	}
	return path
}

func look(ctx context.Context, client *http.Client, address string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return len(text), err
}

// signIn uses a portal link, as a seller's browser would.
func (s *system) signIn(ctx context.Context, uid string) (*http.Client, string, error) {
	var link struct{ URL string }
	if err := s.Call(ctx, "POST", "/v1/tenants/"+uid+"/portal-links", map[string]any{"label": "bench"}, &link); err != nil {
		return nil, "", err
	}
	u, err := url.Parse(link.URL)
	if err != nil {
		return nil, "", err
	}
	base := ""
	for _, p := range s.Programs() {
		if p.Has("web") && p.Alive() {
			base = "http://" + p.Addr()
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, "", err
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+u.Path, nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin") // as a browser says
	res, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		return nil, "", fmt.Errorf("the portal link answered %s", res.Status)
	}
	return client, base, nil
}
