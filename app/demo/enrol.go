package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"waybill/app/seal"
	"waybill/app/signing"
)

// hookPath is the path at which every seller of the demo is called. By it a start finds the endpoint of an earlier one.
const hookPath = "/webhooks/freight"

// wireEndpoint is an endpoint as the API shows it, as far as the demo looks.
type wireEndpoint struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	State  string `json:"state"`
	Secret string `json:"secret"`
}

// account is a seller's at Waybill.
type account struct {
	api        *client
	uid        string
	endpointID string

	mu    sync.Mutex
	known string    // ids of the secrets that the seller has
	asked time.Time // when the secrets were last looked at because of a refused call
}

// path is an address of the API in the seller's account.
func (a *account) path(rest string) string { return "/v1/tenants/" + url.PathEscape(a.uid) + rest }

// enrol makes the seller's account and endpoint, or finds those of an earlier start, and opens the seller's door at the
// endpoint's address. It says what it had to change.
func (s *Seller) enrol(ctx context.Context, api *client, host netip.Addr, say func(string, ...any)) error {
	s.account = &account{api: api, uid: s.UID}
	if err := s.account.open(ctx, s.Name); err != nil {
		return err
	}
	known, err := s.account.endpoint(ctx)
	if err != nil {
		return err
	}
	if known == nil {
		return s.create(ctx, host)
	}
	return s.takeUp(ctx, known, host, say)
}

// open makes the tenant unless there is one: the user may have changed it since.
func (a *account) open(ctx context.Context, name string) error {
	err := a.api.do(ctx, http.MethodGet, a.path(""), nil, nil)
	if !isNotFound(err) {
		return err
	}
	return a.api.do(ctx, http.MethodPut, a.path(""), map[string]any{"name": name, "preset": Preset, "time_zone": "Asia/Kolkata"}, nil)
}

// endpoint is the one of an earlier start, or nil.
func (a *account) endpoint(ctx context.Context) (*wireEndpoint, error) {
	after := ""
	for {
		var page struct {
			Data []wireEndpoint `json:"data"`
			Next *string        `json:"next"`
		}
		if err := a.api.do(ctx, http.MethodGet, a.path("/endpoints?limit=200"+after), nil, &page); err != nil {
			return nil, err
		}
		for _, found := range page.Data {
			if u, err := url.Parse(found.URL); err == nil && u.Path == hookPath && onLoopback(u) {
				return &found, nil
			}
		}
		if page.Next == nil {
			return nil, nil
		}
		after = "&after=" + url.QueryEscape(*page.Next)
	}
}

func onLoopback(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback()
}

// create opens the door at a free port and makes an endpoint for it.
func (s *Seller) create(ctx context.Context, host netip.Addr) error {
	if err := s.open(netip.AddrPortFrom(host, 0)); err != nil {
		return err
	}
	var made wireEndpoint
	err := s.account.api.do(ctx, http.MethodPost, s.account.path("/endpoints"), map[string]any{
		"url": s.URL(), "types": []string{"consignment.*"}, "description": "Order system"}, &made)
	if err != nil {
		return err
	}
	s.account.endpointID = made.ID
	key, err := signing.ParseKey(made.Secret)
	if err != nil {
		return fmt.Errorf("the new endpoint's secret %w", err)
	}
	s.keys.Store(&[]signing.Key{key})
	return nil
}

// takeUp goes on with an endpoint of an earlier start: at its address if that is still free here.
func (s *Seller) takeUp(ctx context.Context, known *wireEndpoint, host netip.Addr, say func(string, ...any)) error {
	s.account.endpointID = known.ID
	u, err := url.Parse(known.URL)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || s.open(netip.AddrPortFrom(host, uint16(port))) != nil {
		if err := s.open(netip.AddrPortFrom(host, 0)); err != nil {
			return err
		}
	}
	if err := s.readKeys(ctx); err != nil {
		return err
	}
	if known.URL != s.URL() {
		if err := s.account.api.do(ctx, http.MethodPatch, s.account.path("/endpoints/"+known.ID), map[string]any{"url": s.URL()}, nil); err != nil {
			return err
		}
		say("The endpoint of %s had another address (%s); it is changed to %s.", s.Name, known.URL, s.URL())
	}
	if known.State != "active" {
		if err := s.account.api.do(ctx, http.MethodPost, s.account.path("/endpoints/"+known.ID+"/enable"), nil, nil); err != nil {
			return err
		}
		say("The endpoint of %s was %s; it is switched on again for the demo. What it holds waits for a recovery.", s.Name, known.State)
	}
	return nil
}

// URL is where the seller is called.
func (s *Seller) URL() string { return "http://" + s.door.address().String() + hookPath }

type wireSecret struct {
	ID        string  `json:"id"`
	Kind      string  `json:"kind"`
	PublicKey *string `json:"public_key"`
}

// readKeys copies the endpoint's live secrets, as a seller copies them from the dashboard after a rotation.
func (s *Seller) readKeys(ctx context.Context) error {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	var page struct {
		Data []wireSecret `json:"data"`
	}
	path := a.path("/endpoints/" + a.endpointID + "/secrets")
	if err := a.api.do(ctx, http.MethodGet, path, nil, &page); err != nil {
		return err
	}
	ids := ""
	for _, secret := range page.Data {
		ids += secret.ID + " "
	}
	if ids == a.known {
		return nil
	}
	keys := make([]signing.Key, 0, len(page.Data))
	for _, secret := range page.Data {
		var text struct {
			Secret seal.Secret `json:"secret"`
		}
		if secret.PublicKey != nil {
			text.Secret = seal.Secret(*secret.PublicKey)
		} else if err := a.api.do(ctx, http.MethodPost, path+"/"+secret.ID+"/reveal", nil, &text); err != nil {
			return err
		}
		key, err := signing.ParseKey(text.Secret.Reveal())
		if err != nil {
			return fmt.Errorf("the secret %s %w", secret.ID, err)
		}
		keys = append(keys, key)
	}
	s.keys.Store(&keys)
	a.known = ids
	return nil
}

// lookForKeys reads the secrets again if that was not done just now: a call was refused, and a rotation may be why.
func (s *Seller) lookForKeys(ctx context.Context) {
	a := s.account
	a.mu.Lock()
	recent := time.Since(a.asked) < 2*time.Second
	if !recent {
		a.asked = time.Now()
	}
	a.mu.Unlock()
	if recent {
		return
	}
	if err := s.readKeys(ctx); err != nil {
		s.logger.WarnContext(ctx, "a seller could not read its signing secrets", "seller", s.UID, "error", err)
	}
}

// signInLink makes a one-time link into the seller's dashboard.
func (a *account) signInLink(ctx context.Context) (string, error) {
	var link struct {
		URL string `json:"url"`
	}
	err := a.api.do(ctx, http.MethodPost, a.path("/portal-links"), map[string]any{"label": "demo"}, &link)
	return link.URL, err
}
