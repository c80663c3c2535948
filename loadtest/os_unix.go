//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// openFiles gives how many files and connections a process may have open at once:
// Go programs raise the soft limit to the hard one by themselves, this one and the
// gateways alike.
func openFiles() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	// More than this is as good as no limit.
	const most = 1 << 30
	return int(min(uint64(limit.Max), most)), nil //nolint:unconvert // it is signed on some systems
}

// pause has a process do nothing until resume: its connections stand.
func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
