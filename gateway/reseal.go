package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// How fast what is kept is sealed anew.
const (
	resealPage  = 64                    // values that are read at once
	resealPause = 10 * time.Millisecond // after each page, and after what was written
	// resealTries bounds how often one registration or value is tried that others change
	// at the same time: with pauses twice as long each time, which together are longer
	// than a registry may take to hear of a change.
	resealTries = 8
)

// SealedAt says where in a registry something sealed is, without whose it is.
type SealedAt struct {
	Tenant string
	Alias  string // of an upstream; empty for what belongs to the tenant
	Kind   string // the path of a registration's secret, or the kind of a value
}

// String gives the place in one line.
func (p SealedAt) String() string {
	text := "tenant " + p.Tenant
	if p.Alias != "" {
		text += ", upstream " + p.Alias
	}
	return text + ": " + p.Kind
}

func (p SealedAt) compare(o SealedAt) int {
	return cmp.Or(cmp.Compare(p.Tenant, o.Tenant), cmp.Compare(p.Alias, o.Alias), cmp.Compare(p.Kind, o.Kind))
}

// Resealed says what a walk over all that is sealed in a registry has found.
type Resealed struct {
	Current int // secrets and values that the first key had sealed already
	Secrets int // of registrations, that were sealed anew
	Values  int // that were given for users and by servers, and were sealed anew
	// Unopened counts what no key of the ring opens, by its place. It is left as it is.
	Unopened map[SealedAt]int
	// Refused are the tenants whose registrations could not be written, since the
	// registry refuses them as they are, and why.
	Refused map[string]error
}

// Changed tells whether something was sealed anew.
func (r *Resealed) Changed() bool { return r.Secrets+r.Values > 0 }

// UnopenedPlaces gives the places of Unopened, sorted.
func (r *Resealed) UnopenedPlaces() []SealedAt {
	return slices.SortedFunc(maps.Keys(r.Unopened), SealedAt.compare)
}

// Reseal seals anew with the first key of a ring what other keys of it have sealed in a
// registry: secrets of registrations, and what was given for users. It takes its time,
// so that a registry in use hardly notices. Several may do it at the same time, and
// beside all other use: what is changed meanwhile is never overwritten. It gives what
// it has done also with an error, and done again it goes on where it has failed.
func Reseal(ctx context.Context, r *Registry, ring *seal.Ring) (*Resealed, error) {
	w := &resealWalk{ring: ring, Resealed: Resealed{Unopened: map[SealedAt]int{}, Refused: map[string]error{}}}
	// One may fail where the other does not.
	err := errors.Join(w.registrations(ctx, r), w.values(ctx, r.Vault))
	return &w.Resealed, err
}

// resealWalk is one walk.
type resealWalk struct {
	ring *seal.Ring
	Resealed
}

// registrations walks over the registered tenants.
func (w *resealWalk) registrations(ctx context.Context, r tenant.Registry) error {
	names, err := r.Names(ctx)
	if err != nil {
		return fmt.Errorf("seal registrations anew: %w", err)
	}
	var unread error // a registration that cannot be read hides no other
	for _, name := range names {
		t, err := r.Tenant(ctx, name)
		if errors.Is(err, tenant.ErrNotFound) {
			continue
		} else if err != nil {
			unread = cmp.Or(unread, fmt.Errorf("seal registrations anew: %w", err))
			continue
		}
		if err := w.registration(ctx, r, t); err != nil {
			return fmt.Errorf("seal the secrets of tenant %s anew: %w", name, err)
		}
	}
	return unread
}

