package gatewaytest

import (
	"os/exec"
	"syscall"
)

// endWithParent has a process end when this one does, however that ends.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
