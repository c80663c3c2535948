package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sources are a small catalogue as servers have them.
func sources() []Source {
	return []Source{
		{Alias: "maps", Title: "OpenStreetMap", Description: "Places and routes", Tools: []Tool{
			{Name: "geocode_address", Description: "Convert an address or place name to geographic coordinates."},
			{Name: "reverse_geocode", Description: "Convert geographic coordinates to a readable address."},
			{Name: "get_route_directions", Description: "Calculate directions between two points.", Arguments: []Argument{{Name: "mode", Description: "car, bike or foot"}}},
		}},
		{Alias: "files", Instructions: "Works on files of one directory.", Tools: []Tool{
			{Name: "readFile", Description: "Read the whole content of a file."},
			{Name: "writeFile", Description: "Create a file, or overwrite one, with new content."},
			{Name: "list-directory", Title: "Directory listing"},
		}},
		{Alias: "wetter", Tags: []string{"climate"}, Tools: []Tool{
			{Name: "get_weather", Description: "查询城市的天气预报。"},
			{Name: "HTTPServerStatus", Description: "Tells whether the weather service answers."},
		}},
		{Alias: "empty"},
		{Alias: "charts", Tools: []Tool{
			{Name: "generate_bar_chart", Description: "Generate a bar chart of numbers."},
			{Name: "generate_pie_chart", Description: "Generate a pie chart of shares."},
		}},
	}
}

func newIndex(list []Source) *Index {
	l := NewLanguage()
	var parts []*Part
	for _, s := range list {
		parts = append(parts, l.NewPart(s))
	}
	return New(l, parts...)
}

// found gives the names of what a query finds.
func found(list []Source, ix *Index, q Query) []string {
	hits, _ := ix.Search(q)
	var names []string
	for _, h := range hits {
		names = append(names, list[h.Part].Tools[h.Tool].Name)
	}
	return names
}

func TestSearchFindsFirst(t *testing.T) {
	tests := []struct {
		name, query string
		want        string
	}{
		{"name", "geocode_address", "geocode_address"},
		{"camel case name", "read file", "readFile"},
		{"name in one word", "writefile", "writeFile"},
		{"description", "turn coordinates into a readable address", "reverse_geocode"},
		{"inflections", "calculating directions", "get_route_directions"},
		{"synonym of a verb", "fetch weather", "get_weather"},
		{"synonym of a noun", "plot a bar diagram", "generate_bar_chart"},
		{"title", "directory listing", "list-directory"},
		{"argument", "by bike or on foot", "get_route_directions"},
		{"typing error", "wether forcast", "get_weather"},
		{"letters swapped", "dierctory listing", "list-directory"},
		{"Chinese", "天气", "get_weather"},
		{"acronym in a name", "http server status", "HTTPServerStatus"},
		{"tag", "climate", "get_weather"},
		{"path", "open /data/x/report.md", "readFile"},
		{"letter case", "GEOCODE ADDRESS", "geocode_address"},
	}
	list := sources()
	ix := newIndex(list)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := found(list, ix, Query{Text: tt.query, Limit: 3}); len(got) == 0 || got[0] != tt.want {
				t.Errorf("%q finds %q, want %s first", tt.query, got, tt.want)
			}
		})
	}
}

func TestSearchFindsNothing(t *testing.T) {
	list := sources()
	ix := newIndex(list)
	for _, query := range []string{"", "  ", "the of and", "zzzzqqqq", "\x00\xff", "天"[:2]} {
		if hits, total := ix.Search(Query{Text: query, Limit: 5}); len(hits) > 0 || total > 0 {
			t.Errorf("%q finds %d of %d, want nothing", query, len(hits), total)
		}
	}
	if hits, total := ix.Search(Query{Text: "file"}); len(hits) > 0 || total != 3 {
		t.Errorf("without a limit: %d hits of %d, want 0 of 3", len(hits), total)
	}
	if hits, _ := New(NewLanguage()).Search(Query{Text: "file", Limit: 5}); len(hits) > 0 {
		t.Error("an empty index finds something")
	}
}

// A whole task finds a tool for each of its steps among the first.
func TestSearchTask(t *testing.T) {
	list := sources()
	got := found(list, newIndex(list), Query{
		Text:  "Convert the address of the hotel into coordinates, then draw a pie chart of the shares and save it to /data/report.md.",
		Limit: 5,
	})
	for _, want := range []string{"geocode_address", "generate_pie_chart", "writeFile"} {
		if !slices.Contains(got, want) {
			t.Errorf("the task finds %q, want %s among them", got, want)
		}
	}
}

// A tool that the caller may not see changes nothing of what it gets: it is as if
// the index did not have it.
func TestSearchHidden(t *testing.T) {
	all := catalogue(30, 6)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		hidden := map[[2]int]bool{}
		less := make([]Source, len(all))
		for i, s := range all {
			less[i] = s
			less[i].Tools = nil
			for k, tool := range s.Tools {
				if rng.IntN(3) == 0 {
					hidden[[2]int{i, k}] = true
				} else {
					less[i].Tools = append(less[i].Tools, tool)
				}
			}
		}
		query := sentence(rng, 6)
		with, withTotal := newIndex(all).Search(Query{Text: query, Limit: 20, Visible: func(p, t int) bool { return !hidden[[2]int{p, t}] }})
		without, total := newIndex(less).Search(Query{Text: query, Limit: 20})
		type named struct {
			Name  string
			Score float64
		}
		names := func(list []Source, hits []Hit) (out []named) {
			for _, h := range hits {
				out = append(out, named{list[h.Part].Tools[h.Tool].Name, h.Score})
			}
			return out
		}
		if d := cmp.Diff(names(less, without), names(all, with)); d != "" || total != withTotal {
			t.Fatalf("%q: with hidden tools it finds others (-without +with), totals %d and %d:\n%s", query, total, withTotal, d)
		}
	}
}

