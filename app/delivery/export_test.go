package delivery

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

func (h *house) export(f Filter) [][]string {
	h.t.Helper()
	var out bytes.Buffer
	more, err := h.Export(h.t.Context(), h.caller, f, &out)
	if err != nil || more {
		h.t.Fatalf("%v, more %v", err, more)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		h.t.Fatal(err)
	}
	return rows
}

func TestExportHasEveryRow(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	all := h.population(80, rand.New(rand.NewPCG(7, 8)))
	for f, is := range filters(all) {
		want := map[string]bool{}
		for _, s := range all {
			if is(s) {
				want[s.ID] = true
			}
		}
		rows := h.export(f)
		if len(rows) != len(want)+1 {
			t.Errorf("%+v: %d rows, want %d and the head", f, len(rows), len(want))
		}
		for _, row := range rows[1:] {
			if !want[row[1]] {
				t.Errorf("%+v exports %v", f, row)
			}
		}
	}
	var out bytes.Buffer
	if _, err := h.Export(t.Context(), h.stranger, Filter{}, &out); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("a stranger exports %q, %v", out.String(), err)
	}
}

func TestExportRow(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	at := time.Date(2026, 11, 17, 9, 41, 5, 123_000_000, time.UTC)
	d := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{
		Endpoint: dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, URL: secretURL}),
		Event:    dbtest.Event{TenantID: h.tenant.ID, ResourceID: `=cmd|'/c calc'!A1`, Type: "order.paid", ResourceType: "order"},
		Status:   "undelivered", Reason: "schedule_exhausted", Attempts: 10, Failures: 10, CreatedAt: at, LastAt: at.Add(time.Hour), LastClass: "status",
		LastCode: 500, LastMS: 1234,
	})
	rows := h.export(Filter{})
	want := []string{"2026-11-17T09:41:05.123Z", d.ID, d.Event.ID, "order.paid", "order", `'=cmd|'/c calc'!A1`, d.Endpoint.ID, "h.test", "undelivered",
		"Undelivered", "schedule_exhausted", "10", "2026-11-17T10:41:05.123Z", "status", "500", "1234", "", "false"}
	if len(rows) != 2 || strings.Join(rows[1], "|") != strings.Join(want, "|") || len(rows[0]) != len(want) {
		t.Errorf("%q, want %q", rows, want)
	}
}

// CASES B58.
func TestHarmlessCells(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "C-4471": "C-4471", "a=b": "a=b", "2026": "2026", "é": "é",
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1",
		"  =1": "'  =1", "\u00a0=1": "'\u00a0=1", "＝1": "'＝1", "|x": "'|x", "%x": "'%x", "-": "'-",
	} {
		if got := harmless(cell); got != want {
			t.Errorf("harmless(%q) = %q, want %q", cell, got, want)
		}
	}
}

type brokenWriter struct{ left int }

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("the reader has left")
	}
	return len(p), nil
}

func TestExportFails(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: dbtest.Event{TenantID: h.tenant.ID}})
	if _, err := h.Export(t.Context(), h.caller, Filter{}, &brokenWriter{left: 10}); err == nil {
		t.Error("no error from a writer that fails")
	}
	for want, call := range map[fault.Kind]func() error{
		fault.Invalid: func() error {
			_, err := h.Export(t.Context(), h.caller, Filter{Status: "x"}, &brokenWriter{})
			return err
		},
		fault.Forbidden: func() error {
			_, err := h.Export(t.Context(), keyOf(h.tenant, account.CatalogRead), Filter{}, &brokenWriter{})
			return err
		},
	} {
		wantKind(t, call(), want) // and nothing was written: the writer takes nothing
	}
}
