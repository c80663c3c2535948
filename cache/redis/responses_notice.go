package redis

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/causeway-mcp/causeway/cache"
)

// notice tells all processes that use responses of a tenant what happened to them.
// The script that does a thing publishes the notice about it, so that nothing is
// done which nobody is told. It begins with what the script knows, two numbers in
// decimal, each with a space behind; then comes the note, which is made here: a
// version, a kind, and fields with their length in front.
type notice struct {
	kind byte
	// gen is the number that the topic has from then on, and prev the one that it had
	// before: its generation, or its number of drops when kind is noticeDrop.
	gen, prev uint64
	topic     cache.Topic
	// param is that of a change, or of the entry that is dropped.
	param      string
	credential string // of the entry that is dropped
	id         string // of a change that could not be written, by which it is written once
}

const noticeVersion = '1'

// Kinds of notices.
const (
	noticeChange = 'c' // a topic was invalidated; gen is 0 when it could not be written
	noticeDrop   = 'd' // one entry was dropped
	noticeTenant = 't' // more of the tenant was invalidated than can be told
)

var errNotice = errors.New("not a notice of this version")

// note gives what a notice has behind its two numbers.
func (m notice) note() []byte {
	b := []byte{noticeVersion, m.kind}
	for _, f := range m.fields() {
		b = binary.AppendUvarint(b, uint64(len(*f)))
		b = append(b, *f...)
	}
	return b
}

func (m *notice) fields() []*string {
	t := &m.topic
	return []*string{&t.Tenant, &t.Upstream, &t.Version, &t.Method, &m.param, &m.credential, &m.id}
}

// encode gives the notice as it is sent without a script.
func (m notice) encode() []byte {
	b := append(strconv.AppendUint(nil, m.gen, 10), ' ')
	b = append(strconv.AppendUint(b, m.prev, 10), ' ')
	return append(b, m.note()...)
}

// decodeNotice reads a notice.
func decodeNotice(b []byte) (notice, error) {
	var m notice
	for _, n := range []*uint64{&m.gen, &m.prev} {
		digits, rest, ok := bytes.Cut(b, []byte(" "))
		if !ok || len(digits) > 20 {
			return notice{}, errNotice
		}
		var err error
		if *n, err = strconv.ParseUint(string(digits), 10, 64); err != nil {
			return notice{}, errNotice
		}
		b = rest
	}
	if len(b) < 2 || b[0] != noticeVersion {
		return notice{}, errNotice
	}
	m.kind, b = b[1], b[2:]
	for _, f := range m.fields() {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return notice{}, errNotice
		}
		*f, b = string(b[size:size+int(n)]), b[size+int(n):]
	}
	if len(b) > 0 || m.kind != noticeChange && m.kind != noticeDrop && m.kind != noticeTenant {
		return notice{}, errNotice
	}
	return m, nil
}
