package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"waybill/app/account"
	"waybill/app/fault"
)

// tenantRate is what a tenant's key may ask a second, on average, if nothing else was agreed; a platform key may ask without limit. Each process counts
// for itself.
const tenantRate = 50

// limiter keeps a token bucket for each key that was used lately. A bucket holds two seconds' worth.
type limiter struct {
	now     func() time.Time
	mu      sync.Mutex
	buckets map[string]*bucket
	swept   time.Time
}

type bucket struct {
	*rate.Limiter
	used time.Time
}

// bucketLife is longer than an empty bucket takes to fill, so that forgetting one changes nothing.
const bucketLife = time.Minute

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, buckets: map[string]*bucket{}}
}

// allow takes one request off the caller's bucket, or refuses it with the seconds to wait. It sets the headers of
// draft-ietf-httpapi-ratelimit-headers, in the form of its third version, which clients read today, and in that of the tenth.
func (l *limiter) allow(header http.Header, caller account.Caller) error {
	perSecond := caller.RequestsPerSecond
	if perSecond == 0 {
		if caller.Kind == account.PlatformKey {
			return nil
		}
		perSecond = tenantRate
	}
	now := l.now()
	allowed, left := l.take(caller.ID, perSecond, now)
	quota := 2 * perSecond
	reset := 0
	if left < float64(quota) {
		reset = int(math.Ceil((float64(quota) - left) / float64(perSecond)))
	}
	header.Set("RateLimit-Policy", fmt.Sprintf(`"key";q=%d;w=2`, quota))
	header.Set("RateLimit", fmt.Sprintf(`"key";r=%d;t=%d`, int(left), reset))
	header.Set("RateLimit-Limit", strconv.Itoa(quota))
	header.Set("RateLimit-Remaining", strconv.Itoa(int(left)))
	header.Set("RateLimit-Reset", strconv.Itoa(reset))
	if !allowed {
		header.Set("Retry-After", "1")
		return fault.Newf(fault.RateLimited, "This key may ask %d times a second. Wait a second and go on more slowly.", perSecond)
	}
	return nil
}

// take says whether a request is allowed, and how many more would be now.
func (l *limiter) take(key string, perSecond int, now time.Time) (allowed bool, left float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	it, known := l.buckets[key]
	if !known || it.Limit() != rate.Limit(perSecond) {
		it = &bucket{Limiter: rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)}
		l.buckets[key] = it
	}
	it.used = now
	allowed = it.AllowN(now, 1)
	return allowed, max(0, it.TokensAt(now))
}

// sweep forgets buckets that are full again, at most once a minute.
func (l *limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < bucketLife {
		return
	}
	l.swept = now
	for key, it := range l.buckets {
		if now.Sub(it.used) >= bucketLife {
			delete(l.buckets, key)
		}
	}
}
