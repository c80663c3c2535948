package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth/lru"
)

// Times of what is known of users.
const (
	recordFresh  = 10 * time.Second // after which the vault is asked again, where a user may have withdrawn something
	updateTime   = 45 * time.Second // for reading the vault and refreshing a token
	refreshPause = 5 * time.Second  // after a refresh that failed for reasons that pass
	refusedAgain = time.Minute      // a token that was refused though it is new is not shown again
	stepUpPause  = 10 * time.Minute // and a user is not asked again for scopes that were asked for before
)

// updateRounds bounds how often a request waits for news that do not settle.
const updateRounds = 4

// grant is what a user has let the gateway have for one upstream, as far as this
// process knows. The vault has the truth.
type grant struct {
	in  *signIns
	key userKey

	mu      sync.Mutex
	sources *lru.Cache[string, *userSource]
	record  userRecord
	bound   string    // what the record was read for
	readAt  time.Time // zero when it is to be read anew
	running *update   // nil for none
	unsaved *unsaved  // a token that could not be kept yet

	failure  error     // of the latest refresh
	pausedTo time.Time // no refresh before

	fresh     string    // the access token that a refresh gave after a 401
	freshAt   time.Time // when
	refused   string    // an access token that is not to be shown
	refusedTo time.Time // until then
}

// update is one reading of the vault, with a refresh behind it where one is due.
type update struct {
	read, done chan struct{} // closed when the vault has been read, and at the end
	refused    string        // an access token that has to be replaced; empty for none
	err        error         // of reading, once read is closed
	overtaken  bool          // whether something was changed since; under the lock of the grant
}

// forget has the record read anew.
func (g *grant) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.readAt, g.refused, g.unsaved = time.Time{}, "", nil
	if g.running != nil {
		g.running.overtaken = true
	}
}

// begin begins an update, unless one is under way. g.mu is held. It gives nil when the
// process ends.
func (g *grant) begin(at *registered, refused string, challenges []string) *update {
	if g.running != nil {
		return g.running
	}
	up := &update{read: make(chan struct{}), done: make(chan struct{}), refused: refused}
	if !g.in.work.Start(updateTime, func(ctx context.Context) { g.update(ctx, up, at, challenges) }) {
		return nil
	}
	g.running = up
	return up
}

// update reads the vault and refreshes the token where that is due.
func (g *grant) update(ctx context.Context, up *update, at *registered, challenges []string) {
	defer func() {
		g.mu.Lock()
		g.running = nil
		g.mu.Unlock()
		close(up.done)
	}()
	up.err = g.save(ctx)
	if up.err == nil {
		_, up.err = g.read(ctx, boundTo(at.u))
	}
	close(up.read)
	if up.err != nil {
		return
	}
	g.mu.Lock()
	t, now := g.record.token, g.in.now()
	wanted := t != nil && t.Refresh != "" && !now.Before(g.pausedTo) && (t.due(now) || up.refused != "" && same(up.refused, t.Access))
	g.mu.Unlock()
	if !wanted {
		return
	}
	err := g.refresh(ctx, at, t, challenges)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = err
	switch {
	case err != nil:
		g.pausedTo = g.in.now().Add(refreshPause)
	case up.refused != "" && g.record.token != nil:
		g.fresh, g.freshAt = g.record.token.Access, g.in.now()
	}
}

// read reads the vault.
func (g *grant) read(ctx context.Context, bound string) (userRecord, error) {
	r, err := g.in.b.record(ctx, g.key, bound)
	if err != nil {
		return r, err
	}
	g.in.weigh(g, &r)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.record, g.bound, g.readAt = r, bound, g.in.now()
	return r, nil
}

var errEnding = errors.New("the gateway is ending")

// errReconnect tells that a refresh token is of no use any more.
var errReconnect = errors.New("the refresh token is of no use")

