package gateway_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// The features that a matrix looks at.
const (
	featureList      = "list"
	featureCall      = "call"
	featureProgress  = "progress"
	featureElicit    = "elicitation"
	featureSubscribe = "resource subscribe"
	featureChange    = "list change"
	featureCancel    = "cancel"
)

// features gives them in the order of the table.
func features() []string {
	return []string{featureList, featureCall, featureProgress, featureElicit, featureSubscribe, featureChange, featureCancel}
}

// use is one call of a tool, and a part of the text that it gives.
type use struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
	Want string         `json:"want,omitempty"`
}

// subscription is a resource and the call that changes it.
type subscription struct {
	URI     string `json:"uri"`
	Trigger use    `json:"trigger"`
	// Undo is called in the end where one call of Trigger makes many changes; else
	// Trigger is called until a change was seen. The gateway grants a subscription
	// before the upstream knows of it.
	Undo *use `json:"undo,omitempty"`
	// On is the alias to use instead of the plan's own; empty for none.
	On string `json:"on,omitempty"`
}

// plan is what a client does with one upstream; nil stands for what the upstream
// does not offer. All clients follow the same one.
type plan struct {
	Name      string        `json:"name"`
	Alias     string        `json:"alias"`
	Tools     []string      `json:"tools"` // that must be listed
	Call      use           `json:"call"`
	Progress  *use          `json:"progress,omitempty"`
	Elicit    *use          `json:"elicit,omitempty"`
	Subscribe *subscription `json:"subscribe,omitempty"`
	Change    *use          `json:"change,omitempty"`
	Hang      *use          `json:"hang,omitempty"`
	// Cancelled tells how many calls of Hang were cancelled; nil where nobody knows.
	Cancelled *use `json:"cancelled,omitempty"`

	config string // the upstream's members in the configuration
}

// offers tells whether a feature is in the plan.
func (p *plan) offers(feature string) bool {
	switch feature {
	case featureProgress:
		return p.Progress != nil
	case featureElicit:
		return p.Elicit != nil
	case featureSubscribe:
		return p.Subscribe != nil
	case featureChange:
		return p.Change != nil
	case featureCancel:
		return p.Hang != nil
	}
	return true
}

// fixturePlan is that of the Go SDK's servers.
func fixturePlan(name, alias, url string) *plan {
	return &plan{
		Name: name, Alias: alias, config: fmt.Sprintf("url: %q", url),
		Tools:     []string{"echo", "ask", "hang"},
		Call:      use{"echo", map[string]any{"message": "größer"}, "Echo: größer"},
		Progress:  &use{"work", map[string]any{}, "worked"},
		Elicit:    &use{"ask", map[string]any{}, "accept: Ada"},
		Subscribe: &subscription{URI: fixtureURI, Trigger: use{Tool: "touch", Args: map[string]any{}}},
		Change:    &use{"flip", map[string]any{}, "flipped"},
		Hang:      &use{"hang", map[string]any{}, ""},
		Cancelled: &use{"cancelled", map[string]any{}, ""},
	}
}

// everythingPlan is that of server-everything. What a tool of it toggles holds for
// the session that calls it, so the subscription is tried where all users share
// one; shared is that upstream's alias.
func everythingPlan(name, alias, shared, config string) *plan {
	toggle := use{"toggle-subscriber-updates", map[string]any{}, ""}
	return &plan{
		Name: name, Alias: alias, config: config,
		Tools:    []string{"echo", "get-sum", "trigger-long-running-operation"},
		Call:     use{"echo", map[string]any{"message": "größer"}, "Echo: größer"},
		Progress: &use{"trigger-long-running-operation", map[string]any{"duration": 0.1, "steps": 2}, "completed"},
		Elicit:   &use{"trigger-elicitation-request", map[string]any{}, "Ada"},
		Subscribe: &subscription{
			URI: "demo://resource/static/document/features.md", Trigger: toggle, Undo: &toggle, On: shared,
		},
		Hang: &use{"trigger-long-running-operation", map[string]any{"duration": 60, "steps": 60}, ""},
	}
}

// matrixPlans gives one plan for each upstream, and the configuration of a gateway
// in front of all of them. The Go servers are started for this gateway alone.
func matrixPlans(t *testing.T, node gatewaytest.Node, everything string) ([]*plan, string) {
	t.Helper()
	program := func(name string, args ...string) string {
		parts := append([]string{node.Path, filepath.Join(node.Modules, ".bin", name)}, args...)
		for i, p := range parts {
			parts[i] = fmt.Sprintf("%q", p)
		}
		return "command: [" + strings.Join(parts, ", ") + "]"
	}
	files := t.TempDir()
	stdio := program("mcp-server-everything", "stdio")
	plans := []*plan{
		fixturePlan("go-sdk, modern", "gomodern", startFixture(t, true)),
		fixturePlan("go-sdk, handshake", "gohandshake", startFixture(t, false)),
		everythingPlan("server-everything, HTTP", "everything", "everythingshared", fmt.Sprintf("url: %q", everything)),
		everythingPlan("server-everything, stdio", "everythingstdio", "stdioshared", stdio),
		{
			Name: "server-filesystem, stdio", Alias: "files", config: program("mcp-server-filesystem", files),
			Tools: []string{"list_directory", "write_file"},
			Call:  use{"list_allowed_directories", map[string]any{}, filepath.Base(files)},
		},
		{
			Name: "server-memory, stdio", Alias: "memory",
			config: program("mcp-server-memory") + fmt.Sprintf(", env: {MEMORY_FILE_PATH: %q}", filepath.Join(t.TempDir(), "memory.jsonl")),
			Tools:  []string{"create_entities", "read_graph"},
			Call:   use{"read_graph", map[string]any{}, "entities"},
		},
		{
			Name: "server-sequential-thinking, stdio", Alias: "thinking", config: program("mcp-server-sequential-thinking"),
			Tools: []string{"sequentialthinking"},
			Call: use{"sequentialthinking", map[string]any{
				"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1,
			}, "thoughtNumber"},
		},
	}
	var conf strings.Builder
	// Programs take their time to start when so many do.
	conf.WriteString("timeouts: {list: 30s}\n" + gatewaytest.Config())
	for _, p := range plans {
		fmt.Fprintf(&conf, "      - {alias: %s, %s}\n", p.Alias, p.config)
	}
	fmt.Fprintf(&conf, "      - {alias: everythingshared, url: %q, sessions: shared}\n", everything)
	fmt.Fprintf(&conf, "      - {alias: stdioshared, %s, sessions: shared}\n", stdio)
	return plans, conf.String()
}
