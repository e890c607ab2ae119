// Command bench measures Waybill on one machine: deliveries a second and their cost, latency from commit to receipt, what a hung endpoint does to a
// healthy one, and recovery after a kill. Everything is real: Postgres with fsync on, the program as processes of its own, smokescreen,
// receivers that check every signature. Beside each throughput stands the ceiling: the same HTTP client and receiver without a database.
//
//	go run ./e2e/bench                      all scenarios, three runs each
//	go run ./e2e/bench -only throughput     one of them
//	go run ./e2e/bench -old 5000000         also with a month of old deliveries in the tables, and every page of a tenant with a fifth of them
//	go run ./e2e/bench -json out.json       the figures in a file, too
//
// It prints medians with the least and the greatest. Absolute figures are this machine's; compare ratios within one run.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// options are the flags.
type options struct {
	events     int
	endpoints  int
	tenants    int
	runs       int
	only       string
	jsonFile   string
	keep       bool
	verbose    bool
	processes  int
	old        int
	catalog    int
	statements bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "receiver" {
		receiverMain()
		return
	}
	var o options
	flag.IntVar(&o.events, "events", 20_000, "events of a throughput run")
	flag.IntVar(&o.endpoints, "endpoints", 200, "endpoints of the wide throughput run")
	flag.IntVar(&o.tenants, "tenants", 20, "tenants they belong to")
	flag.IntVar(&o.runs, "runs", 3, "runs of each scenario")
	flag.IntVar(&o.processes, "processes", 1, "worker processes")
	flag.IntVar(&o.old, "old", 0, "old deliveries to fill the tables with for the scenarios old, pages and wall; a fifth are one tenant's")
	flag.IntVar(&o.catalog, "catalog", 1_000_000, "events that the reader of the scenario catchup has missed")
	flag.StringVar(&o.only, "only", "", "scenarios, comma-separated: ceiling, throughput, narrow, https, commits, latency, isolation, hanging, recover, kill, processes, rolling, old, pages, wall, catchup, exact")
	flag.StringVar(&o.jsonFile, "json", "", "write the figures to this file")
	flag.BoolVar(&o.statements, "statements", false, "show what Postgres spent its time on (needs pg_stat_statements)")
	flag.BoolVar(&o.keep, "keep", false, "leave the data folder behind")
	flag.BoolVar(&o.verbose, "v", false, "show the program's log")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal("bench: ", err)
	}
}

func run(ctx context.Context, o options) error {
	s, err := newSystem(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	figures := &figures{}
	for _, scenario := range scenarios {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), scenario.name) {
			continue
		}
		for n := range o.runs {
			fmt.Fprintf(os.Stderr, "%s, run %d of %d\n", scenario.name, n+1, o.runs)
			if err := scenario.run(ctx, s, figures); err != nil {
				return fmt.Errorf("%s: %w", scenario.name, err)
			}
			if err := s.printStatements(ctx, os.Stderr); err != nil {
				return err
			}
		}
	}
	figures.print(os.Stdout, s)
	if o.jsonFile != "" {
		return figures.write(o.jsonFile)
	}
	return nil
}

// figures are named series of measurements, in the order of their first appearance.
type figures struct {
	names  []string
	values map[string][]float64
}

func (f *figures) add(name string, value float64) {
	if f.values == nil {
		f.values = map[string][]float64{}
	}
	if _, ok := f.values[name]; !ok {
		f.names = append(f.names, name)
	}
	f.values[name] = append(f.values[name], value)
}

// median, least and greatest of a series.
func summary(values []float64) (median, least, most float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1]
}

func (f *figures) print(w io.Writer, s *system) {
	fmt.Fprintf(w, "%s\n%d events, %d endpoints of %d tenants, caps on, fsync on; medians of %d runs\n\n", machine(), s.o.events, s.o.endpoints, s.o.tenants, s.o.runs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "median\tleast\tmost\t  \tfigure\t")
	for _, name := range f.names {
		median, least, most := summary(f.values[name])
		fmt.Fprintf(t, "%s\t%s\t%s\t  \t%s\t\n", number(median), number(least), number(most), name)
	}
	_ = t.Flush()
}

func number(v float64) string {
	switch {
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func (f *figures) write(file string) error {
	out := make([]map[string]any, 0, len(f.names))
	for _, name := range f.names {
		median, least, most := summary(f.values[name])
		out = append(out, map[string]any{"figure": name, "median": median, "least": least, "most": most, "runs": f.values[name]})
	}
	j, err := json.MarshalIndent(map[string]any{"machine": machine(), "figures": out}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(j, '\n'), 0o644)
}
