package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/search"
)

// manyTools is how many tools a large tenant has.
const manyTools = 20_000

// indexed is what was found about one index of tools.
type indexed struct {
	name     string
	tools    int
	build    time.Duration // the median
	p50, p99 time.Duration // of searches, one after the other
	heap     int64         // bytes that the index keeps
	goal     indexGoal
}

// indexGoal bounds what an index may cost.
type indexGoal struct {
	build, p99 time.Duration
}

// maxHeap is how much an index may keep for each 1,000 tools, in bytes.
const maxHeap = 10 << 20

// perThousand gives what the index keeps for each 1,000 tools, in bytes.
func (x indexed) perThousand() int64 { return x.heap * 1000 / int64(x.tools) }

// measureIndexes measures the index of the catalogue, and one of many tools that are
// made up.
func measureIndexes(ctx context.Context, cat *catalogue, queries []string) ([]indexed, error) {
	name := "the catalogue"
	if cat.madeUp {
		name = "made up"
	}
	sources, err := cat.sources()
	if err != nil {
		return nil, err
	}
	small := measureIndex(func() []search.Source { return sources }, queries, 5, 2000)
	small.name, small.goal = name, indexGoal{500 * time.Millisecond, 2 * time.Millisecond}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text := madeUpText(rand.New(rand.NewPCG(5, 6)))
	queries = nil
	for range 200 {
		queries = append(queries, text(10)+", then write "+text(8)+" wrongwordd")
	}
	large := measureIndex(func() []search.Source { return madeUpSources(manyTools) }, queries, 1, 1000)
	large.name, large.goal = "made up", indexGoal{10 * time.Second, 10 * time.Millisecond}
	return []indexed{small, large}, nil
}

// measureIndex measures the index of what make gives.
func measureIndex(make func() []search.Source, queries []string, builds, searches int) (x indexed) {
	before := heapInUse()
	var ix *search.Index
	var times []time.Duration
	for range builds {
		sources := make()
		x.tools = 0
		for _, s := range sources {
			x.tools += len(s.Tools)
		}
		language := search.NewLanguage() // knows no stems yet
		start := time.Now()
		parts := []*search.Part{}
		for _, s := range sources {
			parts = append(parts, language.NewPart(s))
		}
		ix = search.New(language, parts...)
		times = append(times, time.Since(start))
	}
	x.build = median(times)
	x.heap = heapInUse() - before
	times = nil
	for i := range searches {
		start := time.Now()
		ix.Search(search.Query{Text: queries[i%len(queries)], Limit: 10})
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	x.p50, x.p99 = quantile(times, 0.5), quantile(times, 0.99)
	return x
}

// heapInUse gives the bytes of what is reachable.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // also what was in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no machine has that much memory
}

// sources gives what can be searched of a catalogue's servers.
func (c *catalogue) sources() ([]search.Source, error) {
	var list []search.Source
	for _, s := range c.servers {
		source := search.Source{Alias: s.name, Description: s.description}
		for _, t := range s.tools {
			var def struct {
				Title, Description string
				InputSchema        struct {
					Properties map[string]struct{ Description string }
				}
			}
			if err := json.Unmarshal(t.raw, &def); err != nil {
				return nil, fmt.Errorf("tool %s: %w", t.name, err)
			}
			tool := search.Tool{Name: t.name, Title: def.Title, Description: def.Description}
			for name, p := range def.InputSchema.Properties {
				tool.Arguments = append(tool.Arguments, search.Argument{Name: name, Description: p.Description})
			}
			source.Tools = append(source.Tools, tool)
		}
		list = append(list, source)
	}
	return list, nil
}

// commonWords are those that made-up texts begin with.
const commonWords = `read write file user calendar event invoice ticket order price weather route hotel flight image chart table row
column query database message channel email contact customer payment refund report issue comment branch commit deploy log
metric alert schedule task project document page template folder search list create delete update export import convert`

// madeUpText makes texts whose words are as common as those of a language: some are
// in most texts, most in few.
func madeUpText(rng *rand.Rand) func(n int) string {
	words := strings.Fields(commonWords)
	for i := range 20000 {
		words = append(words, "w"+strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(i*7919%100003)))
	}
	zipf := rand.NewZipf(rng, 1.1, 8, uint64(len(words)-1))
	return func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = words[zipf.Uint64()]
		}
		return strings.Join(out, " ")
	}
}

// madeUpSources makes sources of ten tools each, always the same.
func madeUpSources(tools int) []search.Source {
	text := madeUpText(rand.New(rand.NewPCG(7, uint64(tools))))
	var list []search.Source
	for i := range tools / 10 {
		s := search.Source{Alias: fmt.Sprintf("source%d", i), Description: text(20)}
		for range 10 {
			t := search.Tool{Name: strings.ReplaceAll(text(3), " ", "_"), Description: text(15) + ". " + text(60)}
			for range 4 {
				t.Arguments = append(t.Arguments, search.Argument{Name: text(1), Description: text(12)})
			}
			s.Tools = append(s.Tools, t)
		}
		list = append(list, s)
	}
	return list
}

// madeUpServers makes servers of 7 or 8 tools each, of about as many bytes as real
// ones have.
func madeUpServers(tools int) []server {
	text := madeUpText(rand.New(rand.NewPCG(11, uint64(tools))))
	var list []server
	for i := range tools {
		if i%15 == 0 || i%15 == 8 {
			list = append(list, server{name: fmt.Sprintf("source %d", len(list)), description: text(12)})
		}
		s := &list[len(list)-1]
		t := tool{name: fmt.Sprintf("%s_%d", strings.ReplaceAll(text(2), " ", "_"), i), description: text(14) + ". " + text(36)}
		properties := ""
		for k := range 4 {
			properties += fmt.Sprintf(`,"a%d":{"type":"string","description":%q}`, k, text(8))
		}
		t.raw = fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{%s}}}`, t.name, t.description, properties[1:])
		s.tools = append(s.tools, t)
	}
	return slices.Clip(list)
}
