package mcp

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// typicalCall is about 550 bytes, as clients send it.
var typicalCall = []byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"travel_searchFlights","arguments":{"origin":"NYC","destination":"Barcelona","date":"2024-06-15","passengers":2,"flexible":true,"notes":"window seat, please; vegetarian meal"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"progressToken":"abc-1","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`)

var typicalResult = []byte(`{"jsonrpc":"2.0","id":"g-12345","result":{"resultType":"complete","content":[{"type":"text","text":"Found 3 flights from NYC to Barcelona on 2024-06-15:\n1. VY 8021, 18:05, $420\n2. IB 6252, 19:40, $510\n3. DL 128, 20:15, $655"}],"structuredContent":{"flights":[{"id":"VY8021","price":420},{"id":"IB6252","price":510},{"id":"DL128","price":655}]},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"travel","version":"1.0.0"}}}}`)

func BenchmarkParseRequest(b *testing.B) {
	b.SetBytes(int64(len(typicalCall)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRequest(typicalCall, 128); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseRequest4MB(b *testing.B) {
	big := bytes.Replace(typicalCall, []byte("window seat"), bytes.Repeat([]byte("window seat "), 4<<20/12), 1)
	b.SetBytes(int64(len(big)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRequest(big, 128); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseMessage(b *testing.B) {
	b.SetBytes(int64(len(typicalResult)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseMessage(typicalResult, 128); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSplice makes the changes that a call needs on its way upstream.
func BenchmarkSplice(b *testing.B) {
	r, err := ParseRequest(typicalCall, 128)
	if err != nil {
		b.Fatal(err)
	}
	var e Edits
	var out []byte
	id, name, token := []byte("77"), []byte(`"searchFlights"`), []byte("78")
	state := []byte(`"vendor=1"`)
	b.SetBytes(int64(len(typicalCall)))
	b.ReportAllocs()
	for b.Loop() {
		e.Reset()
		e.Replace(r.ID, id)
		e.Replace(r.Name.Span, name)
		e.SetMember(r.Raw, r.Meta.Span, MetaProgressToken, token)
		e.SetMember(r.Raw, r.Meta.Span, MetaTracestate, state)
		out = e.AppendTo(out[:0], r.Raw)
	}
}

func BenchmarkMembers(b *testing.B) {
	var tools []string
	for i := range 100 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","title":"Tool","description":"does something useful","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, i))
	}
	list := []byte("[" + strings.Join(tools, ",") + "]")
	b.SetBytes(int64(len(list)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for tool := range Elements(list, Span{0, len(list)}) {
			for m := range Members(list, tool) {
				n += len(m.Key)
			}
		}
		if n == 0 {
			b.Fatal("nothing found")
		}
	}
}

func BenchmarkReadAll(b *testing.B) {
	src := bytes.NewReader(typicalCall)
	budget := NewBudget(1 << 30)
	b.SetBytes(int64(len(typicalCall)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(typicalCall)
		buf, err := ReadAll(src, 4<<20, int64(len(typicalCall)), budget)
		if err != nil {
			b.Fatal(err)
		}
		buf.Release()
	}
}

func BenchmarkCheckHeaders(b *testing.B) {
	r, err := ParseRequest(typicalCall, 128)
	if err != nil {
		b.Fatal(err)
	}
	h := http.Header{HeaderProtocolVersion: {VersionModern}, HeaderMethod: {MethodToolsCall}, HeaderName: {"travel_searchFlights"}}
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckHeaders(h, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalDigest(b *testing.B) {
	b.SetBytes(int64(len(typicalCall)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CanonicalDigest(typicalCall); err != nil {
			b.Fatal(err)
		}
	}
}
