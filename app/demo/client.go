package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"waybill/app/seal"
)

// client calls Waybill's API as the platform's own program would. It reaches this process only, and through no proxy.
type client struct {
	url  string // of this process, without a slash at the end
	key  seal.Secret
	http *http.Client
}

func newClient(url string, key seal.Secret) *client {
	return &client{url: url, key: key, http: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 4}}}
}

// refusal is an answer of the API that is no success.
type refusal struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	what   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s was answered with %d: %s", r.what, r.Status, r.Detail)
}

// isNotFound reports whether the API knows no such thing.
func isNotFound(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.Status == http.StatusNotFound
}

// maxAnswer is the most of an answer that is read.
const maxAnswer = 4 << 20

// do makes one call. in, unless nil, is sent as JSON; out, unless nil, receives the answer's.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	what := method + " " + path
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		r := &refusal{what: what}
		if json.Unmarshal(text, r) != nil || r.Detail == "" {
			r.Detail = "(no detail)"
		}
		r.Status = resp.StatusCode
		return r
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// finds reports whether a page answers 200 without a sign-in.
func (c *client) finds(ctx context.Context, path string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return false
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
