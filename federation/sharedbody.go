package federation

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// pagesVersion is the first byte of a stored list: that of its form.
const pagesVersion = 1

// errPages tells that a stored list has another form.
var errPages = errors.New("not the pages of a list")

// appendPages writes the pages of a list as they are stored: the version, then each
// page's message with its length in front, a varint.
func appendPages(b []byte, pages [][]byte) []byte {
	b = append(b, pagesVersion)
	for _, p := range pages {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// readPages gives the messages of a stored list, at most limit. They are parts of
// body.
func readPages(body []byte, limit int) ([][]byte, error) {
	if len(body) == 0 || body[0] != pagesVersion {
		return nil, errPages
	}
	var pages [][]byte
	for body = body[1:]; len(body) > 0; {
		size, n := binary.Uvarint(body)
		if n <= 0 || size > uint64(len(body)-n) {
			return nil, errPages
		}
		if len(pages) >= limit {
			return nil, fmt.Errorf("more than %d pages", limit)
		}
		end := n + int(size)
		pages = append(pages, body[n:end:end])
		body = body[end:]
	}
	return pages, nil
}

// segmentOf makes a segment of a stored list, within the bounds of what an upstream
// may answer.
func (m *member) segmentOf(k kind, e cache.Entry) (*segment, error) {
	limits := &m.domain.fed.opts.Limits
	pages, err := readPages(e.Body, limits.MaxPages)
	if err != nil {
		return nil, err
	}
	msgs := make([]*mcp.Message, len(pages))
	for i, raw := range pages {
		msg, err := mcp.ParseMessage(raw, limits.MaxDepth)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", i+1, err)
		}
		if msg.Kind != mcp.KindResult {
			return nil, fmt.Errorf("page %d: %w", i+1, errPages)
		}
		msgs[i] = msg
	}
	seg, err := m.segmentFrom(k, msgs)
	if err != nil {
		return nil, err
	}
	seg.fetched, seg.ttl, seg.fence = e.Stored, e.TTL, e.Fence
	seg.public = seg.public && e.Public
	return seg, nil
}

// segmentFrom makes a segment of the results of a list's pages.
func (m *member) segmentFrom(k kind, msgs []*mcp.Message) (*segment, error) {
	if k == kindDiscover {
		if len(msgs) != 1 {
			return nil, errPages
		}
		return m.discoverSegment(msgs[0]), nil
	}
	b := m.builder(k)
	for _, msg := range msgs {
		if err := b.page(msg); err != nil {
			return nil, err
		}
	}
	return b.finish(), nil
}
