package upstream

import (
	"bytes"
	"errors"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// seenAnswer is an answer whose first message was looked at already, or that was
// waited for before it was asked for.
type seenAnswer struct {
	Answer
	message *mcp.Message
	err     error
	used    bool // message and err were given out
	waited  time.Duration
}

var _ Answer = (*seenAnswer)(nil)

// Next implements Answer.
func (s *seenAnswer) Next() (*mcp.Message, error) {
	if s.used {
		return s.Answer.Next()
	}
	s.used = true
	return s.message, s.err
}

// Waited implements Answer.
func (s *seenAnswer) Waited() time.Duration { return s.waited + s.Answer.Waited() }

// orError gives the answer, or the error when there is none.
func (s *seenAnswer) orError(err error) (Answer, error) {
	if s == nil {
		return nil, err
	}
	return s, nil
}

// spare is a copy of a request for as long as it may have to be sent in another
// way.
type spare struct{ req Request }

// spareOf copies a request before it is given away. The message of a large one is
// not copied: Body is nil then.
func spareOf(req *Request) *spare {
	s := &spare{req: *req}
	// Both may be part of Body.
	s.req.ID, s.req.ProgressToken = bytes.Clone(req.ID), bytes.Clone(req.ProgressToken)
	s.req.Body = nil
	if n := len(req.Body.B); n <= copyLimit {
		s.req.Body = mcp.GetBuffer(n)
		s.req.Body.B = append(s.req.Body.B, req.Body.B...)
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

// take gives the copy away.
func (s *spare) take() *Request {
	req := s.req
	s.req.Body = nil
	return &req
}

func (s *spare) release() { s.req.Body.Release() }
