package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Methods that are measured, and what else clients or the gateway send.
const (
	methodCall     = "tools/call"
	methodList     = "tools/list"
	methodListen   = "subscriptions/listen"
	methodDiscover = "server/discover"
)

// firstID is the first request's id. All ids have as many digits, so that a
// request is prepared once and only its digits change, and none occurs elsewhere
// in an answer.
const firstID = 1_000_000_000

// sizeSlack is by how many bytes two answers to tools/list may differ: their
// ttlMs counts down.
const sizeSlack = 32

// request is a prepared request: all of its bytes, and where its id is.
type request struct {
	bytes  []byte
	idAt   int
	method string
	list   *listShape // of tools/list; nil for calls
}

// listShape is what each answer to tools/list must look like.
type listShape struct {
	names   []string // exposed
	mayOmit int      // how many of them may be missing
	omitted []string // those that were, once an answer was checked whole
	size    int      // of the answer, in bytes, once one was checked whole
}

// newRequest prepares a request of revision 2026-07-28
// (basic/transports/streamable-http, Request Metadata).
func newRequest(e endpoint, method string, tools []tool) *request {
	r := &request{method: method}
	name := e.prefix + tools[0].name
	params, header := "", ""
	if method == methodCall {
		params = fmt.Sprintf(`"name":%q,"arguments":{"query":"weather in Lisbon","num_results":5},`, name)
		header = "Mcp-Name: " + name + "\r\n"
	} else {
		r.list = &listShape{mayOmit: e.mayOmit}
		for _, t := range tools {
			r.list.names = append(r.list.names, e.prefix+t.name)
		}
	}
	if e.token != "" {
		header += "Authorization: Bearer " + e.token + "\r\n"
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"loadtest","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		firstID, method, params)
	r.bytes = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: loadtest\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%sContent-Length: %d\r\n\r\n%s",
		e.path, e.addr, method, header, len(body), body)
	r.idAt = bytes.Index(r.bytes, strconv.AppendInt(nil, firstID, 10))
	return r
}

// setID writes an id into a copy of the request's bytes and gives its digits.
func (r *request) setID(b []byte, id int64) []byte {
	digits := strconv.AppendInt(b[r.idAt:r.idAt], id, 10)
	return digits
}

// check looks at an answer as closely as can be done for each one: its status,
// its id, and its text or its size.
func (r *request) check(resp *response, digits []byte) error {
	if resp.status != http.StatusOK {
		return fmt.Errorf("status %d: %.200s", resp.status, resp.body)
	}
	if !hasID(resp.body, digits) {
		return fmt.Errorf("id %s is missing: %.200s", digits, resp.body)
	}
	if r.list == nil {
		if !bytes.Contains(resp.body, []byte(answerText)) {
			return fmt.Errorf("the result's text is missing: %.200s", resp.body)
		}
		return nil
	}
	if d := len(resp.body) - r.list.size; d < -sizeSlack || d > sizeSlack {
		return fmt.Errorf("the list has %d bytes, the first one had %d", len(resp.body), r.list.size)
	}
	return nil
}

// hasID looks for an id where writers put it before it looks everywhere.
func hasID(body, digits []byte) bool {
	const near = 128
	if len(body) <= 2*near {
		return bytes.Contains(body, digits)
	}
	return bytes.Contains(body[:near], digits) || bytes.Contains(body[len(body)-near:], digits) ||
		bytes.Contains(body, digits)
}

// checkWhole decodes an answer and looks at all that matters.
func (r *request) checkWhole(resp *response, digits []byte) error {
	if resp.status != http.StatusOK {
		return fmt.Errorf("status %d: %.200s", resp.status, resp.body)
	}
	message, err := lastMessage(resp)
	if err != nil {
		return err
	}
	var answer struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   json.RawMessage `json:"error"`
		Result  struct {
			Type    string `json:"resultType"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
			Next json.RawMessage            `json:"nextCursor"`
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"result"`
	}
	if err := json.Unmarshal(message, &answer); err != nil {
		return fmt.Errorf("%w: %.200s", err, message)
	}
	if answer.Version != "2.0" || !bytes.Equal(answer.ID, digits) || answer.Error != nil || answer.Result.Type != "complete" {
		return fmt.Errorf("no complete result for id %s: %.200s", digits, message)
	}
	if r.list == nil {
		if c := answer.Result.Content; len(c) != 1 || c[0].Text != answerText {
			return fmt.Errorf("another text: %.200s", message)
		}
		return nil
	}
	if answer.Result.Next != nil {
		return errors.New("the list came in pages")
	}
	if partial := answer.Result.Meta["io.github.causeway-mcp/partial"]; partial != nil {
		return fmt.Errorf("the list is partial: %s", partial)
	}
	got := make(map[string]bool)
	for _, t := range answer.Result.Tools {
		got[t.Name] = true
	}
	return r.list.compare(got, len(answer.Result.Tools))
}

// compare holds a list against the names that it must have.
func (l *listShape) compare(got map[string]bool, count int) error {
	l.omitted = nil
	for _, name := range l.names {
		if !got[name] {
			l.omitted = append(l.omitted, name)
		}
	}
	if len(l.omitted) > l.mayOmit || count != len(l.names)-len(l.omitted) {
		return fmt.Errorf("%d tools, want %d; missing: %.200s", count, len(l.names), strings.Join(l.omitted, " "))
	}
	return nil
}

// lastMessage gives the JSON of an answer, the last event's when it is a stream.
func lastMessage(resp *response) ([]byte, error) {
	mediaType, _, _ := strings.Cut(resp.contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/json":
		return resp.body, nil
	case "text/event-stream":
	default:
		return nil, fmt.Errorf("content type %q", resp.contentType)
	}
	var last []byte
	for event := range bytes.SplitSeq(resp.body, []byte("\n\n")) {
		var data [][]byte
		for line := range bytes.Lines(event) {
			if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
				data = append(data, bytes.TrimPrefix(rest, []byte(" ")))
			}
		}
		if len(data) > 0 {
			last = bytes.Join(data, []byte("\n"))
		}
	}
	if last == nil {
		return nil, fmt.Errorf("a stream without a message: %.200q", resp.body)
	}
	return last, nil
}
