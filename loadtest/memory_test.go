package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettled(t *testing.T) {
	tests := []struct {
		name string
		seen []float64
		want bool
	}{
		{"nothing", nil, false},
		{"too few", []float64{100, 100, 100, 100}, false},
		{"alike", []float64{100, 100.5, 100, 99.6, 100}, true},
		{"alike at the end", []float64{10, 300, 100, 100, 100, 100, 100}, true},
		{"growing", []float64{100, 101, 102, 103, 104}, false},
		{"alike at the beginning", []float64{100, 100, 100, 100, 100, 120}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := settled(tt.seen); got != tt.want {
				t.Errorf("settled = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReadFootprint(t *testing.T) {
	const metrics = `# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 20032
go_memstats_heap_inuse_bytes 7.5e+07
go_memstats_heap_inuse_bytes_more 1
go_memstats_stack_inuse_bytes 4.4e+07
process_open_fds 10018
`
	var got footprint
	if err := got.read(metrics); err != nil {
		t.Fatal(err)
	}
	want := footprint{heap: 75e6, stacks: 44e6, goroutines: 20032, descriptors: 10018}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(footprint{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "go_goroutines 1\n", "go_goroutines x\n"} {
		if err := got.read(bad); err == nil {
			t.Errorf("%q is fine", bad)
		}
	}
}

func TestFootprintOfEach(t *testing.T) {
	base := footprint{process: 1000, heap: 100, stacks: 10, goroutines: 5, descriptors: 7}
	now := footprint{process: 5000, heap: 300, stacks: 50, goroutines: 9, descriptors: 11, unsettled: true}
	want := footprint{process: 1000, heap: 50, stacks: 10, goroutines: 1, descriptors: 1}
	if diff := cmp.Diff(want, now.minus(base, 4), cmp.AllowUnexported(footprint{})); diff != "" {
		t.Error(diff)
	}
}

func TestResidentSet(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the system has no /proc")
	}
	got, err := residentSet(os.Getpid())
	if err != nil || got < 1<<20 || got > 1<<36 {
		t.Errorf("this process takes %.0f bytes, %v", got, err)
	}
	if _, err := residentSet(-1); err == nil {
		t.Error("a process that is not there takes memory")
	}
}
