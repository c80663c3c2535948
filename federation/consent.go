package federation

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// connectName is the name of the tool by which a user signs in at an upstream, while
// there is nothing of the upstream that they could be shown.
const connectName = "connect"

// consentTTL is how long it is taken for granted that a user has to sign in.
const consentTTL = time.Minute

// consentNeeded gives the page where the user has to go, when that is why something
// failed.
func consentNeeded(err error) (url, message string, ok bool) {
	var needed interface {
		error
		ConsentURL() (url, message string)
	}
	if !errors.As(err, &needed) {
		return "", "", false
	}
	url, message = needed.ConsentURL()
	return url, message, true
}

// consentSegment stands for a list that the user has to sign in for: the tools are the
// one that asks for it, and the others are empty.
func (s *slot) consentSegment() *segment {
	m := s.member
	seg := &segment{kind: s.kind, index: map[string]*item{}, fetched: m.domain.fed.now(), ttl: consentTTL, consent: true}
	s.mu.Lock()
	seg.gen = s.gen
	s.mu.Unlock()
	switch s.kind {
	case kindTools:
		it, _ := readItem(kindTools, connectTool(m.conf.Alias))
		it.connect = true
		seg.items, seg.index[it.name] = []*item{it}, it
		seg.digest = sha256.Sum256(it.raw)
	case kindDiscover:
		seg.ttl = 0 // what the upstream has is asked for as soon as it may be
		raw := []byte(`{"resultType":"complete","supportedVersions":[],"capabilities":{"tools":{"listChanged":true}},"cacheScope":"private"}`)
		seg.discover, seg.digest = readDiscover(raw), sha256.Sum256(raw)
	}
	return seg
}

// connectTool gives the definition of the tool, in which the alias needs no escaping.
func connectTool(alias string) []byte {
	return []byte(`{"name":"` + connectName + `","title":"Sign in to ` + alias + `","description":"Asks the user to sign in to ` + alias +
		`, whose tools are listed after that.","inputSchema":{"type":"object","additionalProperties":false},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":true}}`)
}

// lacksConsent tells whether the user is known to have to sign in at the upstream.
func (m *member) lacksConsent() bool {
	if m.lane == nil {
		return false
	}
	for k := range kinds {
		if seg := m.known(k); seg != nil && seg.consent {
			return true
		}
	}
	return false
}

