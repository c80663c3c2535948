package policy

import (
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// compiled gives the program of a tenant with these rules and toolsets.
func compiled(t testing.TB, def tenant.Effect, rules []tenant.Rule, toolsets ...tenant.Toolset) *Program {
	t.Helper()
	p, err := Compile(&tenant.Tenant{Name: "acme", Policy: &tenant.Policy{Default: def, Rules: rules}, Toolsets: toolsets})
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return p
}

// allowing gives a program that allows what the expression holds for, by a rule
// that is named it.
func allowing(t testing.TB, when string) *Program {
	t.Helper()
	return compiled(t, tenant.EffectDeny, []tenant.Rule{{Name: "it", When: when, Effect: tenant.EffectAllow}})
}

// alice is a principal.
func alice() *tenant.Principal {
	return &tenant.Principal{
		Tenant: "acme", Issuer: "https://idp.example.com", Subject: "alice", ClientID: "cli",
		Scopes: []string{"mcp", "read"}, Groups: []string{"finance", "staff"},
	}
}

// Items of each kind.
func bookHotel() *Item {
	return &Item{
		Kind: KindTool, Name: "travel_bookHotel", OwnName: "bookHotel", Alias: "travel", Tags: []string{"eu", "paid"},
		Title: "Book a hotel", Annotations: []byte(`{"readOnlyHint":false,"x":{"n":[1,2.5]}}`),
	}
}

func planTrip() *Item {
	return &Item{Kind: KindPrompt, Name: "travel_plan", OwnName: "plan", Alias: "travel", Tags: []string{"eu"}}
}

func terms() *Item {
	return &Item{
		Kind: KindResource, Name: "travel+file:///terms.txt", OwnName: "terms", Alias: "travel",
		Annotations: []byte(`{"audience":["user"]}`), URI: "file:///terms.txt",
	}
}
