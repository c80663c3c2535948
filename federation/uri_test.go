package federation

import (
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/yosida95/uritemplate/v3"
)

func TestExposedURI(t *testing.T) {
	tests := []struct {
		name string
		uri  string
		want string
		// split tells whether the alias can be read out of the result by syntax.
		split bool
	}{
		{name: "hierarchical", uri: "calendar://events/2024", want: "travel+calendar://events/2024", split: true},
		{name: "https", uri: "https://example.com/a?b=c#d", want: "travel+https://example.com/a?b=c#d", split: true},
		{name: "opaque", uri: "urn:isbn:0451450523", want: "travel+urn:isbn:0451450523", split: true},
		{name: "mail", uri: "mailto:a+b@example.com", want: "travel+mailto:a+b@example.com", split: true},
		{name: "upper case", uri: "HTTP://EXAMPLE.com", want: "travel+HTTP://EXAMPLE.com", split: true},
		{name: "percent-encoding", uri: "file:///a%20b%2Fc", want: "travel+file:///a%20b%2Fc", split: true},
		{name: "other scripts", uri: "file:///日本/🙂", want: "travel+file:///日本/🙂", split: true},
		{name: "space", uri: "file:///My Files/x", want: "travel+file:///My Files/x", split: true},
		{name: "scheme with plus", uri: "git+ssh://host/x", want: "travel+git+ssh://host/x", split: true},
		{name: "own alias", uri: "travel+x:y", want: "travel+travel+x:y", split: true},
		{name: "user interface", uri: "ui://app/view.html", want: "ui://travel+app/view.html", split: true},
		{name: "user interface in capitals", uri: "UI://App/view", want: "UI://travel+App/view", split: true},
		{name: "user interface with port", uri: "ui://u@app:80/", want: "ui://travel+u@app:80/", split: true},
		{name: "user interface without authority", uri: "ui:///x", want: "ui://travel+/x", split: true},
		{name: "user interface of a plus", uri: "ui://a+b/x", want: "ui://travel+a+b/x", split: true},
		{name: "ui without slashes", uri: "ui:x", want: "travel+ui:x", split: true},
		{name: "template", uri: "weather://forecast/{city}/{date}", want: "travel+weather://forecast/{city}/{date}", split: true},
		{name: "template of a scheme", uri: "{scheme}://x", want: "travel+{scheme}://x", split: true},
		{name: "template within a scheme", uri: "h{rest}", want: "travel+h{rest}", split: true},
		{name: "template of all", uri: "{+uri}", want: "travel+{+uri}", split: true},
		{name: "user interface template", uri: "ui://{app}/x", want: "ui://travel+{app}/x", split: true},
		{name: "relative", uri: "a/b", want: "travel+a/b"},
		{name: "absolute path", uri: "/a/b", want: "travel+/a/b"},
		{name: "empty", uri: "", want: "travel+"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := exposedURI("travel", tt.uri)
			if got != tt.want {
				t.Fatalf("exposedURI = %q, want %q", got, tt.want)
			}
			if back, ok := originalURI("travel", got); !ok || back != tt.uri {
				t.Errorf("originalURI = %q, %v", back, ok)
			}
			if _, ok := originalURI("trave", got); ok {
				t.Error("another alias opens it")
			}
			alias, original, ok := splitURI(got)
			if ok != tt.split {
				t.Fatalf("splitURI = %q, %q, %v; want %v", alias, original, ok, tt.split)
			}
			if ok && (alias != "travel" || original != tt.uri) {
				t.Errorf("splitURI = %q, %q", alias, original)
			}
		})
	}
}

func TestSplitURIRefuses(t *testing.T) {
	tests := []struct{ name, uri string }{
		{name: "no alias", uri: "https://example.com"},
		{name: "plus later", uri: "https://example.com/a+b:c"},
		{name: "capital alias", uri: "Travel+x:y"},
		{name: "alias starts with a digit", uri: "1a+x:y"},
		{name: "alias with a hyphen", uri: "a-b+x:y"},
		{name: "alias of 21", uri: strings.Repeat("a", 21) + "+x:y"},
		{name: "empty alias", uri: "+x:y"},
		{name: "nothing behind", uri: "travel+"},
		{name: "no scheme", uri: "travel+/x"},
		{name: "no colon", uri: "travel+x"},
		{name: "scheme starts with a digit", uri: "travel+1:x"},
		{name: "sum", uri: "1+2:3"},
		{name: "user interface without alias", uri: "ui://app/x"},
		{name: "the other form of a user interface", uri: "travel+ui://app/x"},
		{name: "empty", uri: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if alias, original, ok := splitURI(tt.uri); ok {
				t.Errorf("splitURI(%q) = %q, %q", tt.uri, alias, original)
			}
		})
	}
}

