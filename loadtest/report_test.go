package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	call, secured, bridge, list := measurements()[0], measurements()[2], measurements()[3], measurements()[4]
	make := func(m measurement, c int, name string, rate float64, p50 time.Duration) row {
		return row{measurement: m, concurrency: c, system: &system{name: name, label: name}, size: 100,
			sample: sample{rate: rate, p50: p50, p99: 2 * p50, cpu: 12 * time.Microsecond}}
	}
	broken := make(call, 64, sysNginx, 0, 0)
	broken.err = errors.New("status 502: a | b")
	r := &report{
		options: &options{duration: time.Second, rounds: 3, args: []string{"-rounds", "3"}},
		facts:   []fact{{"cores", "2"}},
		notes:   []string{"nginx is not installed"},
		rows: []row{
			make(call, 1, sysProxy, 2000, 300*time.Microsecond), make(call, 1, sysCauseway, 1900, 350*time.Microsecond),
			make(call, 16, sysProxy, 10000, time.Millisecond), make(call, 16, sysCauseway, 8000, 2*time.Millisecond),
			broken,
			make(secured, 16, sysCauseway, 7600, 2*time.Millisecond),
			make(bridge, 1, sysCauseway, 1520, 400*time.Microsecond), make(bridge, 16, sysCauseway, 6000, 3*time.Millisecond),
			make(list, 16, sysDirect, 10000, time.Millisecond), make(list, 16, sysCauseway, 15000, time.Millisecond),
		},
		listRequests: 0,
		handshake:    handshakeCount{sent: 5000, calls: 5000, other: 4},
	}
	text := r.markdown()
	for _, want := range []string{
		"Made by `go run ./loadtest -rounds 3`.", "| cores | 2 |", "median of 3 round(s) of 1s", "Note: nginx is not installed.",
		"| 1 | causeway | 1900 | 0.95 | 0.350 | 0.700 | +0.050 | 12 |",
		"| 16 | proxy | 10000 | 1.00 | 1.000 | 2.000 | +0.000 | 12 |",
		`| 64 | nginx | failed: status 502: a \| b |`,
		"- call-json with one client: p50 +0.050 ms over (b), the goal is at most 0.1 ms: reached",
		"- call-json with 16 clients: 0.80 of (b), the goal is at least 0.9: **missed**",
		"- list-20: 1.50 of asking the upstream directly, the goal is to be faster: reached",
		"| clients | system | req/s | of call-json | p50 ms |", "| 1 | causeway | 1520 | 0.80 | 0.400 | 0.800 | +0.050 | 12 |",
		"- call-secured with 16 clients: 0.950 of Causeway's call-json, the goal is at least 0.9: reached",
		"- call-handshake with 16 clients: 0.750 of Causeway's call-json, the goal is at least 0.8: **missed**",
		"- requests to the handshake upstream for 5000 calls: 5000 calls, the goal is one each; and 4 others for probes, handshakes and lists in the whole run, the goal is at most 100: reached",
		"- upstream requests while Causeway answered tools/list: 0, the goal is 0: reached",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if err := r.failures(); err == nil || !strings.Contains(err.Error(), "nginx, call-json with 64 clients: status 502") {
		t.Errorf("failures = %v", err)
	}
}

func TestHandshakeGoal(t *testing.T) {
	tests := []struct {
		name  string
		count handshakeCount
		want  string // part of the report; empty for no line
	}{
		{"not measured", handshakeCount{}, ""},
		{"one each", handshakeCount{sent: 10, calls: 10, other: maxOther}, "at most 100: reached"},
		{"one too many", handshakeCount{sent: 10, calls: 11}, "at most 100: **missed**"},
		{"an initialize with each", handshakeCount{sent: 1000, calls: 1000, other: 1000}, "at most 100: **missed**"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := (&report{options: &options{}, listRequests: -1, handshake: tt.count}).markdown()
			if !strings.Contains(text, tt.want) || strings.Contains(text, "handshake upstream") != (tt.want != "") {
				t.Errorf("want %q in:\n%s", tt.want, text)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   float64
	}{
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 3}, 3},
		{"even", []float64{4, 1, 9, 2}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := median(tt.values); got != tt.want {
				t.Errorf("median = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(i)
	}
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{{0, 0}, {0.5, 50}, {0.99, 99}, {1, 99}} {
		if got := quantile(times, tt.q); got != tt.want {
			t.Errorf("quantile %v = %d, want %d", tt.q, got, tt.want)
		}
	}
}

func TestParseOptions(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string // parts of the error; nil for none
	}{
		{"defaults", nil, nil},
		{"selection", []string{"-only", "causeway, proxy,call-json"}, nil},
		{"all faults together", []string{"-duration", "0s", "-rounds", "0", "-only", "apache", "more"},
			[]string{`unexpected argument "more"`, "-duration 0s", "-rounds 0", `-only: "apache" is none of direct, proxy`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseOptions(tt.args, io.Discard)
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
	if _, err := parseOptions([]string{"-nothing"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("an unknown flag: %v", err)
	}
	o, err := parseOptions([]string{"-only", "causeway"}, io.Discard)
	if err != nil || o.only.system(sysNginx) || !o.only.system(sysCauseway) || !o.only.measurement("list-527") {
		t.Errorf("-only causeway selects %+v (%v)", o.only, err)
	}
}

func TestCPUTime(t *testing.T) {
	parent, used, ok := parseStat("42 (a) (b c)) S 7 42 42 0 -1 4194304 1 0 0 0 150 25 0 0 20 0 5 0 123 456")
	if !ok || parent != 7 || used != 1750*time.Millisecond {
		t.Errorf("parseStat = %d, %v, %v, want 7, 1.75s", parent, used, ok)
	}
	for _, bad := range []string{"", "42", "42 (a", "42 (a) S x", "42 (a) S 7 42 42 0 -1 4194304 1 0 0 0 x y z"} {
		if _, _, ok := parseStat(bad); ok {
			t.Errorf("parseStat(%q) is fine", bad)
		}
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		if _, ok := cpuTime(os.Getpid()); !ok {
			t.Error("the time of this process is not known, in spite of /proc")
		}
	}
}
