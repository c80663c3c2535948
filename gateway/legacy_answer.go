package gateway

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// questionPrefix begins the ids of our requests to clients.
const questionPrefix = "causeway-"

// askPurpose separates these ids from all other tokens of the ring.
const askPurpose = "ask"

// questionID makes the id of a request to the client of a session. Where there are
// other replicas, it tells them which one waits for the answer.
func (h *handshakes) questionID(session string) string {
	if h.peers == nil {
		return questionPrefix + rand.Text()
	}
	// The nonce in it makes it unlike all others.
	return questionPrefix + h.ring.Seal(askPurpose, []byte(h.peers.address), []byte(session))
}

// waitsAt gives the address of the other replica that waits for the answer to a
// request; empty when this one does, if any.
func (h *handshakes) waitsAt(session string, msg *mcp.Message) string {
	if h.peers == nil {
		return ""
	}
	id, _ := mcp.String(msg.Raw, msg.ID)
	token, ok := strings.CutPrefix(id, questionPrefix)
	if !ok {
		return ""
	}
	address, err := h.ring.Open(askPurpose, token, []byte(session))
	if err != nil || string(address) == h.peers.address {
		return ""
	}
	return string(address)
}

// answered passes a client's response to whoever waits for it in the session. One
// that nobody waits for is dropped.
func (h *handshakes) answered(ctx context.Context, s *session, msg *mcp.Message) error {
	if !msg.ID.Ok() {
		return nil
	}
	key := idKey(msg.Raw, msg.ID)
	if address := h.waitsAt(s.id, msg); address != "" {
		return h.peers.answer(ctx, address, answerHead{Session: s.id, Key: key}, msg.Raw)
	}
	return h.states.signal(ctx, s.id, signal{kind: signalAnswer, key: key, body: append([]byte(nil), msg.Raw...)})
}
