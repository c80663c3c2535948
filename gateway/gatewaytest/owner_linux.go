package gatewaytest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Connects tells whether the replica has opened a TCP connection over IPv4: from its
// own end, such as the RemoteAddr of a request, to the other. Only both ends together
// tell one connection from all others.
func (r *Replica) Connects(tb testing.TB, from, to string) bool {
	tb.Helper()
	ends := make([]string, 2)
	for i, end := range []string{from, to} {
		at, err := netip.ParseAddrPort(end)
		if err != nil || !at.Addr().Is4() {
			tb.Fatalf("whose is a connection: %q is no address of IPv4", end)
		}
		ip := at.Addr().As4()
		ends[i] = fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), at.Port())
	}
	proc := filepath.Join("/proc", strconv.Itoa(r.PID()))
	socket, err := socketOf(filepath.Join(proc, "net", "tcp"), ends[0], ends[1])
	if err != nil {
		tb.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil || socket == "" {
		return false // one of them has ended
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(proc, "fd", f.Name())); err == nil && to == socket {
			return true
		}
	}
	return false
}

// socketOf reads the table of the system's connections, as proc(5) has it, and gives
// what a file is called that is the socket of the connection between local and
// remote; empty when there is none.
func socketOf(table, local, remote string) (string, error) {
	f, err := os.Open(table)
	if err != nil {
		return "", nil // the process has ended
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[1] == local && fields[2] == remote {
			return "socket:[" + fields[9] + "]", nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read the table of connections: %w", err)
	}
	return "", nil
}
