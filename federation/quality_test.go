package federation

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// envToolsearch names the directory with the catalogue and the queries that the
// quality of search is measured with. They are not part of this repository.
const envToolsearch = "CAUSEWAY_TOOLSEARCH"

// judged is one query, with the tools that are right for it.
type judged struct {
	Kind  string // step: one instruction, one tool; task: a whole task, several tools
	Query string
	Tools []string
}

// server is one of the catalogue's.
type server struct {
	Server, Description string
	Tools               []map[string]json.RawMessage
}

// loadToolsearch reads the catalogue and the queries. The test is skipped where they
// are not there.
func loadToolsearch(t *testing.T) (servers []server, queries []judged) {
	t.Helper()
	dir := os.Getenv(envToolsearch)
	if dir == "" {
		dir = "../../shared/toolsearch"
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("there is no %s in %s: put the catalogue and its queries beside the clone, in ../shared/toolsearch, or name their directory in %s", name, dir, envToolsearch)
		}
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var doc struct{ Servers []server }
	if err := json.Unmarshal(read("catalogue.json"), &doc); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(read("queries-dev.jsonl"))); lines.Scan(); {
		var q judged
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		queries = append(queries, q)
	}
	return doc.Servers, queries
}

// notAlias is what an alias cannot have.
var notAlias = regexp.MustCompile(`^[^a-z]+|[^a-z0-9]+`)

// ranking gives the names of the tools that a query finds, the best first.
type ranking func(query string) []string

// quality is what a ranking reaches.
type quality struct{ step1, step5, step10, task10 float64 }

// measure gives the quality of a ranking: how often the right tool of a step is among
// the first 1, 5 and 10, and which share of a task's tools is among the first 10.
func (rank ranking) measure(queries []judged) (q quality) {
	steps, tasks := 0.0, 0.0
	for _, j := range queries {
		got := rank(j.Query)
		among := func(n int) float64 {
			first, found := got[:min(n, len(got))], 0
			for _, name := range j.Tools {
				if slices.Contains(first, name) {
					found++
				}
			}
			return float64(found) / float64(len(j.Tools))
		}
		if j.Kind == "task" {
			tasks++
			q.task10 += among(10)
			continue
		}
		steps++
		q.step1, q.step5, q.step10 = q.step1+among(1), q.step5+among(5), q.step10+among(10)
	}
	return quality{q.step1 / steps, q.step5 / steps, q.step10 / steps, q.task10 / tasks}
}

func (q quality) row(name string) string {
	return fmt.Sprintf("| %s | %.3f | %.3f | %.3f | %.3f |\n", name, q.step1, q.step5, q.step10, q.task10)
}

// TestSearchQuality measures search_tools with real tools and queries, beside a plain
// BM25. It holds the goals of the project.
func TestSearchQuality(t *testing.T) {
	servers, queries := loadToolsearch(t)
	ours, own := searchOf(t, servers), plainBM25(servers)
	got, plain := ours.measure(queries), own.measure(queries)
	goal := quality{0.70, 0.88, 0.94, 0.50}
	t.Log("quality of search, " + fmt.Sprint(len(queries)) + " queries:\n" +
		"| | step recall@1 | step recall@5 | step recall@10 | task recall@10 |\n|---|---|---|---|---|\n" +
		plain.row("plain BM25") + got.row("search_tools") + goal.row("goal"))
	if got.step1 < goal.step1 || got.step5 < goal.step5 || got.step10 < goal.step10 || got.task10 < goal.task10 {
		t.Error("a goal is missed")
	}
}

// searchOf gives the ranking of search_tools before upstreams that have the tools of
// the servers, by the names that they have there.
func searchOf(t *testing.T, servers []server) ranking {
	t.Helper()
	doers, about := map[string]upstream.Doer{}, map[string]string{}
	for _, s := range servers {
		alias := notAlias.ReplaceAllString(strings.ToLower(s.Server), "")
		alias = alias[:min(len(alias), 16)]
		for n := 2; doers[alias] != nil || alias == ""; n++ {
			alias = fmt.Sprintf("%s%d", cmp.Or(strings.TrimRight(alias, "0123456789"), "s"), n)
		}
		var items []string
		for _, members := range s.Tools {
			for k, v := range members {
				if string(v) == "null" {
					delete(members, k)
				}
			}
			raw, _ := json.Marshal(members) // what was read can be written
			items = append(items, string(raw))
		}
		p := newFake(t)
		p.list(kindTools, items...)
		p.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public",`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":`+string(mcp.AppendQuote(nil, s.Server))+`,"version":"1"}}}`)
		doers[alias], about[alias] = p, s.Description
	}
	r, stop := newFakeRig(t, doers, nil)
	t.Cleanup(stop)
	for i := range r.conf.Upstreams {
		r.conf.Upstreams[i].Description = about[r.conf.Upstreams[i].Alias]
	}
	r.discovers(tenant.Discovery{Mode: tenant.DiscoverySearch})
	r.meta("list_upstreams", `{}`) // so that all is known of them
	return func(query string) (names []string) {
		args, _ := json.Marshal(map[string]any{"query": query, "limit": 10, "detail": "name"})
		var out struct {
			Results []struct{ Name, Upstream string }
		}
		if err := json.Unmarshal([]byte(r.meta("search_tools", string(args)).structured), &out); err != nil {
			t.Fatal(err)
		}
		v := r.load(t).current().view("", kindTools)
		for _, f := range out.Results {
			names = append(names, v.entries[v.index[f.Name]].item.name)
		}
		return names
	}
}

// plainBM25 gives the ranking that search is compared with: BM25 with the usual
// parameters over the words of servers' names and of tools' names, descriptions and arguments.
func plainBM25(servers []server) ranking {
	split := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	type document struct {
		name  string
		words map[string]float64
		size  float64
	}
	var docs []document
	df, total := map[string]float64{}, 0.0
	for _, s := range servers {
		for _, members := range s.Tools {
			var name, description string
			var schema struct {
				Properties map[string]struct{ Description string }
			}
			_ = json.Unmarshal(members["name"], &name) // what is none stays empty
			_ = json.Unmarshal(members["description"], &description)
			_ = json.Unmarshal(members["inputSchema"], &schema)
			d := document{name: name, words: map[string]float64{}}
			text := split(s.Server + " " + name + " " + description)
			for argument, about := range schema.Properties {
				text = append(text, split(argument+" "+about.Description)...)
			}
			for _, w := range text {
				d.words[w]++
			}
			for w := range d.words {
				df[w]++
			}
			d.size = float64(len(text))
			total += d.size
			docs = append(docs, d)
		}
	}
	const k1, b = 1.2, 0.75
	return func(query string) (names []string) {
		scores := make([]float64, len(docs))
		order := make([]int, len(docs))
		for i, d := range docs {
			order[i] = i
			for _, w := range split(query) {
				if tf := d.words[w]; tf > 0 {
					idf := math.Log(1 + (float64(len(docs))-df[w]+0.5)/(df[w]+0.5))
					scores[i] += idf * tf * (k1 + 1) / (tf + k1*(1-b+b*d.size*float64(len(docs))/total))
				}
			}
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
		for _, i := range order[:min(10, len(order))] {
			names = append(names, docs[i].name)
		}
		return names
	}
}
