// Command loadtest measures what the gateway costs: throughput and latency of
// tools/call and tools/list through Causeway, through a bare
// httputil.ReverseProxy, through nginx where it is installed, and without
// anything between, in one run on one machine. Clients speak revision 2026-07-28,
// and so do the upstreams but one: a server of the handshake era, which shows what
// Causeway's bridge between the eras costs. Upstreams, proxies and the load
// generator are processes of their own, and all traffic stays on 127.0.0.1.
//
//	go run ./loadtest
//	go run ./loadtest -duration 5s -rounds 5 -out loadtest/RESULTS.md
//	go run ./loadtest -only causeway,proxy,call-json
//
// Beside that it measures progressive tool discovery: what a client receives before it
// can call a tool, how long searches take, and what the index costs. That is a part of
// its own of the results:
//
//	go run ./loadtest -only discovery -out loadtest/RESULTS.md
//
// Another kind of run measures several replicas that share a Redis, which it starts
// too: calls, the fan-out of notifications, and the memory of open listen streams.
//
//	go run ./loadtest cluster
//	go run ./loadtest cluster -streams 1000 -out loadtest/RESULTS.md
//
// It may import every package of the module, and imports the index of tools alone:
// else what it measures is the program that users run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Subcommands, which the program starts itself with.
const (
	cmdUpstream = "upstream"
	cmdProxy    = "proxy"
	cmdServers  = "servers"
)

// cmdCluster is the subcommand that measures several replicas.
const cmdCluster = "cluster"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch args := os.Args[1:]; {
	case len(args) > 0 && args[0] == cmdUpstream:
		err = serveUpstream(ctx, args[1:], os.Stdin, os.Stdout)
	case len(args) > 0 && args[0] == cmdProxy:
		err = serveProxies(ctx, args[1:], os.Stdin, os.Stdout)
	case len(args) > 0 && args[0] == cmdServers:
		err = serveServers(ctx, args[1:], os.Stdin, os.Stdout)
	case len(args) > 0 && args[0] == cmdCluster:
		err = measureCluster(ctx, args[1:], os.Stdout, os.Stderr)
	default:
		err = measure(ctx, args, os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 2
	case err != nil:
		fmt.Fprintf(os.Stderr, "loadtest: %v\n", err)
		return 1
	}
	return 0
}

// options are the command line of a whole run.
type options struct {
	duration  time.Duration // of one measurement
	rounds    int
	only      selection
	catalogue string // file of real tools
	causeway  string // binary; empty means that it is built
	out       string // file for the report; empty means standard output alone
	args      []string
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{args: args}
	fs := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.DurationVar(&o.duration, "duration", 2*time.Second, "how long each system is measured in each round")
	fs.IntVar(&o.rounds, "rounds", 3, "rounds over all systems; their median counts")
	only := fs.String("only", "", "systems and measurements, separated by commas ("+strings.Join(selectable(), ", ")+"); empty means all")
	fs.StringVar(&o.catalogue, "catalogue", "../shared/toolsearch/catalogue.json", "file of real tools; when it is missing, tools of like size are made up")
	fs.StringVar(&o.causeway, "causeway", "", "the causeway binary; empty means that it is built from this module")
	fs.StringVar(&o.out, "out", "", "also write the report to this file, in the place of its own part there")
	if err := fs.Parse(args); err != nil {
		return nil, flag.ErrHelp // fs has told why
	}
	var faults []error
	if fs.NArg() > 0 {
		faults = append(faults, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if o.duration < 10*time.Millisecond || o.duration > time.Minute {
		faults = append(faults, fmt.Errorf("-duration %v is not between 10ms and 1m", o.duration))
	}
	if o.rounds < 1 || o.rounds > 100 {
		faults = append(faults, fmt.Errorf("-rounds %d is not between 1 and 100", o.rounds))
	}
	var err error
	if o.only, err = parseSelection(*only); err != nil {
		faults = append(faults, err)
	}
	return o, errors.Join(faults...)
}

// measure is a whole run: it starts all processes, measures, and reports.
func measure(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r := report{facts: machineFacts(ctx), options: o, listRequests: -1}
	general := slices.Clip(b.notes) // that are not about one measurement
	var parts []string
	if !o.only.discoveryAlone() {
		if err := b.start(ctx); err != nil {
			return err
		}
		if r.rows, err = b.measureAll(ctx); err != nil {
			return err
		}
		if err := b.countOther(ctx); err != nil {
			return err
		}
		r.notes, r.listRequests, r.handshake = b.notes, b.listRequests, b.handshake
		parts = append(parts, r.markdown())
	}
	if o.only.discovery() {
		d, err := b.discover(ctx)
		if err != nil {
			return err
		}
		parts = append(parts, d.markdown(&report{facts: r.facts, options: o, notes: general}))
	}
	if _, err := io.WriteString(stdout, strings.Join(parts, "\n")); err != nil {
		return err
	}
	if o.out != "" {
		for _, part := range parts {
			if err := writePart(o.out, part); err != nil {
				return err
			}
		}
	}
	return r.failures()
}
