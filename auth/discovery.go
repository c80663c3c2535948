package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/causeway-mcp/causeway/auth/ask"
	"github.com/causeway-mcp/causeway/auth/work"
)

// serverMetadata is what is used of an authorization server's metadata (RFC 8414,
// section 2).
type serverMetadata struct {
	Issuer                string `json:"issuer"`
	JWKSURI               string `json:"jwks_uri"`
	IntrospectionEndpoint string `json:"introspection_endpoint"`
}

// metadata gives the server's metadata. When the server cannot be asked it is what was
// known.
func (s *server) metadata(ctx context.Context) (serverMetadata, error) {
	s.mu.Lock()
	fresh := s.now().Sub(s.metaAt) < metadataTime
	if !fresh {
		s.begin(&s.metaFold, metaInterval, "metadata", s.fetchMetadata)
	}
	running := s.metaFold.running
	s.mu.Unlock()
	if !fresh && running != nil {
		work.Await(ctx, running, fetchTime)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meta.Issuer == "" {
		return serverMetadata{}, errUnavailable
	}
	return s.meta, nil
}

// fetchMetadata reads the metadata from the first place that has it.
func (s *server) fetchMetadata(ctx context.Context) error {
	places, err := ask.Places(s.issuer)
	if err != nil {
		return err
	}
	var faults []error
	for _, place := range places {
		m, err := s.metadataAt(ctx, place)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.meta, s.metaAt = m, s.now()
		return nil
	}
	return errors.Join(faults...)
}

// metadataAt reads the metadata at one place. It is not used unless it names exactly
// the issuer that was asked for (RFC 8414, section 3.3).
func (s *server) metadataAt(ctx context.Context, place string) (serverMetadata, error) {
	var m serverMetadata
	raw, err := s.get(ctx, place)
	if err != nil {
		return m, err
	}
	if json.Unmarshal(raw, &m) != nil {
		return m, fmt.Errorf("%s: not metadata", place)
	}
	if m.Issuer != s.issuer {
		return serverMetadata{}, fmt.Errorf("%s: is that of another issuer", place)
	}
	return m, nil
}

// get reads a document of the server.
func (s *server) get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	req.Header.Set("Accept", "application/json")
	return s.do(req)
}

// do sends a request to the server and gives the body of its answer. Errors hold
// nothing of what was sent or answered but the URL.
func (s *server) do(req *http.Request) ([]byte, error) {
	answer, err := ask.Do(s.client, req, s.private)
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", req.URL.Redacted(), answer.Status)
	}
	return answer.Body, nil
}
