package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// write tells people.
func (e *explanation) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s of the upstream %s, tenant %s\n", e.item.Kind, terminal.Line(e.item.Name), terminal.Line(e.item.Alias), e.tenant.Name)
	fmt.Fprintf(&b, "as %s\n", terminal.Line(e.subject()))
	if e.call == nil && e.item.Kind != policy.KindResource {
		b.WriteString("for a list; a call is explained with --arguments\n")
	}
	for i := range e.Steps {
		writeStep(&b, &e.Steps[i])
	}
	fmt.Fprintf(&b, "%s\n", e.verdict())
	if len(e.Missing) > 0 {
		fmt.Fprintf(&b, "a call is refused until the token has %s\n", inWords(e.Missing))
	}
	if len(e.lacks) > 0 {
		fmt.Fprintf(&b, "any use of the tenant needs %s, which the token lacks\n", inWords(e.lacks))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// subject says who asks.
func (e *explanation) subject() string {
	raw, err := json.Marshal(e.principal())
	if err != nil {
		panic(err) // strings always can be written
	}
	if string(raw) == "{}" {
		return "somebody of whom nothing is known"
	}
	return string(raw)
}

// principal gives who asks, as --as has it.
func (e *explanation) principal() any {
	return struct {
		Issuer   string   `json:"issuer,omitempty"`
		Subject  string   `json:"subject,omitempty"`
		ClientID string   `json:"clientID,omitempty"`
		Scopes   []string `json:"scopes,omitempty"`
		Groups   []string `json:"groups,omitempty"`
	}{e.who.Issuer, e.who.Subject, e.who.ClientID, e.who.Scopes, e.who.Groups}
}

// writeStep writes one step in one line, and what it looks at below it.
func writeStep(b *strings.Builder, s *policy.Step) {
	mark := " "
	if s.Decides {
		mark = ">"
	}
	fmt.Fprintf(b, "%s %s", mark, s.Part)
	if s.Name != "" {
		fmt.Fprintf(b, " %s", terminal.Line(s.Name))
	}
	if s.Effect != "" {
		fmt.Fprintf(b, " (%s)", s.Effect)
	}
	if s.Part != policy.PartDefault {
		fmt.Fprintf(b, ": %s", s.Outcome)
	}
	switch {
	case len(s.Unknown) > 0:
		fmt.Fprintf(b, ", depending on %s (not known)", inWords(s.Unknown))
	case s.Outcome == policy.MayHold:
		b.WriteString(", depending on arguments")
	}
	b.WriteString("\n")
	if s.When != "" {
		fmt.Fprintf(b, "      when %s\n", terminal.Line(s.When))
	}
	if s.Err != nil {
		fmt.Fprintf(b, "      %s\n", terminal.Line(s.Err.Error()))
	}
	if s.Untrusted {
		b.WriteString("      reads what the upstream says of itself, which nobody vouches for\n")
	}
	if len(s.Scopes) > 0 {
		fmt.Fprintf(b, "      needs %s\n", inWords(s.Scopes))
	}
}

// verdict says in one line what comes of it, and why.
func (e *explanation) verdict() string {
	last := &e.Steps[len(e.Steps)-1]
	allowed := e.MayAllow
	result := map[bool]string{true: "allowed", false: "denied"}[allowed]
	switch {
	case e.MayAllow && e.MayDeny:
		return "it depends: " + hint(e.Steps)
	case !last.Decides:
		return result + ", whatever is not known: the steps that depend on it come to the same"
	case last.Part == policy.PartToolset:
		return fmt.Sprintf("denied: the toolset %s does not have it", terminal.Line(last.Name))
	case last.Part == policy.PartDefault:
		return result + " by the default: no rule decides"
	case last.Outcome == policy.Fails:
		return fmt.Sprintf("denied by the rule %s, since it fails", terminal.Line(last.Name))
	case last.Outcome == policy.MayHold && allowed:
		return fmt.Sprintf("allowed by the rule %s, with some arguments", terminal.Line(last.Name))
	}
	return fmt.Sprintf("%s by the rule %s", result, terminal.Line(last.Name))
}

// hint says how to find out what is not known.
func hint(steps []policy.Step) string {
	flags := map[string]string{"title": "--title", "annotations": "--annotations", "tags": "an --alias of the file"}
	var give, rest []string
	for _, s := range steps {
		for _, field := range s.Unknown {
			if flag, ok := flags[field]; ok {
				give = appendNew(give, flag)
			} else {
				rest = appendNew(rest, field)
			}
		}
	}
	switch {
	case len(rest) == 0:
		return "give " + inWords(give) + " to find out"
	case len(give) == 0:
		return "only the upstream knows " + inWords(rest)
	}
	return "give " + inWords(give) + " to find out; only the upstream knows " + inWords(rest)
}

func appendNew(list []string, s string) []string {
	for _, o := range list {
		if o == s {
			return list
		}
	}
	return append(list, s)
}

// inWords puts a list into words.
func inWords(list []string) string {
	if len(list) < 2 {
		return terminal.Line(strings.Join(list, ""))
	}
	last := len(list) - 1
	return terminal.Line(strings.Join(list[:last], ", ") + " and " + list[last])
}

// stepJSON is a step as JSON.
type stepJSON struct {
	Part      policy.Part    `json:"part"`
	Name      string         `json:"name,omitempty"`
	When      string         `json:"when,omitempty"`
	Effect    tenant.Effect  `json:"effect,omitempty"`
	Outcome   policy.Outcome `json:"outcome"`
	Scopes    []string       `json:"scopes,omitempty"`
	Untrusted bool           `json:"untrusted,omitempty"`
	Unknown   []string       `json:"unknown,omitempty"`
	Decides   bool           `json:"decides"`
	Error     string         `json:"error,omitempty"`
}

// writeJSON tells programs. allowed is null where it depends on what is not known.
func (e *explanation) writeJSON(w io.Writer) error {
	type verdict struct {
		Tenant        string      `json:"tenant"`
		Upstream      string      `json:"upstream"`
		Kind          policy.Kind `json:"kind"`
		Name          string      `json:"name"`
		As            any         `json:"as"`
		Unknown       []string    `json:"unknown,omitempty"`
		Steps         []stepJSON  `json:"steps"`
		Allowed       *bool       `json:"allowed"`
		NeededScopes  []string    `json:"neededScopes,omitempty"`
		MissingScopes []string    `json:"missingScopes,omitempty"`
		TenantScopes  []string    `json:"missingTenantScopes,omitempty"`
	}
	v := verdict{
		Tenant: e.tenant.Name, Upstream: e.item.Alias, Kind: e.item.Kind, Name: e.item.Name, As: e.principal(), Unknown: e.unknown,
		NeededScopes: e.Needed, MissingScopes: e.Missing, TenantScopes: e.lacks,
	}
	if e.MayAllow != e.MayDeny {
		v.Allowed = &e.MayAllow
	}
	for _, s := range e.Steps {
		step := stepJSON{s.Part, s.Name, s.When, s.Effect, s.Outcome, s.Scopes, s.Untrusted, s.Unknown, s.Decides, ""}
		if s.Err != nil {
			step.Error = s.Err.Error()
		}
		v.Steps = append(v.Steps, step)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
