package federation

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// policyKind gives what policy calls items of a kind.
func policyKind(k kind) policy.Kind {
	switch k {
	case kindTools:
		return policy.KindTool
	case kindPrompts:
		return policy.KindPrompt
	default:
		return policy.KindResource
	}
}

// mayUse tells whether the roster's callers may use anything of a member.
func (d *roster) mayUse(m *member) bool {
	return d.policy.MayUse(d.caller.who, d.audience.toolset, m.conf.Alias, m.conf.Tags, m.conf.Prefix == tenant.PrefixNone)
}

// policyItem gives what policy reads of an item. exposed is its name, or URI, on the
// merged endpoint, also where it is used through another one.
func (m *member) policyItem(k kind, it *item, exposed string) *policy.Item {
	p := &policy.Item{Kind: policyKind(k), Name: exposed, OwnName: it.name, Alias: m.conf.Alias, Tags: m.conf.Tags}
	whole := mcp.Span{Start: 0, End: len(it.raw)}
	p.Title, _ = mcp.String(it.raw, mcp.Find(it.raw, whole, "title"))
	if at := mcp.Find(it.raw, whole, "annotations"); at.Ok() && it.raw[at.Start] == '{' {
		p.Annotations = at.In(it.raw)
	}
	if p.Kind == policy.KindResource {
		p.URI, p.Template = it.name, k == kindTemplates
		p.OwnName, _ = mcp.String(it.raw, mcp.Find(it.raw, whole, "name"))
	}
	return p
}

// permitted gives what the roster's callers may see of a view of all, which is one of
// d.own.
func (d *roster) permitted(key viewKey, full *view) *view {
	names := full
	if key.alias != "" {
		names = d.own.view("", key.kind)
	}
	if kept := d.views.get(key); kept != nil && kept.all == full && kept.names == names {
		return kept
	}
	d.views.making.Lock()
	defer d.views.making.Unlock()
	kept := d.views.get(key)
	if kept != nil && kept.all == full && kept.names == names {
		return kept
	}
	v := d.permit(key, full, names)
	d.keepView(key, v)
	return v
}

// permit makes the view of what may be seen.
func (d *roster) permit(key viewKey, full, names *view) *view {
	v := &view{
		parts: full.parts, all: full, names: names,
		entries: make([]entry, 0, len(full.entries)),
		index:   make(map[string]int, len(full.entries)),
		list:    make([]byte, 0, len(full.list)),
	}
	exposed := names.exposedNames(key)
	h := sha256.New()
	var n [8]byte
	for i := range full.entries {
		e := full.entries[i]
		if !d.has(e.member) {
			continue
		}
		if e.item != nil && e.item.connect {
			e.facts = nil // it is the gateway's own, for whoever may use anything of the member
		} else if e.facts = e.member.policyItem(key.kind, e.item, d.mergedName(exposed, key, &e)); !d.allows(e.facts) {
			continue
		}
		raw := full.list[e.start:e.end]
		if len(v.entries) > 0 {
			v.list = append(v.list, ',')
		}
		e.start = len(v.list)
		v.list = append(v.list, raw...)
		e.end = len(v.list)
		v.index[e.exposed] = len(v.entries)
		v.entries = append(v.entries, e)
		binary.BigEndian.PutUint64(n[:], uint64(len(raw)))
		h.Write(n[:])
	}
	h.Write(v.list)
	h.Sum(v.digest[:0])
	if key.kind == kindTools {
		v.tokens = estimateTokens(v.list)
	}
	return v
}

// itemOf names an item of a member.
type itemOf struct {
	member *member
	name   string
}

// exposedNames gives the names on the merged endpoint of what an endpoint of one
// upstream shows; nil for the merged one itself.
func (v *view) exposedNames(key viewKey) map[itemOf]string {
	if key.alias == "" {
		return nil
	}
	names := map[itemOf]string{}
	for i := range v.entries {
		if e := &v.entries[i]; e.member.conf.Alias == key.alias {
			names[itemOf{e.member, e.item.name}] = e.exposed
		}
	}
	return names
}

// mergedName gives the name on the merged endpoint. What has none there, since another
// item has taken it, is known by the one with the alias.
func (d *roster) mergedName(exposed map[itemOf]string, key viewKey, e *entry) string {
	if exposed == nil {
		return e.exposed
	}
	if name, ok := exposed[itemOf{e.member, e.item.name}]; ok {
		return name
	}
	if key.kind.named() {
		name, _ := exposedName(e.member.conf.Alias, d.snap.Separator, e.item.name)
		return name
	}
	return exposedURI(e.member.conf.Alias, e.item.name)
}

// allows tells whether the roster's callers may use an item with some arguments.
func (d *roster) allows(it *policy.Item) bool {
	return d.policy.Decide(d.caller.who, d.audience.toolset, it, nil).Allowed
}

// check tells whether a caller may do what a call asks for: the error is as if the
// target were not there, or a *ScopeError. A target without facts is the gateway's own.
func (d *roster) check(c *Call, k kind, exposed string, facts *policy.Item, call *policy.Call) error {
	if !d.audience.hidden || facts == nil {
		return nil
	}
	dec := d.policy.Decide(&c.Principal, d.audience.toolset, facts, call)
	if dec.Err != nil && d.faults.first(dec.Rule+"\x00"+facts.Alias, d.fed.now()) {
		d.log.Warn("a rule of the policy fails, which denies", "rule", dec.Rule, "upstream", facts.Alias, "method", c.Request.Method, "error", dec.Err)
	}
	if !dec.Allowed {
		d.decisions.denied.Inc()
		return unknown(k, exposed)
	}
	d.decisions.allowed.Inc()
	if len(dec.Missing) > 0 {
		return &ScopeError{Needed: dec.Needed}
	}
	return nil
}

