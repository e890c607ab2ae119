package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/app/seal"
	"waybill/app/signing"
)

// stuck are lanes that never settle.
type stuck struct{ *watched }

func (stuck) Settle(context.Context, string, int64) error { return errors.New("stalled") }

func overlap(d time.Duration) *time.Duration { return &d }

// live is how long each live secret of a kind has, newest first; forever is -1.
func (b *bench) live(t *testing.T, endpointID string, kind SecretKind) []time.Duration {
	t.Helper()
	rows, err := b.DB.Query(t.Context(), `select coalesce(round(extract(epoch from expires_at - statement_timestamp()))::bigint, -1) from signing_secrets
		where endpoint_id = $1 and kind = $2 order by id desc`, endpointID, kind)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lives []time.Duration
	for rows.Next() {
		var seconds int64
		if err := rows.Scan(&seconds); err != nil {
			t.Fatal(err)
		}
		lives = append(lives, time.Duration(seconds)*time.Second)
	}
	return lives
}

func TestRotate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	const forever = -time.Second

	first, err := b.Rotate(t.Context(), seller, e.ID, Rotation{})
	if err != nil {
		t.Fatal(err)
	}
	if first.Secret == e.Secret || first.Endpoint.Rev != 2 || len(first.Secrets) != 2 || first.Secrets[0].ExpiresAt != nil || first.Secrets[1].ExpiresAt == nil {
		t.Errorf("rotated to %+v", first)
	}
	if log, want := b.lanes.notes(), []string{"lock", "wake", "settle 2 of 2"}; !slices.Equal(log, want) {
		t.Errorf("the lane was asked to %q, want %q", log, want)
	}
	if lives := b.live(t, e.ID, HMAC); !slices.Equal(lives, []time.Duration{forever, 24 * time.Hour}) {
		t.Errorf("lives %v", lives)
	}
	// Several overlaps run at once, and none changes another.
	second, err := b.Rotate(t.Context(), seller, e.ID, Rotation{Overlap: overlap(7 * 24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if lives := b.live(t, e.ID, HMAC); !slices.Equal(lives, []time.Duration{forever, 7 * 24 * time.Hour, 24 * time.Hour}) {
		t.Errorf("lives %v", lives)
	}
	// Each can be shown while it lives, and is what it was.
	for i, want := range []seal.Secret{second.Secret, first.Secret, e.Secret} {
		got, err := b.SecretReveal(t.Context(), seller, e.ID, second.Secrets[i].ID)
		if err != nil || got != want {
			t.Errorf("secret %d: %v", i, err)
		}
		key, err := signing.ParseKey(got.Reveal())
		if err != nil || key.Fingerprint() != second.Secrets[i].Fingerprint {
			t.Errorf("fingerprint %s of %v, %v", second.Secrets[i].Fingerprint, key, err)
		}
	}
	// What has expired is not listed, not shown, and gone from storage with the next rotation; an overlap of 0 leaves only the new one of its predecessor.
	b.exec(t, "update signing_secrets set expires_at = statement_timestamp() where id = $1", second.Secrets[2].ID)
	if list, err := b.Secrets(t.Context(), seller, e.ID); err != nil || len(list) != 2 {
		t.Errorf("listed %+v, %v", list, err)
	}
	_, err = b.SecretReveal(t.Context(), seller, e.ID, second.Secrets[2].ID)
	wantKind(t, err, fault.NotFound)
	third, err := b.Rotate(t.Context(), seller, e.ID, Rotation{Overlap: overlap(0)})
	if err != nil || len(third.Secrets) != 2 {
		t.Fatalf("rotated to %+v, %v", third, err)
	}
	if lives := b.live(t, e.ID, HMAC); !slices.Equal(lives, []time.Duration{forever, 7 * 24 * time.Hour}) {
		t.Errorf("lives %v", lives)
	}
	if err := b.SecretExpire(t.Context(), seller, e.ID, third.Secrets[1].ID); err != nil {
		t.Error(err)
	}
	wantKind(t, b.SecretExpire(t.Context(), seller, e.ID, third.Secrets[1].ID), fault.NotFound)
	wantKind(t, b.SecretExpire(t.Context(), seller, e.ID, third.Secrets[0].ID), fault.Conflict)
	if lives := b.live(t, e.ID, HMAC); !slices.Equal(lives, []time.Duration{forever}) {
		t.Errorf("lives %v", lives)
	}
	if got := b.lastDetail(t, seller, "secret.rotated", 2); !strings.Contains(got, `"overlap_seconds":86400`) || strings.Contains(got, "whsec_") {
		t.Errorf("recorded %s", got)
	}
}

func TestRotateRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	pair := signing.NewKeyPair()
	for name, c := range map[string]struct {
		in    Rotation
		field string
	}{
		"less than nothing": {Rotation{Overlap: overlap(-1)}, "overlap_seconds"},
		"over a week":       {Rotation{Overlap: overlap(MaxOverlap + 1)}, "overlap_seconds"},
		"no secret":         {Rotation{Secret: "whsec_!!!!"}, "secret"},
		"of the wrong kind": {Rotation{Secret: seal.Secret(pair.Reveal())}, "secret"},
		"a public key":      {Rotation{Secret: seal.Secret(pair.Public().Reveal())}, "secret"},
		"the one in force":  {Rotation{Secret: e.Secret}, "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.Rotate(t.Context(), seller, e.ID, c.in)
			wantFields(t, err, c.field)
		})
	}
	if lives := b.live(t, e.ID, HMAC); len(lives) != 1 {
		t.Errorf("lives %v", lives)
	}
}

