package endpoint

import (
	"slices"
	"strings"
	"testing"

	"waybill/app/fault"
)

func TestStates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	for i, c := range []struct {
		to     State
		kind   fault.Kind
		want   State
		reason string
		moves  bool
	}{
		{Active, "", Active, "", false},
		{Paused, "", Paused, ReasonManual, true},
		{Paused, "", Paused, ReasonManual, false},
		{Active, "", Active, "", true},
		{Paused, "", Paused, ReasonManual, true},
		{Disabled, "", Disabled, ReasonManual, true},
		{Paused, fault.Conflict, Disabled, ReasonManual, false},
		{Disabled, "", Disabled, ReasonManual, false},
		{Active, "", Active, "", true},
	} {
		call := map[State]string{Active: "enable", Paused: "pause", Disabled: "disable"}[c.to]
		before, err := b.Read(t.Context(), seller, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		b.lanes.notes()
		if err := b.calls(e.ID, "")[call](t.Context(), seller); fault.KindOf(err) != c.kind {
			t.Fatalf("step %d, %s: %v", i, call, err)
		}
		after, err := b.Read(t.Context(), seller, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if after.State != c.want || after.Reason != c.reason || after.StateBy != "API key seller" || (after.Rev != before.Rev) != c.moves || after.StateAt.Equal(before.StateAt) == c.moves {
			t.Errorf("step %d, %s: %+v\nafter %+v", i, call, after, before)
		}
		if settled := slices.ContainsFunc(b.lanes.notes(), func(s string) bool { return strings.HasPrefix(s, "settle") }); settled != c.moves {
			t.Errorf("step %d, %s: settled %v", i, call, settled)
		}
	}
}

func TestFollows(t *testing.T) {
	t.Parallel()
	for _, from := range []State{Active, Paused, Disabled} {
		for _, to := range []State{Active, Paused, Disabled, "asleep"} {
			want := to != "asleep" && !(from == Disabled && to == Paused)
			if got := to.Follows(from); got != want {
				t.Errorf("%s follows %s: %v", to, from, got)
			}
		}
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{Headers: []Header{{Name: "X-Shop", Value: "1"}}})
	if err := b.Delete(t.Context(), seller, e.ID); err != nil {
		t.Fatal(err)
	}
	if log, want := b.lanes.notes(), []string{"lock", "wake", "settle 2 of 2"}; !slices.Equal(log, want) {
		t.Errorf("the lane was asked to %q, want %q", log, want)
	}
	if got, want := b.tables(t), "endpoints 0, revisions 2, subscriptions 0, lanes 1, secrets 0 0, header sets 1"; got != want {
		t.Errorf("left %s, want %s", got, want)
	}
	for name, call := range b.calls(e.ID, "") {
		if err := call(t.Context(), seller); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s of a deleted endpoint: %v", name, err)
		}
	}
	if list, _, err := b.List(t.Context(), seller, "", "", 10); err != nil || len(list) != 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// A lane that does not answer does not undo the change.
func TestALaneThatDoesNotSettle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	b.Service.Lanes = stuck{b.lanes}
	if got, err := b.Pause(t.Context(), seller, e.ID); err != nil || got.State != Paused {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.Contains(b.logs.String(), "has not settled") {
		t.Errorf("nobody is told: %s", b.logs)
	}
}
