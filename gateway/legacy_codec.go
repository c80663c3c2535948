package gateway

import (
	"encoding/binary"
	"time"
)

// Versions of what replicas write for one another about sessions. What another
// version wrote is ignored.
const (
	stateVersion  = 1
	signalVersion = 1
)

// appendState writes a session's state, and when its token expires.
func appendState(dst []byte, s *softState, expires time.Time) []byte {
	dst = append(dst, stateVersion, flagOf(s.deleted))
	dst = binary.AppendUvarint(dst, s.stream)
	dst = binary.AppendVarint(dst, expires.UnixMilli())
	dst = appendField(dst, s.level)
	dst = binary.AppendUvarint(dst, uint64(len(s.uris)))
	for _, uri := range s.uris {
		dst = appendField(dst, uri)
	}
	return dst
}

// parseState undoes appendState; ok is false for what it has not written.
func parseState(raw []byte) (s softState, expires time.Time, ok bool) {
	r := fieldReader{rest: raw}
	if r.byte() != stateVersion {
		return s, expires, false
	}
	s.deleted = r.byte() == 1
	s.stream = r.uvarint()
	expires = time.UnixMilli(r.varint())
	s.level = r.field()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		s.uris = append(s.uris, r.field())
	}
	if r.bad || len(r.rest) > 0 {
		return softState{}, time.Time{}, false
	}
	return s, expires, true
}

// news is a signal on its way between replicas.
type news struct {
	from    string // the replica
	session string
	expires time.Time // when the session's token does; of signalDeleted
	signal  signal    // without body and state
}

// appendNews writes one.
func appendNews(dst []byte, m *news) []byte {
	dst = append(dst, signalVersion, byte(m.signal.kind))
	dst = appendField(dst, m.from)
	dst = appendField(dst, m.session)
	dst = binary.AppendVarint(dst, m.expires.UnixMilli())
	dst = appendField(dst, m.signal.key)
	return binary.AppendUvarint(dst, m.signal.stream)
}

// parseNews undoes appendNews; ok is false for what it has not written.
func parseNews(raw []byte) (m news, ok bool) {
	r := fieldReader{rest: raw}
	if r.byte() != signalVersion {
		return m, false
	}
	m.signal.kind = signalKind(r.byte())
	m.from, m.session = r.field(), r.field()
	m.expires = time.UnixMilli(r.varint())
	m.signal.key = r.field()
	m.signal.stream = r.uvarint()
	return m, !r.bad && len(r.rest) == 0 && m.session != ""
}

func flagOf(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// fieldReader reads what appendField and package encoding/binary have written. Once
// something is bad, all is.
type fieldReader struct {
	rest []byte
	bad  bool
}

func (r *fieldReader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *fieldReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *fieldReader) varint() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *fieldReader) field() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
