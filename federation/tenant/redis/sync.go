package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// follow looks for changes when it is told of one, when the channel was subscribed
// to, as what was told before went unheard, and from time to time.
func (r *Registry) follow(ctx context.Context) {
	sub := r.client.Subscribe(ctx, r.channel)
	defer sub.Close()
	told := sub.ChannelWithSubscriptions()
	tick := time.NewTicker(r.opts.PollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-told:
			if !ok {
				told = nil
			}
			for more := ok; more; { // one look is enough for all
				select {
				case _, more = <-told:
				default:
					more = false
				}
			}
		case <-tick.C:
		}
		r.poll(ctx)
	}
}

// poll looks once, and keeps how that went.
func (r *Registry) poll(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err := r.sync(bounded)
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && r.silent != "":
		r.log.Info("the registry in redis can be read again")
		fallthrough
	case err == nil:
		r.silent, r.failures = "", 0
	default:
		// A connection that broke is no outage.
		if r.failures++; r.failures == 2 {
			r.silent = "the registry in redis cannot be read"
			r.log.Error("the registry in redis cannot be read; what is known stays in use", "error", err)
		}
	}
}

// found is what a look at Redis has found.
type found struct {
	kind          string // what luaRead begins its answer with
	revision      uint64
	epoch, origin string
	rest          []any
}

// sync brings what is known here up to what Redis holds, if that is newer, and tells
// of what has changed.
func (r *Registry) sync(ctx context.Context) error {
	err := r.syncQuietly(ctx)
	r.watchers.Flush()
	return err
}

func (r *Registry) syncQuietly(ctx context.Context) error {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	known := r.state.Load()
	now, err := r.look(ctx)
	if err != nil {
		return err
	}
	if !r.accept(known, now) || now.revision == known.revision {
		return nil
	}
	raw, err := r.scripts.read.Run(ctx, r.client, r.keys, known.revision).Slice()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if now, err = parse(raw); err != nil {
		return err
	}
	if !r.accept(known, now) {
		return nil
	}
	next, names, err := known.next(now)
	if err != nil {
		return err
	}
	r.state.Store(next)
	r.watchers.Queue(names...)
	return nil
}

// look asks for the revision only.
func (r *Registry) look(ctx context.Context) (*found, error) {
	raw, err := r.client.HMGet(ctx, r.keys[0], "revision", "epoch", "origin").Result()
	if err != nil {
		return nil, fmt.Errorf("look for changes: %w", err)
	}
	for i, v := range raw {
		if v == nil {
			raw[i] = ""
		}
	}
	if raw[0] == "" {
		raw[0] = "0"
	}
	return parse(append([]any{"look"}, raw...))
}

var errAnswer = errors.New("an answer that was not expected: what is under this prefix was not written by this program")

// parse reads what a script answers: a kind, revision, epoch and origin, and more.
func parse(raw []any) (*found, error) {
	if len(raw) < 4 {
		return nil, errAnswer
	}
	var text [4]string
	for i := range text {
		s, ok := raw[i].(string)
		if !ok {
			return nil, errAnswer
		}
		text[i] = s
	}
	revision, err := strconv.ParseUint(text[1], 10, 64)
	if err != nil {
		return nil, errAnswer
	}
	return &found{kind: text[0], revision: revision, epoch: text[2], origin: text[3], rest: raw[4:]}, nil
}

// accept tells whether what Redis holds is what is known here or newer, and notes
// when it is not.
func (r *Registry) accept(known *state, now *found) bool {
	why := ""
	switch {
	case known.epoch == "":
	case now.revision == 0:
		why = "is empty"
	case now.revision < known.revision:
		why = "is older"
	case now.epoch != known.epoch && now.origin != "import":
		why = "was begun anew"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case why == "" && r.lost != "":
		r.log.Info("the registry in redis is the newest again", "revision", now.revision)
		r.lost = ""
	case why != "" && r.lost == "":
		r.log.Error("the registry in redis "+why+"; what is known stays in use, and nothing can be written, until it is imported again or comes back",
			"known", known.revision, "found", now.revision)
		fallthrough
	case why != "":
		r.lost = "the registry in redis " + why + " (revision " + strconv.FormatUint(now.revision, 10) +
			", known is " + strconv.FormatUint(known.revision, 10) + ")"
	}
	return why == ""
}

// next gives the state after what was found, and the tenants to tell of, in the
// order of the changes.
func (s *state) next(now *found) (*state, []string, error) {
	n := &state{epoch: now.epoch, revision: now.revision}
	switch {
	case now.kind == "empty":
		return &state{}, nil, nil
	case now.kind == "changes" && len(now.rest) == 1:
		list, ok := now.rest[0].([]any)
		if !ok || len(list)%3 != 0 {
			return nil, nil, errAnswer
		}
		n.tenants, n.keys = maps.Clone(s.tenants), maps.Clone(s.keys)
		return n, n.apply(list), nil
	case now.kind == "all" && len(now.rest) == 2:
		tenants, ok := pairs(now.rest[0])
		keys, also := pairs(now.rest[1])
		if !ok || !also {
			return nil, nil, errAnswer
		}
		n.tenants, n.keys = tenants, map[string]map[string]string{}
		for field, value := range keys {
			of, id, _ := strings.Cut(field, "/")
			if n.keys[of] == nil {
				n.keys[of] = map[string]string{}
			}
			n.keys[of][id] = value
		}
		return n, s.differing(n), nil
	}
	return nil, nil, errAnswer
}

// pairs reads what HGETALL gives.
func pairs(raw any) (map[string]string, bool) {
	list, ok := raw.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, false
	}
	m := make(map[string]string, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		name, ok1 := list[i].(string)
		value, ok2 := list[i+1].(string)
		if !ok1 || !ok2 {
			return nil, false
		}
		m[name] = value
	}
	return m, true
}