// CASES B32: twelve rotations in a minute.
func TestAtMostTenSecretsAreLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	for i := range 12 {
		rotated, err := b.Rotate(t.Context(), seller, e.ID, Rotation{})
		if i < 9 && (err != nil || len(rotated.Secrets) != i+2) {
			t.Fatalf("rotation %d: %d secrets, %v", i, len(rotated.Secrets), err)
		}
		if i >= 9 && fault.KindOf(err) != fault.Conflict {
			t.Fatalf("rotation %d: %v", i, err)
		}
	}
	if lives := b.live(t, e.ID, HMAC); len(lives) != MaxSecrets {
		t.Errorf("%d secrets", len(lives))
	}
	// The expired ones do not count.
	b.exec(t, "update signing_secrets set expires_at = statement_timestamp() where expires_at is not null")
	if _, err := b.Rotate(t.Context(), seller, e.ID, Rotation{}); err != nil {
		t.Error(err)
	}
	if lives := b.live(t, e.ID, HMAC); len(lives) != 2 {
		t.Errorf("%d secrets", len(lives))
	}
}

// CASES B32: of rotations at the same instant one wins, and no secret that was handed out is lost.
func TestParallelRotations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	// The lane is held until all callers have looked at the secret they mean to replace.
	var looked sync.WaitGroup
	looked.Add(5)
	b.Service.Lanes = gate{b.lanes, &looked}
	var won atomic.Pointer[Rotated]
	var wins atomic.Int32
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			switch rotated, err := b.Rotate(context.Background(), seller, e.ID, Rotation{Overlap: overlap(0)}); {
			case err == nil:
				wins.Add(1)
				won.Store(&rotated)
			case fault.KindOf(err) != fault.Conflict:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d rotations won", wins.Load())
	}
	secrets, err := b.Secrets(t.Context(), seller, e.ID)
	if err != nil || len(secrets) != 1 {
		t.Fatalf("%+v, %v", secrets, err)
	}
	if got, err := b.SecretReveal(t.Context(), seller, e.ID, secrets[0].ID); err != nil || got != won.Load().Secret {
		t.Errorf("the winner's secret is not in force: %v", err)
	}
}

// gate are lanes whose lock is given to nobody before everybody has asked for it.
type gate struct {
	*watched
	looked *sync.WaitGroup
}

func (g gate) Lock(ctx context.Context, tx pgx.Tx, ids ...string) error {
	g.looked.Done()
	g.looked.Wait()
	return g.watched.Lock(ctx, tx, ids...)
}

func TestRotateWithAKeyPair(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	both := b.create(t, seller, Input{Scheme: signing.V1AndV1a})
	rotated, err := b.Rotate(t.Context(), seller, both.ID, Rotation{})
	if err != nil || rotated.Secret == "" || rotated.Endpoint.PublicKey == both.PublicKey || len(rotated.Secrets) != 4 {
		t.Errorf("rotated to %+v, %v", rotated, err)
	}
	keys, err := b.PublicKeys(t.Context(), both.ID)
	if err != nil || len(keys) != 2 || keys[0].Key != rotated.Endpoint.PublicKey || keys[1].Key != both.PublicKey || keys[1].ExpiresAt == nil {
		t.Errorf("public keys %+v, %v", keys, err)
	}
	// A secret that is brought along replaces its own kind only.
	mine := signing.NewSecret()
	rotated, err = b.Rotate(t.Context(), seller, both.ID, Rotation{Secret: seal.Secret(mine.Reveal())})
	if err != nil || rotated.Secret.Reveal() != mine.Reveal() || rotated.Endpoint.PublicKey != keys[0].Key || len(rotated.Secrets) != 5 {
		t.Errorf("rotated to %+v, %v", rotated, err)
	}
	only := b.create(t, seller, Input{Scheme: signing.V1a})
	rotated, err = b.Rotate(t.Context(), seller, only.ID, Rotation{})
	if err != nil || rotated.Secret != "" || rotated.Endpoint.PublicKey == only.PublicKey || len(rotated.Secrets) != 3 {
		t.Errorf("rotated to %+v, %v", rotated, err)
	}
	private := slices.IndexFunc(rotated.Secrets, func(s Secret) bool { return s.Kind == Ed25519 })
	_, err = b.SecretReveal(t.Context(), seller, only.ID, rotated.Secrets[private].ID)
	wantKind(t, err, fault.Conflict)
}

