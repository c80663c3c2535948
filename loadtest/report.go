package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Goals of the project for what a gateway may cost.
const (
	minCallRatio = 0.9                    // of the bare proxy's throughput of tools/call with 16 clients
	maxAddedP50  = 100 * time.Microsecond // over the bare proxy's with one client
)

// report is what a run has found.
type report struct {
	facts        []fact
	options      *options
	notes        []string
	rows         []row
	listRequests int64 // -1 when not measured
}

// markdown writes the report.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Load test\n\nMade by `%s`.\n\n", strings.Join(append([]string{"go run ./loadtest"}, r.options.args...), " "))
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range r.facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f.name, f.value)
	}
	fmt.Fprintf(&b, "\nUpstreams, systems and load generator are processes of one machine and share its cores. The load is a closed "+
		"loop over kept connections; each answer is read whole and checked. Each number is the median of %d round(s) of %v, in which the "+
		"systems take turns. Causeway runs on its defaults, metrics on, with the log at level warn. "+
		"*of (b)* compares with the reverse proxy's throughput, *added p50* with its p50; *CPU* is the processor time of the system's own processes for each request.\n",
		r.options.rounds, r.options.duration)
	for _, n := range r.notes {
		fmt.Fprintf(&b, "\nNote: %s.\n", n)
	}
	for i, row := range r.rows {
		if i == 0 || row.measurement.name != r.rows[i-1].measurement.name {
			r.heading(&b, row)
		}
		r.line(&b, row)
	}
	r.verdict(&b)
	return b.String()
}

func (r *report) heading(b *strings.Builder, first row) {
	m := first.measurement
	fmt.Fprintf(b, "\n## %s\n\n", title(m))
	if m.method == methodList {
		fmt.Fprintf(b, "One answer of the first system below has %d bytes.\n\n", first.size)
	}
	b.WriteString("| clients | system | req/s | of (b) | p50 ms | p99 ms | added p50 ms | CPU µs |\n|--:|---|--:|--:|--:|--:|--:|--:|\n")
}

func title(m measurement) string {
	switch m.name {
	case "call-json":
		return "tools/call, the upstream answers in JSON"
	case "call-sse":
		return "tools/call, the upstream answers each call as SSE"
	case "list-20":
		return "tools/list, 20 tools"
	default:
		return "tools/list, the whole catalogue"
	}
}

func (r *report) line(b *strings.Builder, row row) {
	fmt.Fprintf(b, "| %d | %s |", row.concurrency, row.system.label)
	if row.err != nil {
		fmt.Fprintf(b, " failed: %s | | | | | |\n", strings.NewReplacer("|", "\\|", "\n", " ").Replace(row.err.Error()))
		return
	}
	s := row.sample
	ratio, added := "", ""
	if base := r.find(row, sysProxy); base != nil && base.err == nil {
		ratio = fmt.Sprintf("%.2f", s.rate/base.sample.rate)
		added = fmt.Sprintf("%+.3f", ms(s.p50-base.sample.p50))
	}
	cpu := ""
	if s.cpu > 0 {
		cpu = fmt.Sprintf("%.0f", float64(s.cpu)/float64(time.Microsecond))
	}
	fmt.Fprintf(b, " %.0f | %s | %.3f | %.3f | %s | %s |\n", s.rate, ratio, ms(s.p50), ms(s.p99), added, cpu)
}

// find gives another system's row of the same measurement and concurrency.
func (r *report) find(like row, name string) *row {
	for i, other := range r.rows {
		if other.measurement.name == like.measurement.name && other.concurrency == like.concurrency && other.system.name == name {
			return &r.rows[i]
		}
	}
	return nil
}

// verdict compares Causeway with the goals, as far as they were measured.
func (r *report) verdict(b *strings.Builder) {
	var lines []string
	add := func(ok bool, format string, args ...any) {
		word := "reached"
		if !ok {
			word = "**missed**"
		}
		lines = append(lines, fmt.Sprintf("- %s: %s", fmt.Sprintf(format, args...), word))
	}
	for _, row := range r.rows {
		if row.system.name != sysCauseway || row.err != nil {
			continue
		}
		s, m := row.sample, row.measurement
		if base := r.find(row, sysProxy); base != nil && base.err == nil && m.method == methodCall {
			switch row.concurrency {
			case 16:
				ratio := s.rate / base.sample.rate
				add(ratio >= minCallRatio, "%s with 16 clients: %.2f of (b), the goal is at least %.1f", m.name, ratio, minCallRatio)
			case 1:
				added := s.p50 - base.sample.p50
				add(added <= maxAddedP50, "%s with one client: p50 %+.3f ms over (b), the goal is at most %.1f ms", m.name, ms(added), ms(maxAddedP50))
			}
		}
		if direct := r.find(row, sysDirect); direct != nil && direct.err == nil && m.method == methodList {
			add(s.rate > direct.sample.rate, "%s: %.2f of asking the upstream directly, the goal is to be faster", m.name, s.rate/direct.sample.rate)
		}
	}
	if r.listRequests >= 0 {
		add(r.listRequests == 0, "upstream requests while Causeway answered tools/list: %d, the goal is 0", r.listRequests)
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n## Goals\n\n%s\n", strings.Join(lines, "\n"))
	}
}

// failures gives an error when a system gave a wrong answer or none. A goal that
// was missed is no failure: it is in the report.
func (r *report) failures() error {
	var errs []error
	for _, row := range r.rows {
		if row.err != nil {
			errs = append(errs, fmt.Errorf("%s, %s with %d clients: %w", row.system.name, row.measurement.name, row.concurrency, row.err))
		}
	}
	return errors.Join(errs...)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
