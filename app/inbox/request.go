package inbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/signing"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlReceive     = queries.SQL("InboxReceive")
	sqlRequestList = queries.SQL("InboxRequestList")
	sqlRequestRead = queries.SQL("InboxRequestRead")
	sqlForget      = queries.SQL("InboxForget")
)

// The bounds of a request's headers as they are kept. What is beyond them is left out.
const (
	maxHeaders     = 64
	maxHeaderBytes = 24 << 10
	maxValue       = 8 << 10
)

// Header is a header as it came. A hidden one has a value that the caller may not see.
type Header struct {
	Name, Value string
	Hidden      bool
}

// Request is one that an inbox has kept.
type Request struct {
	Number     int64
	EventID    string // its webhook-id; empty: it had none, or one that no event of ours can have
	ReceivedAt time.Time
	Headers    []Header // by name; nil in lists
	Body       []byte   // its first 64 KiB; nil for whoever may not see payloads
	Size       int64    // bytes that came
	Reply      Reply    // what it was answered
}

// Cut says that the body was longer than what is kept of it.
func (r Request) Cut() bool { return r.Size > MaxBody }

// Received says what to answer a request.
type Received struct {
	Reply
	TooFast bool // it was not kept: too many came; answer 429
}

// Receive keeps a request to the inbox with this token and says what to answer. body is what was kept of it, size how long it was. A token that nobody
// has, and one whose inbox has ended, is a NotFound fault.
func (s *Service) Receive(ctx context.Context, token string, header http.Header, body []byte, size int64) (Received, error) {
	ctx = db.BeyondTenants(ctx)
	if !plausible(token) {
		return Received{}, errNoInbox()
	}
	pairs, err := json.Marshal(kept(header))
	if err != nil {
		return Received{}, fmt.Errorf("keep headers: %w", err)
	}
	event := header.Get(signing.HeaderID)
	if !id.ValidEvent(event) {
		event = ""
	}
	if body == nil {
		body = []byte{}
	}
	var out Received
	err = s.DB.QueryRow(ctx, sqlReceive, pgx.NamedArgs{"token": token, "burst": Burst, "rate": Rate, "keep": Kept, "size": size, "event": event,
		"headers": s.Ring.Seal(pairs, sealedFor), "body": body[:min(len(body), MaxBody)]}).Scan(&out.Answer, &out.Seconds, &out.TooFast)
	if errors.Is(err, pgx.ErrNoRows) {
		return Received{}, errNoInbox()
	}
	if err != nil {
		return Received{}, fmt.Errorf("receive: %w", err)
	}
	out.TooFast = !out.TooFast // the statement says whether it was granted
	return out, nil
}

// sealedFor is what sealed headers are bound to.
var sealedFor = []byte("inbox headers")

// kept are the headers that are stored, in the order of their names, as valid text.
func kept(header http.Header) [][2]string {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	pairs, left := [][2]string{}, maxHeaderBytes
	for _, name := range names {
		for _, value := range header[name] {
			value = strings.ToValidUTF8(value[:min(len(value), maxValue)], "\uFFFD")
			if left -= len(name) + len(value) + 8; left < 0 || len(pairs) == maxHeaders {
				return pairs
			}
			pairs = append(pairs, [2]string{name, value})
		}
	}
	return pairs
}

// ours are the headers that every delivery has, in lower case. Of all others a value may be one that the endpoint's owner keeps to themselves.
var ours = []string{"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "user-agent", "webhook-id", "webhook-signature", "webhook-timestamp"}

// Requests are those that an inbox of the caller's tenant has kept, newest first, without their headers and bodies. It needs deliveries:read.
func (s *Service) Requests(ctx context.Context, caller account.Caller, inboxID string) ([]Request, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	if _, err := s.read(ctx, caller.Tenant(), inboxID); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, sqlRequestList, pgx.NamedArgs{"tenant": caller.Tenant(), "id": inboxID, "limit": Kept})
	if err != nil {
		return nil, fmt.Errorf("list requests of an inbox: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Request, error) {
		var r Request
		return r, row.Scan(&r.Number, &r.EventID, &r.ReceivedAt, &r.Size, &r.Reply.Answer, &r.Reply.Seconds)
	})
	if err != nil {
		return nil, fmt.Errorf("list requests of an inbox: %w", err)
	}
	return found, nil
}

