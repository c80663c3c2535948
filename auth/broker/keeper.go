package broker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth/work"
)

// Times of getting tokens.
const (
	getTime     = 40 * time.Second // for one with all that it takes: metadata, registration, another replica
	waitTime    = 15 * time.Second // that a request waits for one
	failedPause = 2 * time.Second  // without another attempt after one that failed
	deniedPause = 10 * time.Second // and after one that the server refused
	renewPause  = 30 * time.Second // in which a second token is not replaced because the upstream refuses it
)

// mark stands for a token where it is not to be kept.
type mark [sha256.Size]byte

func markOf(access string) mark { return sha256.Sum256([]byte(access)) }

// is tells whether the mark stands for that token.
func (m mark) is(access string) bool {
	other := markOf(access)
	return subtle.ConstantTimeCompare(m[:], other[:]) == 1
}

// keeper holds one token for all who use it, and has another one got in time: ahead of
// its end while it is yet used, once at a time.
type keeper struct {
	b *Broker
	// get gets a token that is not the refused one.
	get func(ctx context.Context, refused mark) (*token, error)
	log func(err error) // told of the first attempt that failed after one that did not

	mu      sync.Mutex
	token   *token
	running chan struct{} // closed when the attempt under way ends; nil for none
	err     error         // of the latest attempt; nil where it has given a token
	retry   time.Time     // no attempt is made before
	refused mark          // the token that the upstream refused last
	renewed time.Time     // when it did
}

// current gives the token. It waits where none is known that can be used.
func (k *keeper) current(ctx context.Context) (*token, error) {
	k.mu.Lock()
	now := k.b.now()
	usable := k.token.usable(now)
	if usable && !k.token.due(now) {
		defer k.mu.Unlock()
		return k.token, nil
	}
	if k.running == nil && !now.Before(k.retry) {
		k.begin()
	}
	t, running := k.token, k.running
	k.mu.Unlock()
	if usable {
		return t, nil
	}
	if running != nil {
		work.Await(ctx, running, waitTime)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.token.usable(k.b.now()):
		return k.token, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case k.err != nil && k.running == nil:
		return nil, k.err
	}
	return nil, errUnavailable
}

// begin begins an attempt. k.mu is held, but not while it runs.
func (k *keeper) begin() {
	done, refused := make(chan struct{}), k.refused
	started := k.b.work.Start(getTime, func(ctx context.Context) {
		defer close(done)
		t, err := k.get(ctx, refused)
		k.mu.Lock()
		defer k.mu.Unlock()
		before := k.err
		k.running, k.err = nil, err
		if err == nil {
			k.token = t
			return
		}
		pause := failedPause
		if _, ok := errors.AsType[*oauthError](err); ok {
			pause = deniedPause
		}
		k.retry = k.b.now().Add(pause)
		if before == nil {
			k.log(err)
		}
	})
	if !started {
		k.err = errClosed
		return
	}
	k.running = done
}

// refuse tells that the upstream has refused a token, and tells whether another attempt
// makes sense: with the one that is known by now, or with one that is got in its place.
// Where that one is refused too, it stays.
func (k *keeper) refuse(access string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token == nil || !markOf(k.token.Access).is(access) {
		return true
	}
	now := k.b.now()
	if !k.renewed.IsZero() && now.Sub(k.renewed) < renewPause {
		return false
	}
	k.token, k.refused, k.renewed = nil, markOf(access), now
	return true
}

// restart has the next attempt made at once.
func (k *keeper) restart() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.retry = time.Time{}
}

// bearerHeader gives the lines that show a token (RFC 6750, section 2.1).
func bearerHeader(access string) http.Header {
	return http.Header{"Authorization": {"Bearer " + access}}
}

// shownBy gives the token that lines show; empty where they show none.
func shownBy(sent http.Header) string {
	access, _ := strings.CutPrefix(sent.Get("Authorization"), "Bearer ")
	return access
}
