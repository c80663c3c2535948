package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// secretTime is how long a secret is used before it is read again, so that a request
// need not read a file.
const secretTime = 10 * time.Second

// maxSecretLine bounds the value of a secret header line, in bytes.
const maxSecretLine = 16 << 10

// fixedSource shows secrets of the configuration: CredentialBearer and
// CredentialHeaders. They are read anew, so that they can be rotated.
type fixedSource struct {
	b    *Broker
	conf tenant.Credential

	mu    sync.Mutex
	lines http.Header // not changed once it is there
	read  time.Time
}

// Credential implements Source.
func (s *fixedSource) Credential(context.Context) (http.Header, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil || s.b.now().Sub(s.read) >= secretTime {
		lines, err := s.open()
		if err != nil {
			return nil, err
		}
		s.lines, s.read = lines, s.b.now()
	}
	return s.lines.Clone(), nil
}

// Refused implements Source: the secrets may have been replaced a moment ago.
func (s *fixedSource) Refused(_ context.Context, sent http.Header, status int, _ []string) (bool, error) {
	if status != http.StatusUnauthorized {
		return false, nil
	}
	lines, err := s.open()
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines, s.read = lines, s.b.now()
	for name := range lines {
		if !same(lines.Get(name), sent.Get(name)) {
			return true, nil
		}
	}
	return false, nil
}

// open reads the secrets.
func (s *fixedSource) open() (http.Header, error) {
	list := s.conf.Headers
	if s.conf.Mode == tenant.CredentialBearer {
		list = []tenant.SecretHeader{{Name: "Authorization", Value: s.conf.Token}}
	}
	lines := make(http.Header, len(list))
	for _, h := range list {
		value, err := s.b.opts.Secrets(h.Value)
		if err != nil {
			return nil, fmt.Errorf("the secret of the header %s: %w", h.Name, err)
		}
		if !isLine(value) {
			return nil, fmt.Errorf("the secret of the header %s %w", h.Name, errLine)
		}
		text := string(value)
		if s.conf.Mode == tenant.CredentialBearer {
			text = "Bearer " + text
		}
		lines.Set(h.Name, text)
	}
	return lines, nil
}

var errLine = errors.New("is empty, too long, or holds bytes that cannot be in a header line")

// isLine tells whether a secret can be the value of a header line (RFC 9110, section
// 5.5), without spaces around it.
func isLine(value []byte) bool {
	if len(value) == 0 || len(value) > maxSecretLine || value[0] == ' ' || value[len(value)-1] == ' ' {
		return false
	}
	for _, c := range value {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
