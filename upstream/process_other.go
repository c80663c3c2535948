//go:build !unix

package upstream

import (
	"os"
	"syscall"
)

// ownGroup has nothing to do where processes form no groups.
func ownGroup() *syscall.SysProcAttr { return nil }

// terminateGroup does nothing: there is no signal to ask a process to end, so
// that closing its input is all.
func terminateGroup(*os.Process) {}

// killGroup ends the process. Its children are left to themselves.
func killGroup(p *os.Process) { _ = p.Kill() }
