package federation

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// That a rule fails is logged, without the arguments, and not for each call.
func TestFailingRulesAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("x"))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		r.govern(&tenant.Policy{Default: tenant.EffectAllow, Rules: []tenant.Rule{
			{Name: "limit", When: `tool.name == "a_x" && request.arguments.amount > 10`, Effect: tenant.EffectDeny},
		}})
		call := func(times int) int {
			t.Helper()
			for range times {
				if _, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_x","arguments":{"secret":"hush"}`)); told(err) != "-32602 Unknown tool: a_x " {
					t.Errorf("error = %v", err)
				}
			}
			return strings.Count(r.log.String(), "a rule of the policy fails")
		}
		if n := call(20); n != 1 {
			t.Errorf("logged %d times for 20 calls", n)
		}
		time.Sleep(time.Minute)
		if n := call(1); n != 2 {
			t.Errorf("logged %d times after a minute", n)
		}
		if log := r.log.String(); strings.Contains(log, "hush") || !strings.Contains(log, "limit") {
			t.Errorf("log: %s", log)
		}
	})
}
