package api

import (
	"net/http"
	"time"

	"waybill/app/account"
)

// KeyRotation is the body that rotates a key.
type KeyRotation struct {
	OverlapSeconds *int `json:"overlap_seconds,omitempty" minimum:"0" maximum:"2592000" default:"86400" description:"How long the old key goes on."`
}

func (a *API) keyRotateRoutes() []Route {
	return []Route{{
		Name: "KeyRotate", Method: http.MethodPost, Pattern: "/v1/tenants/{uid}/keys/{id}/rotate", Audience: ForPlatform, Scope: account.KeysWrite,
		Summary: "Rotate an API key",
		Detail:  "A new key with the name, rights and limit of the old one, which ends after the overlap: a day unless told otherwise, 30 days at most.",
		Body:    KeyRotation{}, Optional: true, Answers: []Answer{{http.StatusCreated, NewKey{}}},
		Handle: a.keyRotate,
	}}
}

func (a *API) keyRotate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[KeyRotation](w, r)
	if err != nil {
		return err
	}
	overlap := account.DefaultKeyOverlap
	if body.OverlapSeconds != nil {
		overlap = time.Duration(min(max(*body.OverlapSeconds, -1), 1<<30)) * time.Second
	}
	key, text, err := a.Accounts.KeyRotate(r.Context(), caller, r.PathValue("id"), overlap)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusCreated, NewKey{Text: text.Reveal(), Key: keyOf(key)})
}
