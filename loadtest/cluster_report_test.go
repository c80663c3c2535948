package main

import (
	"strings"
	"testing"
	"time"
)

func TestClusterReport(t *testing.T) {
	calls := func(clients int, mode string, stopped bool, rate float64) callRow {
		return callRow{clients: clients, mode: mode, stopped: stopped, sample: sample{rate: rate, p50: time.Millisecond, p99: 2 * time.Millisecond, cpu: 100 * time.Microsecond}}
	}
	full := clusterReport{
		calls:  []callRow{calls(16, "1", false, 1000), calls(16, "3", false, 2000), calls(16, "3, Redis stopped", true, 1900)},
		fanout: &fanout{clients: 3000, changes: 20, upstreamStreams: 1, p50: 110 * time.Millisecond, p99: 140 * time.Millisecond, max: 150 * time.Millisecond},
		memory: &memory{streams: 1 << 10, base: footprint{process: 30 << 20}, open: footprint{process: 40 << 20}, told: footprint{process: 42 << 20}},
	}
	slow, large := full, full
	slow.fanout = &fanout{clients: 3000, changes: 20, upstreamStreams: 3, max: 501 * time.Millisecond}
	large.memory = &memory{streams: 1 << 10, open: footprint{process: 10 << 20}, told: footprint{process: 17 << 20, unsettled: true}}
	tests := []struct {
		name     string
		report   clusterReport
		want     []string
		wantNone []string
	}{
		{
			"all", full,
			[]string{
				"Made by `go run ./loadtest cluster -rounds 1`.", "| Redis | 7 |", "Note: it was busy.",
				"| 16 | 3 | 2000 | 2.00 | 1.000 | 2.000 | 100 |", "calls with 16 clients go on while Redis is stopped: 0.95 of the calls before",
				"| 3 | 3000 | 20 | 110.0 | 140.0 | 150.0 | 1 |", "the slowest after 150 ms, the goal is at most 500ms: reached",
				"| each stream | 10.0 KiB |", "| each, after a notification | 12.0 KiB |", "12.0 KiB, the goal is at most 16 KiB: reached",
			},
			[]string{"missed", "still changed"},
		},
		{"slow", slow, []string{"the slowest after 501 ms, the goal is at most 500ms: **missed**", "saw at once: 3, the goal is 1: **missed**"}, nil},
		{"large", large, []string{"17.0 KiB, the goal is at most 16 KiB: **missed**", "still changed after 20s"}, nil},
		{"parts left out", clusterReport{calls: full.calls}, []string{"## tools/call"}, []string{"## Notifications", "## Memory", "every one of", "process memory of"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.report.options = &clusterOptions{options: options{args: []string{cmdCluster, "-rounds", "1"}, rounds: 1, duration: time.Second}}
			tt.report.facts, tt.report.notes = []fact{{"Redis", "7"}}, []string{"it was busy"}
			got := tt.report.markdown()
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("the report lacks %q:\n%s", want, got)
				}
			}
			for _, none := range tt.wantNone {
				if strings.Contains(got, none) {
					t.Errorf("the report has %q:\n%s", none, got)
				}
			}
			if strings.Count(got, "\n# ") > 0 {
				t.Error("the report has a second heading of the first level")
			}
		})
	}
}
