package gateway_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// marker is in all that lying upstreams say, and must never reach a client.
const marker = "s3cret-inside"

// lie is one way in which an upstream fails to answer.
type lie struct {
	name      string
	answer    answering
	reason    string // data.reason
	retryable bool   // data.retryable of a tools/call that was sent
	hangs     bool   // it ends only when it is given up
}

// lies gives them all.
func lies() []lie {
	return []lie{
		{name: "never answers", answer: silent, reason: "timeout", hangs: true},
		{name: "begins and never ends", answer: beginsOnly, reason: "timeout", hangs: true},
		{name: "talks without an end", answer: talks, reason: "timeout", hangs: true},
		{name: "500 with a stack trace", answer: page(500, "text/plain", "panic: "+marker+"\n\ngoroutine 7 [running]:\nmain.go:12"), reason: "http_status"},
		{name: "500 with JSON", answer: page(500, "application/json", `{"error":"`+marker+`"}`), reason: "http_status"},
		{name: "502 of a proxy", answer: page(502, "text/html", "<h1>"+marker+"</h1>"), reason: "http_status"},
		{name: "503", answer: page(503, "text/plain", marker), reason: "http_status", retryable: true},
		{name: "429", answer: page(429, "application/json", `{"detail":"`+marker+`"}`), reason: "http_status", retryable: true},
		{name: "404", answer: page(404, "text/plain", marker), reason: "http_status"},
		{name: "401", answer: page(401, "text/plain", marker), reason: "unauthorized"},
		{name: "403 with JSON", answer: page(403, "application/json", `{"message":"`+marker+`"}`), reason: "unauthorized"},
		{name: "HTML", answer: page(200, "text/html; charset=utf-8", "<title>"+marker+"</title>"), reason: "protocol"},
		{name: "HTML that is called JSON", answer: page(200, "application/json", "<title>"+marker+"</title>"), reason: "protocol"},
		{name: "nothing", answer: page(200, "application/json", ""), reason: "protocol"},
		{name: "accepted", answer: page(202, "", ""), reason: "protocol"},
		{name: "a redirect", answer: redirects, reason: "http_status"},
		{name: "truncated JSON", answer: truncated, reason: "protocol"},
		{name: "JSON cut by the connection", answer: cutJSON, reason: "interrupted"},
		{name: "events cut in the middle", answer: cutEvents, reason: "interrupted"},
		{name: "events that end too early", answer: notAllEvents, reason: "interrupted"},
		{name: "a reset before the answer", answer: reset, reason: "connect"},
		{name: "another request's id", answer: said(`{"jsonrpc":"2.0","id":$ID7,"result":{"tools":[],"content":[]}}`), reason: "protocol"},
		{name: "its id as a string", answer: said(`{"jsonrpc":"2.0","id":"$ID","result":{"tools":[],"content":[]}}`), reason: "protocol"},
		{name: "no id", answer: said(`{"jsonrpc":"2.0","result":{"tools":[],"content":[]}}`), reason: "protocol"},
		{name: "the result null", answer: said(`{"jsonrpc":"2.0","id":$ID,"result":null}`), reason: "protocol"},
		{name: "two results", answer: said(`{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"content":[]},"result":{"tools":[]}}`), reason: "protocol"},
		{name: "a result and an error", answer: said(`{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":""}}`), reason: "protocol"},
		{name: "another JSON-RPC", answer: said(`{"jsonrpc":"1.0","id":$ID,"result":{"tools":[],"content":[]}}`), reason: "protocol"},
		{name: "a batch", answer: said(`[{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"content":[]}}]`), reason: "protocol"},
		{name: "two messages", answer: said(`{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"content":[]}}{}`), reason: "protocol"},
		{name: "a request of its own", answer: said(`{"jsonrpc":"2.0","id":$ID,"method":"ping"}`), reason: "protocol"},
		{name: "a resultType of nobody", answer: said(`{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"` + marker + `","tools":[],"content":[]}}`), reason: "protocol"},
		{name: "invalid UTF-8", answer: said("{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"tools\":[],\"content\":[],\"x\":\"\xff\"}}"), reason: "protocol"},
		{name: "too deep", answer: said(`{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"content":[],"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}}`), reason: "protocol"},
		{name: "brotli", answer: coded("br", []byte(marker)), reason: "protocol"},
		{name: "gzip that is none", answer: coded("gzip", []byte(marker)), reason: "protocol"},
		{name: "a bomb of gzip", answer: coded("gzip", bomb()), reason: "too_large"},
		{name: "over the bound", answer: huge(true), reason: "too_large"},
		{name: "over the bound without a length", answer: huge(false), reason: "too_large"},
		{name: "an event over the bound", answer: hugeEvent, reason: "too_large"},
	}
}

