package federation

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// What breaks off in the middle is no list, and what a list may cost is bounded,
// whatever an upstream puts into it.
func TestListsThatAreRefusedAsAWhole(t *testing.T) {
	tests := []struct {
		name string
		page func(n int, m *mcp.Request) string
		want string
	}{
		{"method not found on a later page", func(n int, m *mcp.Request) string {
			if n > 1 {
				return errorFor(m, mcp.CodeMethodNotFound)
			}
			return resultFor(m, `{"tools":[`+tool("x")+`],"nextCursor":"2"}`)
		}, "rejected"},
		{"items without end that are left out", func(n int, m *mcp.Request) string {
			return resultFor(m, fmt.Sprintf(`{"tools":[7,7,7,7,7],"nextCursor":"%d"}`, n))
		}, "too_large"},
		{"one tool twice without end", func(n int, m *mcp.Request) string {
			return resultFor(m, fmt.Sprintf(`{"tools":[%s,%[1]s],"nextCursor":"%d"}`, tool("x"), n))
		}, "too_large"},
		{"large pages without end", func(n int, m *mcp.Request) string {
			return resultFor(m, fmt.Sprintf(`{"tools":[],"x":%q,"nextCursor":"%d"}`, strings.Repeat("x", 1000), n))
		}, "too_large"},
		{"input required", func(_ int, m *mcp.Request) string {
			return resultFor(m, `{"resultType":"input_required","tools":[]}`)
		}, "protocol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good, bad := newFake(t), newFake(t)
			good.list(kindTools, tool("fine"))
			n := 0
			bad.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
				n++
				return says(200, tt.page(n, m)), nil
			})
			r, stop := newFakeRig(t, fakes(map[string]*fake{"good": good, "bad": bad}), func(o *Options) {
				o.Limits.MaxPages, o.Limits.MaxItems, o.Limits.MaxListBytes = 10_000, 50, 20_000
			})
			defer stop()
			got, partial := r.listed("", kindTools)
			if want := `[{"alias":"bad","reason":"` + tt.want + `"}]`; !cmp.Equal(got, []string{"good_fine"}) || partial != want {
				t.Errorf("got %v, partial %s, want %s", got, partial, want)
			}
		})
	}
}

// An upstream that forgets its cursors when its list changes is read from the
// beginning once more; one that never knows them is not read for ever.
func TestCursorsThatTheUpstreamForgets(t *testing.T) {
	for _, forgets := range []int{1, 1000} {
		p := newFake(t)
		n := 0
		p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
			switch {
			case !m.Cursor.Ok():
				n++
				return says(200, resultFor(m, fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, tool(fmt.Sprint("first", n)), n))), nil
			case n <= forgets:
				return says(200, errorFor(m, mcp.CodeInvalidParams)), nil
			}
			return says(200, resultFor(m, `{"tools":[`+tool("last")+`]}`)), nil
		})
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		body, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
		switch {
		case forgets > 1:
			wantCode(t, err, mcp.CodeInternal)
			if n != maxRestarts {
				t.Errorf("the list was begun %d times, want %d", n, maxRestarts)
			}
		case err != nil:
			t.Error(err)
		default:
			if diff := cmp.Diff([]string{"a_first2", "a_last"}, names(t, kindTools, body)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		}
		stop()
	}
}

// A template that the gateway cannot read is no reason to hide it.
func TestTemplatesThatAreNotUnderstoodAreShown(t *testing.T) {
	p := newFake(t)
	odd := `{"uriTemplate":"doc://{unclosed","name":"odd"}`
	p.list(kindTemplates, odd, `{"uriTemplate":"doc://{id}","name":"fine"}`)
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	got, partial := r.listed("", kindTemplates)
	if diff := cmp.Diff([]string{"a+doc://{id}", "a+doc://{unclosed"}, got); diff != "" || partial != "" {
		t.Errorf("templates (-want +got):\n%spartial = %s", diff, partial)
	}
	if !strings.Contains(r.log.String(), "doc://{unclosed") {
		t.Error("the oddity was not logged")
	}
}

// A list with very many faults does not fill the log.
func TestReportsAreBounded(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, strings.Repeat(`7,`, 500)+tool("x"))
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	r.listed("", kindTools)
	if n := strings.Count(r.log.String(), "\n"); n != maxReports+1 {
		t.Errorf("%d lines were logged, want %d", n, maxReports+1)
	}
	if !strings.Contains(r.log.String(), "count=450") {
		t.Error("the log does not say how many more there are")
	}
}

// Nor does one with very many names that are taken.
func TestReportsOfClashesAreBounded(t *testing.T) {
	p := newFake(t)
	var tools []string
	for i := range 500 {
		tools = append(tools, tool(fmt.Sprint("t", i)))
	}
	p.list(kindTools, tools...)
	store := registered(fakeUp("a"), fakeUp("b"))
	for i := range store[0].Upstreams {
		store[0].Upstreams[i].Prefix = tenant.PrefixNone
	}
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p, "b": p}), func(o *Options) { o.Store = tenant.NewMemory(store) })
	defer stop()
	for i := range 3 {
		p.list(kindTools, append(tools, tool(fmt.Sprint("new", i)))...)
		if _, err := r.load(t).member("a").anew(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		r.listed("", kindTools)
	}
	if n := strings.Count(r.log.String(), "\n"); n > maxReports+5 {
		t.Errorf("%d lines were logged", n)
	}
}

// A tool that did not change is not checked again, and keeps what was found.
func TestParametersOfAToolSurviveARefresh(t *testing.T) {
	p := newFake(t)
	def := `{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`
	p.list(kindTools, def)
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	m := r.load(t).member("a")
	for i := range 3 {
		p.list(kindTools, def, tool(fmt.Sprint("t", i)))
		seg, err := m.refresh(t.Context(), kindTools)
		if err != nil {
			t.Fatal(err)
		}
		if got := seg.index["q"].params; len(got) != 1 || got[0].Name != "Region" {
			t.Errorf("refresh %d: params = %v", i, got)
		}
	}
}