// checkNamed checks a call of a tool or prompt that was found.
func (d *roster) checkNamed(c *Call, k kind, t *target) error {
	r := c.Request
	var call *policy.Call
	if r.Method == mcp.MethodToolsCall || r.Method == mcp.MethodPromptsGet {
		call = &policy.Call{Method: r.Method, Arguments: r.Arguments.In(r.Raw)}
	}
	return d.check(c, k, t.exposed, t.facts, call)
}

// resourceFacts gives what policy reads of a resource: of a listed one, or else of each
// template that it is an expansion of; one that is in no list has a URI and no more.
func (d *roster) resourceFacts(m *member, uri string) []*policy.Item {
	exposed := uri
	if m.conf.Prefix != tenant.PrefixNone || d.clashes(m, uri) {
		exposed = exposedURI(m.conf.Alias, uri)
	}
	if seg := m.known(kindResources); seg != nil && seg.index[uri] != nil {
		return []*policy.Item{m.policyItem(kindResources, seg.index[uri], exposed)}
	}
	var all []*policy.Item
	if seg := m.known(kindTemplates); seg != nil && len(uri) <= maxMatchLen {
		for _, it := range seg.items {
			if it.match != nil && it.match(uri) {
				p := m.policyItem(kindTemplates, it, exposed)
				p.URI, p.Template = uri, false
				all = append(all, p)
			}
		}
	}
	if all == nil {
		all = []*policy.Item{{Kind: policy.KindResource, Name: exposed, Alias: m.conf.Alias, Tags: m.conf.Tags, URI: uri}}
	}
	return all
}

// checkResource checks the use of a resource, or template, that was located: all that
// is known of it must allow that.
func (d *roster) checkResource(c *Call, t *target) error {
	if !d.audience.hidden {
		return nil
	}
	m := t.member
	for _, k := range []kind{kindResources, kindTemplates} {
		if m.known(k) == nil {
			// What policy may read of it could not be had.
			return unavailable(m.conf.Alias, m.failure(k), "its list could never be had")
		}
	}
	if seg := m.known(kindTemplates); c.Request.Method == mcp.MethodComplete && seg.index[t.name] != nil { // it names the template itself
		return d.check(c, kindResources, t.field.Value, m.policyItem(kindTemplates, seg.index[t.name], d.exposedTemplate(m, t.name)), nil)
	}
	for _, facts := range d.resourceFacts(m, t.name) {
		if err := d.check(c, kindResources, t.field.Value, facts, &policy.Call{Method: mcp.MethodResourcesRead}); err != nil {
			return err
		}
	}
	return nil
}

// exposedTemplate gives the form by which the merged endpoint shows a template.
func (d *roster) exposedTemplate(m *member, template string) string {
	if m.conf.Prefix == tenant.PrefixNone {
		if t := d.own.lookup("", kindTemplates, template); t == nil || t.member == m {
			return template
		}
	}
	return exposedURI(m.conf.Alias, template)
}

// mayHear tells whether one of the roster's callers may be told of changes of a
// resource, for which they need the scopes of reading it.
func (d *roster) mayHear(who *tenant.Principal, m *member, uri string) bool {
	if !d.audience.hidden {
		return true
	}
	if !d.has(m) || m.known(kindResources) == nil || m.known(kindTemplates) == nil {
		return false // what policy may read of it is not known
	}
	for _, facts := range d.resourceFacts(m, uri) {
		if dec := d.policy.Decide(who, d.audience.toolset, facts, &policy.Call{Method: mcp.MethodResourcesRead}); !dec.Allowed || len(dec.Missing) > 0 {
			return false
		}
	}
	return true
}

// shows tells whether the roster's callers can see anything of a member, or may be able
// to, where its lists are not known.
func (d *roster) shows(m *member) bool {
	if !d.audience.hidden {
		return true
	}
	for k := range kindDiscover {
		if m.known(k) == nil || d.view("", k).holds(m) {
			return true
		}
	}
	return false
}

// holds tells whether the view has anything of a member.
func (v *view) holds(m *member) bool {
	return slices.ContainsFunc(v.entries, func(e entry) bool { return e.member == m })
}

// hasToolset tells whether the tenant has a toolset; it has the one without a name.
func (d *roster) hasToolset(name string) bool {
	return name == "" || slices.ContainsFunc(d.snap.Toolsets, func(s tenant.Toolset) bool { return s.Name == name })
}

// toolset gives a toolset; nil for the one without a name.
func (d *roster) toolset(name string) *tenant.Toolset {
	if i := slices.IndexFunc(d.snap.Toolsets, func(s tenant.Toolset) bool { return s.Name == name }); i >= 0 {
		return &d.snap.Toolsets[i]
	}
	return nil
}

// faultEvery is how often it is logged that a rule fails, and maxFaults how many rules
// are told apart for that.
const (
	faultEvery = time.Minute
	maxFaults  = 1000
)

// faults remembers which faults have been logged lately.
type faults struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// first tells whether a fault is to be logged now.
func (f *faults) first(fault string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.told[fault]) < faultEvery {
		return false
	}
	if f.told == nil || len(f.told) >= maxFaults {
		f.told = map[string]time.Time{}
	}
	f.told[fault] = now
	return true
}
