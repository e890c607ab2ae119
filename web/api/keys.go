package api

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/web/path"
)

// Key is an API key of a tenant, without the key itself.
type Key struct {
	ID                string          `json:"id" required:"true" examples:"[\"key_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	Name              string          `json:"name" required:"true"`
	Prefix            string          `json:"prefix" required:"true" description:"The first characters of the key." examples:"[\"wbt_k3v9x2ap\"]"`
	Scopes            []account.Scope `json:"scopes" required:"true" nullable:"false"`
	RequestsPerSecond *int            `json:"requests_per_second" required:"true" description:"null: the usual limit."`
	CreatedBy         string          `json:"created_by" required:"true"`
	CreatedAt         time.Time       `json:"created_at" required:"true"`
	ExpiresAt         *time.Time      `json:"expires_at" required:"true"`
	LastUsedAt        *time.Time      `json:"last_used_at" required:"true" description:"To the minute."`
}

// KeyCreate is the body that makes a key.
type KeyCreate struct {
	Name              string          `json:"name,omitempty" maxLength:"100" description:"Left out, it is unnamed."`
	Scopes            []account.Scope `json:"scopes,omitempty" description:"What the key may do; left out, everything that a tenant may."`
	ExpiresAt         *time.Time      `json:"expires_at,omitempty" description:"Left out, the key does not expire."`
	RequestsPerSecond *int            `json:"requests_per_second,omitempty" minimum:"1" maximum:"10000"`
}

// NewKey is a key that was just made: the only answer that holds the key itself.
type NewKey struct {
	Text string `json:"key" required:"true" description:"The key. It is shown only here." examples:"[\"wbt_…\"]"`
	Key
}

func keyOf(k account.Key) Key {
	shown := Key{
		ID: k.ID, Name: k.Name, Prefix: k.Prefix, Scopes: k.Scopes, CreatedBy: k.CreatedBy,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt,
	}
	if k.RequestsPerSecond != 0 {
		shown.RequestsPerSecond = &k.RequestsPerSecond
	}
	return shown
}

func (a *API) keyRoutes() []Route {
	return []Route{
		{
			Name: "KeyCreate", Method: http.MethodPost, Pattern: "/v1/tenants/{uid}/keys", Audience: ForPlatform, Scope: account.KeysWrite,
			Summary: "Make an API key for a tenant",
			Body:    KeyCreate{}, Optional: true, Answers: []Answer{{http.StatusCreated, NewKey{}}},
			Handle: a.keyCreate,
		},
		{
			Name: "KeyList", Method: http.MethodGet, Pattern: "/v1/tenants/{uid}/keys", Audience: ForPlatform, Scope: account.KeysWrite,
			Summary: "List a tenant's API keys", Detail: "Newest first.",
			Query: PageQuery{}, Answers: []Answer{{http.StatusOK, List[Key]{}}}, Faults: []fault.Kind{fault.Malformed},
			Handle: a.keyList,
		},
		{
			Name: "KeyRevoke", Method: http.MethodDelete, Pattern: "/v1/tenants/{uid}/keys/{id}", Audience: ForPlatform, Scope: account.KeysWrite,
			Summary: "Revoke an API key", Detail: "It is refused from the next call on.",
			Answers: []Answer{{http.StatusNoContent, nil}},
			Handle:  a.keyRevoke,
		},
		{
			Name: "PortalLinkCreate", Method: http.MethodPost, Pattern: "/v1/tenants/{uid}/portal-links", Audience: ForPlatform, Scope: account.TenantsWrite,
			Summary: "Make a link that signs a seller in",
			Detail:  "It works once, within ten minutes. Send the seller there at once and put it into no mail.",
			Body:    PortalLinkCreate{}, Optional: true, Answers: []Answer{{http.StatusCreated, PortalLink{}}},
			Handle: a.portalLinkCreate,
		},
	}
}

func (a *API) keyCreate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[KeyCreate](w, r)
	if err != nil {
		return err
	}
	if body.Name == "" {
		body.Name = "unnamed"
	}
	key, text, err := a.Accounts.KeyCreate(r.Context(), caller, account.KeyInput(body))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusCreated, NewKey{Text: text.Reveal(), Key: keyOf(key)})
}

func (a *API) keyList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[PageQuery](r)
	if err != nil {
		return err
	}
	keys, next, err := a.Accounts.KeyList(r.Context(), caller, query.After, query.Limit)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(keys, keyOf), next))
}

func (a *API) keyRevoke(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := a.Accounts.KeyRevoke(r.Context(), caller, r.PathValue("id")); err != nil {
		return err
	}
	return WriteNothing(w)
}

// PortalLinkCreate is the body that makes a portal link.
type PortalLinkCreate struct {
	Label        string          `json:"label,omitempty" maxLength:"100" description:"Who it is for, as the tenant's activity log will name them."`
	ReadOnly     bool            `json:"read_only,omitempty"`
	Capabilities []account.Scope `json:"capabilities,omitempty" description:"What the session may do; left out, everything that an owner (with read_only: a viewer) may."`
}

// PortalLink is a one-time link into a tenant's dashboard.
type PortalLink struct {
	URL          string          `json:"url" required:"true" format:"uri"`
	ExpiresAt    time.Time       `json:"expires_at" required:"true"`
	Label        string          `json:"label" required:"true"`
	Capabilities []account.Scope `json:"capabilities" required:"true" nullable:"false"`
}

func (a *API) portalLinkCreate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[PortalLinkCreate](w, r)
	if err != nil {
		return err
	}
	link, err := a.Accounts.PortalLinkCreate(r.Context(), caller, account.PortalInput{Label: body.Label, ReadOnly: body.ReadOnly, Scopes: body.Capabilities})
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusCreated, PortalLink{
		URL: a.URL + path.SignInLink(link.Token.Reveal()), ExpiresAt: link.ExpiresAt, Label: link.Label, Capabilities: link.Scopes,
	})
}
