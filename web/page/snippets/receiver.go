//go:build ignore

// A receiver of webhooks. Run it with WEBHOOK_SECRETS="whsec_…" go run receiver.go
package main

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const tolerance = 5 * time.Minute

// Several, with spaces between them, while a secret is rotated.
var (
	secrets    = keys("WEBHOOK_SECRETS", "whsec_")
	publicKeys = keys("WEBHOOK_PUBLIC_KEYS", "whpk_") // for the scheme v1a only
)

func keys(variable, prefix string) (all [][]byte) {
	for _, text := range strings.Fields(os.Getenv(variable)) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, prefix))
		if err != nil {
			log.Fatalf("%s: %v", variable, err)
		}
		all = append(all, key)
	}
	return all
}

func main() {
	http.HandleFunc("POST /hooks", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // the bytes as they arrived
		if err != nil {
			http.Error(w, "The body cannot be read.", http.StatusBadRequest)
			return
		}
		if !verify(r.Header, body, time.Now()) {
			http.Error(w, "The signature does not match.", http.StatusUnauthorized)
			return
		}
		// Store the event under its id here, unless you have it already. Work on it after the answer.
		io.WriteString(w, "ok\n")
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}

// verify says whether a request is from Waybill and not older than five minutes.
func verify(h http.Header, body []byte, now time.Time) bool {
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	signed := append([]byte(id+"."+stamp+"."), body...)
	for _, given := range strings.Fields(h.Get("webhook-signature")) {
		if text, ok := strings.CutPrefix(given, "v1,"); ok {
			if mac, err := base64.StdEncoding.DecodeString(text); err == nil && anyMAC(mac, signed) {
				return true
			}
		} else if text, ok := strings.CutPrefix(given, "v1a,"); ok {
			signature, err := base64.StdEncoding.DecodeString(text)
			for _, key := range publicKeys {
				if err == nil && ed25519.Verify(key, signed, signature) {
					return true
				}
			}
		} else if strings.HasPrefix(given, "v1=") { // the scheme hex: over timestamp.body
			for _, one := range strings.Split(given, ",") {
				mac, err := hex.DecodeString(strings.TrimPrefix(one, "v1="))
				if err == nil && anyMAC(mac, append([]byte(stamp+"."), body...)) {
					return true
				}
			}
		}
	}
	return false
}

// anyMAC compares in constant time.
func anyMAC(given, signed []byte) bool {
	for _, secret := range secrets {
		h := hmac.New(sha256.New, secret)
		h.Write(signed)
		if hmac.Equal(h.Sum(nil), given) {
			return true
		}
	}
	return false
}
