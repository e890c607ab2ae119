package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"waybill/db/embedded"
	"waybill/e2e"
)

// TestShortSeeds makes trouble for some seconds, twice: with one seed that is always the same, and with one that is new each time.
func TestShortSeeds(t *testing.T) {
	t.Parallel()
	binary, err := e2e.Build(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	for name, seed := range map[string]uint64{"known": 1, "new": uint64(time.Now().UnixNano())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := run(t.Context(), options{seed: seed, length: 7 * time.Second, drain: time.Minute, workers: 2, offline: true}, binary, t.Output())
			if errors.Is(err, embedded.ErrNoBinaries) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !v.Balanced() {
				t.Error("the ledger does not balance")
			}
			if v.Deliveries < 50 || v.Requests < 50 {
				t.Errorf("%d deliveries and %d requests are too few to prove anything", v.Deliveries, v.Requests)
			}
		})
	}
}
