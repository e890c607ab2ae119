package api

import (
	"math"
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/seal"
)

// Secret is a live signing secret, without what makes it one.
type Secret struct {
	ID          string              `json:"id" required:"true" examples:"[\"sec_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	Kind        endpoint.SecretKind `json:"kind" required:"true" enum:"hmac,ed25519"`
	Fingerprint string              `json:"fingerprint" required:"true" description:"The first 8 hexadecimal digits of the SHA-256 of its text (of the public key's, for ed25519)."`
	PublicKey   *string             `json:"public_key" required:"true" description:"whpk_… of an ed25519 key."`
	CreatedAt   time.Time           `json:"created_at" required:"true"`
	ExpiresAt   *time.Time          `json:"expires_at" required:"true" description:"The end of its overlap; null: it is in force."`
}

func secretOf(s endpoint.Secret) Secret {
	return Secret{
		ID: s.ID, Kind: s.Kind, Fingerprint: s.Fingerprint, PublicKey: orNull(s.PublicKey), CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt,
	}
}

// EndpointRotate is the body that rotates an endpoint's secret.
type EndpointRotate struct {
	OverlapSeconds *int   `json:"overlap_seconds,omitempty" minimum:"0" maximum:"604800" default:"86400" description:"How long the old secret goes on signing beside the new one."`
	Secret         string `json:"secret,omitempty" description:"A signing secret of your own: whsec_ and the base64 of 24 to 64 bytes. Left out, one is made."`
}

// RotatedEndpoint is an endpoint after its secret was rotated.
type RotatedEndpoint struct {
	Endpoint
	Secret  *string  `json:"secret" required:"true" description:"The new signing secret, whsec_…; null if only the key pair of v1a was replaced."`
	Secrets []Secret `json:"secrets" required:"true" description:"All live secrets, newest first."`
}

// RevealedSecret is a signing secret.
type RevealedSecret struct {
	Secret string `json:"secret" required:"true"`
}

// RevealedHeaders are an endpoint's static headers.
type RevealedHeaders struct {
	Headers map[string]string `json:"headers" required:"true"`
}

// PublicKeys are the keys that verify an endpoint's v1a signatures.
type PublicKeys struct {
	EndpointID string      `json:"endpoint_id" required:"true"`
	Keys       []PublicKey `json:"keys" required:"true" description:"Newest first; during a rotation several are in use."`
}

// PublicKey is one of them.
type PublicKey struct {
	Key       string     `json:"public_key" required:"true" description:"whpk_ and the base64 of 32 bytes."`
	CreatedAt time.Time  `json:"created_at" required:"true"`
	ExpiresAt *time.Time `json:"expires_at" required:"true"`
}

func (a *API) secretRoutes() []Route {
	return []Route{
		{
			Name: "EndpointRotate", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/rotate", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Rotate an endpoint's signing secret",
			Detail:  "Old and new sign together for the overlap, a day unless told otherwise. At most 10 secrets of a kind can be live.",
			Body:    EndpointRotate{}, Optional: true, Answers: []Answer{{http.StatusOK, RotatedEndpoint{}}}, Faults: []fault.Kind{fault.Conflict},
			Handle: a.endpointRotate,
		},
		{
			Name: "SecretList", Method: http.MethodGet, Pattern: "/v1/endpoints/{id}/secrets", Audience: ForTenant, Scope: account.EndpointsRead,
			Summary: "List an endpoint's live secrets", Detail: "Newest first, all on one page, without their texts.",
			Answers: []Answer{{http.StatusOK, List[Secret]{}}},
			Handle:  a.secretList,
		},
		{
			Name: "SecretReveal", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/secrets/{secret}/reveal", Audience: ForTenant, Scope: account.SecretsReveal,
			Summary: "Show a signing secret", Detail: "It is recorded in the activity log.",
			NoKey:   "Each look at a secret is recorded; repeating it changes nothing else.",
			Answers: []Answer{{http.StatusOK, RevealedSecret{}}}, Faults: []fault.Kind{fault.Conflict},
			Handle: a.secretReveal,
		},
		{
			Name: "SecretExpire", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/secrets/{secret}/expire", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "End an old secret now", Detail: "Only one that is in its overlap; the secret in force is ended by rotating with an overlap of 0.",
			Answers: []Answer{{http.StatusNoContent, nil}}, Faults: []fault.Kind{fault.Conflict},
			Handle: a.secretExpire,
		},
		{
			Name: "HeadersReveal", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/headers/reveal", Audience: ForTenant, Scope: account.SecretsReveal,
			Summary: "Show an endpoint's static headers", Detail: "It is recorded in the activity log.",
			NoKey:   "Each look at a secret is recorded; repeating it changes nothing else.",
			Answers: []Answer{{http.StatusOK, RevealedHeaders{}}}, Faults: []fault.Kind{fault.Conflict},
			Handle: a.headersReveal,
		},
		{
			Name: "PublicKeyRead", Method: http.MethodGet, Pattern: "/v1/public-keys/{endpoint}", Audience: ForPublic,
			Summary: "Read the public keys that verify an endpoint's v1a signatures",
			Answers: []Answer{{http.StatusOK, PublicKeys{}}},
			Handle:  a.publicKeyRead,
		},
	}
}

func (a *API) endpointRotate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[EndpointRotate](w, r)
	if err != nil {
		return err
	}
	in := endpoint.Rotation{Secret: seal.Secret(body.Secret)}
	if body.OverlapSeconds != nil {
		// A number too large for a duration is over the limit, and not a small one after it has wrapped.
		seconds := min(max(*body.OverlapSeconds, -1), math.MaxInt32)
		overlap := time.Duration(seconds) * time.Second
		in.Overlap = &overlap
	}
	rotated, err := a.Endpoints.Rotate(r.Context(), caller, r.PathValue("id"), in)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, RotatedEndpoint{
		Endpoint: endpointOf(rotated.Endpoint), Secret: orNull(rotated.Secret.Reveal()), Secrets: each(rotated.Secrets, secretOf),
	})
}

func (a *API) secretList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	secrets, err := a.Endpoints.Secrets(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(secrets, secretOf), ""))
}

func (a *API) secretReveal(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	text, err := a.Endpoints.SecretReveal(r.Context(), caller, r.PathValue("id"), r.PathValue("secret"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, RevealedSecret{Secret: text.Reveal()})
}

func (a *API) secretExpire(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := a.Endpoints.SecretExpire(r.Context(), caller, r.PathValue("id"), r.PathValue("secret")); err != nil {
		return err
	}
	return WriteNothing(w)
}

func (a *API) headersReveal(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	headers, err := a.Endpoints.HeadersReveal(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	shown := RevealedHeaders{Headers: map[string]string{}}
	for _, header := range headers {
		shown.Headers[header.Name] = header.Value
	}
	return WriteJSON(w, http.StatusOK, shown)
}

func (a *API) publicKeyRead(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	endpointID := r.PathValue("endpoint")
	keys, err := a.Endpoints.PublicKeys(r.Context(), endpointID)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	return WriteJSON(w, http.StatusOK, PublicKeys{EndpointID: endpointID, Keys: each(keys, func(k endpoint.PublicKey) PublicKey { return PublicKey(k) })})
}
