package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// handshakeVersion is the one revision that a handshake upstream speaks.
const handshakeVersion = "2025-11-25"

// callsPath tells how many tools/call requests a handshake upstream has had.
const callsPath = "/calls"

// handshakeUpstream is a server of revision 2025-11-25 over Streamable HTTP, with
// sessions, that does as little as it can.
type handshakeUpstream struct {
	names    map[string]bool
	list     []byte   // the result of tools/list
	sessions sync.Map // ids that are good
	requests atomic.Int64
	calls    atomic.Int64
}

func newHandshakeUpstream(tools []tool) (*handshakeUpstream, error) {
	names, raws, err := indexTools(tools)
	if err != nil {
		return nil, err
	}
	return &handshakeUpstream{names: names, list: fmt.Appendf(nil, `{"tools":[%s]}`, bytes.Join(raws, []byte(",")))}, nil
}

func (u *handshakeUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		switch r.URL.Path {
		case countPath:
			_, _ = io.WriteString(w, strconv.FormatInt(u.requests.Load(), 10))
			return
		case callsPath:
			_, _ = io.WriteString(w, strconv.FormatInt(u.calls.Load(), 10))
			return
		}
	}
	u.requests.Add(1)
	switch r.Method {
	case http.MethodPost:
		u.post(w, r)
	case http.MethodDelete:
		if _, ok := u.sessions.LoadAndDelete(r.Header.Get("Mcp-Session-Id")); !ok {
			http.Error(w, "unknown", http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		// No stream of the server's own (2025-11-25, basic/transports, Listening for
		// Messages from the Server, 2).
		w.Header().Set("Allow", "POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (u *handshakeUpstream) post(w http.ResponseWriter, r *http.Request) {
	req, err := readMessage(w, r)
	if err != nil {
		http.Error(w, "not a message", http.StatusBadRequest)
		return
	}
	if req.Method == "initialize" {
		u.initialize(w, req)
		return
	}
	// 2025-11-25, basic/transports, Session Management, 2 and 3. Text that is no
	// JSON-RPC is what tells a client that knows both eras that the modern one is
	// not known here.
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" || r.Header.Get("MCP-Protocol-Version") != handshakeVersion {
		http.Error(w, "unsupported request", http.StatusBadRequest)
		return
	}
	if _, ok := u.sessions.Load(id); !ok {
		http.Error(w, "unknown", http.StatusNotFound)
		return
	}
	switch {
	case len(req.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	case req.Method == methodCall:
		u.calls.Add(1)
		if !u.names[req.Params.Name] {
			respond(w, req.ID, "error", []byte(`{"code":-32602,"message":"unknown tool"}`))
			return
		}
		respond(w, req.ID, "result", []byte(`{"content":[{"type":"text","text":"`+answerText+`"}],"isError":false}`))
	case req.Method == methodList:
		respond(w, req.ID, "result", u.list)
	case req.Method == "ping":
		respond(w, req.ID, "result", []byte(`{}`))
	default:
		respond(w, req.ID, "error", []byte(`{"code":-32601,"message":"unknown method"}`))
	}
}

// initialize begins a session (2025-11-25, basic/transports, Session
// Management, 1).
func (u *handshakeUpstream) initialize(w http.ResponseWriter, req message) {
	id := rand.Text()
	u.sessions.Store(id, nil)
	w.Header().Set("Mcp-Session-Id", id)
	respond(w, req.ID, "result", []byte(`{"protocolVersion":"`+handshakeVersion+
		`","capabilities":{"tools":{}},"serverInfo":{"name":"loadtest","version":"1.0.0"}}`))
}
