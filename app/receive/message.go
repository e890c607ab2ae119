// Package receive is the receiver's side of a webhook: a kit for whoever gets events from Waybill.
//
// It is the flow of both seeds. A Receiver checks the signature over the raw body, stores the message in an inbox
// under its event id, and answers 200 at once, also for a repeat; a Worker takes what is new from the inbox and gives
// it to a handler inside the transaction that marks it done; ApplyIfNewer changes a state only when the event is newer
// than what is stored. Together they promise that every accepted event is handled, that its effects in the handler's
// transaction happen once however often it was sent, and that stale news changes nothing.
//
//	inbox := receive.NewPostgres(pool, "shop")
//	worker := &receive.Worker[pgx.Tx]{Queue: inbox, Handle: apply}
//	receiver := &receive.Receiver{Keys: keys, Inbox: inbox, Stored: worker.Wake}
//	go worker.Run(ctx)
//	http.Handle("/hooks", receiver)
package receive

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Message is one webhook as it arrived: its event id, which is the same for every repeat, and its raw body.
type Message struct {
	ID         string
	Body       []byte
	ReceivedAt time.Time
	// Failures is how often a handler has failed on it so far.
	Failures int
}

// Resource is what an event is about. URL is set in thin events only: there the state can be fetched.
type Resource struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	URL  string `json:"url,omitempty"`
}

// Event is the envelope of Waybill (DESIGN section 3).
type Event struct {
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	Version    int       `json:"version"` // of the type's schema
	OccurredAt time.Time `json:"occurred_at"`
	Resource   Resource  `json:"resource"`
	// Sequence grows with each change of the resource: what ApplyIfNewer compares. Repeats and stale events have
	// one that is not higher than what is stored.
	Sequence int64 `json:"sequence"`
	// Test marks an event that was sent to try the endpoint: its resource does not exist, and a handler skips it.
	Test bool `json:"test"`
	// Data is as it was published, byte for byte.
	Data jsontext.Value `json:"data"`
}

// Event reads the envelope. Members that are not known here are skipped, names in another case are not taken for
// known ones, and nothing inside data is looked at beyond its being JSON.
func (m Message) Event() (Event, error) {
	var e Event
	// Inside data a name may stand twice; the envelope, written by Waybill, has no such names.
	if err := json.Unmarshal(m.Body, &e, jsontext.AllowDuplicateNames(true)); err != nil {
		return Event{}, fmt.Errorf("receive: the body is not an event: %w", err)
	}
	return e, nil
}
