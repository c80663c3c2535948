package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/causeway-mcp/causeway/cache"
)

// How an entry lies in Redis: a header of fixed size, then the body. The numbers
// are big-endian; scriptPut reads the generation and the fence.
//
//	 0     version of this form; an entry of another one counts as none
//	 1     flags
//	 2-10  generation of the topic under which it was read
//	10-26  epoch and number of its fence
//	26-34  life in milliseconds, of which its PTTL is what is left
//	34-50  TTL and Keep in nanoseconds
//	50-58  length of the body when it is not compressed
const (
	entryVersion = 1
	headerSize   = 58
)

// Flags of an entry. One with any other counts as one of another version.
const (
	flagPublic = 1 << iota
	flagCompressed
	flagsKnown = flagPublic | flagCompressed
)

const (
	// compressAbove is the size from which a body is compressed.
	compressAbove = 1 << 10
	// maxBody bounds the body of one entry, uncompressed. It is what the pages of a
	// list may have together, and a little for what is around them.
	maxBody = 65 << 20
	// maxLife is how long an entry stays in Redis at most.
	maxLife = 24 * time.Hour
)

// Why a value is no entry.
var (
	errEntryVersion = errors.New("another version wrote it")
	errEntryForm    = errors.New("malformed")
)

// stored is an entry with what is known of it in Redis.
type stored struct {
	cache.Entry
	gen  uint64
	life time.Duration
}

// entryCodec writes and reads entries. It is safe for concurrent use.
type entryCodec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newEntryCodec() *entryCodec {
	// With these options, neither can fail.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBody), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err)
	}
	return &entryCodec{enc, dec}
}

// close gives back what the codec uses.
func (c *entryCodec) close() {
	_ = c.enc.Close()
	c.dec.Close()
}

// lifeOf tells how long an entry is of use, from when it was stored.
func lifeOf(e cache.Entry) time.Duration {
	ttl, keep := max(e.TTL, 0), max(e.Keep, 0)
	if ttl > maxLife || keep > maxLife {
		return maxLife
	}
	return min(ttl+keep, maxLife)
}

// encode gives the value of an entry that was read under gen. The body must have
// at most maxBody bytes.
func (c *entryCodec) encode(e cache.Entry, gen uint64) []byte {
	b := make([]byte, headerSize, headerSize+min(len(e.Body), compressAbove))
	b[0] = entryVersion
	if e.Public {
		b[1] |= flagPublic
	}
	binary.BigEndian.PutUint64(b[2:], gen)
	binary.BigEndian.PutUint64(b[10:], e.Fence.Epoch)
	binary.BigEndian.PutUint64(b[18:], e.Fence.N)
	putDuration(b[26:], lifeOf(e)/time.Millisecond)
	putDuration(b[34:], max(e.TTL, 0))
	putDuration(b[42:], max(e.Keep, 0))
	binary.BigEndian.PutUint64(b[50:], uint64(len(e.Body)))
	if len(e.Body) > compressAbove {
		if small := c.enc.EncodeAll(e.Body, b); len(small) < headerSize+len(e.Body) {
			small[1] |= flagCompressed
			return small
		}
	}
	return append(b, e.Body...)
}

// decode reads a value. The entry has no Stored yet.
func (c *entryCodec) decode(v []byte) (stored, error) {
	if len(v) < 2 || v[0] != entryVersion || v[1]&^flagsKnown != 0 {
		return stored{}, errEntryVersion
	}
	if len(v) < headerSize {
		return stored{}, errEntryForm
	}
	s := stored{
		Entry: cache.Entry{
			Public: v[1]&flagPublic != 0,
			Fence:  cache.Fence{Epoch: binary.BigEndian.Uint64(v[10:]), N: binary.BigEndian.Uint64(v[18:])},
		},
		gen: binary.BigEndian.Uint64(v[2:]),
	}
	var ok [3]bool
	s.life, ok[0] = getDuration(v[26:], time.Millisecond)
	s.TTL, ok[1] = getDuration(v[34:], 1)
	s.Keep, ok[2] = getDuration(v[42:], 1)
	size := binary.BigEndian.Uint64(v[50:])
	if ok != [3]bool{true, true, true} || s.life > maxLife || size > maxBody {
		return stored{}, errEntryForm
	}
	body, err := c.body(v, size)
	if err != nil {
		return stored{}, err
	}
	s.Body = body
	return s, nil
}

func (c *entryCodec) body(v []byte, size uint64) ([]byte, error) {
	body := v[headerSize:]
	if v[1]&flagCompressed != 0 {
		var err error
		if body, err = c.dec.DecodeAll(body, nil); err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
	}
	if uint64(len(body)) != size {
		return nil, errEntryForm
	}
	return body, nil
}

func putDuration(b []byte, d time.Duration) { binary.BigEndian.PutUint64(b, uint64(d)) }

// getDuration reads a number of units.
func getDuration(b []byte, unit time.Duration) (time.Duration, bool) {
	n := binary.BigEndian.Uint64(b)
	if n > math.MaxInt64/uint64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
