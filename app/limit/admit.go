package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"waybill/app/fault"
	"waybill/db"
)

// lookEvery is how often a process looks at limits and counts, while it is asked.
const lookEvery = 2 * time.Second

// Event is one that is about to be published, as far as limits are concerned.
type Event struct {
	Tenant string // uid
	Bytes  int    // of data
}

// Admit refuses a call that would take one of its tenants beyond a limit, as a whole: RateLimited, with how long to wait, for events a second and a day; TooLarge for a
// payload. Tenants without limits are not looked at. When the counts cannot be read, nothing is refused: publishing tells what is wrong with the database.
func (s *Service) Admit(ctx context.Context, events []Event) (wait time.Duration, err error) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.look(ctx, now); err != nil || len(s.known) == 0 {
		return 0, nil
	}
	asked := map[*standing]int64{}
	for i, e := range events {
		l := s.known[e.Tenant]
		if l == nil {
			continue
		}
		if l.PayloadBytes > 0 && e.Bytes > l.PayloadBytes {
			name := "data"
			if len(events) > 1 {
				name = fmt.Sprintf("events[%d].data", i)
			}
			return 0, fault.Newf(fault.TooLarge, "The data is %d bytes; this tenant's may have %d.", e.Bytes, l.PayloadBytes).
				Field(name, fmt.Sprintf("must be at most %d bytes", l.PayloadBytes))
		}
		asked[l]++
	}
	for l, n := range asked {
		if l.EventsPerDay > 0 && l.used+n > l.EventsPerDay {
			return l.day.AddDate(0, 0, 1).Sub(now), fault.Newf(fault.RateLimited, "This tenant may have %d events a day (UTC), and has had %d. More are taken tomorrow.", l.EventsPerDay, l.used)
		}
		if most := 2 * l.EventsPerSecond; l.EventsPerSecond > 0 && n > int64(most) {
			return 0, fault.Newf(fault.RateLimited, "This tenant may have %d events a second: send at most %d in one call.", l.EventsPerSecond, most)
		}
	}
	for l, n := range asked {
		if l.EventsPerSecond > 0 && !l.bucket.AllowN(now, int(n)) {
			return time.Second, fault.Newf(fault.RateLimited, "This tenant may have %d events a second. Wait a second and go on more slowly.", l.EventsPerSecond)
		}
	}
	for l, n := range asked {
		l.used += n
	}
	return 0, nil
}

// Level is how near a tenant is to the end of its day's events.
type Level int

// The levels.
const (
	Free Level = iota
	Soft       // what is announced is reached
	Hard       // the API refuses more
)

// Day is how far the tenant of this uid has got today, as this process knows it: at most two seconds old, and without a look for tenants that have no limits.
func (s *Service) Day(ctx context.Context, uid string) (level Level, used int64, limits Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.look(ctx, s.Now()) != nil || s.known[uid] == nil {
		return Free, 0, Limits{}
	}
	l := s.known[uid]
	switch {
	case l.EventsPerDay > 0 && l.used >= l.EventsPerDay:
		level = Hard
	case l.EventsPerDaySoft > 0 && l.used >= l.EventsPerDaySoft:
		level = Soft
	}
	return level, l.used, l.Limits
}

// look reads limits and counts anew when that is due. mu is held.
func (s *Service) look(ctx context.Context, now time.Time) error {
	if s.known != nil && now.Sub(s.readAt) < lookEvery {
		return nil
	}
	rows, err := s.DB.Query(db.BeyondTenants(ctx), sqlInForce)
	if err != nil {
		return err
	}
	known := map[string]*standing{}
	var uid string
	var l standing
	_, err = pgx.ForEachRow(rows, append(append([]any{&uid}, l.Limits.into()...), &l.used, &l.day), func() error {
		fresh := l
		if before := s.known[uid]; before != nil && before.EventsPerSecond == l.EventsPerSecond {
			fresh.bucket = before.bucket
		} else {
			fresh.bucket = rate.NewLimiter(rate.Limit(l.EventsPerSecond), 2*l.EventsPerSecond)
		}
		known[uid] = &fresh
		return nil
	})
	if err != nil {
		return err
	}
	s.known, s.readAt = known, now
	return nil
}

// forget makes the next call look anew.
func (s *Service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAt = time.Time{}
}
