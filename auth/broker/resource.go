package broker

import (
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
	placed  time.Time // when that changed
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
	a := b.about(keyOf(t, u))
	if said := bearerOf(challenges); said.ResourceMetadata != "" {
		a.moveTo(said.ResourceMetadata, b.now())
	}
	a.age(false)
}

// moveTo has the document read at another place, at once unless that was so a short
// while ago.
func (a *about) moveTo(place string, now time.Time) {
	a.placeMu.Lock()
	defer a.placeMu.Unlock()
	if a.place == place || len(place) > maxAddress || !a.placed.IsZero() && now.Sub(a.placed) < askInterval {
		return
	}
	a.place, a.placed = place, now
	a.age(true)
}

func (a *about) named() string {
	a.placeMu.Lock()
	defer a.placeMu.Unlock()
	return a.place
}

// readResource reads what an upstream says of itself: at the place that it named, else
// at the well-known ones, else where it names one when it is asked for nothing.
func (b *Broker) readResource(ctx context.Context, u *tenant.Upstream, place string, tr trust) (*resource, error) {
	places := []string{place}
	if place == "" {
		var err error
		if places, err = resourcePlaces(u.URL); err != nil {
			return nil, err
		}
	}
	var faults []error
	for _, from := range places {
		r, err := b.resourceAt(ctx, u, from, tr)
		if err == nil {
			return r, nil
		}
		faults = append(faults, err)
	}
	if place == "" {
		if named := b.knock(ctx, u, tr); named != "" {
			return b.resourceAt(ctx, u, named, tr)
		}
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

// knock asks an upstream for nothing, without credentials, and gives where its
// challenge says that its metadata is; empty for nowhere.
func (b *Broker) knock(ctx context.Context, u *tenant.Upstream, tr trust) string {
	if tr.endpoint(u.URL) != nil {
		return ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URL, nil)
	if err != nil {
		return ""
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	c := b.public
	if tr.allows(u.URL) {
		c = b.private
	}
	resp, err := c.Do(req)
	if err != nil {
		return ""
	}
	resp.Body.Close() // it may be a stream that does not end
	if resp.StatusCode != http.StatusUnauthorized {
		return ""
	}
	return bearerOf(resp.Header.Values("WWW-Authenticate")).ResourceMetadata
}