// access gives an access token that a client may use. It waits where that is not known,
// and the error is a *needed where the user has to do something.
func (g *grant) access(ctx context.Context, at *registered, client string) (string, error) {
	bound := boundTo(at.u)
	for range updateRounds {
		g.mu.Lock()
		now := g.in.now()
		access, _ := g.usable(now, bound, client)
		if access != "" && now.Sub(g.readAt) < recordFresh {
			if g.record.token.due(now) && !now.Before(g.pausedTo) {
				g.begin(at, "", nil) // ahead of its end: nobody waits
			}
			g.mu.Unlock()
			return access, nil
		}
		joined := g.running != nil
		up := g.begin(at, "", nil)
		g.mu.Unlock()
		if up == nil {
			return "", errEnding
		}
		access, err, settled := g.await(ctx, up, joined, bound, client)
		if settled {
			return access, err
		}
		select { // the next one can begin only then
		case <-up.done:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", errors.New("what the user has agreed to keeps changing")
}

// await waits for an update as long as it takes to know whether there is a token. One
// that was joined may have looked before the token came to its end.
func (g *grant) await(ctx context.Context, up *update, joined bool, bound, client string) (access string, err error, settled bool) {
	for _, news := range []chan struct{}{up.read, up.done} {
		select {
		case <-news:
		case <-ctx.Done():
			return "", ctx.Err(), true
		}
		g.mu.Lock()
		now := g.in.now()
		access, err = g.usable(now, bound, client)
		overtaken, failure := up.overtaken, g.failure
		renewable := g.record.token != nil && g.record.token.Refresh != ""
		g.mu.Unlock()
		var needs *needed
		switch {
		case overtaken:
			return "", nil, false
		case access != "":
			return access, nil, true
		case up.err != nil:
			return "", up.err, true
		case !errors.As(err, &needs) || !needs.signIn || !renewable:
			return "", err, true // a refresh does not help
		case news == up.done && failure != nil && !errors.Is(failure, errReconnect):
			return "", failure, true
		}
	}
	return "", err, !joined
}

// usable gives the access token as far as it is known and good for the client, or what
// the user has to do. g.mu is held.
func (g *grant) usable(now time.Time, bound, client string) (string, error) {
	t := g.record.token
	switch {
	case g.bound != bound || t == nil || !t.valid(now) || now.Before(g.refusedTo) && same(g.refused, t.Access):
		return "", &needed{signIn: true}
	case !g.record.consents.has(client):
		return "", &needed{}
	}
	return t.Access, nil
}

// current gives the token as the vault has it now.
func (g *grant) current(ctx context.Context, at *registered, refused string, challenges []string) (*userToken, error) {
	for range updateRounds {
		g.mu.Lock()
		up := g.begin(at, refused, challenges)
		g.mu.Unlock()
		if up == nil {
			return nil, errEnding
		}
		select {
		case <-up.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		g.mu.Lock()
		t := g.record.token
		enough := !up.overtaken && (refused == "" || up.refused == refused)
		g.mu.Unlock()
		switch {
		case up.err != nil:
			return nil, up.err
		case enough || t != nil && refused != "" && !same(t.Access, refused):
			return t, nil
		}
	}
	return nil, errors.New("what the user has agreed to keeps changing")
}

// replace tells whether there is another token than one that the upstream has refused.
func (g *grant) replace(ctx context.Context, at *registered, sent string, challenges []string) (bool, error) {
	g.mu.Lock()
	tried := same(g.fresh, sent) && g.in.now().Sub(g.freshAt) < refusedAgain
	g.mu.Unlock()
	refused := sent
	if tried {
		refused = "" // it had its one refresh: see only whether others have a newer one
	}
	t, err := g.current(ctx, at, refused, challenges)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.in.now()
	switch {
	case t != nil && !same(t.Access, sent):
		return true, nil
	case t != nil && !tried && g.failure != nil && !errors.Is(g.failure, errReconnect) && now.Before(g.pausedTo):
		return false, g.failure
	}
	g.refused, g.refusedTo = sent, now.Add(refusedAgain)
	return false, &needed{signIn: true}
}

// widen has the user asked for scopes that the upstream wants besides those of a token.
// One who was asked a short while ago, and has not given them, is not asked again.
func (g *grant) widen(ctx context.Context, at *registered, sent string, scopes []string) (bool, error) {
	t, err := g.current(ctx, at, "", nil)
	switch {
	case err != nil:
		return false, err
	case t != nil && !same(t.Access, sent):
		return true, nil
	case t != nil && t.covers(scopes) && g.in.now().Sub(t.SignedIn) < stepUpPause:
		return false, nil
	}
	return false, &needed{signIn: true, scopes: scopes} // the page adds those that there are
}

// union puts lists of scopes together, each scope once.
func union(lists ...[]string) []string {
	var all []string
	for _, s := range slices.Concat(lists...) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