func silent(_ http.ResponseWriter, r *http.Request, _ *asked) { <-r.Context().Done() }

func beginsOnly(w http.ResponseWriter, r *http.Request, _ *asked) {
	answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/x"}`)
	<-r.Context().Done()
}

// talks sends notifications that do not concern the deadline until it is given
// up.
func talks(w http.ResponseWriter, r *http.Request, _ *asked) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+marker+`"}}`)
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

func page(status int, contentType, body string) answering {
	return func(w http.ResponseWriter, _ *http.Request, _ *asked) {
		w.Header()["Content-Type"] = []string{contentType}
		w.Header().Set("X-Inside", marker)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// redirects sends everybody to where a well-behaved answer is.
func redirects(w http.ResponseWriter, r *http.Request, a *asked) {
	if r.URL.Path == "/"+marker {
		answerResult(`{"resultType":"complete","tools":[{"name":"any","inputSchema":{"type":"object"}}],"content":[]}`)(w, r, a)
		return
	}
	http.Redirect(w, r, "/"+marker, http.StatusTemporaryRedirect)
}

// said answers with a text in which $ID is the request's id.
func said(text string) answering {
	return func(w http.ResponseWriter, _ *http.Request, a *asked) {
		answerJSON(w, http.StatusOK, strings.ReplaceAll(text, "$ID", string(a.ID)))
	}
}

func truncated(w http.ResponseWriter, _ *http.Request, a *asked) {
	answerJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":{"tools":[{"name":"`+marker)
}

func cutJSON(w http.ResponseWriter, r *http.Request, a *asked) {
	w.Header().Set("Content-Length", "1000")
	truncated(w, r, a)
}

func cutEvents(w http.ResponseWriter, r *http.Request, a *asked) {
	answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+marker+`"}}`)
	_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":{"tools":[],"content":[{"text":"`+marker)
	panic(http.ErrAbortHandler)
}

func notAllEvents(w http.ResponseWriter, _ *http.Request, _ *asked) {
	answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/x","params":{}}`)
}

// reset ends the connection the hard way.
func reset(w http.ResponseWriter, _ *http.Request, _ *asked) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func coded(coding string, body []byte) answering {
	return func(w http.ResponseWriter, _ *http.Request, _ *asked) {
		w.Header().Set("Content-Encoding", coding)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
}

// bomb is 32 MiB of JSON in little gzip.
func bomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 32<<20)) // a buffer takes all
	_ = z.Close()
	return b.Bytes()
}

// huge answers with more than the bound.
func huge(withLength bool) answering {
	return func(w http.ResponseWriter, _ *http.Request, a *asked) {
		head := `{"jsonrpc":"2.0","id":` + string(a.ID) + `,"result":{"tools":[],"content":[{"type":"text","text":"` + marker
		w.Header().Set("Content-Type", "application/json")
		if withLength {
			w.Header().Set("Content-Length", strconv.Itoa(len(head)+32<<20))
		}
		_, _ = io.WriteString(w, head)
		fill(w, 32<<20)
	}
}

func hugeEvent(w http.ResponseWriter, _ *http.Request, a *asked) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":{"tools":[],"content":[{"type":"text","text":"`)
	fill(w, 32<<20)
}

// fill writes n bytes, or as many as are taken.
func fill(w io.Writer, n int) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for ; n > 0; n -= len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}
