package gateway

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// FuzzSplitBatch holds that the messages of a batch are what encoding/json finds in
// the array.
func FuzzSplitBatch(f *testing.F) {
	for _, seed := range []string{`[]`, ` [ {"id":1} , 2,[3] ] `, `[1],"x":[2]`, `[1]}`, `[1`, `[,]`, `["]"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, bad := splitBatch(body, 64)
		if bad != nil {
			return
		}
		var want []json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q was split: %v", body, err)
		}
		if len(list) != len(want) {
			t.Fatalf("%q has %d messages, got %d", body, len(want), len(list))
		}
		for i := range list {
			if !bytes.Equal(list[i], want[i]) {
				t.Errorf("message %d is %q, want %q", i, list[i], want[i])
			}
		}
	})
}

// FuzzTranslate holds that whatever a server answers, the client gets JSON, and no
// structured content that is not an object.
func FuzzTranslate(f *testing.F) {
	for _, seed := range []string{
		`{"resultType":"complete","content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`,
		`{"structuredContent":"\ud800","content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`,
		`{"tools":[{"outputSchema":{"type":"array"}},{"outputSchema":7},8],"ttlMs":1,"cacheScope":"x"}`,
		`{ "structuredContent" : null , "content" : 5 , "content" : [ ] }`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, result string, list bool) {
		raw := []byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`)
		if _, err := mcp.ParseMessage(raw, 0); err != nil {
			return
		}
		req := &mcp.Request{Method: mcp.MethodToolsCall}
		if list {
			req.Method = mcp.MethodToolsList
		}
		reply := &federation.Reply{Body: mcp.GetBuffer(len(raw))}
		reply.Body.B = append(reply.Body.B, raw...)
		body, msg, err := (&turn{x: &exchange{}, req: req}).translate(reply)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if body == nil {
			if msg.ResultType.Value != mcp.ResultInputRequired {
				t.Errorf("%s: no body", raw)
			}
			return
		}
		if !json.Valid(body.B) {
			t.Fatalf("%s became %s", raw, body.B)
		}
		got, err := mcp.ParseMessage(body.B, 0)
		if err != nil {
			t.Fatalf("%s became %s: %v", raw, body.B, err)
		}
		if at := mcp.Find(body.B, got.Result, "structuredContent"); !list && at.Ok() && !isObject(body.B, at) {
			t.Errorf("%s became %s", raw, body.B)
		}
	})
}