// Ids order the keys by age also when processes disagree about the time.
func TestANewSecretSortsFirstWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	b.Service.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	for i := range 3 {
		rotated, err := b.Rotate(t.Context(), seller, e.ID, Rotation{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.SecretReveal(t.Context(), seller, e.ID, rotated.Secrets[0].ID); err != nil || got != rotated.Secret {
			t.Errorf("rotation %d: the first secret is not the new one: %v", i, err)
		}
	}
}

func TestWhatDoesNotOpenSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{Headers: []Header{{Name: "X-Shop", Value: "1"}}})
	secrets, err := b.Secrets(t.Context(), seller, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	other, err := seal.NewRing(bytes.Repeat([]byte{8}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	b.Service.Ring = other
	_, err = b.SecretReveal(t.Context(), seller, e.ID, secrets[0].ID)
	wantKind(t, err, fault.Conflict)
	_, err = b.HeadersReveal(t.Context(), seller, e.ID)
	wantKind(t, err, fault.Conflict)
	if _, err := b.Rotate(t.Context(), seller, e.ID, Rotation{Overlap: overlap(0)}); err != nil {
		t.Errorf("rotation does not help: %v", err)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	for range 3 {
		if _, err := b.Rotate(t.Context(), seller, e.ID, Rotation{}); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, `insert into signing_secrets (id, tenant_id, endpoint_id, kind, sealed, fingerprint, expires_at)
		select 'sec_' || n, $1, $2, 'hmac', '', '', now() - interval '1 second' from generate_series(1, 2500) n`, seller.Tenant(), e.ID)
	for _, want := range []int{2500, 0} {
		if removed, err := b.Prune(t.Context()); err != nil || removed != want {
			t.Errorf("pruned %d, %v, want %d", removed, err, want)
		}
	}
	if lives := b.live(t, e.ID, HMAC); len(lives) != 4 {
		t.Errorf("lives %v", lives)
	}
}

func TestSendTest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	b.exec(t, `insert into event_types (name, example) values ('order.paid', '{"n": 1}'), ('order.made', null), ('zebra.seen', '[]')`)
	for name, c := range map[string]struct {
		types     []string
		in        TestInput
		eventType string
		data      string
	}{
		"as told":              {[]string{"*"}, TestInput{Type: "a.b", Data: []byte(` {"x":1,"x":2} `)}, "a.b", ` {"x":1,"x":2} `},
		"an exact one":         {[]string{"x.*", "order.made"}, TestInput{}, "order.made", usualTest},
		"of a prefix":          {[]string{"order.*"}, TestInput{}, "order.paid", `{"n": 1}`},
		"of all":               {[]string{"*"}, TestInput{}, "order.paid", `{"n": 1}`},
		"of an unknown prefix": {[]string{"nobody.knows.*"}, TestInput{}, "nobody.knows.test", usualTest},
		"the example of one":   {[]string{"*"}, TestInput{Type: "zebra.seen"}, "zebra.seen", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			e := b.create(t, seller, Input{Types: c.types})
			sent, err := b.SendTest(t.Context(), seller, e.ID, c.in)
			if err != nil || sent.Type != c.eventType || sent.EventID == "" || sent.DeliveryID == "" {
				t.Fatalf("sent %+v, %v", sent, err)
			}
			got := b.tests.sent[len(b.tests.sent)-1]
			if got.TenantID != seller.Tenant() || got.EndpointID != e.ID || got.Type != c.eventType || string(got.Data) != c.data || got.RequestedBy != "API key seller" {
				t.Errorf("sent %+v", got)
			}
		})
	}
	e := b.create(t, seller, Input{})
	if _, err := b.Disable(t.Context(), seller, e.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SendTest(t.Context(), seller, e.ID, TestInput{}); err != nil {
		t.Errorf("to a disabled endpoint: %v", err)
	}
	for name, c := range map[string]struct {
		in    TestInput
		field string
	}{
		"a pattern":    {TestInput{Type: "a.*"}, "type"},
		"a NUL":        {TestInput{Type: "a\x00"}, "type"},
		"a long type":  {TestInput{Type: strings.Repeat("a", 129)}, "type"},
		"no JSON":      {TestInput{Data: []byte("{")}, "data"},
		"nothing":      {TestInput{Data: []byte("")}, "data"},
		"two values":   {TestInput{Data: []byte("1 2")}, "data"},
		"broken UTF-8": {TestInput{Data: []byte("\"\xff\"")}, "data"},
		"too deep":     {TestInput{Data: []byte(strings.Repeat("[", 65) + strings.Repeat("]", 65))}, "data"},
		"far too deep": {TestInput{Data: []byte(strings.Repeat("[", 60_000))}, "data"},
		"too large":    {TestInput{Data: fmt.Appendf(nil, "%q", strings.Repeat("a", 256<<10))}, "data"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.SendTest(t.Context(), seller, e.ID, c.in)
			wantFields(t, err, c.field)
		})
	}
}
