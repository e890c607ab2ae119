package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/sender"
	"waybill/db/queries"
)

var (
	sqlAttemptList  = queries.SQL("AttemptList")
	sqlDeliveryBody = queries.SQL("DeliveryBody")
)

// Attempt is one HTTP call of a delivery, with everything that is known of it.
type Attempt struct {
	ID          string // att_…
	Number      int    // 1 for the delivery's first
	Trigger     string // first, retry, manual, recover or test
	RequestedBy string // who asked for it; empty for the schedule
	StartedAt   time.Time

	Class  string // how it ended: a word of package verdict, of those that a tenant may be told
	Cause  string // of class tls and timeout: why, or where it stood
	Detail string // a fixed phrase for class and cause; empty when it was delivered
	Code   int    // HTTP status; 0: no answer

	Request  Request
	Response *Response // nil: no answer

	Proto  string           // "HTTP/1.1", "HTTP/2.0"; empty: no answer
	Remote string           // the address that was reached, host:port
	TLS    *sender.TLSState // nil: no TLS, or no certificate was seen
	// How long it took, and where the time went; a phase that was not entered, or may not be told, is 0.
	Connect, Handshake, Wait, Read, Total time.Duration
}

// Header is a header as it was on the wire. A hidden one has a value that the caller may not see.
type Header struct {
	Name, Value string
	Hidden      bool
}

// Request is what was sent. Every attempt of a delivery sends the same body: see Body.
type Request struct {
	URL      string // Hidden: only its scheme and host
	Hidden   bool
	Headers  []Header // ours, then the endpoint's static ones
	BodySize int      // bytes
}

// Response is what came back.
type Response struct {
	Headers []Header
	Body    []byte // its first 16 KiB, as they came
	Size    int64  // bytes that were seen; more than len(Body) when it was cut
	Note    string // why the body was not read to its end; empty: it was
}

// AttemptPage is a page of a delivery's attempts, the last one first.
type AttemptPage struct {
	Attempts []Attempt
	Next     string // the cursor of the page after this one; empty: this is the last
}

const cursorOfAttempts = "attempts"

// Attempts is a page of at most limit (1 to 200; 0: 50) attempts of a delivery of the caller's tenant, the last one first, behind the cursor after.
// It needs deliveries:read; static headers, and all of an address but its host, are hidden without secrets:reveal.
func (s *Service) Attempts(ctx context.Context, caller account.Caller, deliveryID, after string, limit int) (AttemptPage, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return AttemptPage{}, err
	}
	limit, err := pageLimit(limit)
	if err != nil {
		return AttemptPage{}, err
	}
	d, err := s.byID(ctx, caller.Tenant(), deliveryID)
	if err != nil {
		return AttemptPage{}, err
	}
	before := math.MaxInt32
	if after != "" {
		keys, err := cursor.Decode(cursorOfAttempts, after, 1)
		if err != nil {
			return AttemptPage{}, err
		}
		if before, err = strconv.Atoi(keys[0]); err != nil || before < 1 || before > math.MaxInt32 {
			return AttemptPage{}, cursor.ErrForeign()
		}
	}
	rows, err := s.DB.Query(ctx, sqlAttemptList, pgx.NamedArgs{"tenant": caller.Tenant(), "delivery": d.ID, "day": d.day, "before": before, "limit": limit + 1})
	if err != nil {
		return AttemptPage{}, fmt.Errorf("list attempts: %w", err)
	}
	open := opener{reveal: caller.Can(account.SecretsReveal) == nil, service: s, sets: map[string][]Header{}}
	attempts, err := pgx.CollectRows(rows, open.attempt)
	if err != nil {
		return AttemptPage{}, fmt.Errorf("list attempts: %w", err)
	}
	if len(attempts) <= limit {
		return AttemptPage{Attempts: attempts}, nil
	}
	return AttemptPage{
		Attempts: attempts[:limit], Next: cursor.Encode(cursorOfAttempts, strconv.Itoa(attempts[limit-1].Number)),
	}, nil
}

