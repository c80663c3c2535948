package upstream

import (
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
