package main

import (
	"fmt"
	"strings"
)

// maxShare is which part of the full list's bytes a client may receive before it can
// call a tool.
const maxShare = 0.02

// markdown writes what was found.
func (d *discovery) markdown(r *report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nMade by `%s`.\n\n| | |\n|---|---|\n", headingDiscovery, strings.Join(append([]string{"go run ./loadtest"}, r.options.args...), " "))
	for _, f := range r.facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f.name, f.value)
	}
	b.WriteByte('\n')
	for _, n := range r.notes {
		fmt.Fprintf(&b, "Note: %s.\n\n", n)
	}
	fmt.Fprintf(&b, "%d servers with %d tools behind one endpoint of Causeway, in a process of their own. Before a client can call a tool it "+
		"receives the list of tools, one search with five results, and the details of the first of them. Bodies of answers in bytes:\n\n", d.servers, d.tools)
	b.WriteString("| full list | list in mode search | search, median | details, median | all three, median | of the full list | most | of the full list |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %.2f %% | %d | %.2f %% |\n\n", d.full, d.list, d.search, d.details,
		d.median, 100*d.share(d.median), d.most, 100*d.share(d.most))
	fmt.Fprintf(&b, "search_tools over HTTP, one client, %d searches: p50 %.3f ms, p99 %.3f ms.\n\n", d.searches, ms(d.p50), ms(d.p99))
	b.WriteString("The index alone, in the process of the load test:\n\n| tools | texts | build ms | search p50 ms | search p99 ms | MB for 1,000 tools |\n|--:|---|--:|--:|--:|--:|\n")
	for _, x := range d.indexes {
		fmt.Fprintf(&b, "| %d | %s | %.0f | %.3f | %.3f | %.2f |\n", x.tools, x.name, ms(x.build), ms(x.p50), ms(x.p99), float64(x.perThousand())/(1<<20))
	}
	fmt.Fprintf(&b, "\n## Goals\n\n%s\n", strings.Join(d.verdict(), "\n"))
	return b.String()
}

// share gives how many bytes are of the full list's.
func (d *discovery) share(n int) float64 { return float64(n) / float64(d.full) }

// verdict compares with the goals.
func (d *discovery) verdict() (lines []string) {
	add := func(ok bool, format string, args ...any) {
		word := "reached"
		if !ok {
			word = "**missed**"
		}
		lines = append(lines, fmt.Sprintf("- %s: %s", fmt.Sprintf(format, args...), word))
	}
	add(d.share(d.median) <= maxShare, "what a client receives before its first call: %.2f %% of the full list (median), the goal is at most %.0f %%", 100*d.share(d.median), 100*maxShare)
	for _, x := range d.indexes {
		add(x.p99 <= x.goal.p99, "search among %d tools: p99 %.3f ms, the goal is at most %.0f ms", x.tools, ms(x.p99), ms(x.goal.p99))
		add(x.build <= x.goal.build, "build for %d tools: %.0f ms, the goal is at most %.0f ms", x.tools, ms(x.build), ms(x.goal.build))
		add(x.perThousand() <= maxHeap, "memory for %d tools: %.2f MB for 1,000, the goal is at most %d MB", x.tools, float64(x.perThousand())/(1<<20), maxHeap>>20)
	}
	return lines
}
