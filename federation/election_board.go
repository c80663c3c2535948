package federation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// Times and bounds of what replicas write on the board of an upstream.
const (
	boardTTL   = 10 * time.Second // what a replica that died wanted is forgotten
	boardEvery = 3 * time.Second  // how often it is written and read without a reason
	// maxPost bounds what one replica wants. One that wants more listens for itself.
	maxPost     = 4 << 20
	maxWants    = maxPost / 2
	postVersion = 1
)

// post is what a replica writes on the board.
type post struct {
	floor cache.Fence // of the holder: what was fetched before it does not count
	wants *interest
}

// errTooLarge tells that a replica wants more than can be told.
var errTooLarge = errors.New("too much is wanted of the upstream to be told to other replicas")

// encode gives the post's bytes.
func (p *post) encode() ([]byte, error) {
	b := appendFence([]byte{postVersion}, p.floor)
	for _, set := range []map[string]bool{p.wants.uris, p.wants.tasks} {
		b = appendNames(b, slices.Sorted(maps.Keys(set)))
	}
	if len(b) > maxPost {
		return nil, errTooLarge
	}
	return b, nil
}

// readPost decodes a post.
func readPost(b []byte) (*post, error) {
	switch {
	case len(b) < 1 || len(b) > maxPost:
		return nil, fmt.Errorf("a post of %d bytes: %w", len(b), errMalformed)
	case b[0] != postVersion:
		return nil, fmt.Errorf("a post of version %d", b[0])
	}
	r := reader{left: b[1:]}
	p := &post{floor: r.fence(), wants: &interest{}}
	p.wants.uris = setOf(r.names(maxWants))
	p.wants.tasks = setOf(r.names(maxWants))
	if r.bad || len(r.left) > 0 {
		return nil, fmt.Errorf("a post: %w", errMalformed)
	}
	return p, nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// with gives what either wants.
func (in *interest) with(other *interest) *interest {
	both := &interest{uris: maps.Clone(in.uris), tasks: maps.Clone(in.tasks)}
	maps.Copy(both.uris, other.uris)
	maps.Copy(both.tasks, other.tasks)
	return both
}

// ofReplica tells whether a listener's id is one of a replica.
func ofReplica(id, replica string) bool {
	i := strings.LastIndexByte(id, '/')
	return i >= 0 && id[:i] == replica
}

// post writes on the board what the streams of this replica want, and tells whether
// that is not what the others were told last.
func (e *election) post(ctx context.Context) (news bool, err error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	p := post{wants: e.l.hub.interest(e.l.member)} // the hub's lock comes before mu
	e.mu.Lock()
	p.floor = e.floor
	e.mu.Unlock()
	b, err := p.encode()
	if err != nil {
		return false, err
	}
	if err := e.cluster.Boards.Post(ctx, e.scope, e.name, e.id, b, boardTTL); err != nil {
		return false, fmt.Errorf("post what is wanted: %w", err)
	}
	e.posted = time.Now()
	e.content = sha256.Sum256(b)
	return e.content != e.told, nil
}

// postedAt gives when the board was written last.
func (e *election) postedAt() time.Time {
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.posted
}

// claim tells the holder what the streams here want; false when that failed.
func (e *election) claim(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, opWait)
	defer cancel()
	news, err := e.post(ctx)
	if err == nil && news {
		if err = e.publish(ctx, &event{kind: eventInterest}); err == nil {
			e.writing.Lock()
			e.told = e.content
			e.writing.Unlock()
		}
	}
	if err != nil {
		e.log().Debug("tell what is wanted of an upstream", "error", err)
		e.fail()
	}
	return err == nil
}

// board gives what the replicas that listen to the upstream have written, by the
// ids of their listeners.
func (e *election) board(ctx context.Context) (map[string]*post, error) {
	fields, err := e.cluster.Boards.Read(ctx, e.scope, e.name)
	if err != nil {
		return nil, fmt.Errorf("read what is wanted: %w", err)
	}
	posts := make(map[string]*post, len(fields))
	for id, raw := range fields {
		p, err := readPost(raw)
		if err != nil {
			e.log().Warn("what another replica wants of an upstream", "replica", id, "error", err)
			continue
		}
		posts[id] = p
	}
	return posts, nil
}

// count has the holder look at what the others want, and tells whether there are
// any: true when that is not known.
func (e *election) count(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, opWait)
	defer cancel()
	posts, err := e.board(ctx)
	if err != nil {
		e.log().Debug("listen for others", "error", err)
		return true
	}
	e.seen = time.Now()
	others, replicas := &interest{uris: map[string]bool{}, tasks: map[string]bool{}}, 0
	for id, p := range posts {
		if !ofReplica(id, e.cluster.Replica) {
			others = others.with(p.wants)
			replicas++
		}
	}
	e.mu.Lock()
	e.others = others
	e.mu.Unlock()
	poke(e.l.kick)
	e.refuse(ctx, others)
	return replicas > 0
}

// refuse tells the others of tasks that they want and which the upstream is known
// not to push.
func (e *election) refuse(ctx context.Context, others *interest) {
	var ids []string
	for id := range others.tasks {
		if e.l.member.refusesTask(id, time.Now()) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	e.tellNames(ctx, event{kind: eventRefused}, ids)
}

// wants gives what the other replicas want of the one that listens for them.
func (e *election) wants() *interest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.others
}

// floorOf gives the fence from which on lists count for the one that listens for
// all; zero when there is none.
func (e *election) floorOf(ctx context.Context) (floor cache.Fence) {
	ctx, cancel := context.WithTimeout(ctx, opWait)
	defer cancel()
	posts, err := e.board(ctx)
	if err != nil {
		e.log().Debug("read the lists again", "error", err)
	}
	for _, p := range posts {
		if p.floor.N > floor.N {
			floor = p.floor
		}
	}
	return floor
}
