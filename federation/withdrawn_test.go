package federation

import (
	"testing"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// What was read for a user is not given to a client any more that they have withdrawn.
func TestNothingIsReadFromTheCacheAfterThat(t *testing.T) {
	asking(t, func(t *testing.T, p *personal) {
		p.sign("ann", true)
		read := func() *Call { return p.client(withURLs, "", mcp.MethodResourcesRead, `"uri":"a+doc://1"`).by("ann") }
		for range 2 {
			p.do(read())
		}
		if n := p.subject("ann").count(mcp.MethodResourcesRead); n != 1 {
			t.Errorf("read %d times, want once and then from the cache", n)
		}
		p.sign("ann", false)
		p.asks(t, read())
	})
}
