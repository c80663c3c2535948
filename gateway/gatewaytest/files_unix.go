//go:build unix

package gatewaytest

import (
	"syscall"
	"testing"
)

// NeedFiles skips a test that has that many files and connections open at once, in
// this process or in one that it starts, where the system allows fewer. Go programs
// raise the soft limit to the hard one by themselves.
func NeedFiles(tb testing.TB, n uint64) {
	tb.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatalf("read the limit of open files: %v", err)
	}
	if uint64(limit.Max) < n { //nolint:unconvert // it is signed on some systems
		tb.Skipf("a process may have %d files open, and the test needs %d: raise the hard limit (ulimit -Hn)", limit.Max, n)
	}
}
