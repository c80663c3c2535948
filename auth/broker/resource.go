package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// about is what an upstream says of itself, and where it said that this is.
type about struct {
	document[resource]

	placeMu sync.Mutex
	place   string    // as a challenge named it; empty for the well-known places
	hurried time.Time // when the document was last to be read out of turn
}

// discovered gives the first authorization server that an upstream names and that can
// be asked (2026-07-28, basic/authorization/authorization-server-discovery).
func (b *Broker) discovered(ctx context.Context, t *tenant.Tenant, u *tenant.Upstream, said bearer, tr trust) (*server, error) {
	a := b.about(keyOf(t, u))
	if said.ResourceMetadata != "" {
		a.moveTo(said.ResourceMetadata, b.now())
	}
	r, err := a.get(ctx, b, func(ctx context.Context) (*resource, error) { return b.readResource(ctx, u, a.named(), tr) })
	if err != nil {
		return nil, fmt.Errorf("find the authorization server of the upstream: %w", err)
	}
	var faults []error
	for _, issuer := range r.Servers {
		found, err := b.issuer(ctx, issuer, tr)
		if err == nil {
			s := *found
			if err = s.suits(u.Auth.Mode); err == nil || u.Auth.TokenURL != "" {
				s.Resource, s.ScopesSupported = r.ID, r.Scopes
				return &s, nil
			}
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// about gives what is known of what an upstream says of itself.
func (b *Broker) about(key upstreamKey) *about {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.resources.Get(key)
	if !ok {
		a = &about{}
		b.resources.Put(key, a, 1)
	}
	return a
}

// recheck has what an upstream says of itself read again, since it refuses what it
// ought to take: its authorization server may be another one by now.
func (b *Broker) recheck(t *tenant.Tenant, u *tenant.Upstream, challenges []string) {
	if u.Auth.Issuer != "" || u.Auth.TokenURL != "" {
		return
	}
	b.about(keyOf(t, u)).refused(bearerOf(challenges).ResourceMetadata, b.now())
}

// moveTo has the document read at another place, at once unless one was hurried to a
// short while ago.
func (a *about) moveTo(place string, now time.Time) {
	a.placeMu.Lock()
	defer a.placeMu.Unlock()
	if a.place == place || len(place) > maxAddress || !a.mayHurry(now) {
		return
	}
	a.place = place
	a.age(true)
}

// refused has the document read again, at the place that the refusal names, if any: at
// once, or in its turn where that was so a short while ago.
func (a *about) refused(place string, now time.Time) {
	a.placeMu.Lock()
	defer a.placeMu.Unlock()
	soon := a.mayHurry(now)
	if soon && place != "" && len(place) <= maxAddress {
		a.place = place
	}
	a.age(soon)
}

// mayHurry tells whether the document may be read out of turn, which is then counted.
// a.placeMu is held.
func (a *about) mayHurry(now time.Time) bool {
	if !a.hurried.IsZero() && now.Sub(a.hurried) < askInterval {
		return false
	}
	a.hurried = now
	return true
}

func (a *about) named() string {
	a.placeMu.Lock()
	defer a.placeMu.Unlock()
	return a.place
}

// readResource reads what an upstream says of itself: at the place that it names when it
// is asked for nothing, else at one that it named before, else at the well-known ones.
func (b *Broker) readResource(ctx context.Context, u *tenant.Upstream, place string, tr trust) (*resource, error) {
	said := b.knock(ctx, u, tr)
	places := []string{cmp.Or(said.ResourceMetadata, place)}
	if places[0] == "" {
		var err error
		if places, err = resourcePlaces(u.URL); err != nil {
			return nil, err
		}
	}
	var faults []error
	for _, from := range places {
		r, err := b.resourceAt(ctx, u, from, tr)
		if err == nil {
			if len(said.Scopes) > 0 {
				r.Scopes = said.Scopes // 2026-07-28, basic/authorization, Scope Selection Strategy
			}
			return r, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

func (b *Broker) resourceAt(ctx context.Context, u *tenant.Upstream, place string, tr trust) (*resource, error) {
	raw, err := b.read(ctx, place, tr)
	if err != nil {
		return nil, err
	}
	r, err := parseResource(raw, u.URL, u.Auth.Resource)
	if err != nil {
		return nil, fmt.Errorf("%s: it %w", place, err)
	}
	return r, nil
}

// resourcePlaces gives the well-known places of a resource's metadata in the order in
// which to ask (RFC 9728, section 3.1).
func resourcePlaces(address string) ([]string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("the upstream is not at a URL")
	}
	const known = "/.well-known/oauth-protected-resource"
	root := u.Scheme + "://" + u.Host + known
	if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
		return []string{root + path, root}, nil
	}
	return []string{root}, nil
}

// knockTime bounds how long an upstream may take to say that it wants credentials.
const knockTime = 4 * time.Second

// knockBody asks for what most servers show to those only whom they know, also where
// they greet everybody. It changes nothing, whatever the era of the server.
const knockBody = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}`

// knock makes a request without credentials, and gives what the upstream's challenge
// says; nothing where it has none.
func (b *Broker) knock(ctx context.Context, u *tenant.Upstream, tr trust) bearer {
	if tr.endpoint(u.URL) != nil {
		return bearer{}
	}
	ctx, cancel := context.WithTimeout(ctx, knockTime)
	defer cancel()
	said, posted := b.knockBy(ctx, http.MethodPost, u, tr)
	if !posted { // a server of HTTP+SSE (2024-11-05) takes no POST there
		said, _ = b.knockBy(ctx, http.MethodGet, u, tr)
	}
	return said
}

// knockBy is knock by one method. ok is false where the upstream does not know it.
func (b *Broker) knockBy(ctx context.Context, method string, u *tenant.Upstream, tr trust) (said bearer, ok bool) {
	body := ""
	if method == http.MethodPost {
		body = knockBody
	}
	req, err := http.NewRequestWithContext(ctx, method, u.URL, strings.NewReader(body))
	if err != nil {
		return bearer{}, true
	}
	if body != "" { // 2026-07-28, basic/transports/streamable-http
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/list")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	c := b.public
	if tr.allows(u.URL) {
		c = b.private
	}
	resp, err := c.Do(req)
	if err != nil {
		return bearer{}, true
	}
	resp.Body.Close() // it may be a stream that does not end
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return bearerOf(resp.Header.Values("WWW-Authenticate")), true
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return bearer{}, false
	}
	return bearer{}, true
}
