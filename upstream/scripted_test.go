package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// scriptedMessage is what a scripted server was sent.
type scriptedMessage struct {
	ID      json.RawMessage
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	session string
	request *http.Request
}

func (m scriptedMessage) result(raw string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, raw)
}

// scriptedServer is a handshake server whose answers to requests are a function's.
type scriptedServer struct {
	handle       func(http.ResponseWriter, scriptedMessage)
	version      string
	capabilities string
	get          http.HandlerFunc // nil: 405
	note         func(scriptedMessage)

	mu       sync.Mutex
	sessions map[string]bool
	made     int
}

func scripted(handle func(http.ResponseWriter, scriptedMessage)) *scriptedServer {
	return &scriptedServer{handle: handle, version: version20251125, capabilities: "{}", sessions: map[string]bool{}}
}

// forget makes the server know no session any more.
func (s *scriptedServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// known is how many sessions there are.
func (s *scriptedServer) known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	known := s.sessions[id]
	if known && r.Method == http.MethodDelete {
		delete(s.sessions, id)
	}
	s.mu.Unlock()
	switch {
	case id != "" && !known:
		answerJSON(w, http.StatusNotFound, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		return
	case r.Method == http.MethodDelete:
		return
	case r.Method == http.MethodGet && s.get != nil:
		s.get(w, r)
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m := scriptedMessage{session: id, request: r}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if s.note != nil {
		s.note(m)
	}
	switch {
	case m.Method == methodInitialize:
		s.mu.Lock()
		s.made++
		name := fmt.Sprintf("session-%d", s.made)
		s.sessions[name] = true
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", name)
		answerJSON(w, 200, m.result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"scripted","version":"1"}}`, s.version, s.capabilities)))
	case len(m.ID) == 0 || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		s.handle(w, m)
	}
}
