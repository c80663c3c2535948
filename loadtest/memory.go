package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// How the memory of a process is read: again and again until it stays the same, as
// it depends on when its garbage was last collected and given back.
const (
	readings    = 5 // that must be alike; the middle one counts
	readEvery   = 400 * time.Millisecond
	settleLimit = 20 * time.Second // then the last ones count as they are
	alike       = 0.01             // how far they may be apart, as a share of the largest
)

// maxMetrics bounds what a gateway may say of itself, in bytes.
const maxMetrics = 8 << 20

// footprint is what a gateway takes, in bytes. What it says of itself is of the
// Go heap with free places between objects (heap), and of stacks.
type footprint struct {
	process     float64 // resident set, of proc(5)
	heap        float64
	stacks      float64
	goroutines  float64
	descriptors float64 // open files and connections
	unsettled   bool    // the process's memory still changed after settleLimit
}

// minus gives the difference for each of n streams.
func (f footprint) minus(base footprint, n int) footprint {
	per := func(now, before float64) float64 { return (now - before) / float64(n) }
	return footprint{
		process: per(f.process, base.process), heap: per(f.heap, base.heap), stacks: per(f.stacks, base.stacks),
		goroutines: per(f.goroutines, base.goroutines), descriptors: per(f.descriptors, base.descriptors),
	}
}

// measureFootprint waits until the memory of a gateway stays the same.
func measureFootprint(ctx context.Context, r *replica) (footprint, error) {
	var f footprint
	var seen []float64
	for deadline := time.Now().Add(settleLimit); !settled(seen); {
		if f.unsettled = time.Now().After(deadline); f.unsettled {
			break
		}
		rss, err := residentSet(r.pid())
		if err != nil {
			return f, err
		}
		seen = append(seen, rss)
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(readEvery):
		}
	}
	last := slices.Sorted(slices.Values(seen[max(0, len(seen)-readings):]))
	f.process = last[len(last)/2]
	text, err := get(ctx, "http://"+r.admin+"/metrics", maxMetrics)
	if err != nil {
		return f, err
	}
	return f, f.read(text)
}

// settled tells whether the last readings are alike.
func settled(seen []float64) bool {
	if len(seen) < readings {
		return false
	}
	last := seen[len(seen)-readings:]
	return slices.Max(last)-slices.Min(last) <= alike*slices.Max(last)
}

// residentSet gives how much of a process is in memory, in bytes.
func residentSet(pid int) (float64, error) {
	value := field("/proc/"+strconv.Itoa(pid)+"/status", "VmRSS", ":")
	if value == "" {
		return 0, errors.New("/proc does not tell how much memory a process takes")
	}
	kib, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("VmRSS %q: %w", value, err)
	}
	return kib * (1 << 10), nil
}

// read reads what a gateway says of itself, in Prometheus's text format.
func (f *footprint) read(metrics string) error {
	for name, to := range map[string]*float64{
		"go_memstats_heap_inuse_bytes":  &f.heap,
		"go_memstats_stack_inuse_bytes": &f.stacks,
		"go_goroutines":                 &f.goroutines,
		"process_open_fds":              &f.descriptors,
	} {
		found := false
		for line := range strings.Lines(metrics) {
			value, ok := strings.CutPrefix(line, name+" ")
			if !ok {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return fmt.Errorf("metric %s: %w", name, err)
			}
			*to, found = v, true
		}
		if !found {
			return fmt.Errorf("the gateway has no metric %s", name)
		}
	}
	return nil
}
