package federation

import (
	"context"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// maxTemplateTries bounds how often the links of one message are compared with
// templates, so that an upstream with many of both costs no more than a second.
const maxTemplateTries = 200_000

// exposeURI gives the URI under which clients of the merged endpoint know one of
// the member's; ok is false when it is the same. Whether a link to the web is one
// of the member's resources may make it wait for lists that are not known, once.
func (d *roster) exposeURI(ctx context.Context, m *member) uriMapper {
	looked := false
	return d.exposer(m, func() {
		if !looked {
			looked = true
			m.look(ctx, kindResources, kindTemplates)
		}
	})
}

// exposeKnown is exposeURI from what is known, without waiting.
func (d *roster) exposeKnown(m *member) uriMapper { return d.exposer(m, func() {}) }

// exposer makes a mapper that calls look before it asks whether a link to the web
// is one of the member's resources.
func (d *roster) exposer(m *member, look func()) uriMapper {
	bare := m.conf.Prefix == tenant.PrefixNone
	tries := maxTemplateTries
	return func(uri string) (string, bool) {
		if isWeb(uri) {
			if look(); !m.hasResource(uri, &tries) {
				return "", false
			}
		}
		if bare && !d.clashes(m, uri) {
			return "", false
		}
		return exposedURI(m.conf.Alias, uri), true
	}
}

// clashes tells whether the URI of an upstream with prefix none is known to
// belong to another one.
func (d *roster) clashes(m *member, uri string) bool {
	t := d.own.lookup("", kindResources, uri)
	return t != nil && t.member != m
}

// isWeb tells whether clients can fetch the URI themselves.
func isWeb(uri string) bool {
	return len(uri) >= 8 && strings.EqualFold(uri[:8], "https://")
}

// hasResource tells whether the URI is known as one of the member's resources or
// as an expansion of one of its templates. tries is how many templates may still
// be tried.
func (m *member) hasResource(uri string, tries *int) bool {
	if seg := m.known(kindResources); seg != nil && seg.index[uri] != nil {
		return true
	}
	seg := m.known(kindTemplates)
	if seg == nil || *tries < 0 {
		return false
	}
	for _, it := range seg.items {
		if it.match == nil {
			continue
		}
		if *tries--; *tries < 0 {
			m.domain.log.Warn("too many links and templates to tell which belong together", "upstream", m.conf.Alias)
			return false
		}
		if it.match(uri) {
			return true
		}
	}
	return false
}
