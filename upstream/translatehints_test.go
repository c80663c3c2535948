package upstream

import (
	"testing"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestWithoutHints(t *testing.T) {
	const hinted = `{"jsonrpc":"2.0","id":1,"result":{"ttlMs":0,"tools":[{"name":"a","ttlMs":5}],"cacheScope":"private","_meta":{"ttlMs":1}}}`
	tests := []struct{ name, method, in, want string }{
		{"list", mcp.MethodToolsList, hinted, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","ttlMs":5}],"_meta":{"ttlMs":1}}}`},
		{"nothing else", mcp.MethodPromptsList, `{"jsonrpc":"2.0","id":1,"result":{"ttlMs":0}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"list without hints", mcp.MethodResourcesList, `{"jsonrpc":"2.0","id":1,"result":{"resources":[]}}`, `{"jsonrpc":"2.0","id":1,"result":{"resources":[]}}`},
		{"call", mcp.MethodToolsCall, hinted, hinted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			buf := mcp.GetBuffer(len(tt.in))
			defer buf.Release()
			buf.B = append(buf.B, tt.in...)
			m, err := mcp.ParseMessage(buf.B, 0)
			if err != nil {
				t.Fatal(err)
			}
			if m, err = withoutHints(tt.method, buf, m, 0); err != nil {
				t.Fatal(err)
			}
			withResultType(buf, m) // it goes on in the same buffer
			withType, err := mcp.ParseMessage(buf.B, 0)
			if err != nil || withType.ResultType.Value != mcp.ResultComplete {
				t.Errorf("it cannot be edited further: %v, %s", err, buf.B)
			}
			buf.B = append(buf.B[:0], tt.in...)
			if m, err = mcp.ParseMessage(buf.B, 0); err == nil {
				m, err = withoutHints(tt.method, buf, m, 0)
			}
			if err != nil || string(m.Raw) != tt.want {
				t.Errorf("withoutHints = %s, %v, want %s", m.Raw, err, tt.want)
			}
		})
	}
}