// Request is one of those in full. It needs deliveries:read; the body is left out without catalog:read, and headers other than ours are
// hidden without secrets:reveal.
func (s *Service) Request(ctx context.Context, caller account.Caller, inboxID string, number int64) (Request, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Request{}, err
	}
	found, err := s.request(ctx, caller.Tenant(), inboxID, number)
	if err != nil {
		return Request{}, err
	}
	found.Headers = hidden(found.Headers, caller)
	if caller.Can(account.CatalogRead) != nil {
		found.Body = nil
	}
	return found, nil
}

// Signed is a request as a receiver had it, for verifying its signature.
type Signed struct {
	Header     http.Header
	Body       []byte
	ReceivedAt time.Time
	Cut        bool // the body is not whole: nothing can be verified
}

// Signed is what is needed to verify a request's signature. It needs deliveries:read. It holds what Request may hide, so it is for checks on the server alone.
func (s *Service) Signed(ctx context.Context, caller account.Caller, inboxID string, number int64) (Signed, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return Signed{}, err
	}
	found, err := s.request(ctx, caller.Tenant(), inboxID, number)
	if err != nil {
		return Signed{}, err
	}
	signed := Signed{Header: http.Header{}, Body: found.Body, ReceivedAt: found.ReceivedAt, Cut: found.Cut()}
	for _, header := range found.Headers {
		signed.Header.Add(header.Name, header.Value)
	}
	return signed, nil
}

func (s *Service) request(ctx context.Context, tenant, inboxID string, number int64) (Request, error) {
	missing := fault.New(fault.NotFound, "There is no such request; the last 100 are kept.")
	if !id.Valid(id.Inbox, inboxID) {
		return Request{}, missing
	}
	var r Request
	var sealed []byte
	err := s.DB.QueryRow(ctx, sqlRequestRead, pgx.NamedArgs{"tenant": tenant, "id": inboxID, "number": number}).
		Scan(&r.Number, &r.EventID, &r.ReceivedAt, &sealed, &r.Size, &r.Reply.Answer, &r.Reply.Seconds, &r.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return Request{}, missing
	}
	if err != nil {
		return Request{}, fmt.Errorf("read a request of an inbox: %w", err)
	}
	r.Headers = s.open(sealed)
	return r, nil
}

// open reads sealed headers. Those that no longer open are none: the rest of the request is worth showing without them.
func (s *Service) open(sealed []byte) []Header {
	plain, err := s.Ring.Open(sealed, sealedFor)
	if err != nil {
		return nil
	}
	var pairs [][2]string
	if json.Unmarshal(plain, &pairs) != nil {
		return nil
	}
	headers := make([]Header, len(pairs))
	for i, pair := range pairs {
		headers[i] = Header{Name: pair[0], Value: pair[1]}
	}
	return headers
}

func hidden(headers []Header, caller account.Caller) []Header {
	if caller.Can(account.SecretsReveal) == nil {
		return headers
	}
	for i, header := range headers {
		if !slices.Contains(ours, strings.ToLower(header.Name)) {
			headers[i] = Header{Name: header.Name, Hidden: true}
		}
	}
	return headers
}

// Forget removes what a tenant's inboxes have received of an event, inside tx: for when the content of that event is to be taken out everywhere.
func Forget(ctx context.Context, tx pgx.Tx, tenantID, eventID string) error {
	if _, err := tx.Exec(ctx, sqlForget, pgx.NamedArgs{"tenant": tenantID, "event": eventID}); err != nil {
		return fmt.Errorf("forget what inboxes have of an event: %w", err)
	}
	return nil
}
