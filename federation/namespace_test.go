package federation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

var exposedPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

func TestExposedName(t *testing.T) {
	long := strings.Repeat("a", 60)
	tests := []struct {
		name              string
		prefix, sep, tool string
		want              string
		wantCleaned       bool
	}{
		{name: "fits", prefix: "travel", sep: "_", tool: "searchFlights", want: "travel_searchFlights"},
		{name: "long separator", prefix: "travel", sep: "__", tool: "search", want: "travel__search"},
		{name: "hyphen", prefix: "a", sep: "_", tool: "-b-", want: "a_-b-"},
		{name: "digit after the prefix", prefix: "a", sep: "_", tool: "3d", want: "a_3d"},
		{name: "no prefix", sep: "_", tool: "search", want: "search"},
		{name: "64 bytes", prefix: "a", sep: "_", tool: long + "bc", want: "a_" + long + "bc"},
		{name: "65 bytes", prefix: "a", sep: "_", tool: long + "bcd", want: "a_" + long[:53] + "_0a6983b8", wantCleaned: true},
		{name: "long alias and separator", prefix: strings.Repeat("a", 20), sep: "__", tool: strings.Repeat("x.", 100), want: strings.Repeat("a", 20) + "__" + strings.Repeat("x_", 16) + "x_572268f6", wantCleaned: true},
		{name: "dots", prefix: "git2", sep: "_", tool: "repo.files.read", want: "git2_repo_files_read_7340a07f", wantCleaned: true},
		{name: "a run is one", prefix: "a", sep: "_", tool: "b ./ c", want: "a_b_c_1d136f82", wantCleaned: true},
		{name: "ends are trimmed", prefix: "a", sep: "_", tool: "_.b.", want: "a_b_2e66323f", wantCleaned: true},
		{name: "CJK", prefix: "a", sep: "_", tool: "搜索", want: "a_44ce7ae9", wantCleaned: true},
		{name: "emoji between", prefix: "a", sep: "_", tool: "get🙂all", want: "a_get_all_14716ecd", wantCleaned: true},
		{name: "no prefix and a digit", sep: "_", tool: "3d.view", want: "d_view_5cfe1734", wantCleaned: true},
		{name: "no prefix and nothing left", sep: "_", tool: "42", want: "name_73475cb4", wantCleaned: true},
		{name: "empty", sep: "_", want: "name_e3b0c442", wantCleaned: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, cleaned := exposedName(tt.prefix, tt.sep, tt.tool)
			if got != tt.want || cleaned != tt.wantCleaned {
				t.Errorf("exposedName = %q, %v; want %q, %v", got, cleaned, tt.want, tt.wantCleaned)
			}
		})
	}
}

// TestExposedNamesDiffer draws names from few characters, so that many have the
// same cleaned form.
func TestExposedNamesDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, alphabet := range []string{"ab._", "aB0_-", "é搜 /.x", "\x00\xff{}\"\\a"} {
		runes := []rune(alphabet)
		seen := map[string]string{}
		for range 20_000 {
			b := make([]rune, 1+r.IntN(80))
			for i := range b {
				b[i] = runes[r.IntN(len(runes))]
			}
			name := string(b)
			exposed, cleaned := exposedName("alias", "_", name)
			if !exposedPattern.MatchString(exposed) {
				t.Fatalf("exposedName(%q) = %q, which no model provider takes", name, exposed)
			}
			if !cleaned && exposed != "alias_"+name {
				t.Fatalf("exposedName(%q) = %q, but says it was not cleaned", name, exposed)
			}
			if other, ok := seen[exposed]; ok && other != name {
				t.Fatalf("%q and %q are both exposed as %q", name, other, exposed)
			}
			seen[exposed] = name
		}
	}
}

func FuzzExposedName(f *testing.F) {
	for _, s := range []string{"search", "a.b", "搜索", "", "_", "-", strings.Repeat("a", 70), "\xff", "a_12345678"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, name string, prefixed bool) {
		prefix := ""
		if prefixed {
			prefix = "abcdefghij0123456789"
		}
		got, cleaned := exposedName(prefix, "__", name)
		if !exposedPattern.MatchString(got) {
			t.Fatalf("exposedName(%q) = %q", name, got)
		}
		if again, _ := exposedName(prefix, "__", name); again != got {
			t.Fatalf("exposedName(%q) = %q, then %q", name, got, again)
		}
		if !prefixed && !cleaned && got != name {
			t.Fatalf("exposedName(%q) = %q, but says it was not cleaned", name, got)
		}
	})
}

