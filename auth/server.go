package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/causeway-mcp/causeway/auth/ask"
	"github.com/causeway-mcp/causeway/auth/work"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Times of what issuers publish.
const (
	fetchTime     = 10 * time.Second // for metadata and keys together
	fetchInterval = 10 * time.Second // between two fetches of keys, whatever tokens name
	metaInterval  = 5 * time.Second  // and between two of metadata
	fetchWait     = 5 * time.Second  // that a request waits for keys that it needs
	refreshWait   = 2 * time.Second  // and for newer ones than it has

	keysFresh    = 10 * time.Minute // older ones are fetched again in the background
	keysOld      = time.Hour        // those are waited for, unless the issuer is known to be down
	keysStale    = 24 * time.Hour   // and those are not used any more
	metadataTime = time.Hour        // for which metadata is not asked again
)

const (
	maxServers       = 1 << 12 // that are kept; the least recently used go first
	maxIntrospecting = 32      // questions to one issuer at the same time
)

var (
	errUnknownKey  = errors.New("no such key")
	errUnavailable = errors.New("the issuer cannot be asked now")
)

// serverID is what makes two configured issuers the same server.
type serverID struct {
	issuer, jwks string
	private      bool
}

// server is an authorization server: its metadata and its keys. Tenants that trust the
// same one share it; what they share is public.
type server struct {
	serverID
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	work   *work.Group
	slots  chan struct{} // taken by introspection

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	keysAt   time.Time // when they were read; zero before the first time
	keysFold fold
	meta     serverMetadata
	metaAt   time.Time // zero when it is to be read anew
	metaFold fold
	noAnswer time.Time // when a question about a token failed last
}

// fold is the state of something that is fetched once at a time, and not too often.
type fold struct {
	tried   time.Time     // when the latest fetch began
	failed  bool          // whether the latest that ended failed
	running chan struct{} // closed when the fetch under way ends; nil for none
}

// server gives the server of a configured issuer. a.mu is held.
func (a *Authenticator) server(conf tenant.Issuer) *server {
	id := serverID{conf.Issuer, conf.JWKSURL, conf.Private}
	if s, ok := a.servers.Get(id); ok {
		return s
	}
	s := &server{
		serverID: id, client: ask.Client(a.client(conf.Private)), now: a.now, log: a.log.With("issuer", conf.Issuer), work: a.work,
		slots: make(chan struct{}, maxIntrospecting),
	}
	a.servers.Put(id, s, 1)
	return s
}

// pause keeps questions about tokens from a server that has not answered one, so that
// it and the log are spared.
func (s *server) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noAnswer = s.now()
}

func (s *server) paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().Sub(s.noAnswer) < introspectPause
}

// begin begins a fetch, unless one is under way or was a short while ago. s.mu is held,
// but not while do runs.
func (s *server) begin(f *fold, every time.Duration, what string, do func(ctx context.Context) error) {
	now := s.now()
	if f.running != nil || now.Sub(f.tried) < every {
		return
	}
	done := make(chan struct{})
	started := s.work.Start(fetchTime, func(ctx context.Context) {
		defer close(done)
		err := do(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		f.running, f.failed = nil, err != nil
		if err != nil {
			s.log.Warn("cannot read what an issuer publishes", "what", what, "error", err)
		}
	})
	if started {
		f.running, f.tried = done, now
	}
}

// candidates gives the keys that may have made a signature, again when those that were
// known have not. Known ones never wait for a fetch that an unknown one has caused;
// there is one fetch at a time, and none sooner than fetchInterval after the one
// before.
func (s *server) candidates(ctx context.Context, kid, alg string, again bool) ([]jose.JSONWebKey, error) {
	s.mu.Lock()
	known, age := s.matching(kid, alg), s.now().Sub(s.keysAt)
	wait := again || len(known) == 0 || age >= keysOld && !s.keysFold.failed
	if wait || age >= keysFresh {
		s.begin(&s.keysFold, fetchInterval, "keys", s.fetchKeys)
	}
	running := s.keysFold.running
	s.mu.Unlock()
	if !wait {
		return known, nil
	}
	if running != nil {
		limit := fetchWait
		if len(known) > 0 && !again {
			limit = refreshWait
		}
		work.Await(ctx, running, limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known = s.matching(kid, alg)
	switch {
	case len(known) > 0:
		return known, nil
	case s.keysFold.failed || s.keysFold.running != nil || !s.hasKeys():
		return nil, errUnavailable
	default:
		return nil, errUnknownKey
	}
}

// hasKeys tells whether the keys may still be used. s.mu is held.
func (s *server) hasKeys() bool { return !s.keysAt.IsZero() && s.now().Sub(s.keysAt) < keysStale }

// matching gives the keys of that name and for that algorithm; without a name, all
// keys for it. s.mu is held.
func (s *server) matching(kid, alg string) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for _, k := range s.keys {
		if (kid == "" || k.KeyID == kid) && suits(k, alg) && s.hasKeys() {
			found = append(found, k)
		}
	}
	return found
}

// fetchKeys reads the keys anew. What it cannot read leaves those that are known.
func (s *server) fetchKeys(ctx context.Context) error {
	from := s.jwks
	if from == "" {
		meta, err := s.metadata(ctx)
		if err != nil {
			return err
		}
		if from = meta.JWKSURI; from == "" {
			return errors.New("its metadata has no jwks_uri")
		}
	}
	keys, err := s.readKeys(ctx, from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.metaAt = time.Time{} // they may have moved
		return fmt.Errorf("get keys: %w", err)
	}
	s.keys, s.keysAt = keys, s.now()
	return nil
}

func (s *server) readKeys(ctx context.Context, from string) ([]jose.JSONWebKey, error) {
	raw, err := s.get(ctx, from)
	if err != nil {
		return nil, err
	}
	return parseKeys(raw)
}
