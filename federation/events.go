package federation

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/causeway-mcp/causeway/cache"
)

// event is what replicas tell one another about one upstream of a tenant.
type event struct {
	kind   eventKind
	origin string // the replica that tells
	// What replicas call the member, and the version of its configuration: events of
	// one version say nothing to another.
	alias, version string
	// lease is the fence of the lease under which the upstream was listened to; zero
	// for what no lease is needed for.
	lease cache.Fence
	list  kind        // of eventList and eventRead
	gen   uint64      // of eventList: the list's generation that all replicas share; 0 when it could not be raised
	floor cache.Fence // what was fetched before it does not count
	all   bool        // of eventAgain: not only lists may have changed; of eventRefused: all tasks; of eventTask: those in names have changed
	names []string    // the upstream's own URIs or task ids
	raw   []byte      // the upstream's notification
}

// eventKind says what an event is about.
type eventKind uint8

const (
	// eventList: the upstream announced that a list has changed.
	eventList eventKind = iota + 1
	// eventRead: a list turned out to be another one than it was, at floor.
	eventRead
	// eventUpdated: a resource changed as raw says, or those in names may have.
	eventUpdated
	// eventTask: a task changed as raw says, or those in names may have, or in a way
	// that is too large to be told.
	eventTask
	// eventAgain: changes may have been missed before floor.
	eventAgain
	// eventRefused: the upstream does not push the tasks in names.
	eventRefused
	// eventInterest: the replica wants something else than before.
	eventInterest
	// eventReleased: the lease was given back.
	eventReleased
	eventKinds
)

// Bounds of events.
const (
	eventVersion = 1
	// maxRaw bounds the notification that an event carries, and the names: Redis cuts
	// off subscribers for whom some megabytes wait.
	maxRaw = 1 << 20
	// maxEvent bounds a whole event.
	maxEvent = maxRaw + 1<<20
	// maxNames bounds the names of one event.
	maxNames = 1000
)

// appendTo encodes the event: the version, then numbers as varints and strings with
// their length before them; raw is the rest.
func (ev *event) appendTo(b []byte) []byte {
	all := byte(0)
	if ev.all {
		all = 1
	}
	b = append(b, eventVersion, byte(ev.kind), byte(ev.list), all)
	for _, s := range [...]string{ev.origin, ev.alias, ev.version} {
		b = appendShort(b, s)
	}
	b = appendFence(appendFence(b, ev.lease), ev.floor)
	b = binary.AppendUvarint(b, ev.gen)
	b = appendNames(b, ev.names)
	return append(b, ev.raw...)
}

// appendShort encodes a string for reader.string.
func appendShort(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendFence encodes a fence for reader.fence.
func appendFence(b []byte, f cache.Fence) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, f.Epoch), f.N)
}

// appendNames encodes strings for reader.names.
func appendNames(b []byte, names []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendShort(b, name)
	}
	return b
}

// errMalformed tells that what another replica wrote cannot be read.
var errMalformed = errors.New("malformed")

// readEvent decodes an event. It keeps nothing of b but raw.
func readEvent(b []byte) (*event, error) {
	switch {
	case len(b) < 4 || len(b) > maxEvent:
		return nil, fmt.Errorf("an event of %d bytes: %w", len(b), errMalformed)
	case b[0] != eventVersion:
		return nil, fmt.Errorf("an event of version %d", b[0])
	}
	ev := &event{kind: eventKind(b[1]), list: kind(b[2]), all: b[3] == 1}
	if ev.kind == 0 || ev.kind >= eventKinds || ev.list >= kindDiscover || b[3] > 1 {
		return nil, fmt.Errorf("an event of kind %d: %w", b[1], errMalformed)
	}
	r := reader{left: b[4:]}
	for _, s := range [...]*string{&ev.origin, &ev.alias, &ev.version} {
		*s = r.string()
	}
	ev.lease, ev.floor = r.fence(), r.fence()
	ev.gen = r.number()
	ev.names = r.names(maxNames)
	if r.bad {
		return nil, fmt.Errorf("an event of kind %d: %w", b[1], errMalformed)
	}
	if len(r.left) > 0 {
		ev.raw = r.left
	}
	return ev, nil
}

// reader decodes what the append functions encode. After the first fault it gives
// zero values.
type reader struct {
	left []byte
	bad  bool
}

// number gives a number, in no other than its shortest form.
func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 || n > 1 && r.left[n-1] == 0 {
		r.left, r.bad = nil, true
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *reader) string() string {
	n := r.number()
	if n > uint64(len(r.left)) {
		r.left, r.bad = nil, true
		return ""
	}
	s := string(r.left[:n])
	r.left = r.left[n:]
	return s
}

func (r *reader) fence() cache.Fence {
	epoch := r.number()
	return cache.Fence{Epoch: epoch, N: r.number()}
}

// names gives up to most strings.
func (r *reader) names(most uint64) []string {
	n := r.number()
	if n > most || n > uint64(len(r.left)) {
		r.left, r.bad = nil, true
	}
	if r.bad || n == 0 {
		return nil
	}
	names := make([]string, 0, n)
	for range n {
		names = append(names, r.string())
	}
	return names
}

// split gives names in parts that one event each can carry; false when a name is
// too long for any.
func split(names []string) (parts [][]string, ok bool) {
	size, from := 0, 0
	for i, name := range names {
		if len(name) > maxRaw {
			return nil, false
		}
		if i-from == maxNames || size+len(name) > maxRaw {
			parts = append(parts, names[from:i])
			from, size = i, 0
		}
		size += len(name)
	}
	if from < len(names) {
		parts = append(parts, names[from:])
	}
	return parts, true
}
