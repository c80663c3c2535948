package federation

import (
	"strings"
	"testing"
	"time"

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

// A user who signs in with another account at the upstream sees nothing of the first,
// whether something was kept for the user meanwhile or not.
func TestAnotherAccountIsReadAnew(t *testing.T) {
	for name, drop := range map[string]func(*personal, *domain){
		"kept":        func(*personal, *domain) {},
		"idle user":   func(p *personal, d *domain) { d.prune(p.fed.now().Add(time.Hour)) },
		"idle tenant": func(p *personal, d *domain) { p.fed.drop("default", d) },
	} {
		t.Run(name, func(t *testing.T) { anotherAccount(t, drop) })
	}
}

func anotherAccount(t *testing.T, drop func(*personal, *domain)) {
	asking(t, func(t *testing.T, p *personal) {
		p.sign("ann", true)
		read := func() *Call { return p.client(withURLs, "", mcp.MethodResourcesRead, `"uri":"a+doc://1"`).by("ann") }
		if got := p.do(read()); !strings.Contains(got, "of ann") {
			t.Fatal(got)
		}
		p.accounts.mu.Lock()
		p.accounts.of["ann"] = owned(t, "another")
		p.accounts.mu.Unlock()
		who := read().Principal
		drop(p, p.load(t))
		p.fed.Connected(t.Context(), "default", "a", &who)
		if got := p.do(read()); !strings.Contains(got, "of another") {
			t.Errorf("read %s", got)
		}
	})
}