// The same query gives the same hits, whatever was searched for before.
func TestSearchDeterministic(t *testing.T) {
	ix := newIndex(catalogue(20, 10))
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		q := Query{Text: sentence(rng, 12), Limit: 10}
		first, _ := ix.Search(q)
		for range 3 {
			if again, _ := ix.Search(q); !slices.Equal(first, again) {
				t.Fatalf("%q gives %v, then %v", q.Text, first, again)
			}
		}
	}
}

func TestSearchLimits(t *testing.T) {
	ix := newIndex(catalogue(20, 20))
	long := strings.Repeat("read the file and then write another one, ", 5000)
	hits, total := ix.Search(Query{Text: long, Limit: 7})
	if len(hits) != 7 || total < 7 {
		t.Errorf("%d hits of %d, want 7", len(hits), total)
	}
	if hits[0].Score != 1 {
		t.Errorf("the best hit has the score %v, want 1", hits[0].Score)
	}
	if !slices.IsSortedFunc(hits, func(a, b Hit) int {
		if a.Score < b.Score {
			return 1
		}
		return 0
	}) {
		t.Errorf("the hits are not in the order of their scores: %v", hits)
	}
}

// What sentence and catalogue are made of.
const vocabulary = `read write file user calendar event invoice ticket order price weather route hotel flight image chart table row
column query database message channel email contact customer payment refund report issue comment branch commit deploy log
metric alert schedule task project document page template folder search list create delete update export import convert`

func sentence(rng *rand.Rand, n int) string {
	list := strings.Fields(vocabulary)
	out := make([]string, n)
	for i := range out {
		out[i] = list[rng.IntN(len(list))]
	}
	return strings.Join(out, " ")
}

// catalogue makes sources with as many tools each, always the same.
func catalogue(sources, tools int) []Source {
	rng := rand.New(rand.NewPCG(uint64(sources), uint64(tools)))
	var list []Source
	for i := range sources {
		s := Source{Alias: fmt.Sprintf("source%d", i), Description: sentence(rng, 10)}
		for k := range tools {
			t := Tool{
				Name:        strings.ReplaceAll(sentence(rng, 3), " ", "_") + fmt.Sprint(i, "x", k),
				Description: sentence(rng, 12) + ". " + sentence(rng, 40),
			}
			for range 4 {
				t.Arguments = append(t.Arguments, Argument{Name: sentence(rng, 1), Description: sentence(rng, 8)})
			}
			s.Tools = append(s.Tools, t)
		}
		list = append(list, s)
	}
	return list
}

func FuzzSearch(f *testing.F) {
	list := sources()
	ix := newIndex(list)
	for _, s := range []string{"read /a/b.md, then write", "天气 forecast", "a@b.c https://x ./q C:\\x\\y.txt", "''' ....", "getUserHTTPx9Y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hits, total := ix.Search(Query{Text: text, Limit: 4})
		if len(hits) > 4 || total < len(hits) {
			t.Errorf("%d hits of %d", len(hits), total)
		}
		for _, h := range hits {
			if h.Tool >= len(list[h.Part].Tools) || h.Score <= 0 || h.Score > 1 {
				t.Errorf("hit %+v", h)
			}
		}
		ix.language.NewPart(Source{Alias: text, Tools: []Tool{{Name: text, Description: text}}})
	})
}

// natural makes texts whose words are as common as those of a language: some are
// in most texts, most in few.
func natural(rng *rand.Rand) func(n int) string {
	list := strings.Fields(vocabulary)
	for i := range 20000 {
		list = append(list, "w"+strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(i*7919%100003)))
	}
	zipf := rand.NewZipf(rng, 1.1, 8, uint64(len(list)-1))
	return func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = list[zipf.Uint64()]
		}
		return strings.Join(out, " ")
	}
}

// naturalCatalogue makes sources of ten tools each.
func naturalCatalogue(tools int) []Source {
	text := natural(rand.New(rand.NewPCG(7, uint64(tools))))
	var list []Source
	for i := range tools / 10 {
		s := Source{Alias: fmt.Sprintf("source%d", i), Description: text(20)}
		for range 10 {
			t := Tool{Name: strings.ReplaceAll(text(3), " ", "_"), Description: text(15) + ". " + text(60)}
			for range 4 {
				t.Arguments = append(t.Arguments, Argument{Name: text(1), Description: text(12)})
			}
			s.Tools = append(s.Tools, t)
		}
		list = append(list, s)
	}
	return list
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{527, 20000} {
		ix := newIndex(naturalCatalogue(n))
		text := natural(rand.New(rand.NewPCG(5, 6)))
		queries := make([]string, 64)
		for i := range queries {
			queries[i] = text(10) + ", then write " + text(8) + " wrongwordd"
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				ix.Search(Query{Text: queries[i%len(queries)], Limit: 10})
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{527, 20000} {
		list := naturalCatalogue(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				newIndex(list)
			}
		})
	}
}
