package fault

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEveryKindHasAStatusASlugAndATitle(t *testing.T) {
	t.Parallel()
	want := map[Kind]int{
		Malformed: 400, Unauthenticated: 401, Forbidden: 403, LimitReached: 403, NotFound: 404, Conflict: 409, InProgress: 409, LeaseHeld: 409, Gone: 410,
		CursorExpired: 410, TooLarge: 413, Unsupported: 415, Invalid: 422, KeyReused: 422, RateLimited: 429, Unavailable: 503, Internal: 500,
	}
	if len(Kinds()) != len(want) {
		t.Fatalf("Kinds() lists %d kinds, want %d", len(Kinds()), len(want))
	}
	slug, titles := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), map[string]Kind{}
	for i, k := range Kinds() {
		if k.Status() != want[k] {
			t.Errorf("%s.Status() = %d, want %d", k, k.Status(), want[k])
		}
		if !slug.MatchString(k.Slug()) || k.Slug() != string(k) {
			t.Errorf("%s.Slug() = %q", k, k.Slug())
		}
		if other, taken := titles[k.Title()]; taken || k.Title() == "" {
			t.Errorf("%s.Title() = %q, as of %q", k, k.Title(), other)
		}
		titles[k.Title()] = k
		if i > 0 && Kinds()[i-1].Status() > k.Status() {
			t.Errorf("%s is not in the order of the statuses", k)
		}
	}
	for _, k := range []Kind{"", "made-up", "Not a slug\n"} {
		if k.Status() != 500 || k.Slug() != "internal" || k.Title() != Internal.Title() {
			t.Errorf("%q: %d %q %q, want what Internal has", k, k.Status(), k.Slug(), k.Title())
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	cause := errors.New("pq: duplicate key")
	for _, c := range []struct {
		name string
		err  *Error
		want string
	}{
		{"detail", New(NotFound, "No such endpoint."), "not-found: No such endpoint."},
		{"format", Newf(TooLarge, "The body is over %d bytes.", 10), "too-large: The body is over 10 bytes."},
		{"kind only", &Error{Kind: Gone}, "gone"},
		{"nothing", &Error{}, "internal"},
		{"nil", nil, "internal: a nil fault was returned as an error"},
		{"fields", New(Invalid, "Not saved.").Field("url", "must be https").Field("types[0]", "is empty"),
			"invalid: Not saved. (url: must be https; types[0]: is empty)"},
		{"cause", Wrap(Conflict, "The name is taken.", cause), "conflict: The name is taken.: pq: duplicate key"},
		{"no cause", Wrap(Conflict, "The name is taken.", nil), "conflict: The name is taken."},
		{"line ends", New(Invalid, "a\r\nb\x1b[31mc\x00\u2028d\u202ee\xff"),
			`invalid: a\x0d\x0ab\x1b[31mc\x00\u2028d\u202ee\xff`},
		{"other letters", New(Invalid, "साड़ी 😀 ok"), "invalid: साड़ी 😀 ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.err.Error(); got != c.want {
				t.Errorf("Error() = %q\nwant      %q", got, c.want)
			}
		})
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é\n\U000e0001", 10_000)
	e := Wrap(Invalid, long, errors.New(long))
	for range 1000 {
		e.Field(long, long)
	}
	if got := e.Error(); len(got) > 2000 || !utf8.ValidString(got) {
		t.Errorf("Error() has %d bytes, valid UTF-8: %v", len(got), utf8.ValidString(got))
	}
}

func FuzzErrorTextIsOneSafeLine(f *testing.F) {
	f.Add("detail", "name", "cause")
	f.Add("a\nb", "\x1b]0;x\x07", "\xff\u2029\u200f")
	f.Fuzz(func(t *testing.T, detail, name, cause string) {
		got := Wrap(Invalid, detail, errors.New(cause)).Field(name, detail).Error()
		if len(got) > 2000 || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid UTF-8: %v", len(got), utf8.ValidString(got))
		}
		for _, r := range got {
			if r != ' ' && (unicode.IsControl(r) || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)) {
				t.Errorf("%q holds %U", got, r)
			}
		}
	})
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	inner := New(NotFound, "No such endpoint.")
	for _, c := range []struct {
		name string
		err  error
		want Kind
	}{
		{"nil", nil, ""},
		{"fault", inner, NotFound},
		{"wrapped", fmt.Errorf("read endpoint: %w", inner), NotFound},
		{"joined", errors.Join(errors.New("x"), inner), NotFound},
		{"outer fault wins", Wrap(Forbidden, "No.", inner), Forbidden},
		{"foreign", errors.New("not-found: looks like one"), Internal},
		{"deadline", fmt.Errorf("acquire: %w", context.DeadlineExceeded), Unavailable},
		{"canceled", context.Canceled, Internal},
		{"fault over a deadline", Wrap(Conflict, "No.", context.DeadlineExceeded), Conflict},
		// A bug of whoever returned it, which must not become a panic of the page that shows it.
		{"typed nil", (*Error)(nil), Internal},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := KindOf(c.err); got != c.want {
				t.Errorf("KindOf = %q, want %q", got, c.want)
			}
		})
	}
}

func TestFromGivesNothingAway(t *testing.T) {
	t.Parallel()
	if From(nil) != nil {
		t.Error("From(nil) is not nil")
	}
	cause := errors.New("password authentication failed for user waybill")
	got := From(fmt.Errorf("ping: %w", cause))
	if strings.Contains(got.Detail, "waybill") || len(got.Fields) != 0 {
		t.Errorf("shown: %q %v", got.Detail, got.Fields)
	}
	if !errors.Is(got, cause) || !strings.Contains(got.Error(), cause.Error()) {
		t.Errorf("the cause is lost to the log: %v", got)
	}
	mine := New(Gone, "It is gone.")
	if From(fmt.Errorf("x: %w", mine)) != mine {
		t.Error("From does not find the fault in the chain")
	}
}

func TestUnwrapAndOrNil(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	if !errors.Is(Wrap(Internal, "x", cause), cause) {
		t.Error("the cause is not in the chain")
	}
	var none *Error
	if none.OrNil() != nil {
		t.Error("a nil *Error did not become a plain nil")
	}
	e := New(Invalid, "Not saved.")
	if e.OrNil() != nil {
		t.Error("an Error without fields did not become nil")
	}
	if got := e.Field("url", "is missing").OrNil(); got != error(e) {
		t.Errorf("OrNil() = %v", got)
	}
}
