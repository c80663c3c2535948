package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
)

// answerText is what every call of every tool of the upstream answers.
const answerText = "It is 18 degrees and dry in Lisbon."

// listTTL is longer than a run, so that a warm list stays fresh for all of it.
const listTTL = 3_600_000 // ms

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

// countPath tells how many MCP requests there were.
const countPath = "/requests"

const serverInfo = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"loadtest","version":"1.0.0"}}`

// upstream is a server of revision 2026-07-28 that does as little as it can.
type upstream struct {
	names    map[string]bool
	list     []byte // the result of tools/list
	info     string // the member of results that says who it is
	sse      bool   // answers calls as an event stream
	requests atomic.Int64
	// announcer makes the list change and tells of it; nil for a list that stays.
	announcer *announcer
}

// serveUpstream is the subcommand "upstream".
func serveUpstream(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	fs := flag.NewFlagSet(cmdUpstream, flag.ContinueOnError)
	count := fs.Int("tools", 20, "how many tools")
	file := fs.String("catalogue", "", "file of real tools")
	sse := fs.Bool("sse", false, "answer calls as an event stream")
	announce := fs.Bool("announce", false, "change the list when asked to, and tell who listens")
	handshake := fs.Bool("handshake", false, "speak revision "+handshakeVersion)
	if err := fs.Parse(args); err != nil {
		return err
	}
	cat, err := loadCatalogue(*file)
	if err != nil {
		return err
	}
	var handler http.Handler
	switch tools := cat.first(*count); {
	case *handshake:
		handler, err = newHandshakeUpstream(tools)
	case *announce:
		handler, err = newAnnouncingUpstream(tools)
	default:
		handler, err = newUpstream(tools, *sse)
	}
	if err != nil {
		return err
	}
	return serve(ctx, []http.Handler{handler}, stdin, stdout)
}

// indexTools gives the names of tools as a set, and what each is listed as.
func indexTools(tools []tool) (names map[string]bool, raws [][]byte, err error) {
	names = make(map[string]bool)
	for _, t := range tools {
		if names[t.name] {
			return nil, nil, fmt.Errorf("two tools are named %s", t.name)
		}
		names[t.name] = true
		raws = append(raws, t.raw)
	}
	return names, raws, nil
}

func newUpstream(tools []tool, sse bool) (*upstream, error) {
	names, raws, err := indexTools(tools)
	if err != nil {
		return nil, err
	}
	return &upstream{names: names, sse: sse, info: serverInfo, list: listResult(raws)}, nil
}

// listResult makes the result of tools/list.
func listResult(tools [][]byte) []byte {
	return fmt.Appendf(nil, `{"resultType":"complete","tools":[%s],"ttlMs":%d,"cacheScope":"public",%s}`,
		bytes.Join(tools, []byte(",")), listTTL, serverInfo)
}

// message is what the upstreams look at of a request or notification.
type message struct {
	ID     json.RawMessage `json:"id"` // empty for a notification
	Method string          `json:"method"`
	Params struct {
		Name          string          `json:"name"`
		Notifications json.RawMessage `json:"notifications"` // of subscriptions/listen
	} `json:"params"`
}

func readMessage(w http.ResponseWriter, r *http.Request) (message, error) {
	var m message
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(body, &m)
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == countPath {
		_, _ = io.WriteString(w, strconv.FormatInt(u.requests.Load(), 10))
		return
	}
	if u.announcer.control(w, r) {
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	u.requests.Add(1)
	req, err := readMessage(w, r)
	if err != nil || len(req.ID) == 0 {
		http.Error(w, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"not a request"}}`, http.StatusBadRequest)
		return
	}
	if u.announcer.answer(w, r, &req) {
		return
	}
	switch req.Method {
	case methodCall:
		if !u.names[req.Params.Name] {
			respond(w, req.ID, "error", []byte(`{"code":-32602,"message":"unknown tool"}`))
			return
		}
		result := []byte(`{"resultType":"complete","content":[{"type":"text","text":"` + answerText + `"}],"isError":false,` + serverInfo + `}`)
		if u.sse {
			stream(w, req.ID, result)
		} else {
			respond(w, req.ID, "result", result)
		}
	case methodList:
		respond(w, req.ID, "result", u.list)
	case methodDiscover:
		respond(w, req.ID, "result", discoverResult("{}", u.info))
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, req.ID)
	}
}

// discoverResult makes the result of server/discover, with the capability tools.
func discoverResult(tools, info string) []byte {
	return fmt.Appendf(nil, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":%s},"ttlMs":%d,"cacheScope":"public",%s}`,
		tools, listTTL, info)
}

func envelope(id json.RawMessage, member string, value []byte) []byte {
	b := make([]byte, 0, len(value)+len(id)+48)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"`...)
	b = append(b, member...)
	b = append(b, `":`...)
	b = append(b, value...)
	return append(b, '}')
}

func respond(w http.ResponseWriter, id json.RawMessage, member string, value []byte) {
	body := envelope(id, member, value)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// stream answers as the Go SDK does: one event, one write, one flush.
func stream(w http.ResponseWriter, id json.RawMessage, result []byte) {
	beginStream(w)
	_ = sendEvent(w, envelope(id, "result", result)) // a client that left is no error
}

func beginStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
}

func sendEvent(w http.ResponseWriter, message []byte) error {
	event := append([]byte("event: message\ndata: "), message...)
	if _, err := w.Write(append(event, "\n\n"...)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
