package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestParseAccept(t *testing.T) {
	both := accepted{json: true, sse: true}
	tests := []struct {
		name   string
		accept []string // nil for no header
		want   accepted
	}{
		{"absent", nil, both},
		{"as the specification wants", []string{"application/json, text/event-stream"}, both},
		{"other order, no space", []string{"text/event-stream,application/json"}, both},
		{"two headers", []string{"application/json", "text/event-stream"}, both},
		{"upper case", []string{"Application/JSON, TEXT/Event-Stream"}, both},
		{"any", []string{"*/*"}, both},
		{"any, weighted", []string{"text/html, */*;q=0.001"}, both},
		{"JSON only", []string{"application/json"}, accepted{json: true}},
		{"JSON with a parameter", []string{"application/json; charset=utf-8"}, accepted{json: true}},
		{"SSE only", []string{"text/event-stream"}, accepted{sse: true}},
		{"type wildcards", []string{"application/*, text/*"}, both},
		{"one type wildcard", []string{"text/*"}, accepted{sse: true}},
		{"neither", []string{"text/html, application/xml"}, accepted{}},
		{"empty", []string{""}, accepted{}},
		{"refused", []string{"application/json;q=0, text/event-stream;q=0.000"}, accepted{}},
		{"the closest range decides", []string{"*/*, application/json;q=0"}, accepted{sse: true}},
		{"the closest range decides, whatever the order", []string{"application/json;q=0, */*"}, accepted{sse: true}},
		{"a type range is closer than any", []string{"*/*;q=0, text/*"}, accepted{sse: true}},
		{"a weight in upper case with spaces", []string{"*/* ; Q = 0 "}, accepted{}},
		{"a weight that is none", []string{"*/*;q=yes"}, accepted{}},
		{"a weight above one", []string{"*/*;q=1.5"}, accepted{}},
		{"a comma inside quotes", []string{`text/html;x="a, */*", application/json`}, accepted{json: true}},
		{"an escaped quote", []string{`text/html;x="\"", application/json`}, accepted{json: true}},
		{"not a range", []string{"*"}, accepted{}},
		{"a name that only begins alike", []string{"application/jsonp, text/event-streams"}, accepted{}},
		{"a subtype that only begins alike", []string{"app/*, tex/*"}, accepted{}},
		{"empty elements", []string{", ,application/json,"}, accepted{json: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.accept != nil {
				h["Accept"] = tt.accept
			}
			if got := parseAccept(h); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestIsJSON(t *testing.T) {
	tests := []struct {
		name string
		typ  []string
		want bool
	}{
		{"plain", []string{"application/json"}, true},
		{"charset", []string{"application/json; charset=utf-8"}, true},
		{"any parameter", []string{"application/json ;profile=x"}, true},
		{"case", []string{"Application/Json;Charset=UTF-8"}, true},
		{"absent", nil, false},
		{"empty", []string{""}, false},
		{"text", []string{"text/plain"}, false},
		{"form", []string{"application/x-www-form-urlencoded"}, false},
		{"another JSON", []string{"application/json-patch+json"}, false},
		{"two", []string{"application/json", "text/plain"}, false},
		{"a list", []string{"application/json, text/plain"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isJSON(http.Header{"Content-Type": tt.typ}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzParseAccept(f *testing.F) {
	for _, seed := range []string{
		"", "*/*", "application/json, text/event-stream", `text/html;x="a,b";q=0.5, */*;q=0`, `a/b;c="`, `;q=0,;q`, "\\\"",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got := parseAccept(http.Header{"Accept": {value}})
		// Splitting a list over several headers means the same (RFC 9110, 5.3).
		if !strings.ContainsAny(value, `"\`) {
			if split := parseAccept(http.Header{"Accept": strings.Split(value, ",")}); split != got {
				t.Errorf("%q: %+v in one header, %+v in several", value, got, split)
			}
		}
		if got.any() && !strings.Contains(value, "/") {
			t.Errorf("%q accepts %+v", value, got)
		}
	})
}

func BenchmarkParseAccept(b *testing.B) {
	h := http.Header{"Accept": {"text/event-stream, application/json;q=0.9"}}
	b.ReportAllocs()
	for b.Loop() {
		parseAccept(h)
	}
}
