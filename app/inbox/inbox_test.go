package inbox_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/inbox"
	"waybill/app/seal"
	"waybill/db/dbtest"
)

func newService(t *testing.T) (*inbox.Service, account.Caller, account.Caller) {
	t.Helper()
	pool := dbtest.New(t)
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s := &inbox.Service{DB: pool, Ring: ring, Audit: &account.Service{DB: pool, Now: time.Now}, URL: "https://waybill.test", Now: time.Now}
	caller := func() account.Caller {
		tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
		return account.Caller{Kind: account.Session, ID: "ses_1", Name: "anna", TenantID: tenant.ID, Scopes: account.Owner.Scopes()}
	}
	return s, caller(), caller()
}

func token(b inbox.Inbox) string { return b.URL[strings.LastIndexByte(b.URL, '/')+1:] }

func create(t *testing.T, s *inbox.Service, caller account.Caller, reply inbox.Reply) inbox.Inbox {
	t.Helper()
	made, err := s.Create(t.Context(), caller, reply)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func receive(t *testing.T, s *inbox.Service, b inbox.Inbox, header http.Header, body string) inbox.Received {
	t.Helper()
	got, err := s.Receive(t.Context(), token(b), header, []byte(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAnInboxKeepsWhatItReceives(t *testing.T) {
	t.Parallel()
	s, anna, _ := newService(t)
	made := create(t, s, anna, inbox.Reply{Answer: inbox.TooMany, Seconds: 30})
	if !strings.HasPrefix(made.URL, "https://waybill.test/inbox/") || len(token(made)) < 32 || !s.IsOurs(made.URL) {
		t.Errorf("the URL is %q", made.URL)
	}
	header := http.Header{"Webhook-Id": {"evt_1"}, "Content-Type": {"application/json"}, "Authorization": {"Bearer x"}, "X-Bytes": {"\xff\xfe"}}
	if got := receive(t, s, made, header, `{"a":1}`); got.Answer != inbox.TooMany || got.Seconds != 30 || got.TooFast {
		t.Errorf("it answers %+v", got)
	}
	list, err := s.Requests(t.Context(), anna, made.ID)
	if err != nil || len(list) != 1 || list[0].Number != 1 || list[0].EventID != "evt_1" || list[0].Size != 7 || list[0].Reply != (inbox.Reply{Answer: inbox.TooMany, Seconds: 30}) {
		t.Fatalf("it keeps %+v, %v", list, err)
	}
	one, err := s.Request(t.Context(), anna, made.ID, 1)
	if err != nil || string(one.Body) != `{"a":1}` {
		t.Fatalf("in full %+v, %v", one, err)
	}
	values := map[string]inbox.Header{}
	for _, h := range one.Headers {
		values[h.Name] = h
	}
	if values["Authorization"].Value != "Bearer x" || values["X-Bytes"].Value != "\uFFFD" {
		t.Errorf("headers %+v", one.Headers)
	}

	// A viewer sees neither what may be a static header, nor without catalog:read the body.
	viewer := anna
	viewer.Scopes = []account.Scope{account.EndpointsRead, account.DeliveriesRead}
	one, err = s.Request(t.Context(), viewer, made.ID, 1)
	if err != nil || one.Body != nil {
		t.Fatalf("a viewer sees %q, %v", one.Body, err)
	}
	for _, h := range one.Headers {
		if (h.Name == "Authorization" || h.Name == "X-Bytes") != h.Hidden || h.Hidden && h.Value != "" {
			t.Errorf("a viewer sees the header %+v", h)
		}
	}
	var stored []byte
	if err := s.DB.QueryRow(t.Context(), `select headers from inbox_requests`).Scan(&stored); err != nil || bytes.Contains(stored, []byte("Bearer")) {
		t.Errorf("headers are stored as %q, %v", stored, err)
	}
}

func TestAnInboxIsBounded(t *testing.T) {
	t.Parallel()
	s, anna, _ := newService(t)
	var made inbox.Inbox
	for range inbox.MaxInboxes {
		made = create(t, s, anna, inbox.DefaultReply)
	}
	if _, err := s.Create(t.Context(), anna, inbox.DefaultReply); fault.KindOf(err) != fault.Conflict {
		t.Errorf("one more inbox: %v", err)
	}

	// A burst, and then so many a second: the rest is turned away and not kept.
	var kept, turned int
	for range inbox.Burst + 40 {
		if receive(t, s, made, nil, "x").TooFast {
			turned++
		} else {
			kept++
		}
	}
	if kept < inbox.Burst || turned == 0 {
		t.Errorf("%d were kept and %d turned away", kept, turned)
	}
	found, err := s.Read(t.Context(), anna, made.ID)
	if err != nil || found.Received != int64(kept) || found.Refused != int64(turned) {
		t.Errorf("it counts %+v, %v", found, err)
	}

	// The last hundred, and the beginning of a long body.
	if _, err := s.DB.Exec(t.Context(), `update inboxes set received = 1000, tokens = 30`); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("y", inbox.MaxBody+5)
	receive(t, s, made, http.Header{"X": {strings.Repeat("z", 1<<20)}, "Y": make([]string, 500)}, long)
	list, err := s.Requests(t.Context(), anna, made.ID)
	if err != nil || len(list) != 1 || list[0].Number != 1001 || !list[0].Cut() {
		t.Fatalf("of all it keeps %d, %v", len(list), err)
	}
	one, err := s.Request(t.Context(), anna, made.ID, 1001)
	if err != nil || len(one.Body) != inbox.MaxBody || one.Size != int64(len(long)) || len(one.Headers) > 64 {
		t.Errorf("of a long request it keeps %d bytes and %d headers, %v", len(one.Body), len(one.Headers), err)
	}
	if _, err := s.Request(t.Context(), anna, made.ID, 900); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an old request is still there: %v", err)
	}

	for _, wrong := range []inbox.Reply{{Answer: "302", Seconds: 1}, {Answer: inbox.Slow, Seconds: 61}, {Answer: inbox.Slow}} {
		if err := s.SetReply(t.Context(), anna, made.ID, wrong); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v is taken: %v", wrong, err)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s, anna, _ := newService(t)
	made := create(t, s, anna, inbox.DefaultReply)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := s.Receive(context.WithoutCancel(t.Context()), token(made), nil, nil, 0); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 { // beside the one above
		all.Go(func() {
			if _, err := s.Create(context.WithoutCancel(t.Context()), anna, inbox.DefaultReply); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := s.Requests(t.Context(), anna, made.ID)
	if err != nil || len(list) != 20 || list[0].Number != 20 || list[19].Number != 1 {
		t.Errorf("%d requests, %v", len(list), err)
	}
	if boxes, err := s.List(t.Context(), anna); err != nil || len(boxes) != 4 {
		t.Errorf("%d inboxes, %v", len(boxes), err)
	}
}

func TestAnInboxEnds(t *testing.T) {
	t.Parallel()
	s, anna, _ := newService(t)
	made := create(t, s, anna, inbox.DefaultReply)
	receive(t, s, made, http.Header{"Webhook-Id": {"evt_1"}}, "x")
	end := func(ago string) {
		t.Helper()
		if _, err := s.DB.Exec(t.Context(), `update inboxes set expires_at = now() - $1::interval`, ago); err != nil {
			t.Fatal(err)
		}
	}
	end("1 minute")
	if _, err := s.Receive(t.Context(), token(made), nil, nil, 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after its end it answers %v", err)
	}
	if n, err := s.Prune(t.Context()); err != nil || n != 0 {
		t.Errorf("it is removed at once: %d, %v", n, err)
	}
	if found, err := s.Read(t.Context(), anna, made.ID); err != nil || !found.Ended {
		t.Errorf("it is %+v, %v", found, err)
	}
	if err := s.Extend(t.Context(), anna, made.ID); err != nil {
		t.Fatal(err)
	}
	receive(t, s, made, nil, "y")
	end("25 hours")
	if n, err := s.Prune(t.Context()); err != nil || n != 1 {
		t.Errorf("removed %d, %v", n, err)
	}
	var left int
	if err := s.DB.QueryRow(t.Context(), `select count(*) from inbox_requests`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d requests are left, %v", left, err)
	}
	for _, text := range []string{"", "x", strings.Repeat("a", 32), "../" + strings.Repeat("a", 29), strings.Repeat("ü", 16)} {
		if _, err := s.Receive(t.Context(), text, nil, nil, 0); fault.KindOf(err) != fault.NotFound {
			t.Errorf("token %q: %v", text, err)
		}
	}
}

func TestAnotherTenantsInboxIsNotFound(t *testing.T) {
	t.Parallel()
	s, anna, other := newService(t)
	made := create(t, s, anna, inbox.DefaultReply)
	receive(t, s, made, nil, "secret")
	ctx := t.Context()
	for name, ask := range map[string]func(c account.Caller) error{
		"Read":     func(c account.Caller) error { _, err := s.Read(ctx, c, made.ID); return err },
		"Requests": func(c account.Caller) error { _, err := s.Requests(ctx, c, made.ID); return err },
		"Request":  func(c account.Caller) error { _, err := s.Request(ctx, c, made.ID, 1); return err },
		"Signed":   func(c account.Caller) error { _, err := s.Signed(ctx, c, made.ID, 1); return err },
		"SetReply": func(c account.Caller) error {
			return s.SetReply(ctx, c, made.ID, inbox.Reply{Answer: inbox.Gone, Seconds: 1})
		},
		"Extend": func(c account.Caller) error { return s.Extend(ctx, c, made.ID) },
		"Delete": func(c account.Caller) error { return s.Delete(ctx, c, made.ID) },
	} {
		if err := ask(other); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s for another tenant: %v", name, err)
		}
		if err := ask(account.Caller{}); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s for nobody: %v", name, err)
		}
		nothing := anna
		nothing.Scopes = []account.Scope{account.CatalogRead}
		if err := ask(nothing); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s without a right: %v", name, err)
		}
	}
	if list, err := s.List(ctx, other); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %d, %v", len(list), err)
	}
	if found, err := s.Read(ctx, anna, made.ID); err != nil || found.Reply != inbox.DefaultReply {
		t.Errorf("it was changed: %+v, %v", found, err)
	}
	if err := s.Delete(ctx, anna, made.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, anna, made.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
}
