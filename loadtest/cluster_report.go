package main

import (
	"fmt"
	"strings"
	"time"
)

// Goals for several replicas.
const (
	maxStreamMemory = 16 << 10 // of the process, for each open listen stream
	maxFanout       = 500 * time.Millisecond
)

// callRow is the result of calls in one mode.
type callRow struct {
	clients int
	mode    string
	stopped bool // Redis was
	sample  sample
}

// fanout is how long notifications took.
type fanout struct {
	clients, changes int
	upstreamStreams  int64 // open at once
	p50, p99, max    time.Duration
}

// memory is what one replica takes without streams, with them, and after each has
// brought a notification.
type memory struct {
	streams          int
	base, open, told footprint
}

// clusterReport is what a run has found.
type clusterReport struct {
	facts   []fact
	options *clusterOptions
	notes   []string
	calls   []callRow
	fanout  *fanout // nil when left out, as is memory
	memory  *memory
}

// markdown writes the report.
func (r *clusterReport) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nMade by `%s`.\n\n| | |\n|---|---|\n", headingCluster, strings.Join(append([]string{"go run ./loadtest"}, r.options.args...), " "))
	for _, f := range r.facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f.name, f.value)
	}
	fmt.Fprintf(&b, "\nGateways, Redis, upstream and load generator are processes of one machine and share its cores: a replica more adds no "+
		"cores, so the calls show what it costs to be several, not what several machines would give. The gateways run on their "+
		"defaults, with the log at level warn, room for the listen streams, and a limit of calls that is never reached, so that calls are counted in Redis.\n")
	for _, n := range r.notes {
		fmt.Fprintf(&b, "\nNote: %s.\n", n)
	}
	r.writeCalls(&b)
	r.writeFanout(&b)
	r.writeMemory(&b)
	r.verdict(&b)
	return b.String()
}

func (r *clusterReport) writeCalls(b *strings.Builder) {
	fmt.Fprintf(b, "\n## tools/call, spread over replicas\n\nThe clients themselves take the replicas in turn, call by call, over kept connections: "+
		"there is no proxy between, which would be measured too. The load is a closed loop; each answer is read whole and checked. Each number is the median of %d "+
		"round(s) of %v, in which the rows take turns; all replicas run all the time. Redis is stopped (SIGSTOP: connections stand, nothing is answered) at the moment from which the last row's calls count, so that the time until the "+
		"replicas leave Redis alone is in it. *CPU* is the processor time of the gateways for each call.\n\n"+
		"| clients | replicas | calls/s | of 1 replica | p50 ms | p99 ms | CPU µs |\n|--:|---|--:|--:|--:|--:|--:|\n", r.options.rounds, r.options.duration)
	for _, row := range r.calls {
		s, ratio, cpu := row.sample, "", ""
		if base := r.call(row.clients, "1"); base != nil {
			ratio = fmt.Sprintf("%.2f", s.rate/base.sample.rate)
		}
		if s.cpu > 0 {
			cpu = fmt.Sprintf("%.0f", float64(s.cpu)/float64(time.Microsecond))
		}
		fmt.Fprintf(b, "| %d | %s | %.0f | %s | %.3f | %.3f | %s |\n", row.clients, row.mode, s.rate, ratio, ms(s.p50), ms(s.p99), cpu)
	}
}

// call gives the row of a mode.
func (r *clusterReport) call(clients int, mode string) *callRow {
	for i := range r.calls {
		if r.calls[i].clients == clients && r.calls[i].mode == mode {
			return &r.calls[i]
		}
	}
	return nil
}

func (r *clusterReport) writeFanout(b *strings.Builder) {
	f := r.fanout
	if f == nil {
		return
	}
	fmt.Fprintf(b, "\n## Notifications, from the upstream to clients of all replicas\n\nThe time from the moment at which the upstream tells the replica that listens "+
		"that its tools have changed, until a client has read its notification. In it are, by design, 100 ms for which changes are gathered (`limits.coalesce`), and one tools/list "+
		"to the upstream, since only those are told whose view is another one.\n\n"+
		"| replicas | clients | changes | p50 ms | p99 ms | max ms | upstream streams |\n|--:|--:|--:|--:|--:|--:|--:|\n"+
		"| %d | %d | %d | %.1f | %.1f | %.1f | %d |\n", replicaCount, f.clients, f.changes, ms(f.p50), ms(f.p99), ms(f.max), f.upstreamStreams)
}

func (r *clusterReport) writeMemory(b *strings.Builder) {
	m := r.memory
	if m == nil {
		return
	}
	fmt.Fprintf(b, "\n## Memory of open listen streams\n\nOne replica, started for this, before and with %d listen streams over HTTP/1.1. *process* is the resident set as the system tells it "+
		"(the middle of %d readings once they are alike, no garbage collection is asked for), the others are what the gateway tells of itself. Below are the differences for each stream.\n\n"+
		"| | process | heap in use | stacks | goroutines | open files |\n|---|--:|--:|--:|--:|--:|\n", m.streams, readings)
	for _, row := range []struct {
		name string
		f    footprint
	}{{"before", m.base}, {"with the streams", m.open}, {"after each brought a notification", m.told}} {
		fmt.Fprintf(b, "| %s | %.1f MiB | %.1f MiB | %.1f MiB | %.0f | %.0f |\n", row.name,
			row.f.process/(1<<20), row.f.heap/(1<<20), row.f.stacks/(1<<20), row.f.goroutines, row.f.descriptors)
	}
	for _, row := range []struct {
		name string
		f    footprint
	}{{"each stream", m.open.minus(m.base, m.streams)}, {"each, after a notification", m.told.minus(m.base, m.streams)}} {
		fmt.Fprintf(b, "| %s | %.1f KiB | %.1f KiB | %.1f KiB | %.1f | %.1f |\n", row.name,
			row.f.process/(1<<10), row.f.heap/(1<<10), row.f.stacks/(1<<10), row.f.goroutines, row.f.descriptors)
	}
	for _, f := range []footprint{m.base, m.open, m.told} {
		if f.unsettled {
			fmt.Fprintf(b, "\nThe memory of the process still changed after %v.\n", settleLimit)
			break
		}
	}
}

// verdict compares what was measured with the goals.
func (r *clusterReport) verdict(b *strings.Builder) {
	b.WriteString("\n## Goals\n\n")
	word := func(ok bool) string {
		if ok {
			return "reached"
		}
		return "**missed**"
	}
	for _, row := range r.calls {
		if before := r.call(row.clients, fmt.Sprint(replicaCount)); row.stopped && before != nil {
			fmt.Fprintf(b, "- calls with %d clients go on while Redis is stopped: %.2f of the calls before\n", row.clients, row.sample.rate/before.sample.rate)
		}
	}
	if f := r.fanout; f != nil {
		fmt.Fprintf(b, "- every one of %d clients was notified once of each change, the slowest after %.0f ms, the goal is at most %v: %s\n", f.clients, ms(f.max), maxFanout, word(f.max <= maxFanout))
		fmt.Fprintf(b, "- listen streams that the upstream saw at once: %d, the goal is 1: %s\n", f.upstreamStreams, word(f.upstreamStreams == 1))
	}
	if m := r.memory; m != nil {
		most := max(m.open.minus(m.base, m.streams).process, m.told.minus(m.base, m.streams).process)
		fmt.Fprintf(b, "- process memory of each of %d open listen streams: %.1f KiB, the goal is at most %d KiB: %s\n", m.streams, most/(1<<10), maxStreamMemory>>10, word(most <= maxStreamMemory))
	}
}
