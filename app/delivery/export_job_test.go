package delivery

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

// fileQueue remembers the tickets instead of working on them.
type fileQueue struct{ tickets []FileTicket }

func (q *fileQueue) InsertExport(_ context.Context, _ pgx.Tx, t FileTicket) error {
	q.tickets = append(q.tickets, t)
	return nil
}

func (q *fileQueue) last() FileTicket { return q.tickets[len(q.tickets)-1] }

func filed(h *house) *fileQueue {
	q := &fileQueue{}
	h.Files = q
	return q
}

// make works on a file to its end and reads it.
func (h *house) make(q *fileQueue, caller account.Caller, kind FileKind, f Filter) (File, [][]string) {
	h.t.Helper()
	begun, err := h.FileStart(h.t.Context(), caller, kind, f)
	if err != nil {
		h.t.Fatal(err)
	}
	for over := false; !over; {
		if over, err = h.FileRun(h.t.Context(), q.last(), 0); err != nil {
			h.t.Fatal(err)
		}
	}
	done, err := h.Openable(h.t.Context(), caller, begun.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := h.FileWrite(h.t.Context(), caller, done, &out); err != nil {
		h.t.Fatal(err)
	}
	if int64(out.Len()) != done.Bytes {
		h.t.Errorf("%d bytes, and it says %d", out.Len(), done.Bytes)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		h.t.Fatal(err)
	}
	return done, rows
}

func TestFileHasEveryRow(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	q := filed(h)
	all := h.population(60, rand.New(rand.NewPCG(7, 8)))
	for f, is := range filters(all) {
		want := map[string]bool{}
		for _, s := range all {
			if is(s) {
				want[s.ID] = true
			}
		}
		done, rows := h.make(q, h.caller, FileOfDeliveries, f)
		if len(rows) != len(want)+1 || done.Rows != int64(len(want)) || done.Cut {
			t.Errorf("%+v: %d rows, it says %d, want %d and the head", f, len(rows), done.Rows, len(want))
		}
		for _, row := range rows[1:] {
			if !want[row[1]] {
				t.Errorf("%+v exports %v", f, row)
			}
		}
	}
	if _, rows := h.make(q, h.stranger, FileOfDeliveries, Filter{}); len(rows) != 1 {
		t.Errorf("a stranger exports %v", rows)
	}
	kept, err := h.FileList(t.Context(), h.caller)
	if err != nil || len(kept) != keptFiles {
		t.Errorf("%d files are kept, %v", len(kept), err)
	}
}

func TestFileInSteps(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	q := filed(h)
	e := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, URL: "https://shop.example/secret-path"})
	want := map[string]bool{}
	for i := range 2*exportDeliveries + 10 {
		d := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: e, Status: "delivered", Attempts: 1, CreatedAt: time.Now().Add(-time.Duration(i) * time.Minute)})
		want[d.ID] = true
		if i == 0 {
			dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: d, Class: "status", Code: 500})
			dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: d, Number: 2})
		}
	}
	begun, err := h.FileStart(t.Context(), h.caller, FileOfAttempts, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if begun.State != FileRunning || begun.Expected != int64(len(want)) || !begun.Revealed {
		t.Errorf("it begins as %+v", begun)
	}
	if _, err := h.FileStart(t.Context(), h.caller, FileOfDeliveries, Filter{}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a second at the same time: %v", err)
	}
	if _, err := h.Openable(t.Context(), h.caller, begun.ID); fault.KindOf(err) != fault.Conflict {
		t.Errorf("it is open before it is done: %v", err)
	}
	steps := 0
	for over := false; !over; steps++ {
		// Each step is another process's.
		if over, err = h.FileRun(t.Context(), q.last(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if steps != 3 {
		t.Errorf("it took %d steps", steps)
	}
	var out bytes.Buffer
	done, err := h.Openable(t.Context(), h.caller, begun.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.FileWrite(t.Context(), h.caller, done, &out); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][2] != "1" || rows[1][14] != "500" || rows[2][2] != "2" || rows[1][3] != rows[2][3] || !strings.Contains(rows[1][22], "secret-path") {
		t.Errorf("the attempts are %v, %v", rows, err)
	}

	// Who may not reveal makes one without, and has none with.
	viewer := keyOf(h.tenant, account.DeliveriesRead)
	if _, err := h.Openable(t.Context(), viewer, begun.ID); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a viewer opens static headers: %v", err)
	}
	_, rows = h.make(q, viewer, FileOfAttempts, Filter{})
	if len(rows) != 3 || strings.Contains(rows[1][22], "secret-path") {
		t.Errorf("a viewer's is %v", rows)
	}
}

func TestFileOfAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	q := filed(h)
	begun, err := h.FileStart(t.Context(), h.caller, FileOfDeliveries, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(c account.Caller) error{
		"FileRead":   func(c account.Caller) error { _, err := h.FileRead(t.Context(), c, begun.ID); return err },
		"FileCancel": func(c account.Caller) error { return h.FileCancel(t.Context(), c, begun.ID) },
		"Openable":   func(c account.Caller) error { _, err := h.Openable(t.Context(), c, begun.ID); return err },
	} {
		if err := ask(h.stranger); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s of a stranger: %v", name, err)
		}
		if err := ask(keyOf(h.tenant, account.CatalogRead)); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s without the right: %v", name, err)
		}
	}
	if found, err := h.FileList(t.Context(), h.stranger); err != nil || len(found) != 0 {
		t.Errorf("a stranger lists %d, %v", len(found), err)
	}
	// A copy of a file that the stranger cannot have read is nothing to write either.
	if over, err := h.FileRun(t.Context(), q.last(), 0); !over || err != nil {
		t.Fatal(over, err)
	}
	mine, err := h.Openable(t.Context(), h.caller, begun.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.FileWrite(t.Context(), h.stranger, mine, &bytes.Buffer{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a stranger reads the chunks: %v", err)
	}
	if err := h.FileCancel(t.Context(), h.caller, begun.ID); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a done one is cancelled: %v", err)
	}
}

func TestFileEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	q := filed(h)
	begun, err := h.FileStart(t.Context(), h.caller, FileOfDeliveries, Filter{Type: "a.*", Slower: 3 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	// Its process is gone: a new ticket, and the old one is worth nothing.
	old := q.last()
	if n, err := h.FileSweep(t.Context()); err != nil || n != 0 {
		t.Errorf("lost at once: %d, %v", n, err)
	}
	h.exec(`update exports set beat_at = now() - interval '2 minutes'`)
	if n, err := h.FileSweep(t.Context()); err != nil || n != 1 || q.last().Gen != 2 {
		t.Errorf("found %d lost, %v; the ticket is %+v", n, err, q.last())
	}
	if over, err := h.FileRun(t.Context(), old, 0); !over || err != nil {
		t.Errorf("the old ticket works: %v, %v", over, err)
	}
	if found, err := h.FileRead(t.Context(), h.caller, begun.ID); err != nil || found.State != FileRunning {
		t.Errorf("it is %+v, %v", found, err)
	}
	// Cancelled between two steps.
	if err := h.FileCancel(t.Context(), h.caller, begun.ID); err != nil {
		t.Fatal(err)
	}
	if over, err := h.FileRun(t.Context(), q.last(), time.Minute); !over || err != nil {
		t.Errorf("a cancelled one goes on: %v, %v", over, err)
	}
	// Removed a day after it ended, chunks and all.
	done, _ := h.make(q, h.caller, FileOfDeliveries, Filter{})
	h.exec(`update exports set finished_at = now() - interval '25 hours' where id = $1`, done.ID)
	if n, err := h.PruneFiles(t.Context()); err != nil || n != 1 {
		t.Errorf("removed %d, %v", n, err)
	}
	var chunks int
	if err := h.pool.QueryRow(t.Context(), `select count(*) from export_chunks`).Scan(&chunks); err != nil || chunks != 0 {
		t.Errorf("%d chunks are left, %v", chunks, err)
	}
	if _, err := h.FileStart(t.Context(), h.caller, "everything", Filter{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a kind that is none: %v", err)
	}
	if _, err := h.FileStart(t.Context(), h.caller, FileOfDeliveries, Filter{Status: "lost"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a filter that is none: %v", err)
	}
}

func TestSavedFilters(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	person := func(tenant, member string) account.Caller {
		h.exec(`insert into members (id, email) values ($1, $1 || '@example.com') on conflict do nothing`, member)
		h.exec(`insert into memberships (tenant_id, member_id, role) values ($1, $2, 'viewer')`, tenant, member)
		return account.Caller{Kind: account.Session, ID: "ses_1", TenantID: tenant, MemberID: member, Scopes: account.Viewer.Scopes()}
	}
	anna, ben := person(h.tenant.ID, "mem_a"), person(h.tenant.ID, "mem_b")
	elsewhere := person(h.stranger.TenantID, "mem_a")
	ctx := t.Context()
	saved, err := h.Save(ctx, anna, "Failing", "status=undelivered")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Save(ctx, anna, "Failing", "status=held"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("the name twice: %v", err)
	}
	for _, name := range []string{"", " ", strings.Repeat("x", 61), "a\nb"} {
		if _, err := h.Save(ctx, anna, name, "status=held"); fault.KindOf(err) != fault.Invalid {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if _, err := h.Save(ctx, anna, "Everything", ""); fault.KindOf(err) != fault.Invalid {
		t.Errorf("no filter: %v", err)
	}
	if _, err := h.Save(ctx, h.caller, "A key's", "status=held"); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a key saves: %v", err)
	}
	for i := range MaxSaved - 1 {
		if _, err := h.Save(ctx, anna, fmt.Sprint("n", i), "status=held"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Save(ctx, anna, "one more", "status=held"); fault.KindOf(err) != fault.Conflict {
		t.Errorf("one more: %v", err)
	}
	for name, who := range map[string]account.Caller{"a colleague": ben, "the same person in another tenant": elsewhere, "a key": h.caller, "a stranger": h.stranger} {
		if list, err := h.SavedList(ctx, who); err != nil || len(list) != 0 {
			t.Errorf("%s sees %v, %v", name, list, err)
		}
		if err := h.Unsave(ctx, who, saved.ID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s deletes: %v", name, err)
		}
	}
	if err := h.Unsave(ctx, anna, saved.ID); err != nil {
		t.Fatal(err)
	}
	if list, err := h.SavedList(ctx, anna); err != nil || len(list) != MaxSaved-1 || list[0].Name != "n0" {
		t.Errorf("left are %v, %v", list, err)
	}
}
