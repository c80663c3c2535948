//go:build unix

package upstream

import (
	"os"
	"syscall"
)

// ownGroup puts a process into a group of its own, which can be ended as a whole
// and which the terminal's interrupt does not reach.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// terminateGroup asks a process and its children to end.
func terminateGroup(p *os.Process) { signalGroup(p, syscall.SIGTERM) }

// killGroup ends a process and its children.
func killGroup(p *os.Process) { signalGroup(p, syscall.SIGKILL) }

// signalGroup also reaches the children of a process that has ended: their group
// keeps its number. The only error is that nobody is left.
func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) }
