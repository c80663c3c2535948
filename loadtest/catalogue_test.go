package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoadCatalogue(t *testing.T) {
	tests := []struct {
		name, file string
		want       []string // the tools
		err        string
	}{
		{
			"null members and names that come twice",
			`{"source":"x","servers":[
				{"server":"a","tools":[{"name":"search","description":"<é>","inputSchema":{"type":"object"},"annotations":null}]},
				{"server":"b","tools":[{"name":"fetch","inputSchema":{}},{"name":"search","inputSchema":{"a":null}}]}]}`,
			[]string{
				`{"description":"<é>","inputSchema":{"type":"object"},"name":"search"}`,
				`{"inputSchema":{},"name":"fetch"}`,
				`{"inputSchema":{"a":null},"name":"search_2"}`,
			}, "",
		},
		{"not JSON", `{`, nil, "unexpected end"},
		{"no name", `{"servers":[{"tools":[{"title":"x"}]}]}`, nil, "tool 0: name"},
		{"empty", `{"servers":[]}`, nil, "no tools"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "catalogue.json")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := loadCatalogue(file)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), file) {
					t.Errorf("error %v, want one with %q and the file", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tl := range c.tools {
				got = append(got, string(tl.raw))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMadeUpCatalogue(t *testing.T) {
	c, err := loadCatalogue(filepath.Join(t.TempDir(), "missing.json"))
	if err != nil || !c.madeUp || len(c.tools) != catalogueSize {
		t.Fatalf("%d tools, %v", len(c.tools), err)
	}
	if _, err := newUpstream(c.tools, false); err != nil {
		t.Error(err)
	}
	for _, tl := range c.tools {
		if !json.Valid(tl.raw) || len(tl.raw) != madeUpBytes {
			t.Fatalf("%d bytes, want %d: %s", len(tl.raw), madeUpBytes, tl.raw)
		}
	}
}
