package upstream

import (
	"context"
	"log/slog"

	"github.com/causeway-mcp/causeway/upstream/egress"
)

// Connect makes the client of one upstream, over HTTP or as a program, of the era
// that conf.Era names or, for EraAuto, of the one that the server turns out to
// speak. Nothing is sent before the first request. The client has a Close that
// gives back what it holds.
func Connect(conf Config, transports *egress.Transports, deps Deps) Doer {
	conf.fill()
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	var makers [ways]func() closer
	if conf.Process != nil {
		makers[wayModern] = func() closer { return NewStdio(conf, deps) }
		makers[wayHandshake] = func() closer { return newLegacyStdio(conf, deps) }
	} else {
		makers[wayModern] = func() closer { return New(conf, transports, deps) }
		makers[wayHandshake] = func() closer { return NewLegacyHTTP(conf, transports, deps) }
		makers[waySSE] = func() closer { return newLegacySSE(conf, transports, deps) }
	}
	switch {
	case conf.Era == EraModern:
		return makers[wayModern]()
	case conf.Era == EraHandshake && conf.Process != nil:
		return makers[wayHandshake]()
	case conf.Era == EraHandshake:
		makers[wayModern] = nil
	}
	return newAuto(conf, deps.Logger.With("tenant", conf.Tenant, "upstream", conf.Alias), makers)
}

// newLegacySSE makes a client of a handshake server over HTTP+SSE, with transports
// of its own.
func newLegacySSE(conf Config, transports *egress.Transports, deps Deps) *Legacy {
	settings := conf.egress()
	var server *sseServer
	l := NewLegacy(conf, func(ctx context.Context, in incoming, source CredentialSource) (link, error) {
		return server.open(ctx, in, source)
	}, deps)
	deps.Logger = l.log
	server = newSSEServer(&l.conf, transports.Calls(settings), transports.Listens(settings), deps)
	l.shut = server.close
	return l
}
