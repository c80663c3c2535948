package upstream

import (
	"errors"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// spare is a copy of a request for as long as it may have to be sent in another
// way. Its memory is used again.
type spare struct {
	req       Request // without Body
	body      []byte
	kept      bool // body is the message; false when it was too large to be copied
	id, token []byte
}

// spareOf copies a request before it is given away.
func (a *auto) spareOf(req *Request) *spare {
	s, _ := a.spares.Get().(*spare)
	if s == nil {
		s = &spare{}
	}
	s.req = *req
	s.req.Body = nil
	// Both may be part of Body.
	s.id, s.token = append(s.id[:0], req.ID...), append(s.token[:0], req.ProgressToken...)
	s.req.ID, s.req.ProgressToken = s.id, nil
	if req.ProgressToken != nil {
		s.req.ProgressToken = s.token
	}
	s.body = s.body[:0]
	if s.kept = len(req.Body.B) <= copyLimit; s.kept {
		s.body = append(s.body, req.Body.B...)
	}
	return s
}

// mayRepeat tells whether a request that failed with err, or was answered with an
// error when it is nil, was surely not carried out or may be twice.
func (s *spare) mayRepeat(err error) bool {
	if err == nil || repeatable(s.req.Method) {
		return true
	}
	switch failureClass(err) {
	case ClassVersion, ClassRejected, ClassStatus:
		return true
	case ClassConnect:
		return errors.Is(err, errClosed)
	}
	return false
}

// request gives the request once more.
func (s *spare) request() *Request {
	req := s.req
	req.Body = mcp.GetBuffer(len(s.body))
	req.Body.B = append(req.Body.B, s.body...)
	return &req
}

// release gives the memory back. What was made of it with request must not need
// its ids any more.
func (a *auto) release(s *spare) {
	s.req = Request{} // it holds on to headers
	a.spares.Put(s)
}