// Body is the exact body that every attempt of the delivery sends, and its SHA-256 in hexadecimal. It needs deliveries:read and catalog:read:
// a payload belongs to the catalog. A body that is no longer kept, or was taken out, is empty.
func (s *Service) Body(ctx context.Context, caller account.Caller, d Delivery) (body []byte, digest string, err error) {
	for _, scope := range []account.Scope{account.DeliveriesRead, account.CatalogRead} {
		if err := caller.Can(scope); err != nil {
			return nil, "", err
		}
	}
	if d.Expunged() {
		return nil, "", nil
	}
	args := pgx.NamedArgs{"tenant": caller.Tenant(), "position": d.position, "day": d.day, "form": d.Form}
	err = s.DB.QueryRow(ctx, sqlDeliveryBody, args).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read body: %w", err)
	}
	sum := sha256.Sum256(body)
	return body, hex.EncodeToString(sum[:]), nil
}

// opener makes attempts of rows, and hides what the caller may not see.
type opener struct {
	reveal  bool
	service *Service
	sets    map[string][]Header // the header sets that were met, by id
}

func (o opener) attempt(row pgx.CollectableRow) (Attempt, error) {
	var a Attempt
	var address, own, setID string
	var answered, session *string
	var names []string
	var body, sealed []byte
	var size int64
	var note string
	var connect, handshake, wait, read, total int64
	err := row.Scan(&a.ID, &a.Number, &a.Trigger, &a.RequestedBy, &a.StartedAt, &a.Class, &a.Cause, &a.Detail, &a.Code, &address, &own,
		&a.Request.BodySize, &answered, &body, &size, &note, &a.Proto, &a.Remote, &session, &connect, &handshake, &wait, &read, &total,
		&setID, &names, &sealed)
	if err != nil {
		return Attempt{}, err
	}
	a.Class = public(a.Class)
	a.Total = microseconds(total)
	switch sender.Class(a.Class) {
	case sender.NoAnswer, sender.BlockedAddress:
		a.Remote = "" // how far a call got would tell a closed port from a filtered one
	default:
		a.Connect, a.Handshake, a.Wait, a.Read = microseconds(connect), microseconds(handshake), microseconds(wait), microseconds(read)
	}
	if session != nil {
		a.TLS = &sender.TLSState{}
		if err := json.Unmarshal([]byte(*session), a.TLS); err != nil {
			return Attempt{}, fmt.Errorf("attempt %s: its TLS state: %w", a.ID, err)
		}
	}
	if a.Request.Headers, err = headers(own); err != nil {
		return Attempt{}, fmt.Errorf("attempt %s: its request: %w", a.ID, err)
	}
	if setID != "" {
		a.Request.Headers = append(a.Request.Headers, o.static(setID, names, sealed)...)
	}
	a.Request.URL, a.Request.Hidden = address, !o.reveal
	if a.Request.Hidden {
		a.Request.URL = hostOnly(address)
	}
	if answered != nil {
		a.Response = &Response{Body: body, Size: size, Note: note}
		if a.Response.Headers, err = headers(*answered); err != nil {
			return Attempt{}, fmt.Errorf("attempt %s: its response: %w", a.ID, err)
		}
	}
	return a, nil
}

// static is the headers of a set: open to whoever may reveal, else hidden. So is one that no longer opens; the rest of the evidence is worth
// showing without it.
func (o opener) static(setID string, names []string, sealed []byte) []Header {
	if known, ok := o.sets[setID]; ok {
		return known
	}
	set := make([]Header, len(names))
	for i, name := range names {
		set[i] = Header{Name: name, Hidden: true}
	}
	if o.reveal {
		if plain, err := o.service.Ring.Open(sealed, []byte("headers:"+setID)); err == nil {
			if opened, err := headers(string(plain)); err == nil {
				set = opened
			}
		}
	}
	o.sets[setID] = set
	return set
}

// headers reads JSON of the form [["name","value"],…]. A receiver's bytes were made valid before they were stored.
func headers(text string) ([]Header, error) {
	if text == "" {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal([]byte(text), &pairs, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	list := make([]Header, len(pairs))
	for i, pair := range pairs {
		list[i] = Header{Name: pair[0], Value: pair[1]}
	}
	return list, nil
}

// public is the class that a tenant may be told (sender.Class.Public).
func public(class string) string { return string(sender.Class(class).Public()) }

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
