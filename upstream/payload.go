package upstream

import (
	"bytes"
	"io"
	"sync/atomic"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// copyLimit is the size up to which a message is copied out of its pooled
// buffer. net/http may read a body until it has closed it, which it tells only to
// body types that it does not know, and for those it sends the header in a write
// and packet of its own: for a small message that costs far more than the copy.
const copyLimit = 16 << 10

// payload is a request's message for as long as it may have to be sent.
type payload struct {
	data   []byte
	pooled *mcp.Buffer  // what data is part of; nil for a copy
	users  atomic.Int32 // of pooled: the request, and each body that a transport has not closed
	gone   bool         // release was called
}

// init takes buf over. A nil buf is an empty message.
func (p *payload) init(buf *mcp.Buffer) {
	switch {
	case buf == nil:
	case len(buf.B) <= copyLimit:
		p.data = bytes.Clone(buf.B)
		buf.Release()
	default:
		p.data, p.pooled = buf.B, buf
		p.users.Store(1)
	}
}

// replace puts another message in the place of the present one.
func (p *payload) replace(data []byte) {
	p.drop()
	p.data, p.pooled = data, nil
}

// reader gives a body for one attempt.
func (p *payload) reader() io.ReadCloser {
	if p.pooled == nil {
		return io.NopCloser(bytes.NewReader(p.data))
	}
	p.users.Add(1)
	b := &pooledBody{pooled: p.pooled, users: &p.users}
	b.Reset(p.data)
	return b
}

// again is http.Request.GetBody.
func (p *payload) again() (io.ReadCloser, error) { return p.reader(), nil }

// release tells that the message will not be sent once more. It may be called
// twice.
func (p *payload) release() {
	if !p.gone {
		p.gone = true
		p.drop()
	}
}

func (p *payload) drop() {
	if p.pooled != nil && p.users.Add(-1) == 0 {
		p.pooled.Release()
	}
}

// pooledBody is a body in pooled memory.
type pooledBody struct {
	bytes.Reader
	pooled *mcp.Buffer
	users  *atomic.Int32
	closed atomic.Bool
}

// Close implements io.Closer.
func (b *pooledBody) Close() error {
	if !b.closed.Swap(true) && b.users.Add(-1) == 0 {
		b.pooled.Release()
	}
	return nil
}
