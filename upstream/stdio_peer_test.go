package upstream

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	ossignal "os/signal"
	"strings"
	"syscall"
	"testing"
)

// The test binary is also the program that the tests start: with peerEnv set it
// is an MCP server of both eras over stdio, which misbehaves as it is told to.
const (
	peerEnv  = "PEER"  // the ways it misbehaves from the start, separated by commas
	aliveEnv = "ALIVE" // an address to which it keeps a connection as long as it lives
)

func TestMain(m *testing.M) {
	if how, ok := os.LookupEnv(peerEnv); ok {
		os.Exit(runPeer(how))
	}
	os.Exit(m.Run())
}

// peer is the server within the process.
type peer struct {
	out       *bufio.Writer
	cancelled []string // ids of requests
	listens   []string // ids of open streams
}

func runPeer(how string) int {
	if addr := os.Getenv(aliveEnv); addr != "" {
		if _, err := net.Dial("tcp", addr); err != nil {
			return 7
		}
	}
	p := &peer{out: bufio.NewWriter(os.Stdout)}
	stubborn := false
	for way := range strings.SplitSeq(how, ",") {
		switch way {
		case "die":
			return 3
		case "mute":
			os.Stdout.Close()
		case "deaf":
			os.Stdin.Close()
			stubborn = true
		case "stubborn":
			ossignal.Ignore(syscall.SIGTERM)
			stubborn = true
		case "child":
			p.child()
		case "banner":
			p.line("Welcome to the server")
			p.line(`{"neither": "a message"}`)
			p.line("")
		case "flood":
			for i := range 10_000 {
				fmt.Fprintf(os.Stderr, "line %d\n", i)
			}
			fmt.Fprintln(os.Stderr, strings.Repeat("long ", 2000))
		}
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		p.message(line)
	}
	if stubborn {
		select {}
	}
	return 0
}

// child starts a process that lives on when nobody ends it.
func (p *peer) child() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"=stubborn")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	r, _, err := os.Pipe() // its input never ends
	if err == nil {
		cmd.Stdin = r
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(7)
	}
}

func (p *peer) line(text string) {
	p.out.WriteString(text)
	p.out.WriteByte('\n')
	p.out.Flush()
}

func (p *peer) result(id json.RawMessage, members string) {
	p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, id, members))
}

func (p *peer) text(id json.RawMessage, text string) {
	quoted, _ := json.Marshal(text)
	p.result(id, fmt.Sprintf(`"resultType":"complete","content":[{"type":"text","text":%s}]`, quoted))
}

func (p *peer) message(line []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments json.RawMessage
			RequestID json.RawMessage
			Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		p.line(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}`)
		return
	}
	switch m.Method {
	case "tools/call":
		p.call(m.ID, m.Params.Name, m.Params.Arguments, m.Params.Meta.ProgressToken)
	case "notifications/cancelled":
		p.cancelled = append(p.cancelled, string(m.Params.RequestID))
	case "initialize":
		p.result(m.ID, `"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}`)
	case "server/discover":
		p.result(m.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}`)
	case "tools/list":
		p.result(m.ID, `"tools":[{"name":"echo","inputSchema":{"type":"object"}}]`)
	case "subscriptions/listen":
		p.listens = append(p.listens, string(m.ID))
		p.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`, m.ID))
	default:
		if m.ID != nil {
			p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID))
		}
	}
}

// call is tools/call.
func (p *peer) call(id json.RawMessage, tool string, args, token json.RawMessage) {
	switch tool {
	case "echo":
		p.text(id, string(args))
	case "pid":
		p.text(id, fmt.Sprint(os.Getpid()))
	case "env":
		p.text(id, strings.Join(os.Environ(), "\n"))
	case "dir":
		dir, _ := os.Getwd()
		p.text(id, dir)
	case "cancelled":
		p.text(id, strings.Join(p.cancelled, " "))
	case "hang":
	case "exit":
		p.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":1}}`)
		os.Exit(3)
	case "vanish":
		os.Exit(0)
	case "progress":
		for i := range 3 {
			p.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i+1))
		}
		p.text(id, "done")
	case "burst":
		for i := range 3000 {
			p.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i+1))
		}
		p.text(id, "done")
	case "log":
		p.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
		p.text(id, "done")
	case "huge": // the id comes first
		p.text(id, strings.Repeat("x", 100_000))
	case "hugeLast":
		p.line(`{"result":{"text":"` + strings.Repeat("x", 100_000) + `"},"jsonrpc":"2.0","id":` + string(id) + `}`)
	case "garbage":
		p.line("now to the result:")
		p.line(`{"jsonrpc":"2.0","id":"nobody's","result":{}}`)
		p.line(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`)
		p.text(id, "done")
	case "refuse":
		p.line(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}`)
	default:
		p.streams(tool)
		p.text(id, "done")
	}
}

// streams acts on the open listen streams.
func (p *peer) streams(tool string) {
	for _, id := range p.listens {
		switch tool {
		case "change":
			p.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, id))
		case "close":
			p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":%[1]s}}}`, id))
		case "teardown":
			p.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		}
	}
}

// peerProcess starts the test binary as a peer.
func peerProcess(how string, more ...Variable) *Process {
	// A process under the race detector would wait for a second when it exits.
	own := []Variable{{Name: peerEnv, Value: how}, {Name: "GORACE", Value: "atexit_sleep_ms=0"}}
	return &Process{Command: []string{os.Args[0]}, Env: append(own, more...)}
}

// lives watches over processes that connect to an address as long as they live.
type lives struct {
	t      *testing.T
	listen net.Listener
}

func watchLives(t *testing.T) *lives {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &lives{t, l}
}

// env tells a peer the address.
func (l *lives) env() Variable { return Variable{Name: aliveEnv, Value: l.listen.Addr().String()} }

// begin waits for one process to connect. The returned function waits for its
// end.
func (l *lives) begin() (end func()) {
	l.t.Helper()
	conn, err := l.listen.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	return func() {
		l.t.Helper()
		var b [1]byte
		if _, err := conn.Read(b[:]); err == nil || errors.Is(err, net.ErrClosed) {
			l.t.Errorf("waiting for a process to end: %v", err)
		}
	}
}