// TestExposedURIIsURI holds that what a general parser took before it takes
// afterwards, with the alias in its scheme or authority.
func TestExposedURIIsURI(t *testing.T) {
	for _, uri := range []string{
		"calendar://events/2024", "urn:isbn:1", "mailto:a@b", "HTTPS://x.example/%20?q=1#f", "ui://app/view", "file:///a", "a+b.c-d:x",
	} {
		before, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		after, err := url.Parse(exposedURI("travel", uri))
		if err != nil {
			t.Errorf("the exposed form of %q is no URI: %v", uri, err)
			continue
		}
		if before.Scheme != "ui" {
			after.Scheme = strings.TrimPrefix(after.Scheme, "travel+")
		}
		after.Host = strings.TrimPrefix(after.Host, "travel+")
		if after.String() != before.String() {
			t.Errorf("the exposed form of %q differs: %q", uri, after)
		}
	}
}

// randomURI draws strings that are URIs, templates, nearly such and none.
func randomURI(r *rand.Rand) string {
	parts := []string{"ui://", "UI://", "ui:", "travel+", "a+", "+", ":", "//", "/", "{x}", "{+x}", "http", "urn", "%41", "é", "", "\x00", "z9"}
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func TestURIsRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[string][2]string{}
	for range 50_000 {
		uri, alias := randomURI(r), []string{"a", "travel", "abcdefghij0123456789"}[r.IntN(3)]
		exposed := exposedURI(alias, uri)
		if got, ok := originalURI(alias, exposed); !ok || got != uri {
			t.Fatalf("originalURI(%q, %q) = %q, %v", alias, exposed, got, ok)
		}
		if other, ok := seen[exposed]; ok && other != [2]string{alias, uri} {
			t.Fatalf("%q of %s and %q of %s are both exposed as %q", uri, alias, other[1], other[0], exposed)
		}
		seen[exposed] = [2]string{alias, uri}
	}
}

func FuzzSplitURI(f *testing.F) {
	for _, s := range []string{"travel+calendar://x", "ui://travel+app/x", "a+ui://x", "a+{x}", "a+b+c:d", "+", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if original, ok := originalURI("travel", exposedURI("travel", uri)); !ok || original != uri {
			t.Fatalf("%q comes back as %q, %v", uri, original, ok)
		}
		alias, original, ok := splitURI(uri)
		if !ok {
			return
		}
		if got := exposedURI(alias, original); got != uri {
			t.Fatalf("%q splits into %q and %q, which are exposed as %q", uri, alias, original, got)
		}
		if got, ok := originalURI(alias, uri); !ok || got != original {
			t.Fatalf("splitURI(%q) says %q, originalURI %q, %v", uri, original, got, ok)
		}
	})
}

