package reseal_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/lane"
	"waybill/app/notice"
	"waybill/app/reseal"
	"waybill/app/seal"
	"waybill/db/dbtest"
)

func ringOf(t *testing.T, keys ...byte) *seal.Ring {
	t.Helper()
	var all [][]byte
	for _, b := range keys {
		all = append(all, bytes.Repeat([]byte{b}, seal.KeySize))
	}
	ring, err := seal.NewRing(all...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestRunSealsAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	before, turning, after := ringOf(t, 1), ringOf(t, 2, 1), ringOf(t, 2)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	const secrets = 450 // more than two batches
	var ids []string
	var sealed [][]byte
	for n := range secrets {
		ids = append(ids, fmt.Sprintf("sec_%04d", n))
		sealed = append(sealed, before.Seal([]byte("whsec_"+ids[n]), lane.SecretAAD(ids[n])))
	}
	exec(`insert into signing_secrets (id, tenant_id, endpoint_id, kind, sealed, fingerprint) select i, $3, $4, 'hmac', s, 'f' from unnest($1::text[], $2::bytea[]) u(i, s)`,
		ids, sealed, tenant.ID, ep.ID)
	exec(`insert into header_sets (id, tenant_id, names, sealed) values ('hdr_1', $1, '{X}', $2)`, tenant.ID, before.Seal([]byte("[]"), lane.HeadersAAD("hdr_1")))
	exec(`insert into members (id, email) values ('mem_1', 'anna@example.com')`)
	exec(`insert into second_factors (member_id, secret, session_id) values ('mem_1', $1, 'ses_1')`, before.Seal([]byte("seed"), account.SealedSecondFactor("mem_1")))
	exec(`insert into mails (id, key, kind, recipient, subject, body, good_until) values ('eml_1', 'k', 'reset', 'anna@example.com', 'S', $1, now())`,
		before.Seal([]byte("{}"), notice.SealedMail("eml_1")))
	// One of a key that is gone, and one whose bytes are damaged.
	exec(`update signing_secrets set sealed = $1 where id = 'sec_0003'`, ringOf(t, 9).Seal([]byte("gone"), lane.SecretAAD("sec_0003")))
	exec(`update signing_secrets set sealed = substr(sealed, 1, 40) || sha512('x') where id = 'sec_0004'`)

	look := func(ring *seal.Ring) reseal.Standing {
		t.Helper()
		s, err := reseal.Look(t.Context(), pool, ring)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := look(turning); s.Total != secrets+3 || s.Newest != 0 || s.Older[before.KeyIDs()[0]] != secrets+2 || s.Missing[ringOf(t, 9).KeyIDs()[0]] != 1 {
		t.Fatalf("before: %+v", s)
	}
	var logs bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logs, nil))
	if over, err := reseal.Run(t.Context(), pool, before, log, 0); err != nil || !over {
		t.Fatalf("a ring of one key has nothing to do: %v, %v", over, err)
	}
	// No time at all is enough for one batch; the next run goes on.
	over, err := reseal.Run(t.Context(), pool, turning, log, 0)
	if err != nil || over {
		t.Fatalf("the first batch is the end: %v, %v", over, err)
	}
	if s := look(turning); s.Newest < 190 || s.Newest > 200 || !strings.Contains(s.Progress(), fmt.Sprintf("%d of %d", s.Newest, secrets+3)) {
		t.Errorf("after one batch: %+v, %s", s, s.Progress())
	}
	if over, err := reseal.Run(t.Context(), pool, turning, log, time.Minute); err != nil || !over {
		t.Fatalf("the rest: %v, %v", over, err)
	}
	s := look(turning)
	if s.Newest != secrets+1 || s.Older[before.KeyIDs()[0]] != 1 || len(s.Missing) != 1 {
		t.Errorf("after: %+v", s)
	}
	for what, place := range map[string][]byte{
		`select sealed from signing_secrets where id = 'sec_0449'`: lane.SecretAAD("sec_0449"), `select sealed from header_sets`: lane.HeadersAAD("hdr_1"),
		`select secret from second_factors`: account.SealedSecondFactor("mem_1"), `select body from mails`: notice.SealedMail("eml_1"),
	} {
		var now []byte
		if err := pool.QueryRow(t.Context(), what).Scan(&now); err != nil {
			t.Fatal(err)
		}
		if _, err := after.Open(now, place); err != nil {
			t.Errorf("%s: the newest key alone does not open it: %v", what, err)
		}
	}
	if !strings.Contains(logs.String(), "sec_0004") || strings.Contains(logs.String(), "whsec") {
		t.Errorf("the log names what is damaged, and no secret: %s", logs.String())
	}
	lost := look(after).Lost()
	for _, want := range []string{ringOf(t, 9).KeyIDs()[0], before.KeyIDs()[0], "2 signing secrets", "WAYBILL_SECRET_KEYS"} {
		if !strings.Contains(lost, want) {
			t.Errorf("%q does not say %q", lost, want)
		}
	}
	exec(`delete from signing_secrets where id in ('sec_0003', 'sec_0004')`)
	if s := look(after); s.Lost() != "" || !strings.HasPrefix(s.Progress(), "all ") {
		t.Errorf("the end: %+v, %s", s, s.Progress())
	}
}
