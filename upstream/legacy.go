package upstream

import (
	"container/list"
	"context"
	"crypto/sha256"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Legacy sends requests to a server of the handshake era: it takes and gives
// messages of the modern era and translates between the two. It keeps sessions
// with the server, which no two users and no two sources of credentials share, and the calls in them that wait for
// a user's answer. It is safe for use by several goroutines.
type Legacy struct {
	conf    Config
	links   linkMaker
	shut    func() // gives back what the links share; may be nil
	log     *slog.Logger
	tracer  trace.Tracer // may be nil
	info    []byte       // raw JSON: how the gateway introduces itself
	address string       // the server's host, for spans; may be empty
	guard   *guard
	series  *series
	caps    capsMemory
	parking *parking
	ids     atomic.Int64 // of the gateway's own requests

	taskTools taskTools

	mu       sync.Mutex
	sessions map[sessionKey]*session
	unused   list.List // all sessions, the longest unused one first
	janitor  *time.Timer
	closed   bool
	work     sync.WaitGroup // of background
}

var _ Doer = (*Legacy)(nil)

// sessionKey is what makes two requests go to one session.
type sessionKey struct {
	owner
	caps   [sha256.Size]byte
	source CredentialSource // itself, and not what it gives: a server may bind a session to whom it was shown
}

// NewLegacy makes a client of a handshake server that is reached over links.
func NewLegacy(conf Config, links linkMaker, deps Deps) *Legacy {
	conf.fill()
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Legacy{
		conf:     conf,
		links:    links,
		log:      deps.Logger.With("tenant", conf.Tenant, "upstream", conf.Alias),
		tracer:   deps.Tracer,
		info:     ownInfo(),
		series:   deps.Metrics.acquire(conf.Tenant, conf.Alias),
		parking:  newParking(&conf, &deps),
		sessions: map[sessionKey]*session{},
	}
	l.guard = newGuard(&l.conf, l.log, l.series)
	l.unused.Init()
	return l
}

// NewLegacyHTTP makes a client of a handshake server over Streamable HTTP, with
// transports of its own. A URL that cannot be used makes every request fail with
// ClassConnect.
func NewLegacyHTTP(conf Config, transports *egress.Transports, deps Deps) *Legacy {
	conf.fill()
	settings := conf.egress()
	return newLegacyHTTP(conf, transports.Calls(settings), transports.Listens(settings), deps)
}

func newLegacyHTTP(conf Config, calls, listens pool, deps Deps) *Legacy {
	var server *httpServer
	l := NewLegacy(conf, func(ctx context.Context, in incoming, source CredentialSource) (link, error) {
		return server.open(ctx, in, source)
	}, deps)
	deps.Logger = l.log
	server = newHTTPServer(&l.conf, calls, listens, deps)
	l.shut = server.close
	if server.url != nil {
		l.address = server.url.Hostname()
	}
	return l
}

// ownInfo is the clientInfo of initialize (2025-11-25, basic/lifecycle,
// Initialization): the peer of the server is the gateway, whoever is behind it.
func ownInfo() []byte {
	version := "0"
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		version = build.Main.Version
	}
	return append(mcp.AppendQuote([]byte(`{"name":"causeway","version":`), version), '}')
}

// Close makes further requests fail with ClassConnect, ends parked calls and
// unused sessions, and gives idle connections and metrics back. Requests under way
// end normally, and their sessions after them; cancel their contexts to end them
// at once. It may be called twice.
func (l *Legacy) Close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	if l.janitor != nil {
		l.janitor.Stop()
	}
	l.mu.Unlock()
	l.parking.close()
	for _, s := range l.takeUnused(func(*session) bool { return true }, -1) {
		s.close()
	}
	l.work.Wait()
	if l.shut != nil {
		l.shut()
	}
	l.series.release()
}

// background runs f in a goroutine that Close waits for; after Close at once.
func (l *Legacy) background(f func()) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		f()
		return
	}
	l.work.Go(f)
	l.mu.Unlock()
}

// Do implements Doer.
func (l *Legacy) Do(ctx context.Context, req *Request) (Answer, error) {
	a := &legacyAnswer{legacy: l, req: *req, start: time.Now(), status: 200}
	// Both may be part of Body, which is given back before they are last needed.
	a.req.ID = append(a.ids[:0], req.ID...)
	a.req.ProgressToken = append(a.tokens[:0], req.ProgressToken...)
	a.req.Body = nil
	defer req.Body.Release()
	f := a.prepare(ctx, req.Body)
	switch {
	case f != nil:
	case a.req.Listen:
		return l.listen(ctx, a)
	default:
		f = a.begin()
	}
	if f != nil {
		a.fail(f)
		a.Close()
		return nil, &f.Error
	}
	return a, nil
}