// registration seals one tenant's secrets anew.
func (w *resealWalk) registration(ctx context.Context, r tenant.Registry, t *tenant.Tenant) error {
	for try := 1; ; try++ {
		next, found, err := w.resealed(t)
		if err != nil {
			return err
		}
		if found.Secrets > 0 {
			_, err = r.Put(ctx, next, t.Revision)
		}
		var refused tenant.Faults
		switch {
		case errors.As(err, &refused):
			w.Refused[t.Name], found.Secrets = err, 0
		case errors.Is(err, tenant.ErrConflict) && try < resealTries:
			if err := pause(ctx, resealPause<<try); err != nil {
				return err
			}
			if t, err = r.Tenant(ctx, t.Name); errors.Is(err, tenant.ErrNotFound) {
				return nil
			} else if err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		w.Current += found.Current
		w.Secrets += found.Secrets
		for at, n := range found.Unopened {
			w.Unopened[at] += n
		}
		if found.Secrets > 0 {
			return pause(ctx, resealPause)
		}
		return nil
	}
}

// resealed gives a copy of a registration with its secrets sealed anew, and what there
// was to do.
func (w *resealWalk) resealed(t *tenant.Tenant) (next *tenant.Tenant, found Resealed, err error) {
	encoded, err := tenant.EncodeTenant(t)
	if err == nil {
		next, err = tenant.DecodeTenant(encoded)
	}
	if err != nil {
		return nil, found, err
	}
	found.Unopened = map[SealedAt]int{}
	for at, secret := range sealedSecrets(next) {
		sealed, changed, err := w.ring.Reseal(secretPurpose, secret.Sealed, nil)
		switch {
		case err != nil:
			found.Unopened[at]++
		case changed:
			secret.Sealed = sealed
			found.Secrets++
		default:
			found.Current++
		}
	}
	return next, found, nil
}

// sealedSecrets gives the sealed secrets of a registration, and where they are.
func sealedSecrets(t *tenant.Tenant) iter.Seq2[SealedAt, *tenant.Secret] {
	return func(yield func(SealedAt, *tenant.Secret) bool) {
		give := func(alias, path string, s *tenant.Secret) bool {
			return s.Sealed == "" || yield(SealedAt{t.Name, alias, path}, s)
		}
		for i := range t.Auth.Issuers {
			is, path := &t.Auth.Issuers[i], fmt.Sprintf("auth.issuers[%d].", i)
			if is.Introspection != nil && !give("", path+"introspection.clientSecret", &is.Introspection.ClientSecret) {
				return
			}
			if is.Login != nil && !give("", path+"login.clientSecret", &is.Login.ClientSecret) {
				return
			}
		}
		for i := range t.Upstreams {
			u := &t.Upstreams[i]
			if !give(u.Alias, "auth.token", &u.Auth.Token) || !give(u.Alias, "auth.clientSecret", &u.Auth.ClientSecret) {
				return
			}
			for j := range u.Auth.Headers {
				if !give(u.Alias, fmt.Sprintf("auth.headers[%d].value", j), &u.Auth.Headers[j].Value) {
					return
				}
			}
		}
	}
}

// UnopenedSecrets gives the places of secrets of registrations that no key of a ring
// opens, in the order of the registrations.
func UnopenedSecrets(tenants []*tenant.Tenant, ring *seal.Ring) []SealedAt {
	var places []SealedAt
	for _, t := range tenants {
		for at, secret := range sealedSecrets(t) {
			if _, _, err := ring.Reseal(secretPurpose, secret.Sealed, nil); err != nil {
				places = append(places, at)
			}
		}
	}
	return places
}

// values walks over what is kept for users.
func (w *resealWalk) values(ctx context.Context, vault tenant.Vault) error {
	for after := (tenant.VaultKey{}); ; {
		page, err := vault.Secrets(ctx, after, resealPage)
		if err != nil {
			return fmt.Errorf("seal values anew: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for i := range page {
			if err := w.value(ctx, vault, page[i]); err != nil {
				return fmt.Errorf("seal values of tenant %s anew: %w", page[i].Key.Tenant, err)
			}
		}
		after = page[len(page)-1].Key
		if err := pause(ctx, resealPause); err != nil {
			return fmt.Errorf("seal values anew: %w", err)
		}
	}
}

// value seals one value anew.
func (w *resealWalk) value(ctx context.Context, vault tenant.Vault, v tenant.VaultValue) error {
	for try := 1; ; try++ {
		sealed, changed := w.resealedValue(v)
		if !changed {
			return nil
		}
		_, err := vault.PutSecret(ctx, v.Key, []byte(sealed), v.Revision)
		if err == nil {
			w.Values++
			return pause(ctx, resealPause)
		}
		if !errors.Is(err, tenant.ErrConflict) || try == resealTries {
			return err
		}
		// Somebody else has written it, or sealed it anew.
		if err := pause(ctx, resealPause<<try); err != nil {
			return err
		}
		if v, err = vault.Secret(ctx, v.Key); errors.Is(err, tenant.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// resealedValue gives what is to be written in place of a value, and counts one that is
// to stay.
func (w *resealWalk) resealedValue(v tenant.VaultValue) (sealed string, changed bool) {
	sealed, changed, err := w.ring.Reseal(broker.VaultPurpose, string(v.Sealed), broker.VaultBinding(v.Key))
	switch {
	case err != nil:
		w.Unopened[SealedAt{v.Key.Tenant, v.Key.Alias, v.Key.Kind}]++
	case !changed:
		w.Current++
	}
	return sealed, changed
}
