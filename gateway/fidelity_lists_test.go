package gateway_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fidelityLists are the lists: the part of a case, the method, the result's member
// and the member of an item that lists are sorted by.
var fidelityLists = []struct{ part, method, key, name string }{
	{"tool", "tools/list", "tools", "name"},
	{"prompt", "prompts/list", "prompts", "name"},
	{"resource", "resources/list", "resources", "uri"},
	{"template", "resources/templates/list", "resourceTemplates", "uriTemplate"},
}

// listPage is one page of a list, the items as they came.
type listPage struct {
	items  []string
	cursor string
	result map[string]json.RawMessage
}

// readPage reads a page. RawMessage keeps the bytes.
func readPage(t *testing.T, message, key string) (p listPage) {
	t.Helper()
	var m struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		t.Fatalf("%.500s: %v", message, err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(m.Result[key], &items); err != nil {
		t.Fatalf("no %s in %.500s: %v", key, message, err)
	}
	for _, raw := range items {
		p.items = append(p.items, string(raw))
	}
	if raw, ok := m.Result["nextCursor"]; ok {
		if err := json.Unmarshal(raw, &p.cursor); err != nil {
			t.Fatalf("the cursor of %.500s: %v", message, err)
		}
	}
	p.result = m.Result
	return p
}

// readList reads all pages.
func readList(t *testing.T, c *rawClient, method, key string) (items []string) {
	t.Helper()
	params := ""
	for {
		p := readPage(t, c.send(ask(method, params)).last(), key)
		items = append(items, p.items...)
		if p.cursor == "" {
			return items
		}
		params = fmt.Sprintf(`"cursor":%q`, p.cursor)
	}
}

// serve makes an upstream list the items, one a page and with odd white space
// between them.
func (items fidelityItems) serve(up *scripted) {
	for _, l := range fidelityLists {
		list := items[l.part]
		up.handle(l.method, func(w http.ResponseWriter, r *http.Request, a *asked) {
			page, next := 0, ""
			if _, err := fmt.Sscanf(cursorOf(a), "page \U0001f4c4 %d", &page); err != nil && cursorOf(a) != "" {
				answerError(http.StatusOK, `{"code":-32602,"message":"cursor"}`)(w, r, a)
				return
			}
			item := ""
			if page < len(list) {
				item = side{}.render(list[page])
			}
			if page+1 < len(list) {
				next = fmt.Sprintf(`,"nextCursor":"page \ud83d\udcc4 %d"`, page+1)
			}
			answerResult("{ \"resultType\":\"complete\",\n\""+l.key+"\": [ "+item+"\t]"+next+`,"ttlMs":3600000,"cacheScope":"public",`+
				`"x-of-the-list":{"n":1.0,"n":1e400},"_meta":{"com.example/page":-0.0}}`)(w, r, a)
		})
	}
}

func cursorOf(a *asked) string {
	var m struct{ Params struct{ Cursor string } }
	_ = json.Unmarshal([]byte(a.body), &m) // it was read before
	return m.Params.Cursor
}

// sorted orders items by the member with that name. The name must be the first
// such member of the item.
func sorted(items []string, name string) []string {
	value := regexp.MustCompile(`"` + name + `"\s*:\s*("(?:[^"\\]|\\.)*")`)
	of := func(item string) (s string) {
		_ = json.Unmarshal([]byte(value.FindStringSubmatch(item)[1]), &s) // the expression finds strings
		return s
	}
	return slices.SortedFunc(slices.Values(items), func(a, b string) int { return cmp.Compare(of(a), of(b)) })
}

// TestFidelityOfLists holds that the items of lists pass byte for byte, but for
// their names, titles and URIs on the merged endpoint.
func TestFidelityOfLists(t *testing.T) {
	_, items := readFidelity(t)
	up, other := newScripted(t), newScripted(t)
	items.serve(up)
	other.tools("zebra")
	gw := front(t, "", "    pageSize: 3\n", upstreamOf("x", up.URL), upstreamOf("other", other.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	for _, l := range fidelityLists {
		for _, merged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, merged=%v", l.method, merged), func(t *testing.T) {
				c := client
				if !merged {
					c = client.at(gw.URL + "/t/default/u/x/mcp")
				}
				got := slices.DeleteFunc(readList(t, c, l.method, l.key), func(item string) bool { return strings.Contains(item, `"other_zebra"`) })
				var want []string
				for _, item := range items[l.part] {
					want = append(want, side{merged: merged}.render(item))
				}
				want = sorted(want, l.name)
				if len(got) != len(want) || len(want) < 2 {
					t.Fatalf("%d items, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
				}
				for i := range want {
					equalBytes(t, "the client received", got[i], want[i])
				}
			})
		}
	}
	t.Run("the rest of the result", func(t *testing.T) {
		p := readPage(t, client.at(gw.URL+"/t/default/u/x/mcp").send(ask("tools/list", "")).last(), "tools")
		for member, want := range map[string]string{
			"resultType": `"complete"`, "cacheScope": `"public"`,
			"x-of-the-list": `{"n":1.0,"n":1e400}`, "_meta": `{"com.example/page":-0.0}`,
		} {
			if got := string(p.result[member]); got != want {
				t.Errorf("%s is %s, want %s", member, got, want)
			}
		}
	})
}

// TestFidelityOfDiscovery holds that the endpoint of one upstream says what the
// upstream says of itself.
func TestFidelityOfDiscovery(t *testing.T) {
	up := newScripted(t)
	const said = `{"resultType":"complete","x-first":[1.0,1e400],"supportedVersions":‹["2026-07-28"]|["2031-01-01", "2026-07-28","2025-11-25"]›,` +
		`"capabilities":{"tools":{"listChanged":true,"x-odd":-0.0},"extensions":{"com.example/own":{"n":9007199254740993}}},` +
		`"instructions":"日本 🎒 \ud83c\udf92 \u00e9","ttlMs":‹$LEFT|3600000›,"cacheScope":"public",` +
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"1.0","icons":[{"src":"https://example.com/i.png","x":1}]},"com.example/k":null}}`
	up.result("server/discover", side{}.render(said))
	gw := front(t, "", "", upstreamOf("x", up.URL))
	got := newRawClient(t, gw.URL+"/t/default/u/x/mcp").send(ask("server/discover", "")).last()
	equalBytes(t, "the client received", cutTTL(t, got, 3600000), `{"jsonrpc":"2.0","id":"q-1","result":`+side{merged: true}.render(said)+`}`)
}

// cutTTL puts $LEFT in the place of a message's only ttlMs, which has to be
// between 0 and most.
func cutTTL(t *testing.T, message string, most int) string {
	t.Helper()
	ttl := regexp.MustCompile(`"ttlMs":(-?[0-9]+)`)
	found := ttl.FindAllStringSubmatch(message, -1)
	if len(found) != 1 {
		t.Fatalf("%d ttlMs in %s", len(found), message)
	}
	left := 0
	if _, err := fmt.Sscan(found[0][1], &left); err != nil || left < 0 || left > most {
		t.Errorf("ttlMs is %s, want at most %d", found[0][1], most)
	}
	return ttl.ReplaceAllString(message, `"ttlMs":$$LEFT`)
}

// TestFidelityOfCachedReads holds that a read that is served from the cache has
// another ttlMs, and is otherwise what the upstream sent.
func TestFidelityOfCachedReads(t *testing.T) {
	up := newScripted(t)
	const said = `{ "resultType":"complete", "contents":[{"uri":"‹x+›doc://a","text":"日本 \ud800 1e400","x-n":1.0}] ,"ttlMs":‹$LEFT|3600000›,"cacheScope":"private","x":{"a":1,"a":2} }`
	up.result("resources/read", side{}.render(said))
	gw := front(t, "", "", upstreamOf("x", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	alone := client.at(gw.URL + "/t/default/u/x/mcp")
	for range 2 {
		rest := cutTTL(t, client.send(ask("resources/read", `"uri":"x+doc://a"`)).last(), 3600000)
		equalBytes(t, "the client received", rest, `{"jsonrpc":"2.0","id":"q-1","result":`+side{merged: true}.render(said)+`}`)
		rest = cutTTL(t, alone.send(ask("resources/read", `"uri":"doc://a"`)).last(), 3600000)
		want := strings.Replace(side{}.render(said), "3600000", "$LEFT", 1)
		equalBytes(t, "the client received", rest, `{"jsonrpc":"2.0","id":"q-1","result":`+want+`}`)
	}
	if n := len(up.requests("resources/read")); n != 1 {
		t.Errorf("the upstream was asked %d times, want once", n)
	}
}
