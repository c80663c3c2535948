//go:build !linux

package gatewaytest

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Owns tells whether the local end of a TCP connection over IPv4, such as the
// RemoteAddr of a request, is the replica's.
func (r *Replica) Owns(tb testing.TB, addr string) bool {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "lsof", "-nP", "-a", "-Fn", "-p", strconv.Itoa(r.PID()), "-iTCP@"+addr).Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) { // it found nothing
		tb.Fatalf("whose is %s: %v", addr, err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "n"+addr+"->") {
			return true
		}
	}
	return false
}
