package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"waybill/app/account"
)

// Everything in the documentation is there for everybody, is whole, and leads somewhere.
func TestDocumentationIsForEverybody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	guest := b.browser()
	guest.get("/docs").says(t, http.StatusOK, "Quick start", "waybill.publish(tenant", "waybill listen")
	guest.get("/docs/concepts").says(t, http.StatusOK, "Signing secret", "What a delivery can be", "Held")
	guest.get("/docs/promises").says(t, http.StatusOK, "10 attempts over 3 d 3 h", "sent again for 30 days", "at least once")
	guest.get("/docs/receiving").says(t, http.StatusOK, "waybill.test", "Waybill/1 (+https://waybill.test/docs/receiving)", "webhook-signature", "its first 16 KiB are kept", "for 90 days", "answer 410")
	guest.get("/docs/verify").says(t, http.StatusOK, "id.timestamp.body", "v1a,", "https://waybill.test/public-keys/ep_")
	guest.get("/docs/verify/python").says(t, http.StatusOK, "hmac.compare_digest", "python3 receiver.py", "needs the package cryptography")
	guest.get("/docs/verify/go").says(t, http.StatusOK, "package main", "func verify(")
	guest.get("/docs/verify/cobol").says(t, http.StatusNotFound)
	guest.get("/docs/retries").says(t, http.StatusOK, "standard An attempt may take 15 s", "10 1 d 3 d 3 h", "An endpoint that fails for 5 days is disabled.",
		"After 401, 403 or 404 nothing is tried again.", "After 10 failures in a row", "After 429, 502 or 504 fewer", "can be sent again for 30 days")
	guest.get("/docs/errors").says(t, http.StatusOK, "Your server answered 401 Unauthorized", "Why that usually is", "No HTTP answer came")
	guest.get("/docs/limits").says(t, http.StatusOK, "256 KiB", "Static headers 20", "10, 100", "24 to 64")
	guest.get("/docs/sources").says(t, http.StatusOK, "198.51.100.7")
	guest.get("/docs/api").says(t, http.StatusOK, "API reference", "GET /v1/events List events", "cursor-expired", "410")
	guest.get("/docs/api/consumers").says(t, http.StatusOK, "POST /v1/consumers/{name}/next", "POST /v1/tenants/{uid}/consumers/{name}/next", "wait_seconds", "0 to 30",
		"409 lease-held", "with the right catalog:read", "Idempotency-Key")
	guest.get("/docs/api/none").says(t, http.StatusNotFound)
	if policy := guest.get("/docs/api").header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("policy %q", policy)
	}

	link := regexp.MustCompile(`href="(/[^"#]*)(#[^"]*)?"`)
	seen, waiting := map[string]string{}, []string{"/docs"}
	for len(waiting) > 0 {
		at := waiting[0]
		waiting = waiting[1:]
		got := guest.get(at)
		if seen[at] = got.body; got.status != http.StatusOK {
			t.Errorf("%s answers %d", at, got.status)
		}
		if size := len(got.body); size > 120_000 {
			t.Errorf("%s has %d bytes", at, size)
		}
		for _, found := range link.FindAllStringSubmatch(got.body, -1) {
			if _, known := seen[found[1]]; !known && strings.HasPrefix(found[1], "/docs") {
				seen[found[1]] = ""
				waiting = append(waiting, found[1])
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("the walk found only %d pages", len(seen))
	}
	for at, body := range seen {
		for _, found := range link.FindAllStringSubmatch(body, -1) {
			if place := strings.TrimPrefix(found[2], "#"); place != "" && strings.HasPrefix(found[1], "/docs") && !strings.Contains(seen[found[1]], `id="`+place+`"`) {
				t.Errorf("%s leads to %s%s, which is not there", at, found[1], found[2])
			}
		}
	}
	b.signedIn(b.tenant, account.PortalInput{}).get("/keys").says(t, http.StatusOK, "API reference")
}
