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
	// minBridgeRatio is the share of Causeway's own throughput before a modern
	// upstream that is to be left before a handshake one, with 16 clients.
	minBridgeRatio = 0.8
	// minSecuredRatio is the share of Causeway's own throughput that is to be left where
	// tokens are verified and a policy decides, with 16 clients. What was verified is
	// remembered, as for every client that sends more than one request.
	minSecuredRatio = 0.9
	// maxOther is how many requests a handshake upstream may get in a run that are
	// no calls: those of probes, handshakes and lists.
	maxOther = 100
)

// report is what a run has found.
type report struct {
	facts        []fact
	options      *options
	notes        []string
	rows         []row
	listRequests int64 // -1 when not measured
	handshake    handshakeCount
}

// markdown writes the report.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, headingBench+"\n\nMade by `%s`.\n\n", strings.Join(append([]string{"go run ./loadtest"}, r.options.args...), " "))
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
	base := "(b)"
	if m.beside != "" {
		base = m.beside
		fmt.Fprintf(b, "Measured in the same rounds as %[1]s, right after Causeway's turn there. *of %[1]s* and *added p50* compare with Causeway's own %[1]s.\n\n", base)
	}
	fmt.Fprintf(b, "| clients | system | req/s | of %s | p50 ms | p99 ms | added p50 ms | CPU µs |\n|--:|---|--:|--:|--:|--:|--:|--:|\n", base)
}

func title(m measurement) string {
	switch m.name {
	case "call-json":
		return "tools/call, the upstream answers in JSON"
	case "call-sse":
		return "tools/call, the upstream answers each call as SSE"
	case callHandshake:
		return "tools/call by modern clients, the upstream is a handshake server (" + handshakeVersion + ")"
	case callSecured:
		return fmt.Sprintf("tools/call with an access token and a policy of %d rules, the upstream answers in JSON", policyRules)
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
	if base := r.base(row); base != nil && base.err == nil {
		ratio = fmt.Sprintf("%.2f", s.rate/base.sample.rate)
		added = fmt.Sprintf("%+.3f", ms(s.p50-base.sample.p50))
	}
	cpu := ""
	if s.cpu > 0 {
		cpu = fmt.Sprintf("%.0f", float64(s.cpu)/float64(time.Microsecond))
	}
	fmt.Fprintf(b, " %.0f | %s | %.3f | %.3f | %s | %s |\n", s.rate, ratio, ms(s.p50), ms(s.p99), added, cpu)
}

// base gives the row that another one is compared with in its table: the bare
// proxy's, or that of the same system in the measurement beside.
func (r *report) base(row row) *row {
	if beside := row.measurement.beside; beside != "" {
		return r.find(beside, row.concurrency, row.system.name)
	}
	return r.find(row.measurement.name, row.concurrency, sysProxy)
}

// find gives the row of a system at one concurrency of a measurement.
func (r *report) find(measurement string, concurrency int, system string) *row {
	for i, other := range r.rows {
		if other.measurement.name == measurement && other.concurrency == concurrency && other.system.name == system {
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
		if base := r.base(row); base != nil && base.err == nil && m.method == methodCall {
			switch {
			case m.beside != "":
				least := minBridgeRatio
				if m.name == callSecured {
					least = minSecuredRatio
				}
				if ratio := s.rate / base.sample.rate; row.concurrency == 16 {
					add(ratio >= least, "%s with 16 clients: %.3f of Causeway's %s, the goal is at least %.1f", m.name, ratio, m.beside, least)
				}
			case row.concurrency == 16:
				ratio := s.rate / base.sample.rate
				add(ratio >= minCallRatio, "%s with 16 clients: %.2f of (b), the goal is at least %.1f", m.name, ratio, minCallRatio)
			case row.concurrency == 1:
				added := s.p50 - base.sample.p50
				add(added <= maxAddedP50, "%s with one client: p50 %+.3f ms over (b), the goal is at most %.1f ms", m.name, ms(added), ms(maxAddedP50))
			}
		}
		if direct := r.find(m.name, row.concurrency, sysDirect); direct != nil && direct.err == nil && m.method == methodList {
			add(s.rate > direct.sample.rate, "%s: %.2f of asking the upstream directly, the goal is to be faster", m.name, s.rate/direct.sample.rate)
		}
	}
	if r.listRequests >= 0 {
		add(r.listRequests == 0, "upstream requests while Causeway answered tools/list: %d, the goal is 0", r.listRequests)
	}
	if h := r.handshake; h.sent > 0 {
		add(h.calls == h.sent && h.other <= maxOther, "requests to the handshake upstream for %d calls: %d calls, the goal is one each; "+
			"and %d others for probes, handshakes and lists in the whole run, the goal is at most %d", h.sent, h.calls, h.other, maxOther)
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
