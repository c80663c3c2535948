package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// fact is one line about the machine or the run.
type fact struct{ name, value string }

// machineFacts gives what a reader must know to compare two reports.
func machineFacts(ctx context.Context) []fact {
	facts := []fact{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"CPU", cpuModel()},
		{"cores", strconv.Itoa(runtime.NumCPU())},
		{"OS", osName()},
		{"Go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
	}
	if commit := gitCommit(ctx); commit != "" {
		facts = append(facts, fact{"commit", commit})
	}
	return facts
}

func cpuModel() string {
	if model := field("/proc/cpuinfo", "model name", ":"); model != "" {
		return model
	}
	return "unknown (" + runtime.GOARCH + ")"
}

func osName() string {
	name := strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	if name == "" {
		name = runtime.GOOS
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		name += ", kernel " + string(bytes.TrimSpace(kernel))
	}
	return name
}

// field gives the first value of a name in a file of lines.
func field(file, name, separator string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(line, separator); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// gitCommit gives the commit that was measured, and whether there were changes
// beside it; nothing outside a clone.
func gitCommit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty= with changes", "--exclude=*").Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(out))
}

// loadAverage gives how many processes wanted to run in the last minute; false
// where that is not known.
func loadAverage() (float64, bool) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(data), " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil
}

// tick is the unit of /proc/*/stat: USER_HZ is 100 on every Linux that Go runs
// on.
const tick = 10 * time.Millisecond

// cpuTime gives the processor time that a process and its children have used;
// false where there is no /proc.
func cpuTime(pid int) (time.Duration, bool) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return 0, false
	}
	var sum time.Duration
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		own := file == "/proc/"+strconv.Itoa(pid)+"/stat"
		if parent, used, ok := parseStat(string(data)); ok && (own || parent == pid) {
			sum += used
		}
	}
	return sum, true
}

// parseStat reads the parent and the time in user and kernel mode of a line of
// proc(5).
func parseStat(line string) (parent int, used time.Duration, ok bool) {
	// The second field is a name in parentheses that may hold anything.
	_, rest, found := strings.Cut(line[strings.LastIndexByte(line, ')')+1:], " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	user, err2 := strconv.ParseInt(fields[11], 10, 64)
	kernel, err3 := strconv.ParseInt(fields[12], 10, 64)
	if err != nil || err2 != nil || err3 != nil {
		return 0, 0, false
	}
	return parent, time.Duration(user+kernel) * tick, true
}
