// Command chaos runs Waybill in a hostile world for a while and then asks whether its books balance. One seed chooses everything: who subscribes to
// what, how each receiver answers each request, what is published and rolled back, and which process, connection or server is killed,
// frozen or stalled when. Everything is real: processes of the program (web, workers, proxy), Postgres with fsync on, kill -9.
//
//	go run ./e2e/chaos -seed 7 -for 60s
//
// It prints the seed, what it did and when, and the ledger's verdict. The exit code is 1 when the ledger does not balance. The same seed makes the
// same plan; what the machine does in between differs, so a failure may take a few runs to come again.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"waybill/e2e"
)

// options are the flags.
type options struct {
	seed     uint64
	length   time.Duration
	drain    time.Duration
	workers  int
	keep     bool
	verbose  bool
	evidence string
	offline  bool // fetch no Postgres when the machine has none
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "what chooses everything; the clock when it is not given")
	flag.DurationVar(&o.length, "for", time.Minute, "how long trouble is made")
	flag.DurationVar(&o.drain, "drain", 3*time.Minute, "how long everything may take to be delivered afterwards")
	flag.IntVar(&o.workers, "workers", 2, "worker processes")
	flag.StringVar(&o.evidence, "evidence", "", "when the ledger does not balance, write the programs' logs and all requests into this folder")
	flag.BoolVar(&o.keep, "keep", false, "leave the data folder behind")
	flag.BoolVar(&o.verbose, "v", false, "show the programs' warnings and errors")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "waybill-chaos-")
		if err == nil {
			defer os.RemoveAll(dir)
			var binary string
			if binary, err = e2e.Build(ctx, dir, false); err == nil {
				var v *e2e.Verdict
				if v, err = run(ctx, o, binary, os.Stdout); err == nil && v.Balanced() {
					return 0
				}
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
		return 1
	}())
}
