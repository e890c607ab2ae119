package receive

import (
	"context"
	"errors"
	"sync"
	"time"

	"waybill/app/signing"
)

const seedBody = `{"id":"evt_9f2c","type":"consignment.delivered","version":1,"timestamp":"2026-11-17T09:41:05.123Z",` +
	`"occurred_at":"2026-11-17T09:41:05.123Z","resource":{"type":"consignment","id":"C-4471"},"sequence":4,` +
	`"data":{"status":"delivered","driver":{"name":"Asha Rao","phone":"+91 98450 12345"},"boxes":12,"signed":true}}`

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

// fakeInbox is an Inbox and a Queue in memory, for the tests that need no database.
type fakeInbox struct {
	mu       sync.Mutex
	messages []Message
	done     map[string]bool
	nextAt   map[string]time.Time
	broken   error // what Insert and Work return
}

func newFakeInbox() *fakeInbox {
	return &fakeInbox{done: map[string]bool{}, nextAt: map[string]time.Time{}}
}

func (f *fakeInbox) Insert(_ context.Context, m Message) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return false, f.broken
	}
	for _, old := range f.messages {
		if old.ID == m.ID {
			return false, nil
		}
	}
	f.messages = append(f.messages, m)
	f.nextAt[m.ID] = m.ReceivedAt
	return true, nil
}

func (f *fakeInbox) Work(ctx context.Context, now time.Time, handle func(context.Context, int, Message) error) (Work, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return Work{}, f.broken
	}
	for i, m := range f.messages {
		if f.done[m.ID] || f.nextAt[m.ID].After(now) {
			continue
		}
		err := handle(ctx, 0, m)
		if err == nil {
			f.done[m.ID] = true
		} else {
			f.messages[i].Failures++
			f.nextAt[m.ID] = now.Add(retryIn(f.messages[i].Failures))
		}
		return Work{Found: true, Message: m, Failure: err}, nil
	}
	return Work{}, nil
}

func (f *fakeInbox) breakWith(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
}

func (f *fakeInbox) stored() []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Message(nil), f.messages...)
}

var errBroken = errors.New("the database is away")

func keysOf(keys ...signing.Key) func() []signing.Key {
	return func() []signing.Key { return keys }
}
