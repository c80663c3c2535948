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

// Owns tells whether the local end of a TCP connection over IPv4, such as the
// RemoteAddr of a request, is the replica's.
func (r *Replica) Owns(tb testing.TB, addr string) bool {
	tb.Helper()
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().Is4() {
		tb.Fatalf("whose is %q: no address of IPv4", addr)
	}
	proc := filepath.Join("/proc", strconv.Itoa(r.PID()))
	socket, err := socketAt(filepath.Join(proc, "net", "tcp"), at)
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

// socketAt reads the table of the system's connections, as proc(5) has it, and gives
// what a file is called that is the socket bound to at; empty when there is none.
func socketAt(table string, at netip.AddrPort) (string, error) {
	f, err := os.Open(table)
	if err != nil {
		return "", nil // the process has ended
	}
	defer f.Close()
	ip := at.Addr().As4()
	local := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), at.Port())
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[1] == local {
			return "socket:[" + fields[9] + "]", nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read the table of connections: %w", err)
	}
	return "", nil
}
