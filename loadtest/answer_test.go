package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const (
	goodCall = `{"jsonrpc":"2.0","id":1000000007,"result":{"resultType":"complete","content":[{"type":"text","text":"` + answerText + `"}]}}`
	goodList = `{"jsonrpc":"2.0","id":1000000007,"result":{"resultType":"complete","tools":[{"name":"bench_b"},{"name":"bench_a"}],"ttlMs":1,"cacheScope":"public"}}`
)

func testRequest(method string) *request {
	return newRequest(endpoint{addr: "127.0.0.1:1", path: "/mcp", prefix: "bench_"}, method, []tool{{name: "a"}, {name: "b"}})
}

func TestChecks(t *testing.T) {
	change := strings.Replace
	tests := []struct {
		name, method string
		status       int
		contentType  string
		body         string
		each, whole  bool // what the two checks say
	}{
		{"call", methodCall, 200, "application/json", goodCall, true, true},
		{"call as a stream", methodCall, 200, "text/event-stream", "event: message\ndata: " + goodCall + "\n\n", true, true},
		{"call as a stream with progress", methodCall, 200, "text/event-stream; charset=utf-8",
			": hello\n\ndata: {\"method\":\"notifications/progress\"}\n\nid: 1\ndata:" + goodCall + "\n\n", true, true},
		{"list", methodList, 200, "application/json; charset=utf-8", goodList, true, true},
		{"status", methodCall, 500, "application/json", goodCall, false, false},
		{"another id", methodCall, 200, "application/json", change(goodCall, "1000000007", "1000000008", 1), false, false},
		{"another text", methodCall, 200, "application/json", change(goodCall, "Lisbon", "Porto", 1), false, false},
		{"content type", methodCall, 200, "text/html", goodCall, true, false},
		{"not JSON", methodCall, 200, "application/json", goodCall + "}", true, false},
		{"stream without a message", methodCall, 200, "text/event-stream", ": " + goodCall + "\n\n", true, false},
		{"error", methodCall, 200, "application/json", `{"jsonrpc":"2.0","id":1000000007,"error":{"code":-32603,"message":"down"}}`, false, false},
		{"input required", methodCall, 200, "application/json", change(goodCall, "complete", "input_required", 1), true, false},
		{"list of another size", methodList, 200, "application/json", goodList + strings.Repeat(" ", sizeSlack+1), false, true},
		{"list in pages", methodList, 200, "application/json", change(goodList, `"ttlMs"`, `"nextCursor":"x","ttlMs"`, 1), true, false},
		{"partial list", methodList, 200, "application/json", change(goodList, `"ttlMs"`, `"_meta":{"io.github.causeway-mcp/partial":[]},"ttlMs"`, 1), false, false},
		{"missing tool", methodList, 200, "application/json", change(goodList, "bench_a", "bench_c", 1), true, false},
		{"one tool more", methodList, 200, "application/json", change(goodList, `"tools":[`, `"tools":[{"name":"c"},`, 1), true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := testRequest(tt.method)
			if r.list != nil {
				r.list.size = len(goodList)
			}
			resp := &response{status: tt.status, contentType: tt.contentType, body: []byte(tt.body)}
			if err := r.check(resp, []byte("1000000007")); (err == nil) != tt.each {
				t.Errorf("check = %v, want good: %v", err, tt.each)
			}
			if err := r.checkWhole(resp, []byte("1000000007")); (err == nil) != tt.whole {
				t.Errorf("checkWhole = %v, want good: %v", err, tt.whole)
			}
		})
	}
}

func TestMayOmit(t *testing.T) {
	l := &listShape{names: []string{"a", "b", "c"}, mayOmit: 1}
	if err := l.compare(map[string]bool{"a": true, "c": true}, 2); err != nil || len(l.omitted) != 1 || l.omitted[0] != "b" {
		t.Errorf("one missing: %v, omitted %q", err, l.omitted)
	}
	if err := l.compare(map[string]bool{"a": true}, 1); err == nil {
		t.Error("two missing are fine")
	}
	if err := l.compare(map[string]bool{"a": true, "c": true, "d": true}, 3); err == nil {
		t.Error("another tool in place of one that is missing is fine")
	}
}

func TestHasID(t *testing.T) {
	id := []byte("1000000007")
	for _, n := range []int{0, 10, 100, 1_000, 10_000} {
		fill := strings.Repeat("x", n)
		if !hasID(fmt.Appendf(nil, "%s%s%s", fill, id, fill), id) {
			t.Errorf("not found between %d bytes", n)
		}
		if hasID([]byte(fill+fill), id) {
			t.Errorf("found in %d other bytes", 2*n)
		}
	}
}

// The prepared bytes are a request that net/http reads, also with another id.
func TestNewRequest(t *testing.T) {
	r := testRequest(methodCall)
	wire := bytes.Clone(r.bytes)
	if got := r.setID(wire, firstID+42); string(got) != strconv.Itoa(firstID+42) {
		t.Errorf("digits %s", got)
	}
	want := bytes.Replace(r.bytes, []byte("1000000000"), []byte("1000000042"), 1)
	if !bytes.Equal(wire, want) {
		t.Errorf("got %s, want %s", wire, want)
	}
	req, err := readRequest(wire)
	if err != nil {
		t.Fatal(err)
	}
	if req.URL.Path != "/mcp" || req.Header.Get("Mcp-Name") != "bench_a" || req.Method != http.MethodPost {
		t.Errorf("%s %s for %q", req.Method, req.URL, req.Header.Get("Mcp-Name"))
	}
}
