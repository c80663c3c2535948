//go:build !linux

package gatewaytest

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Connects tells whether the replica has opened a TCP connection over IPv4: from its
// own end, such as the RemoteAddr of a request, to the other. Only both ends together
// tell one connection from all others.
func (r *Replica) Connects(tb testing.TB, from, to string) bool {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "lsof", "-nP", "-a", "-Fn", "-p", strconv.Itoa(r.PID()), "-iTCP@"+from).Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) { // it found nothing
		tb.Fatalf("whose is the connection from %s: %v", from, err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.TrimSpace(line) == "n"+from+"->"+to {
			return true
		}
	}
	return false
}
