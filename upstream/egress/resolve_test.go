package egress

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// nameserver is a DNS server on a loopback address. Each question for an IPv4 address
// is answered by the next one of answers, the last one again and again; those for
// other kinds of records by none.
type nameserver struct {
	conn net.PacketConn
	done chan struct{}

	mu      sync.Mutex
	answers [][]string
	asked   int // for IPv4 addresses
}

func newNameserver(t *testing.T, answers ...[]string) *nameserver {
	t.Helper()
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nameserver{conn: conn, done: make(chan struct{}), answers: answers}
	go func() {
		defer close(n.done)
		buf := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return // it was closed
			}
			if reply := n.reply(buf[:size]); reply != nil {
				conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-n.done
	})
	return n
}

// reply answers a query (RFC 1035, section 4.1).
func (n *nameserver) reply(query []byte) []byte {
	const header, typeA = 12, 1
	end := slices.Index(query[header:], 0) + header + 5 // the name, type and class
	if len(query) < end {
		return nil
	}
	var addrs []string
	if binary.BigEndian.Uint16(query[end-4:]) == typeA {
		n.mu.Lock()
		addrs = n.answers[min(n.asked, len(n.answers)-1)]
		n.asked++
		n.mu.Unlock()
	}
	out := append([]byte{}, query[:2]...)
	out = append(out, 0x85, 0x80, 0, 1, 0, byte(len(addrs)), 0, 0, 0, 0) // an answer with authority
	out = append(out, query[header:end]...)
	for _, a := range addrs {
		out = append(out, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4) // the name in the question, for no time at all
		out = append(out, netip.MustParseAddr(a).AsSlice()...)
	}
	return out
}

func (n *nameserver) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp4", n.conn.LocalAddr().String())
	}}
}

// TestRebinding holds that a name is resolved once for a connection, that the very
// address that was judged is dialled, and that a later answer is judged again.
func TestRebinding(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") })
	port := url[strings.LastIndex(url, ":"):]
	const good, metadata, private = "127.0.0.1", "169.254.169.254", "10.0.0.1"
	tests := []struct {
		name    string
		answers [][]string
		want    []string // for each fetch the reason of the refusal; empty for an answer
		dialled string
		asked   int
	}{
		{"changes to a private address", [][]string{{good}, {private}}, []string{"", "it is a private address"}, good, 2},
		{"changes to a metadata service", [][]string{{good}, {metadata}, {good}}, []string{"", "it is a cloud's metadata service", ""}, good + " " + good, 3},
		{"private first", [][]string{{private}, {good}}, []string{"it is a private address", ""}, good, 2},
		{"one of two", [][]string{{private, good}}, []string{""}, good, 1},
		{"the other of two", [][]string{{good, private}}, []string{""}, good, 1},
		{"both", [][]string{{private, metadata}}, []string{"it is a private address"}, "", 1},
		{"loopback beside the allowed address", [][]string{{"127.0.0.2"}}, []string{"it is a loopback address"}, "", 1},
		{"unspecified", [][]string{{"0.0.0.0"}}, []string{"it is an unspecified address"}, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names := newNameserver(t, tt.answers...)
			var dialled []string
			transports := New(Options{
				AllowPrivate: nets(good + "/32"), Resolver: names.resolver(),
				Control: func(_ context.Context, _, address string, _ syscall.RawConn) error {
					dialled = append(dialled, strings.TrimSuffix(address, port))
					return nil
				},
			})
			defer transports.Close()
			for i, want := range tt.want {
				resp, err := transports.Fetcher(FetchOptions{HTTP: true}).Get("http://rebind.example" + port)
				if err == nil {
					resp.Body.Close()
				}
				switch {
				case want == "" && err != nil:
					t.Errorf("fetch %d: %v", i, err)
				case want != "":
					wantBlocked(t, fmt.Sprint("fetch ", i), err, want)
				}
			}
			if got := strings.Join(dialled, " "); got != tt.dialled {
				t.Errorf("dialled %q, want %q", got, tt.dialled)
			}
			names.mu.Lock()
			defer names.mu.Unlock()
			if names.asked != tt.asked {
				t.Errorf("the name was resolved %d times, want %d", names.asked, tt.asked)
			}
		})
	}
}

// TestRebindingOfUpstream holds the same for the connections of an upstream.
func TestRebindingOfUpstream(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") })
	names := newNameserver(t, []string{"127.0.0.1"}, []string{"169.254.169.254"})
	s := settings
	s.Checked = true
	p := New(Options{AllowPrivate: nets("127.0.0.1/32"), Resolver: names.resolver()}).Calls(s)
	defer p.Close()
	to := "http://rebind.example" + url[strings.LastIndex(url, ":"):]
	if _, err := post(t, p, to); err != nil {
		t.Fatal(err)
	}
	_, err := post(t, p, to)
	wantBlocked(t, "upstream", err, "it is a cloud's metadata service")
}