// consented gives the first error of those members where the user has to sign in.
func consented(ctx context.Context, members []*member) error {
	for _, m := range members {
		if m.lacksConsent() {
			if err := m.consented(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// consented gives an error, in which consentNeeded finds the page, unless the user has
// signed in at the upstream. If so what was shown without that is read again.
func (m *member) consented(ctx context.Context) error {
	if _, err := m.lane.source.Credential(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &upstream.Error{Alias: m.conf.Alias, Class: upstream.ClassUnauthorized, Err: err}
	}
	if m.lacksConsent() {
		m.reconnected(ctx)
	}
	return nil
}

// reconnected has all that is known of a lane read again: the user may have another
// account at the upstream than before.
func (m *member) reconnected(ctx context.Context) {
	if _, err := m.domain.fed.opts.Cache.Invalidate(context.WithoutCancel(ctx), m.topic(mcp.MethodResourcesRead), ""); err != nil {
		m.domain.log.Warn("invalidate the cache", "upstream", m.conf.Alias, "method", mcp.MethodResourcesRead, "error", err)
	}
	for k := range kinds {
		m.invalidate(ctx, k)
		if k != kindDiscover {
			m.domain.hub.reread(m, k)
		}
	}
}

// connect answers a call of the tool that asks the user to sign in.
func (d *roster) connect(ctx context.Context, c *Call, m *member) (*Reply, error) {
	if err := m.consented(ctx); err != nil {
		return nil, err
	}
	if _, err := m.refresh(ctx, kindTools); err != nil {
		return nil, err
	}
	a := &toolAnswer{text: []byte("The user has signed in to " + m.conf.Alias + ". Its tools are listed from now on.")}
	reply := d.replyTool(c, a)
	reply.Upstream = m.conf.Alias
	return reply, nil
}

// connectOf gives the member whose tool asks for the sign-in by an exposed name; nil
// where it is none of them.
func (d *roster) connectOf(alias, exposed string) *member {
	for _, m := range d.at(alias) {
		name := connectName
		if alias == "" {
			name, _ = exposedName(m.conf.Alias, d.snap.Separator, connectName)
		}
		if m.lane != nil && name == exposed {
			return m
		}
	}
	return nil
}

// Purpose and form of the requestState of a request that waits for a sign-in. The mark
// is no part of other tokens.
const (
	connectPurpose = "connect"
	connectMark    = "~"
	connectKey     = "connect" // of the input request
)

// ask turns the failure of a call for which the user has to sign in first into the
// question for it (2026-07-28, basic/patterns/mrtr and client/elicitation, URL Mode
// Elicitation).
func (d *roster) ask(ctx context.Context, c *Call, failed error) (*Reply, error) {
	url, message, needed := consentNeeded(failed)
	if !needed {
		return nil, failed
	}
	alias := ""
	var at *upstream.Error
	if errors.As(failed, &at) {
		alias = at.Alias
	}
	if m := d.byAlias[alias]; m != nil && m.lane != nil && !m.lacksConsent() {
		m.reconnected(ctx) // what is listed is not the user's any more
	}
	r := c.Request
	asks := r.Method == mcp.MethodToolsCall || r.Method == mcp.MethodPromptsGet || r.Method == mcp.MethodResourcesRead
	elicitation := mcp.Find(r.Raw, r.Meta.ClientCapabilities, "elicitation")
	switch {
	case asks && mcp.Find(r.Raw, elicitation, "url").Ok():
	case asks && !c.NoHeaders:
		e := mcp.Errorf(mcp.CodeMissingClientCapability, "%s: %s", strings.TrimSuffix(message, "."), url)
		e.Data = []byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
		return nil, e
	default:
		e := mcp.Errorf(mcp.CodeInternal, "%s: %s", strings.TrimSuffix(message, "."), url)
		e.Data = append(mcp.AppendQuote([]byte(`{"alias":`), alias), `,"reason":"unauthorized","retryable":true}`...)
		return nil, e
	}
	binding, err := connectBinding(c)
	if err != nil {
		return nil, err
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(d.fed.now().Add(d.fed.opts.Limits.StateTTL).UnixMilli()))
	reply := newReply(c, 1024)
	b := append(reply.Body.B, `"result":{"resultType":"input_required","inputRequests":{"`+connectKey+`":{"method":"elicitation/create","params":{"mode":"url","message":`...)
	b = mcp.AppendQuote(b, message)
	b = mcp.AppendQuote(append(b, `,"url":`...), url)
	b = mcp.AppendQuote(append(b, `}}},"requestState":`...), connectMark+d.fed.opts.Ring.Seal(connectPurpose, plain, binding))
	reply.Body.B = append(b, "}}"...)
	reply.Status, reply.Upstream = http.StatusOK, alias
	return reply, nil
}

// connectBinding is what the requestState of a request is good for.
func connectBinding(c *Call) ([]byte, error) {
	r := c.Request
	digest, err := mcp.CanonicalDigest(r.Arguments.In(r.Raw))
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.arguments cannot be read")
	}
	b := stateBinding{
		tenant: c.Endpoint.Tenant, issuer: c.Principal.Issuer, subject: c.Principal.Subject,
		alias: c.Endpoint.Alias, method: r.Method, name: r.Name.Value + "\x00" + r.URI.Value, args: digest,
	}
	return b.bytes(), nil
}

// resume makes the retry of a request for which the user was asked to sign in the
// request that it was at first. Others stay as they are.
func (f *Federation) resume(c *Call) (*Call, error) {
	r := c.Request
	if !r.RequestState.IsString || !strings.HasPrefix(r.RequestState.Value, connectMark) {
		return c, nil
	}
	binding, err := connectBinding(c)
	if err != nil {
		return nil, err
	}
	plain, err := f.opts.Ring.Open(connectPurpose, r.RequestState.Value[len(connectMark):], binding)
	if err != nil || len(plain) != 8 || f.now().UnixMilli() > int64(binary.BigEndian.Uint64(plain)) { //nolint:gosec // it was a time
		return nil, errState()
	}
	answer := mcp.Find(r.Raw, r.InputResponses, connectKey)
	if action, _ := mcp.String(r.Raw, mcp.Find(r.Raw, answer, "action")); action != "accept" {
		return nil, mcp.Errorf(mcp.CodeInternal, "the user did not sign in at the upstream")
	}
	var e mcp.Edits
	params := mcp.Find(r.Raw, mcp.Span{Start: 0, End: len(r.Raw)}, "params")
	e.RemoveMember(r.Raw, params, "requestState")
	e.RemoveMember(r.Raw, params, "inputResponses")
	first, wrong := mcp.ParseRequest(e.AppendTo(nil, r.Raw), f.opts.Limits.MaxDepth)
	if wrong != nil {
		return nil, wrong
	}
	again := *c
	again.Request, again.resumed = first, true
	return &again, nil
}
