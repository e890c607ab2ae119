package dashboard

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// endpointSecrets is the tab with the signing secrets.
func (d *Dashboard) endpointSecrets(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showSecrets(w, r, caller, http.StatusOK, nil)
}

func (d *Dashboard) showSecrets(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, problems page.Problems) error {
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	secrets, err := d.Endpoints.Secrets(r.Context(), caller, e.ID)
	if err != nil {
		return err
	}
	sheet := page.EndpointSecrets{Head: head, Public: e.PublicKey, Scheme: string(e.Scheme), Problems: problems}
	for _, secret := range secrets {
		sheet.Secrets = append(sheet.Secrets, secretRow(v, secret))
	}
	if note, ok := d.Sessions.Said(w, r, caller.ID); ok {
		v.note(note)
		if note.Secret != "" {
			sheet.Revealed = &page.Revealed{ID: note.About, Value: note.Secret}
		}
	}
	return write(w, r, status, sheet, v.frame)
}

func secretRow(v view, secret endpoint.Secret) page.Secret {
	row := page.Secret{
		ID: secret.ID, Fingerprint: secret.Fingerprint, Kind: "shared secret", Created: v.clock.Moment(secret.CreatedAt),
		Stamp: ui.Stamp{Tone: ui.Good, Word: "Signing"},
	}
	if secret.Kind == endpoint.Ed25519 {
		row.Kind = "key pair"
	}
	if secret.ExpiresAt != nil {
		row.Stamp, row.Ends = ui.Stamp{Tone: ui.Wait, Word: "Ending"}, v.clock.Moment(*secret.ExpiresAt)
	}
	return row
}

// secretRotate puts a new secret into force and shows which ones sign now.
func (d *Dashboard) secretRotate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	overlap, err := time.ParseDuration(field(r, "overlap"))
	if err != nil {
		return d.showSecrets(w, r, caller, http.StatusUnprocessableEntity, page.Problems{"overlap": "Choose how long the old secret goes on."})
	}
	rotated, err := d.Endpoints.Rotate(r.Context(), caller, r.PathValue("id"), endpoint.Rotation{Overlap: &overlap})
	if problems, ok := refused(err, map[string]string{"overlap_seconds": "overlap"}); ok {
		return d.showSecrets(w, r, caller, statusOf(err), problems)
	}
	if err != nil {
		return err
	}
	note := Note{Text: "A new secret signs beside the old one, which ends in " + page.OverlapName(field(r, "overlap")) + ". Reveal it and put it into your code until then."}
	if overlap == 0 {
		note.Text = "A new secret signs from now on, and the old one has ended. Reveal it and put it into your code."
	}
	return d.done(w, r, caller, path.EndpointSecrets(rotated.Endpoint.ID), note)
}

// secretAsk finds the secret that an address names, for a question about it.
func (d *Dashboard) secretAsk(w http.ResponseWriter, r *http.Request, caller account.Caller, scope account.Scope, status int,
	ask func(name page.EndpointName, secret endpoint.Secret) page.Confirmation,
) error {
	if err := caller.Can(scope); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	e, err := d.Endpoints.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	secrets, err := d.Endpoints.Secrets(r.Context(), caller, e.ID)
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if secret.ID == r.PathValue("secret") {
			return d.show(w, r, v, status, ask(nameOf(e), secret))
		}
	}
	return fault.New(fault.NotFound, "There is no such secret, or it has ended.")
}

func (d *Dashboard) secretRevealAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.askToReveal(w, r, caller, http.StatusOK, nil)
}

func (d *Dashboard) askToReveal(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, problems page.Problems) error {
	return d.secretAsk(w, r, caller, account.SecretsReveal, status, func(name page.EndpointName, secret endpoint.Secret) page.Confirmation {
		sheet := page.RevealSecret(name, secret.ID, secret.Fingerprint)
		sheet.Password, sheet.Problems = caller.MemberID != "", problems // who came by a link has none
		return sheet
	})
}

// fresh refuses who came by a link some time ago: for them, there is no password to ask for again, and somebody else may sit there now.
func (d *Dashboard) fresh(caller account.Caller) error {
	started, err := id.Time(caller.ID)
	if caller.MemberID != "" || err == nil && d.Now().Sub(started) <= account.PortalLinkLife {
		return nil
	}
	return fault.New(fault.Forbidden, "Secrets are shown within 10 minutes of signing in. Open the dashboard from your platform's site again.")
}

// secretReveal shows a secret on the page that follows, once.
func (d *Dashboard) secretReveal(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	endpointID, secretID := r.PathValue("id"), r.PathValue("secret")
	if err := d.fresh(caller); err != nil {
		return err
	}
	problems, status, err := d.passwordAgain(r, caller)
	if err != nil {
		return err
	}
	if problems != nil {
		return d.askToReveal(w, r, caller, status, problems)
	}
	text, err := d.Endpoints.SecretReveal(r.Context(), caller, endpointID, secretID)
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.EndpointSecrets(endpointID), Note{About: secretID, Secret: text.Reveal()})
}

func (d *Dashboard) secretEndAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.secretAsk(w, r, caller, account.EndpointsWrite, http.StatusOK, func(name page.EndpointName, secret endpoint.Secret) page.Confirmation {
		return page.EndSecret(name, secret.ID, secret.Fingerprint)
	})
}

// secretEnd ends a secret that is in its overlap.
func (d *Dashboard) secretEnd(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	endpointID := r.PathValue("id")
	if err := d.Endpoints.SecretExpire(r.Context(), caller, endpointID, r.PathValue("secret")); err != nil {
		return err
	}
	return d.done(w, r, caller, path.EndpointSecrets(endpointID), Note{Text: "The secret has ended. Requests are signed without it from the next attempt on."})
}
