package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/cache"
)

// errDone says that another process has made a change already.
var errDone = errors.New("done before")

// Invalidate implements cache.Responses. On an error the change counts in this
// process nevertheless, which uses nothing of the topic from Redis until the change
// is written there. When Redis takes no writes, the others are told of it, and do
// the same.
func (r *Responses) Invalidate(ctx context.Context, t cache.Topic, param string) (uint64, error) {
	n := notice{kind: noticeChange, topic: t, param: param, id: newID()}
	args := r.invalidateArgs(n, false)
	if args == nil {
		return 0, fmt.Errorf("invalidate: %w", errClosed)
	}
	reply, err := r.store.run(ctx, scriptInvalidate, r.invalidateKeys(n), args...)
	if err == nil {
		err = r.invalidated(&n, reply)
	}
	if err == nil {
		return n.gen, nil
	}
	r.postpone(n)
	if refused(err) {
		// Who cannot be told finds out when it is written.
		_ = r.store.Publish(context.WithoutCancel(ctx), channelOf(t.Tenant), n.encode())
	}
	return 0, fmt.Errorf("invalidate: %w", err)
}

func (r *Responses) invalidateKeys(n notice) []string {
	return []string{r.topicKey(n.topic), r.store.key(scopeOf(n.topic), kindDone, n.id)}
}

// invalidateArgs gives the script's arguments; none when closed. With once, the
// change is not made when it was made before.
func (r *Responses) invalidateArgs(n notice, once bool) []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	v := r.enter(n.topic)
	life := int64(0)
	if once {
		life = millis(doneLife)
	}
	args := []any{v.seen, millis(topicLife), r.channel(n.topic.Tenant), n.note(), maxMarks, life}
	for _, param := range covered(n.param) {
		args = append(args, markOf(param))
	}
	return args
}

// invalidated takes note of what the script answered. An error is errDone when
// another process had made the change before.
func (r *Responses) invalidated(n *notice, reply any) error {
	gens, err := numbers(reply, 2)
	if err != nil {
		return err
	}
	n.prev, n.gen = gens[0], gens[1]
	if n.prev == n.gen {
		return errDone
	}
	r.changed(*n, true)
	return nil
}

// writeLater makes a change that could not be written before.
func (r *Responses) writeLater(ctx context.Context, n notice) error {
	err := r.writeOnce(ctx, &n, true)
	if errors.Is(err, errDone) && r.missed(n) {
		err = r.writeOnce(ctx, &n, false)
	}
	if err != nil && !errors.Is(err, errDone) {
		return fmt.Errorf("invalidate: %w", err)
	}
	return nil
}

func (r *Responses) writeOnce(ctx context.Context, n *notice, once bool) error {
	args := r.invalidateArgs(*n, once)
	if args == nil {
		return errClosed
	}
	reply, err := runAs(ctx, r.store.client, scriptInvalidate, r.invalidateKeys(*n), args...)
	if err != nil {
		return err
	}
	return r.invalidated(n, reply)
}

// missed tells whether followers wait for a change that another process has made,
// but were told of its generation before they were told to wait for one.
func (r *Responses) missed(n notice) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.enter(n.topic).state
	st.wrote(n.id)
	return st.barred && st.told >= n.gen
}

// runAs runs a script not on behalf of a request, within the time that ctx leaves.
func runAs(ctx context.Context, client goredis.Scripter, script *goredis.Script, keys []string, args ...any) (any, error) {
	return script.Run(ctx, client, keys, args...).Result()
}

// covered gives the parameters that an invalidation covers as cache.Covers has it;
// none for all.
func covered(param string) []string {
	if param == "" {
		return nil
	}
	all := []string{param}
	for i := 0; i < len(param); {
		slash := strings.IndexByte(param[i:], '/')
		if slash < 0 {
			break
		}
		i += slash
		if i > 0 {
			all = append(all, param[:i])
		}
		i++
		if i < len(param) {
			all = append(all, param[:i])
		}
		if len(all) > maxAncestors {
			return nil
		}
	}
	return all
}

// newID gives a change a name of its own.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
