package receive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrMissed is in the chain of what Reconcile returns when the place where it had stopped is older than what the catalog keeps: it has read all
// that there is, and what was dropped before may be missing here.
var ErrMissed = errors.New("receive: some events are older than what the catalog keeps")

// Bookmark keeps how far the catalog has been read.
type Bookmark interface {
	// Bookmark is the cursor that was kept, or empty.
	Bookmark(ctx context.Context) (string, error)
	// SetBookmark keeps a cursor.
	SetBookmark(ctx context.Context, cursor string) error
}

// Reconciler reads the catalog from where it stopped and puts what never arrived into the inbox, where the worker finds it as if it had: after a
// week of sleep, or a fault of anybody's, the inbox has exactly the events that happened. What arrived is there already and changes nothing.
type Reconciler struct {
	URL      string // of Waybill, without a path
	Key      string // an API key with catalog:read
	Types    []string
	Inbox    Inbox
	Bookmark Bookmark
	// Stored, unless nil, is called after a missing event was stored: Worker.Wake.
	Stored func()
	// Report, unless nil, is told of every run: how many events were missing.
	Report func(ctx context.Context, missing int, err error)
	// Every is how often Run reconciles; 0 is an hour, up to a tenth more.
	Every time.Duration
	// Client is nil for one with a time-out of 30 seconds.
	Client *http.Client
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	usualEvery   = time.Hour
	maxPage      = 64 << 20
	pageWithin   = 30 * time.Second
	eventsOfPage = "200"
)

// Run reconciles at once and then every so often, until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	every := r.Every
	if every <= 0 {
		every = usualEvery
	}
	for ctx.Err() == nil {
		missing, err := r.Reconcile(ctx)
		if r.Report != nil && ctx.Err() == nil {
			r.Report(ctx, missing, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(every + rand.N(every/10+1)):
		}
	}
}

// Reconcile reads the catalog to its end and says how many events were missing from the inbox. The bookmark moves after each page whose events are
// stored, so that a run that breaks off goes on there.
func (r *Reconciler) Reconcile(ctx context.Context) (missing int, err error) {
	cursor, err := r.Bookmark.Bookmark(ctx)
	if err != nil {
		return 0, fmt.Errorf("receive: read the bookmark: %w", err)
	}
	var missed error
	for {
		page, err := r.page(ctx, cursor)
		if errors.Is(err, errAged) && cursor != "" {
			cursor, missed = "", ErrMissed
			continue
		}
		if err != nil {
			return missing, err
		}
		for _, body := range page.Data {
			isNew, err := r.insert(ctx, body)
			if err != nil {
				return missing, err
			}
			if isNew {
				missing++
			}
		}
		if cursor = page.Next; cursor != "" {
			if err := r.Bookmark.SetBookmark(ctx, cursor); err != nil {
				return missing, fmt.Errorf("receive: keep the bookmark: %w", err)
			}
		}
		if !page.More {
			return missing, missed
		}
	}
}

func (r *Reconciler) insert(ctx context.Context, body jsontext.Value) (bool, error) {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	m := Message{Body: body, ReceivedAt: now()}
	e, err := m.Event()
	if err != nil {
		return false, err
	}
	m.ID = e.ID
	isNew, err := r.Inbox.Insert(ctx, m)
	if err == nil && isNew && r.Stored != nil {
		r.Stored()
	}
	return isNew, err
}

type catalogPage struct {
	Data []jsontext.Value `json:"data"`
	Next string           `json:"next"`
	More bool             `json:"more"`
}

var errAged = errors.New("the cursor is older than what is kept")

// page reads one page. The catalog's bytes are those that endpoints are sent.
func (r *Reconciler) page(ctx context.Context, cursor string) (catalogPage, error) {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	query := url.Values{"limit": {eventsOfPage}, "type": r.Types}
	if cursor != "" {
		query.Set("after", cursor)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(r.URL, "/")+"/v1/events?"+query.Encode(), nil)
	if err != nil {
		return catalogPage{}, fmt.Errorf("receive: ask the catalog: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+r.Key)
	client := r.Client
	if client == nil {
		client = &http.Client{Timeout: pageWithin}
	}
	answer, err := client.Do(req)
	if err != nil {
		return catalogPage{}, fmt.Errorf("receive: ask the catalog: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	switch {
	case err != nil:
		return catalogPage{}, fmt.Errorf("receive: read the catalog: %w", err)
	case answer.StatusCode == http.StatusGone:
		return catalogPage{}, errAged
	case answer.StatusCode != http.StatusOK:
		return catalogPage{}, fmt.Errorf("receive: the catalog answers %s", answer.Status)
	}
	var page catalogPage
	if err := json.Unmarshal(text, &page, jsontext.AllowDuplicateNames(true)); err != nil {
		return catalogPage{}, fmt.Errorf("receive: the catalog's answer cannot be read: %w", err)
	}
	return page, nil
}