func TestTemplateMatcher(t *testing.T) {
	tests := []struct {
		name     string
		template string
		uri      string
		want     bool
	}{
		{name: "simple", template: "weather://forecast/{city}/{date}", uri: "weather://forecast/Paris/2026-07-28", want: true},
		{name: "too short", template: "weather://forecast/{city}/{date}", uri: "weather://forecast/Paris", want: false},
		{name: "slash in a simple expression", template: "a://{x}", uri: "a://b/c", want: false},
		{name: "reserved", template: "a://{+x}", uri: "a://b/c?d", want: true},
		{name: "fragment", template: "a://b{#x}", uri: "a://b#c/d", want: true},
		{name: "path", template: "a://b{/x*}", uri: "a://b/c/d", want: true},
		{name: "query", template: "a://b{?q,lang}", uri: "a://b?q=1&lang=en", want: true},
		{name: "no query", template: "a://b{?q,lang}", uri: "a://b", want: true},
		{name: "literal only", template: "a://b", uri: "a://b", want: true},
		{name: "not its start", template: "a://{x}", uri: "b://a://x", want: false},
		{name: "not its end", template: "a://{x}/end", uri: "a://x/end/more", want: false},
		{name: "literal dot", template: "a://b.c/{x}", uri: "a://bxc/1", want: false},
		{name: "encoded value", template: "a://{x}", uri: "a://caf%C3%A9", want: true},
		{name: "encoded in lower case", template: "a://caf%C3%A9/{x}", uri: "a://caf%c3%a9/1", want: true},
		{name: "value in another script", template: "a://{x}", uri: "a://東京", want: true},
		{name: "literal in another script", template: "a://東京/{x}", uri: "a://%E6%9D%B1%E4%BA%AC/1", want: true},
		{name: "both in another script", template: "a://東京/{x}", uri: "a://東京/1", want: true},
		{name: "broken encoding", template: "a://{x}", uri: "a://%4", want: false},
		{name: "broken encoding at the end", template: "a://{x}", uri: "a://%", want: false},
		{name: "newline", template: "a://{x}", uri: "a://b\nc", want: false},
		{name: "empty", template: "a://{x}", uri: "", want: false},
		{name: "longer than the bound", template: "a://{x}", uri: "a://" + strings.Repeat("x", maxMatchLen), want: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			match, err := templateMatcher(tt.template)
			if err != nil {
				t.Fatal(err)
			}
			if got := match(tt.uri); got != tt.want {
				t.Errorf("%q matches %q: %v", tt.template, tt.uri, got)
			}
			// The exposed URI matches the exposed template, and no other.
			exposed, err := templateMatcher(exposedURI("travel", tt.template))
			if err != nil {
				t.Fatal(err)
			}
			if got := exposed(exposedURI("travel", tt.uri)); got != tt.want && len(tt.uri) < maxMatchLen {
				t.Errorf("exposed: %v", got)
			}
			if exposed(exposedURI("other", tt.uri)) {
				t.Error("a URI of another upstream matches")
			}
		})
	}
}

func TestTemplateMatcherRefuses(t *testing.T) {
	tests := []struct{ name, template string }{
		{name: "open", template: "a://{x"},
		{name: "empty expression", template: "a://{}"},
		{name: "space", template: "a://b c/{x}"},
		{name: "reserved operator", template: "a://{=x}"},
		{name: "broken encoding", template: "a://%4{x}"},
		{name: "bad UTF-8", template: "a://\xff"},
		{name: "long", template: "a://" + strings.Repeat("x", maxTemplateLen)},
		{name: "many expressions", template: "a://" + strings.Repeat("{x}", maxTemplateVars+1)},
		{name: "many variables", template: "a://{" + strings.Repeat("x,", 2000) + "x}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := templateMatcher(tt.template); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

var prefixModifier = regexp.MustCompile(`\{[^}]*:[0-9]`)

// FuzzTemplateMatcher holds that hostile templates do no harm, and that a URI
// which a template expands to matches it.
func FuzzTemplateMatcher(f *testing.F) {
	for _, s := range []string{"a://{x}", "{+x*}", "a{?b,c*}", "{/x:3}", "é{x}", "{x}{y}{z}", "a://{#x,y}"} {
		f.Add(s, "v")
		f.Add(s, "a b/é%")
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		match, err := templateMatcher(template)
		if err != nil {
			return
		}
		match(value)
		if _, err := uritemplate.New(exposedURI("travel", template)); err != nil {
			t.Fatalf("the exposed form of %q is no template: %v", template, err)
		}
		parsed := uritemplate.MustNew(template)
		vars := uritemplate.Values{}
		for _, name := range parsed.Varnames() {
			vars.Set(name, uritemplate.String(value))
		}
		// A prefix (`{x:3}`) may cut a percent-encoded character, and then it is
		// no valid URI.
		if prefixModifier.MatchString(template) {
			return
		}
		expanded, err := parsed.Expand(vars)
		if err == nil && len(expanded) <= maxMatchLen && !match(expanded) {
			t.Fatalf("%q expands to %q and does not match it", template, expanded)
		}
	})
}

func BenchmarkTemplateMatcher(b *testing.B) {
	match, err := templateMatcher("weather://forecast/{city}/{date}")
	if err != nil {
		b.Fatal(err)
	}
	for _, uri := range []string{"weather://forecast/Paris/2026-07-28", "https://example.com/x"} {
		b.Run(uri, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				match(uri)
			}
		})
	}
}
