package policy

import (
	"encoding/binary"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// MayUse tells whether who may see anything of the upstream with that alias and those
// tags through a toolset ("" for none). It is false only where Decide shows a list
// nothing of it, whatever the upstream may have: any kind, names, titles, annotations
// and URIs. bare tells that the upstream's names may be exposed without its alias
// (tenant.PrefixNone). An unknown toolset holds nothing.
func (p *Program) MayUse(who *tenant.Principal, toolset, alias string, tags []string, bare bool) bool {
	t := p.toolset(toolset)
	if t == nil {
		return false
	}
	if len(p.rules) == 0 && !t.selects() {
		return p.byDef == tenant.EffectAllow
	}
	var buf [keySize]byte
	key := p.appendUpstreamKey(buf[:0], who, t, alias, tags, bare)
	if d, ok := p.memo.get(key); ok {
		return d.Allowed
	}
	allowed, fleeting := false, false
	for _, k := range []Kind{KindTool, KindPrompt, KindResource} {
		s := newScope(p, who, &Item{Kind: k, Alias: alias, Tags: tags}, nil)
		s.vague, s.starts = true, starts(k, alias, bare)
		allowed = s.decide(t, nil).Allowed
		fleeting = fleeting || s.fleeting
		if allowed {
			break
		}
	}
	if !fleeting {
		p.memo.put(key, Decision{Allowed: allowed})
	}
	return allowed
}

// appendUpstreamKey adds the key of what MayUse gives.
func (p *Program) appendUpstreamKey(b []byte, who *tenant.Principal, t *toolset, alias string, tags []string, bare bool) []byte {
	b = binary.AppendUvarint(append(b, keyMayUse), uint64(t.index))
	b = p.appendFacts(b, who, t)
	b = strconv.AppendBool(appendText(b, alias), bare)
	if p.reads.item.has(itemTags) {
		b = appendTexts(b, tags)
	}
	return shorten(b)
}

// starts gives what the exposed names of an upstream's items start with: one of
// them. The separator is an underscore at least; the scheme ui, which is kept in
// front of the alias, is that in any case.
func starts(k Kind, alias string, bare bool) []string {
	switch {
	case bare:
		return []string{""}
	case k != KindResource:
		return []string{alias + "_"}
	}
	behind := "://" + alias + "+"
	return []string{alias + "+", "ui" + behind, "UI" + behind, "Ui" + behind, "uI" + behind}
}

// mayMatch tells whether a glob (see path.Match) may match a name that starts with
// start. It is true in doubt.
func mayMatch(glob, start string) bool {
	at := []string{glob} // what may be left of the glob
	for start != "" {
		_, size := utf8.DecodeRuneInString(start)
		char := start[:size]
		start = start[size:]
		var next []string
		add := func(rest string) {
			if !slices.Contains(next, rest) {
				next = append(next, rest)
			}
		}
		for _, rest := range at {
			for strings.HasPrefix(rest, "*") {
				if char != "/" {
					add(rest)
				}
				rest = rest[1:]
			}
			if rest == "" {
				continue
			}
			one := rest[:globChar(rest)]
			if ok, err := path.Match(one, char); ok || err != nil {
				add(rest[len(one):])
			}
		}
		at = next
	}
	return len(at) > 0
}

// globChar gives the length of the part of a glob that matches one character: the
// first, which is no star.
func globChar(glob string) int {
	switch glob[0] {
	case '\\':
		if len(glob) == 1 {
			return 1
		}
		_, size := utf8.DecodeRuneInString(glob[1:])
		return 1 + size
	case '[':
		for i := 1; i < len(glob); i++ {
			switch {
			case glob[i] == '\\':
				i++
			case glob[i] == ']' && i > 1 && glob[1:i] != "^":
				return i + 1
			}
		}
		return len(glob)
	}
	_, size := utf8.DecodeRuneInString(glob)
	return size
}
