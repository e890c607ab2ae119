package endpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/outbox"
	"waybill/app/seal"
	"waybill/app/signing"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	made, err := b.Create(t.Context(), seller, Input{
		URL: "HTTPS://Seller.Example:443/hooks?a=%20b", Types: []string{"order.*", "user.created", "order.*", "*"}, Description: "Orders – सा",
		Headers: []Header{{Name: "X-Shop", Value: "1"}, {Name: "Authorization", Value: "Bearer abc"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if made.URL != "https://seller.example/hooks?a=%20b" || made.State != Active || made.Scheme != signing.V1 || made.Payload != Full ||
		made.Concurrency != 10 || made.RatePerSecond != nil || made.Rev != 1 || made.VerifiedAt != nil || made.StateBy != "API key seller" {
		t.Errorf("made %+v", made.Endpoint)
	}
	if want := []string{"order.*", "user.created", "*"}; !slices.Equal(made.Types, want) {
		t.Errorf("types %q, want %q", made.Types, want)
	}
	if want := []string{"X-Shop", "Authorization"}; !slices.Equal(made.HeaderNames, want) {
		t.Errorf("headers %q, want %q", made.HeaderNames, want)
	}
	if key, err := signing.ParseKey(made.Secret.Reveal()); err != nil || key.Kind() != signing.Symmetric {
		t.Errorf("secret %v, %v", key, err)
	}
	if log := b.lanes.notes(); len(log) != 0 {
		t.Errorf("a new endpoint has nothing to send, but its lane was asked to %q", log)
	}
	// What is secret is not stored as it is.
	var stored string
	err = b.DB.QueryRow(t.Context(), `select string_agg(r, ' ') from (select s::text as r from signing_secrets s union all select h::text from header_sets h
		union all select a::text from audit a) x`).Scan(&stored)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{made.Secret.Reveal(), strings.TrimPrefix(made.Secret.Reveal(), "whsec_"), "Bearer abc"} {
		if strings.Contains(stored, secret) {
			t.Errorf("%s is stored", secret)
		}
	}
	var state string
	if err := b.DB.QueryRow(t.Context(), "select state from lanes where endpoint_id = $1 and tenant_id = $2", made.ID, seller.Tenant()).Scan(&state); err != nil || state != "idle" {
		t.Errorf("lane is %q, %v", state, err)
	}
	if read, err := b.Read(t.Context(), seller, made.ID); err != nil || read.ID != made.ID {
		t.Errorf("read %+v, %v", read, err)
	}
}

// The refusals of a save, field by field; create and update share them.
func TestWhatCannotBeSaved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	n := func(n int) *int { return &n }
	long := strings.Repeat("a", 129)
	many := make([]string, MaxTypes+1)
	for i := range many {
		many[i] = fmt.Sprintf("t%d", i)
	}
	base := func(change func(in *Input)) Input {
		in := Input{URL: "https://seller.example/", Types: []string{"a.b"}}
		change(&in)
		return in
	}
	for name, c := range map[string]struct {
		in     Input
		fields []string
	}{
		"http":                 {base(func(in *Input) { in.URL = "http://seller.example/" }), []string{"url"}},
		"no url":               {base(func(in *Input) { in.URL = "" }), []string{"url"}},
		"a loopback address":   {base(func(in *Input) { in.URL = "https://127.0.0.1/" }), []string{"url"}},
		"an octal address":     {base(func(in *Input) { in.URL = "https://0177.0.0.1/" }), []string{"url"}},
		"a wide address":       {base(func(in *Input) { in.URL = "https://127。0。0。1/" }), []string{"url"}},
		"localhost":            {base(func(in *Input) { in.URL = "https://LOCALHOST./" }), []string{"url"}},
		"url with a space":     {base(func(in *Input) { in.URL = "https://seller.example/ " }), []string{"url"}},
		"url with a NUL":       {base(func(in *Input) { in.URL = "https://seller.example/\x00" }), []string{"url"}},
		"url too long":         {base(func(in *Input) { in.URL = "https://seller.example/" + strings.Repeat("a", 5000) }), []string{"url"}},
		"no types":             {base(func(in *Input) { in.Types = nil }), []string{"types"}},
		"empty types":          {base(func(in *Input) { in.Types = []string{} }), []string{"types"}},
		"too many types":       {base(func(in *Input) { in.Types = many }), []string{"types"}},
		"an empty type":        {base(func(in *Input) { in.Types = []string{"a", ""} }), []string{"types[1]"}},
		"an open type":         {base(func(in *Input) { in.Types = []string{"user."} }), []string{"types[0]"}},
		"an asterisk inside":   {base(func(in *Input) { in.Types = []string{"user.*.created", "us*"} }), []string{"types[0]", "types[1]"}},
		"a hyphen":             {base(func(in *Input) { in.Types = []string{"user-created"} }), []string{"types[0]"}},
		"a long type":          {base(func(in *Input) { in.Types = []string{long} }), []string{"types[0]"}},
		"a type with a NUL":    {base(func(in *Input) { in.Types = []string{"a\x00"} }), []string{"types[0]"}},
		"a type with a line":   {base(func(in *Input) { in.Types = []string{"a\n"} }), []string{"types[0]"}},
		"description with NUL": {base(func(in *Input) { in.Description = "a\x00" }), []string{"description"}},
		"long description":     {base(func(in *Input) { in.Description = strings.Repeat("é", 501) }), []string{"description"}},
		"scheme":               {base(func(in *Input) { in.Scheme = "v2" }), []string{"scheme"}},
		"payload":              {base(func(in *Input) { in.Payload = "fat" }), []string{"payload"}},
		"concurrency":          {base(func(in *Input) { in.Concurrency = 101 }), []string{"limits.concurrency"}},
		"negative concurrency": {base(func(in *Input) { in.Concurrency = -1 }), []string{"limits.concurrency"}},
		"no rate":              {base(func(in *Input) { in.RatePerSecond = n(0) }), []string{"limits.per_second"}},
		"rate":                 {base(func(in *Input) { in.RatePerSecond = n(10_001) }), []string{"limits.per_second"}},
		"preset":               {base(func(in *Input) { in.Preset = "none" }), []string{"preset"}},
		"reserved header":      {base(func(in *Input) { in.Headers = []Header{{Name: "Webhook-Id", Value: "x"}} }), []string{"headers[0].name"}},
		"header with a line":   {base(func(in *Input) { in.Headers = []Header{{Name: "A", Value: "a\r\nB: c"}} }), []string{"headers[0].value"}},
		"header with a space":  {base(func(in *Input) { in.Headers = []Header{{Name: "X A", Value: "a"}} }), []string{"headers[0].name"}},
		"header without name":  {base(func(in *Input) { in.Headers = []Header{{Value: "a"}} }), []string{"headers[0].name"}},
		"huge header":          {base(func(in *Input) { in.Headers = []Header{{Name: "A", Value: strings.Repeat("a", 64<<10)}} }), []string{"headers[0].value"}},
		"header with é":        {base(func(in *Input) { in.Headers = []Header{{Name: "A", Value: "é"}} }), []string{"headers[0].value"}},
		"header with a tab":    {base(func(in *Input) { in.Headers = []Header{{Name: "A", Value: "a\tb"}} }), []string{"headers[0].value"}},
		"500 headers":          {base(func(in *Input) { in.Headers = make([]Header, 500) }), []string{"headers"}},
		"all at once": {base(func(in *Input) { in.URL, in.Types, in.Description, in.Scheme = "x", nil, "\n", "x" }),
			[]string{"url", "types", "description", "scheme"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.tables(t)
			_, err := b.Create(t.Context(), seller, c.in)
			wantFields(t, err, c.fields...)
			change := Change{URL: &c.in.URL, Types: append([]string{}, c.in.Types...), Description: &c.in.Description, RatePerSecond: &c.in.RatePerSecond, Preset: &c.in.Preset}
			if c.in.Scheme != "" {
				change.Scheme = &c.in.Scheme
			}
			if c.in.Payload != "" {
				change.Payload = &c.in.Payload
			}
			if c.in.Concurrency != 0 {
				change.Concurrency = &c.in.Concurrency
			}
			if c.in.Headers != nil {
				change.Headers = &c.in.Headers
			}
			_, err = b.Update(t.Context(), seller, e.ID, change)
			wantFields(t, err, c.fields...)
			if after := b.tables(t); after != before {
				t.Errorf("left %s, before %s", after, before)
			}
		})
	}
	_, err := b.Create(t.Context(), platform(seller), base(func(in *Input) { in.Preset = "none" }))
	wantFields(t, err, "preset")
	if made, err := b.Create(t.Context(), platform(seller), base(func(in *Input) { in.Preset, in.Types = "commerce", many[1:] })); err != nil || made.Preset != "commerce" || len(made.Types) != MaxTypes {
		t.Errorf("at the limit: %+v, %v", made, err)
	}
}

// CASES B34: of secrets that are brought along only what the standard allows is taken, and comes back as it was.
func TestSuppliedSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	of := func(n int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xfb\xf0", 50)[:n]))
	}
	pair := signing.NewKeyPair()
	for name, c := range map[string]struct {
		text   string
		scheme signing.Scheme
		ok     bool
	}{
		"24 bytes":              {of(24), signing.V1, true},
		"64 bytes":              {of(64), signing.V1, true},
		"for hex":               {of(32), signing.Hex, true},
		"for v1a too":           {of(32), signing.V1a, true},
		"nothing":               {"whsec_", signing.V1, false},
		"no base64":             {"whsec_!!!!", signing.V1, false},
		"8 bytes":               {of(8), signing.V1, false},
		"23 bytes":              {of(23), signing.V1, false},
		"65 bytes":              {of(65), signing.V1, false},
		"the URL-safe alphabet": {strings.NewReplacer("+", "-", "/", "_").Replace(of(24)), signing.V1, false},
		"no padding":            {strings.TrimRight(of(25), "="), signing.V1, false},
		"a line end":            {of(24) + "\n", signing.V1, false},
		"no prefix":             {strings.TrimPrefix(of(24), "whsec_"), signing.V1, false},
		"another case":          {"WHSEC_" + strings.TrimPrefix(of(24), "whsec_"), signing.V1, false},
		"a private key":         {pair.Reveal(), signing.V1a, true},
		"a private key for v1":  {pair.Reveal(), signing.V1, false},
		"a public key":          {pair.Public().Reveal(), signing.V1a, false},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := b.Create(t.Context(), seller, Input{URL: "https://a.example/", Types: []string{"*"}, Scheme: c.scheme, Secret: seal.Secret(c.text)})
			if !c.ok {
				wantFields(t, err, "secret")
				if strings.Contains(err.Error(), c.text) && len(c.text) > 10 {
					t.Error("the error quotes the secret")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(c.text, "whsk_") {
				if made.PublicKey != pair.Public().Reveal() {
					t.Errorf("public key %s", made.PublicKey)
				}
				return
			}
			secrets, err := b.Secrets(t.Context(), seller, made.ID)
			if err != nil {
				t.Fatal(err)
			}
			symmetric := slices.IndexFunc(secrets, func(s Secret) bool { return s.Kind == HMAC })
			revealed, err := b.SecretReveal(t.Context(), seller, made.ID, secrets[symmetric].ID)
			if err != nil || revealed.Reveal() != c.text || made.Secret.Reveal() != c.text {
				t.Errorf("revealed %q, made %q, %v", revealed.Reveal(), made.Secret.Reveal(), err)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{Headers: []Header{{Name: "X-Shop", Value: "1"}}, Types: []string{"a", "b"}})
	b.exec(t, "update endpoints set verified_at = now()")

	description := "new"
	got, err := b.Update(t.Context(), seller, e.ID, Change{Description: &description})
	if err != nil || got.Description != "new" || got.URL != e.URL || got.VerifiedAt == nil || !slices.Equal(got.Types, e.Types) || !slices.Equal(got.HeaderNames, e.HeaderNames) {
		t.Fatalf("changed to %+v, %v", got, err)
	}
	if log, want := b.lanes.notes(), []string{"lock", "wake", "settle 2 of 2"}; !slices.Equal(log, want) {
		t.Errorf("the lane was asked to %q, want %q", log, want)
	}
	// The same again changes nothing, and nobody is woken for it.
	if got, err = b.Update(t.Context(), seller, e.ID, Change{Description: &description, Types: []string{"a", "b", "a"}}); err != nil || got.Rev != 2 {
		t.Errorf("changed to %+v, %v", got, err)
	}
	if log, want := b.lanes.notes(), []string{"lock"}; !slices.Equal(log, want) {
		t.Errorf("the lane was asked to %q, want %q", log, want)
	}
	url, limit, rate := "https://user:secret@new.example", 3, 20
	ratePointer := &rate
	thin, headers := Thin, []Header{{Name: "X-Other", Value: "2"}, {Name: "X-Third", Value: "3"}}
	got, err = b.Update(t.Context(), seller, e.ID, Change{
		URL: &url, Types: []string{"c.*", "b"}, Concurrency: &limit, RatePerSecond: &ratePointer, Payload: &thin, Headers: &headers,
	})
	if err != nil || got.URL != "https://user:secret@new.example/" || got.VerifiedAt != nil || got.Concurrency != 3 || *got.RatePerSecond != 20 ||
		got.Payload != Thin || !slices.Equal(got.Types, []string{"c.*", "b"}) || !slices.Equal(got.HeaderNames, []string{"X-Other", "X-Third"}) || got.Rev != 3 {
		t.Errorf("changed to %+v, %v", got, err)
	}
	if shown, err := b.HeadersReveal(t.Context(), seller, e.ID); err != nil || !slices.Equal(shown, headers) {
		t.Errorf("headers %+v, %v", shown, err)
	}
	var none *int
	if got, err = b.Update(t.Context(), seller, e.ID, Change{RatePerSecond: &none, Headers: &[]Header{}}); err != nil || got.RatePerSecond != nil || len(got.HeaderNames) != 0 {
		t.Errorf("changed to %+v, %v", got, err)
	}
	if shown, err := b.HeadersReveal(t.Context(), seller, e.ID); err != nil || len(shown) != 0 {
		t.Errorf("headers %+v, %v", shown, err)
	}
	// The sets that attempts point at are kept.
	var sets int
	if err := b.DB.QueryRow(t.Context(), "select count(*) from header_sets").Scan(&sets); err != nil || sets != 2 {
		t.Errorf("%d header sets, %v", sets, err)
	}
	detail := b.lastDetail(t, seller, "endpoint.changed", 1)
	if strings.Contains(detail, "secret") {
		t.Errorf("the activity log holds a password: %s", detail)
	}
	var logged map[string]any
	if err := json.Unmarshal([]byte(detail), &logged); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"url": []any{"https://seller.example/hooks", "https://…@new.example/"}, "concurrency": []any{10., 3.}, "per_second": []any{0., 20.},
		"payload": []any{"full", "thin"}, "headers": []any{[]any{"X-Shop"}, []any{"X-Other", "X-Third"}},
		"types_added": []any{"c.*"}, "types_removed": []any{"a"},
	}
	if fmt.Sprint(logged) != fmt.Sprint(want) {
		t.Errorf("logged %v\nwant   %v", logged, want)
	}
}

// A form that cannot show values leaves them empty for those that are to stay.
func TestUpdateKeepsHeaderValues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{Headers: []Header{{Name: "X-Shop", Value: "1"}, {Name: "X-Token", Value: "secret"}}})
	headers := []Header{{Name: "X-Token"}, {Name: "X-New", Value: "2"}, {Name: "X-Shop", Value: "3"}}
	if _, err := b.Update(t.Context(), seller, e.ID, Change{Headers: &headers, KeepHeaders: []string{"X-Token", "X-New", "X-Shop"}}); err != nil {
		t.Fatal(err)
	}
	want := []Header{{Name: "X-Token", Value: "secret"}, {Name: "X-New", Value: "2"}, {Name: "X-Shop", Value: "3"}}
	if got, err := b.HeadersReveal(t.Context(), seller, e.ID); err != nil || !slices.Equal(got, want) {
		t.Errorf("headers %+v, %v, want %+v", got, err, want)
	}
	if headers[0].Value != "" {
		t.Error("the caller's own list was changed")
	}
}

// lastDetail is the detail of the latest entry but skip of an action.
func (b *bench) lastDetail(t *testing.T, seller account.Caller, action string, skip int) string {
	t.Helper()
	entries, _, err := b.accounts.AuditList(t.Context(), platform(seller), account.AuditFilter{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Action != action {
			continue
		}
		if skip == 0 {
			return string(entry.Detail)
		}
		skip--
	}
	t.Fatalf("no entry %s", action)
	return ""
}

// Whoever may change an endpoint chooses among the operator's policies. One that the policy file has lost since stays until another is chosen, and cannot be chosen anew.
func TestPresetIsChosen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	commerce, description := "commerce", "x"
	if got, err := b.Update(t.Context(), platform(seller), e.ID, Change{Preset: &commerce}); err != nil || got.Preset != "commerce" {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := b.Update(t.Context(), seller, e.ID, Change{Description: &description, Preset: &commerce}); err != nil || got.Preset != "commerce" {
		t.Errorf("%+v, %v", got, err)
	}
	own := ""
	if got, err := b.Update(t.Context(), seller, e.ID, Change{Preset: &own}); err != nil || got.Preset != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := b.Update(t.Context(), seller, e.ID, Change{Preset: &commerce}); err != nil || got.Preset != "commerce" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.DB.Exec(t.Context(), `update endpoints set preset = 'lost' where id = $1`, e.ID); err != nil {
		t.Fatal(err)
	}
	lost, other := "lost", "y"
	if got, err := b.Update(t.Context(), seller, e.ID, Change{Description: &other, Preset: &lost}); err != nil || got.Preset != "lost" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.Update(t.Context(), seller, e.ID, Change{Preset: &commerce}); err != nil {
		t.Error(err)
	}
	_, err := b.Update(t.Context(), seller, e.ID, Change{Preset: &lost})
	wantFields(t, err, "preset")
}

// A scheme can be changed to and fro: the keys it needs are made once and kept.
func TestSchemesBringTheirKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	if _, err := b.PublicKeys(t.Context(), e.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("public keys of a v1 endpoint: %v", err)
	}
	var public string
	for i, scheme := range []signing.Scheme{signing.V1AndV1a, signing.Hex, signing.V1a, signing.V1, signing.V1a} {
		got, err := b.Update(t.Context(), seller, e.ID, Change{Scheme: &scheme})
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := b.Secrets(t.Context(), seller, e.ID)
		if err != nil || len(secrets) != 2 {
			t.Fatalf("%s: %d secrets, %v", scheme, len(secrets), err)
		}
		if i == 0 {
			public = got.PublicKey
		}
		if got.PublicKey != public || !strings.HasPrefix(public, "whpk_") {
			t.Errorf("%s: public key %q, first %q", scheme, got.PublicKey, public)
		}
	}
	keys, err := b.PublicKeys(t.Context(), e.ID)
	if err != nil || len(keys) != 1 || keys[0].Key != public || keys[0].ExpiresAt != nil {
		t.Errorf("public keys %+v, %v", keys, err)
	}
	if keys, err := b.PublicKeys(t.Context(), "ep_\x00"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("public keys of nonsense: %+v, %v", keys, err)
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, eventType string
		want               bool
	}{
		{"*", "a", true}, {"a.*", "a.b", true}, {"a.*", "a.b.c", true}, {"a.*", "a", false}, {"a.*", "ab.c", false}, {"a.b", "a.b", true},
		{"a.b", "A.b", false}, {"a.b", "a.b.c", false},
	} {
		if got := Matches(c.pattern, c.eventType); got != c.want {
			t.Errorf("Matches(%q, %q) = %v", c.pattern, c.eventType, got)
		}
		if dispatched := slices.Contains(outbox.Patterns(c.eventType), c.pattern); dispatched != c.want {
			t.Errorf("the dispatcher says %v of %q, %q", dispatched, c.pattern, c.eventType)
		}
	}
}

func TestShownURL(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]string{
		"https://a.example/x?y=@":       "https://a.example/x?y=@",
		"https://u:p@a.example/":        "https://…@a.example/",
		"https://u:p@w@a.example:8443/": "https://…@a.example:8443/",
	} {
		if got := shownURL(stored); got != want {
			t.Errorf("shownURL(%s) = %s, want %s", stored, got, want)
		}
	}
}
