package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"
)

// replicaCount is how many replicas share a Redis.
const replicaCount = 3

// clusterLimit bounds a whole run.
const clusterLimit = 15 * time.Minute

// spareFiles are the files and connections that a process has open besides those of
// listen streams.
const spareFiles = 1000

// clusterOptions are the command line of the subcommand "cluster".
type clusterOptions struct {
	options
	listeners int // at each replica
	changes   int
	streams   int // at one replica
}

func parseClusterOptions(args []string, stderr io.Writer) (*clusterOptions, error) {
	o := &clusterOptions{options: options{args: append([]string{cmdCluster}, args...)}}
	fs := flag.NewFlagSet("loadtest "+cmdCluster, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.DurationVar(&o.duration, "duration", 2*time.Second, "how long calls are measured in each turn")
	fs.IntVar(&o.rounds, "rounds", 3, "rounds of calls; their median counts")
	fs.IntVar(&o.listeners, "listeners", 1000, "clients that listen at each of 3 replicas")
	fs.IntVar(&o.changes, "changes", 20, "changes that they are told of")
	fs.IntVar(&o.streams, "streams", 10_000, "listen streams at one replica, for what each takes")
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
	if o.duration < 10*time.Millisecond || o.duration > 10*time.Second {
		faults = append(faults, fmt.Errorf("-duration %v is not between 10ms and 10s", o.duration))
	}
	for _, n := range []struct {
		name  string
		value int
		most  int
	}{{"rounds", o.rounds, 10}, {"listeners", o.listeners, 10_000}, {"changes", o.changes, 200}, {"streams", o.streams, 100_000}} {
		if n.value < 1 || n.value > n.most {
			faults = append(faults, fmt.Errorf("-%s %d is not between 1 and %d", n.name, n.value, n.most))
		}
	}
	return o, errors.Join(faults...)
}

// cluster is one run of the subcommand.
type cluster struct {
	*bench
	options  *clusterOptions
	plan     *gatewayPlan
	redis    *child
	redisAt  string // address
	upstream string // address
	alone    *replica
	replicas []*replica

	report clusterReport
}

// measureCluster is the subcommand "cluster": it starts all processes, measures,
// and reports.
func measureCluster(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseClusterOptions(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, clusterLimit)
	defer cancel()
	b, err := newBench(&o.options, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	c := &cluster{bench: b, options: o}
	for _, step := range []func(context.Context) error{c.start, c.measureCalls, c.measureFanout, c.measureMemory} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r := &c.report
	r.facts, r.options, r.notes = append(machineFacts(ctx), r.facts...), o, b.notes
	text := r.markdown()
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if o.out != "" {
		return writePart(o.out, text)
	}
	return nil
}

// start starts Redis, the upstream, a gateway without Redis and those that share
// one.
func (c *cluster) start(ctx context.Context) (err error) {
	c.say("starting Redis, an upstream and %d gateways", 1+replicaCount)
	var version string
	if c.redis, c.redisAt, version, err = c.startRedis(ctx); err != nil {
		return err
	}
	c.report.facts = append(c.report.facts, fact{"Redis", version})
	cmd, err := self(cmdUpstream, "-announce", "-catalogue", c.options.catalogue, "-tools", strconv.Itoa(smallList))
	if err != nil {
		return err
	}
	_, addrs, err := c.startChild("upstream", cmd, 1)
	if err != nil {
		return err
	}
	c.upstream = addrs[0]
	if c.plan, err = c.newPlan(ctx, c.upstream, max(c.options.listeners, c.options.streams)); err != nil {
		return err
	}
	if c.alone, err = c.startReplica(ctx, c.plan, "alone", ""); err != nil {
		return err
	}
	for i := range replicaCount {
		r, err := c.startReplica(ctx, c.plan, fmt.Sprintf("replica-%d", i+1), c.redisAt)
		if err != nil {
			return err
		}
		c.replicas = append(c.replicas, r)
	}
	return nil
}

// mayOpen tells whether a process may have n connections open, and notes what is
// left out where it may not.
func (c *cluster) mayOpen(n int, what string) (bool, error) {
	most, err := openFiles()
	if err != nil {
		return false, err
	}
	if n+spareFiles > most {
		c.note("%s is left out: a process may have %d files open, and %d are needed (ulimit -Hn)", what, most, n+spareFiles)
		return false, nil
	}
	return true, nil
}
