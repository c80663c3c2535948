package search

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"snake case", "get_user_name", []string{"get", "user", "name"}},
		{"camel case", "getUserName", []string{"get", "user", "name"}},
		{"acronym", "HTTPServer2Go", []string{"http", "server", "2", "go"}},
		{"punctuation", "read, then write.", []string{"read", "then", "write"}},
		{"genitive", "the user's file", []string{"the", "user's", "file"}},
		{"quotes", "'quoted' words'", []string{"quoted", "words"}},
		{"Chinese", "查天气", []string{"查", "天", "查天", "气", "天气"}},
		{"mixed", "get天气now", []string{"get", "天", "气", "天气", "now"}},
		{"accents", "Übersicht der Straße", []string{"übersicht", "der", "straße"}},
		{"empty", "  ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, words(tt.text)); d != "" {
				t.Errorf("words differ (-want +got):\n%s", d)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		name, a, b string
		limit      int
		want       int
	}{
		{"same", "weather", "weather", 2, 0},
		{"one less", "wether", "weather", 2, 1},
		{"one more", "weeather", "weather", 2, 1},
		{"another", "weathar", "weather", 2, 1},
		{"swapped", "waether", "weather", 2, 1},
		{"two", "wethar", "weather", 2, 2},
		{"too many", "whether", "father", 1, 2},
		{"too long", "a", "abcdef", 2, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := distance(tt.a, tt.b, tt.limit); got != tt.want {
				t.Errorf("distance is %d, want %d", got, tt.want)
			}
		})
	}
}

func TestSteps(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"one", "convert an address to coordinates", []string{"convert an address to coordinates"}},
		{"sentences", "Find news. Write a report.", []string{"Find news.", "Write a report."}},
		{"and", "read the sheet and draw a chart", []string{"read the sheet and", "draw a chart"}},
		{"comma", "find parking, show fees", []string{"find parking,", "show fees"}},
		{"a noun after and", "bread and butter", []string{"bread and butter"}},
		{"nothing said", "Please. Could you?", nil},
	}
	l := NewLanguage()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, l.steps(tt.text)); d != "" {
				t.Errorf("steps differ (-want +got):\n%s", d)
			}
		})
	}
}

func TestPlain(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"path", "save to /data/x/report.md.", "save to markdown file. "},
		{"directory", "list /var/log/app", "list file path "},
		{"bare file", "open sales.xlsx now", "open excel file now "},
		{"code by path", "write ./src/main.go", "write code file "},
		{"a name with a dot", "use Next.js here", "use Next.js here "},
		{"address", "fetch https://example.com/a?b", "fetch url website "},
		{"email", "write to (a@example.com)", "write to email address) "},
		{"either or", "read/write access", "read/write access "},
	}
	l := NewLanguage()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := l.plain(tt.text); got != tt.want {
				t.Errorf("plain is %q, want %q", got, tt.want)
			}
		})
	}
}
