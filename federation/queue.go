package federation

import "sync"

// maxQueued bounds the bytes that wait for one listen stream. One message may be
// larger.
const maxQueued = 4 << 20

// Queue holds the messages that wait for one listen stream. It takes memory only
// while some wait: there are thousands of streams, and most are silent most of the
// time.
type Queue struct {
	most int // messages

	mu      sync.Mutex
	waiting [][]byte
	bytes   int // of what waits
	ended   bool
	notify  func() // of who takes; nil until somebody does
}

// NewQueue makes an empty queue for at most that many messages.
func NewQueue(most int) *Queue { return &Queue{most: most} }

// Push adds a message. It returns false, and adds nothing, when too many wait, or
// more bytes than the queue is for, or when it has ended.
func (q *Queue) Push(message []byte) bool {
	q.mu.Lock()
	if q.ended || len(q.waiting) >= q.most || q.bytes > 0 && q.bytes+len(message) > maxQueued {
		q.mu.Unlock()
		return false
	}
	q.waiting = append(q.waiting, message)
	q.bytes += len(message)
	notify := q.notify
	q.mu.Unlock()
	if notify != nil {
		notify()
	}
	return true
}

// End says that nothing more comes. What waits can still be taken. It may be called
// twice.
func (q *Queue) End() {
	q.mu.Lock()
	q.ended = true
	notify := q.notify
	q.mu.Unlock()
	if notify != nil {
		notify()
	}
}

// next takes the oldest message, nil when none waits; open is false when none will
// come any more.
func (q *Queue) next() (message []byte, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil, !q.ended
	}
	message = q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	q.bytes -= len(message)
	return message, true
}

// onChange sets what is called after each message and after the end, and calls it
// at once if there was something before. It must not wait, as who pushes does not.
func (q *Queue) onChange(notify func()) {
	q.mu.Lock()
	q.notify = notify
	due := len(q.waiting) > 0 || q.ended
	q.mu.Unlock()
	if due {
		notify()
	}
}