func TestReadItem(t *testing.T) {
	tests := []struct {
		name       string
		kind       kind
		raw        string
		want       string
		wantReason string
	}{
		{name: "tool", raw: `{"name":"a","title":"b"}`, want: "a"},
		{name: "resource", kind: kindResources, raw: `{"name":"a","uri":"x:\/y"}`, want: "x:/y"},
		{name: "template", kind: kindTemplates, raw: `{"uriTemplate":"x:{y}"}`, want: "x:{y}"},
		{name: "escaped key", raw: `{"n\u0061me":"a"}`, want: "a"},
		{name: "replacement character", raw: `{"name":"\ufffd"}`, want: "\ufffd"},
		{name: "surrogate pair", raw: `{"name":"\ud83d\ude42"}`, want: "🙂"},
		{name: "lone surrogate", raw: `{"name":"a\ud83d"}`, wantReason: "has a name that is not a proper string"},
		{name: "no object", raw: `["name"]`, wantReason: "is not an object"},
		{name: "null", raw: `null`, wantReason: "is not an object"},
		{name: "no name", raw: `{"title":"a"}`, wantReason: "has no name"},
		{name: "no uri", kind: kindResources, raw: `{"name":"a"}`, wantReason: "has no uri"},
		{name: "number", raw: `{"name":1}`, wantReason: "has a name that is not a proper string"},
		{name: "empty name", raw: `{"name":""}`, wantReason: "has a name that is not a proper string"},
		{name: "two names", raw: `{"name":"a","name":"b"}`, wantReason: "has more than one member name"},
		{name: "names in two cases", raw: `{"Name":"a","name":"b"}`, wantReason: "has more than one member name"},
		{name: "uri in capitals", kind: kindResources, raw: `{"uri":"a:b","URI":"c:d"}`, wantReason: "has more than one member uri"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it, reason := readItem(tt.kind, []byte(tt.raw))
			if reason != tt.wantReason {
				t.Fatalf("reason = %q, want %q", reason, tt.wantReason)
			}
			if reason == "" && it.name != tt.want {
				t.Errorf("name = %q, want %q", it.name, tt.want)
			}
		})
	}
}

