package e2e

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// verify checks a request as this place's owner would, with nothing of the program's own: v1 by the Standard Webhooks library, v1a and hex by
// what their descriptions say.
func (p *Place) verify(header http.Header, body []byte) error {
	switch p.Scheme {
	case "v1":
		return p.verifyV1(header, body)
	case "v1+v1a":
		return errors.Join(p.verifyV1(header, body), p.verifyV1a(header, body))
	case "v1a":
		return p.verifyV1a(header, body)
	case "hex":
		return p.verifyHex(header, body)
	}
	return fmt.Errorf("no verifier for scheme %q", p.Scheme)
}

func (p *Place) verifyV1(header http.Header, body []byte) error {
	webhook, err := standardwebhooks.NewWebhook(p.Secret)
	if err != nil {
		return err
	}
	return webhook.Verify(body, header)
}

func (p *Place) verifyV1a(header http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.PublicKey, "whpk_"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("%q is no public key", p.PublicKey)
	}
	signed := []byte(header.Get("webhook-id") + "." + header.Get("webhook-timestamp") + "." + string(body))
	for _, one := range strings.Fields(header.Get("webhook-signature")) {
		if text, ok := strings.CutPrefix(one, "v1a,"); ok {
			if signature, err := base64.StdEncoding.DecodeString(text); err == nil && ed25519.Verify(key, signed, signature) {
				return nil
			}
		}
	}
	return errors.New("no v1a signature matches")
}

func (p *Place) verifyHex(header http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Secret, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(header.Get("Webhook-Timestamp") + "."))
	mac.Write(body)
	want := "v1=" + hex.EncodeToString(mac.Sum(nil))
	for one := range strings.SplitSeq(header.Get("Webhook-Signature"), ",") {
		if hmac.Equal([]byte(one), []byte(want)) {
			return nil
		}
	}
	return errors.New("no hex signature matches")
}
