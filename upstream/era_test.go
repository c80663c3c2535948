package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestVersionNegotiation(t *testing.T) {
	const older = "2026-01-01" // a version that we might have spoken
	refusal := func(supported string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":%s,"requested":"x"}}}`, supported)
	}
	tests := []struct {
		name    string
		speaks  string // what the upstream speaks
		refusal string
		class   Class
		seen    []string // version header and `_meta` of two calls
	}{
		{"ours", mcp.VersionModern, "", "", []string{mcp.VersionModern, mcp.VersionModern}},
		{"another one of ours, remembered", older, refusal(`["2025-11-25","` + older + `"]`), "", []string{mcp.VersionModern, older, older}},
		{"none of ours", "x", refusal(`["2025-11-25"]`), ClassVersion, []string{mcp.VersionModern, mcp.VersionModern}},
		{"a lie", "x", refusal(`["` + older + `","` + mcp.VersionModern + `"]`), ClassVersion, []string{mcp.VersionModern, older, older, mcp.VersionModern}},
		{"the version that it refuses", "x", refusal(`["` + mcp.VersionModern + `"]`), ClassVersion, []string{mcp.VersionModern, mcp.VersionModern, mcp.VersionModern, mcp.VersionModern}},
		{"no list", "x", `{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"no"}}`, ClassVersion, []string{mcp.VersionModern, mcp.VersionModern}},
	}
	for _, tt := range tests {
		for _, how := range []string{"JSON", "SSE"} {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				seen := make(chan string, 10)
				c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
					version := r.Header.Get(mcp.HeaderProtocolVersion)
					seen <- version
					raw, _ := io.ReadAll(r.Body)
					if req, err := mcp.ParseRequest(raw, 64); err != nil || req.Meta.ProtocolVersion.Value != version {
						t.Errorf("the header names version %s, the body is %s", version, raw)
					}
					switch {
					case version == tt.speaks:
						answerJSON(w, 200, callResult)
					case how == "SSE":
						events(w)(tt.refusal)
					default:
						answerJSON(w, 400, tt.refusal)
					}
				}, func(c *Config) { c.BreakerFailures = 1 })
				c.era = newEra([]string{mcp.VersionModern, older})
				for range 2 {
					got, err := read(context.Background(), c, toolCall())
					if tt.class != "" {
						wantClass(t, err, tt.class, false)
					} else if diff := cmp.Diff([]string{callResult}, got); err != nil || diff != "" {
						t.Errorf("error %v, messages (-want +got):\n%s", err, diff)
					}
				}
				var versions []string
				for len(seen) > 0 {
					versions = append(versions, <-seen)
				}
				if diff := cmp.Diff(tt.seen, versions); diff != "" {
					t.Errorf("versions (-want +got):\n%s", diff)
				}
			})
		}
	}
}