func TestSpliceItem(t *testing.T) {
	tests := []struct {
		name    string
		kind    kind
		raw     string
		exposed string
		cleaned bool
		want    string
	}{
		{
			name: "tool", raw: `{"name":"search","inputSchema":{"type":"object"}}`, exposed: "a_search",
			want: `{"name":"a_search","title":"search","inputSchema":{"type":"object"}}`,
		},
		{
			name: "white space, order, numbers and unknown members stay", exposed: "a_s",
			raw:  "{ \"x\" : 1e400 ,\n\t\"name\" : \"s\" , \"n\":12345678901234567890, \"n\": 1.0, \"icons\":[{\"src\":\"https:\\/\\/x\"}] }",
			want: "{ \"x\" : 1e400 ,\n\t\"name\" : \"a_s\",\"title\":\"s\" , \"n\":12345678901234567890, \"n\": 1.0, \"icons\":[{\"src\":\"https:\\/\\/x\"}] }",
		},
		{name: "title", raw: `{"title":"S","name":"s"}`, exposed: "a_s", want: `{"title":"S","name":"a_s"}`},
		{name: "empty title", raw: `{"title":"","name":"s"}`, exposed: "a_s", want: `{"title":"","name":"a_s"}`},
		{name: "null title", raw: `{"title":null,"name":"s"}`, exposed: "a_s", want: `{"title":"s","name":"a_s"}`},
		{
			name: "annotated title", raw: `{"name":"s","annotations":{"title":"S"}}`, exposed: "a_s",
			want: `{"name":"a_s","annotations":{"title":"S"}}`,
		},
		{
			name: "null annotations", raw: `{"name":"s","annotations":null}`, exposed: "a_s",
			want: `{"name":"a_s","title":"s","annotations":null}`,
		},
		{
			name: "annotations of a prompt are not a tool's", kind: kindPrompts,
			raw: `{"name":"s","annotations":{"title":"S"}}`, exposed: "a_s",
			want: `{"name":"a_s","title":"s","annotations":{"title":"S"}}`,
		},
		{name: "the same name", raw: `{"name":"s"}`, exposed: "s", want: `{"name":"s"}`},
		{
			name: "cleaned", raw: `{"name":"s\u002Et\ud83d\ude42"}`, exposed: "a_s_t_00000000", cleaned: true,
			want: `{"name":"a_s_t_00000000","title":"s\u002Et\ud83d\ude42","_meta":{"io.github.causeway-mcp/originalName":"s\u002Et\ud83d\ude42"}}`,
		},
		{
			name: "cleaned with _meta", raw: `{"_meta":{"x":1},"name":"s.t","title":"S"}`, exposed: "s_t_00000000", cleaned: true,
			want: `{"_meta":{"x":1,"io.github.causeway-mcp/originalName":"s.t"},"name":"s_t_00000000","title":"S"}`,
		},
		{
			name: "cleaned with empty _meta", raw: `{"_meta":{},"name":"s.t","title":"S"}`, exposed: "s_t_00000000", cleaned: true,
			want: `{"_meta":{"io.github.causeway-mcp/originalName":"s.t"},"name":"s_t_00000000","title":"S"}`,
		},
		{
			name: "cleaned with null _meta", raw: `{"_meta":null,"name":"s.t","title":"S"}`, exposed: "s_t_00000000", cleaned: true,
			want: `{"_meta":{"io.github.causeway-mcp/originalName":"s.t"},"name":"s_t_00000000","title":"S"}`,
		},
		{
			name: "an upstream's own originalName", raw: `{"_meta":{"io.github.causeway-mcp/originalName":1},"name":"s.t","title":"S"}`,
			exposed: "s_t_00000000", cleaned: true,
			want: `{"_meta":{"io.github.causeway-mcp/originalName":"s.t"},"name":"s_t_00000000","title":"S"}`,
		},
		{
			name: "user interface", raw: `{"name":"s","_meta":{"ui":{"resourceUri":"ui://app/x","y":1},"ui/resourceUri":"ui://app/x"}}`,
			exposed: "a_s",
			want:    `{"name":"a_s","title":"s","_meta":{"ui":{"resourceUri":"ui://a+app/x","y":1},"ui/resourceUri":"ui://a+app/x"}}`,
		},
		{
			name: "user interface of a cleaned name", raw: `{"name":"s.t","title":"S","_meta":{"ui/resourceUri":"ui://app/x"}}`,
			exposed: "a_s_t_00000000", cleaned: true,
			want: `{"name":"a_s_t_00000000","title":"S","_meta":{"ui/resourceUri":"ui://a+app/x","io.github.causeway-mcp/originalName":"s.t"}}`,
		},
		{
			name: "resource", kind: kindResources, raw: `{"uri":"calendar:\/\/events","name":"E"}`, exposed: "a+calendar://events",
			want: `{"uri":"a+calendar:\/\/events","name":"E"}`,
		},
		{
			name: "user interface resource", kind: kindResources, raw: `{"name":"E","uri":"ui://app/\u00e9"}`, exposed: "ui://a+app/é",
			want: `{"name":"E","uri":"ui://a+app/\u00e9"}`,
		},
		{
			name: "template", kind: kindTemplates, raw: `{"uriTemplate":"x://{y}","name":"E"}`, exposed: "a+x://{y}",
			want: `{"uriTemplate":"a+x://{y}","name":"E"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it, reason := readItem(tt.kind, []byte(tt.raw))
			if reason != "" {
				t.Fatal(reason)
			}
			got := spliceItem(tt.kind, it, tt.exposed, tt.cleaned, exposeAll("a"))
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("spliced item (-want +got):\n%s", diff)
			}
			if string(it.raw) != tt.raw {
				t.Errorf("the item itself became %s", it.raw)
			}
		})
	}
}

// exposeAll maps every URI.
func exposeAll(alias string) uriMapper {
	return func(uri string) (string, bool) { return exposedURI(alias, uri), true }
}

func exposeTask(alias string) func(string) string {
	return func(id string) string { return alias + "+" + id }
}

func FuzzSpliceItem(f *testing.F) {
	f.Add(`{"name":"s.t"}`, uint8(0))
	f.Add(`{"name":"s","title":null,"_meta":{"ui":{"resourceUri":"ui:\/\/x"}},"annotations":{"title":"x"}}`, uint8(1))
	f.Add(`{"uri":"UI://a\u002fb","name":"x"}`, uint8(2))
	f.Add(`{"uriTemplate":"{+x}"}`, uint8(3))
	f.Fuzz(func(t *testing.T, raw string, n uint8) {
		k := kind(n % 4)
		if !json.Valid([]byte(raw)) {
			return
		}
		it, reason := readItem(k, []byte(strings.TrimSpace(raw)))
		if reason != "" {
			return
		}
		exposed, cleaned := exposedURI("a", it.name), false
		if k.named() {
			exposed, cleaned = exposedName("a", "_", it.name)
		}
		got := spliceItem(k, it, exposed, cleaned, exposeAll("a"))
		if !json.Valid(got) {
			t.Fatalf("%s became %s", raw, got)
		}
		if at := mcp.Find(got, wholeOf(got), itemKey(k)); at.Ok() {
			if name, _ := mcp.String(got, at); name != exposed {
				t.Fatalf("%s is exposed as %q, want %q", raw, name, exposed)
			}
		}
	})
}

func BenchmarkExposedName(b *testing.B) {
	for _, name := range []string{"searchFlights", "flights.search/all"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				exposedName("travel", "_", name)
			}
		})
	}
}

func BenchmarkSpliceItem(b *testing.B) {
	raw := fmt.Appendf(nil, `{"name":"searchFlights","description":%q,"inputSchema":{"type":"object","properties":{"origin":{"type":"string"},"destination":{"type":"string"},"date":{"type":"string","format":"date"}},"required":["origin"]}}`, strings.Repeat("Finds flights. ", 20))
	it, reason := readItem(kindTools, raw)
	if reason != "" {
		b.Fatal(reason)
	}
	b.ReportAllocs()
	for b.Loop() {
		spliceItem(kindTools, it, "travel_searchFlights", false, exposeAll("travel"))
	}
}
