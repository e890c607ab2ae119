package api

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/web/path"
)

// InvitationCreate is the body that invites a person into a tenant.
type InvitationCreate struct {
	Email string       `json:"email" required:"true" minLength:"3" maxLength:"254" examples:"[\"meera@silkhouse.example\"]"`
	Role  account.Role `json:"role,omitempty" description:"owner, developer or viewer; left out, owner." examples:"[\"owner\"]"`
}

// Invitation is an invitation that was just made: the only answer that holds its link.
type Invitation struct {
	ID        string       `json:"id" required:"true" examples:"[\"inv_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	Email     string       `json:"email" required:"true"`
	Role      account.Role `json:"role" required:"true"`
	ExpiresAt time.Time    `json:"expires_at" required:"true"`
	URL       string       `json:"url" required:"true" format:"uri" description:"Where the person accepts. It works once, and is mailed to them as well."`
}

func (a *API) invitationRoutes() []Route {
	return []Route{{
		Name: "InvitationCreate", Method: http.MethodPost, Pattern: "/v1/tenants/{uid}/invitations", Audience: ForPlatform, Scope: account.TenantsWrite,
		Summary: "Invite a person into a tenant",
		Detail: "How a tenant gets its first owner, who invites the others in the dashboard. The link is mailed, works once and for seven days; an open " +
			"invitation of the same address is replaced. Hand the link to nobody else: whoever opens it chooses the password.",
		Body: InvitationCreate{}, Answers: []Answer{{http.StatusCreated, Invitation{}}}, Faults: []fault.Kind{fault.Conflict},
		Handle: a.invitationCreate,
	}}
}

func (a *API) invitationCreate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[InvitationCreate](w, r)
	if err != nil {
		return err
	}
	if body.Role == "" {
		body.Role = account.Owner
	}
	made, err := a.Accounts.InvitationCreate(r.Context(), caller, account.InvitationInput{Email: body.Email, Role: body.Role})
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusCreated, Invitation{
		ID: made.ID, Email: made.Email, Role: made.Role, ExpiresAt: made.ExpiresAt, URL: a.URL + path.Invitation(made.Token.Reveal()),
	})
}
