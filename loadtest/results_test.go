package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplacePart(t *testing.T) {
	tests := []struct {
		name, text, part, want string
	}{
		{"nothing yet", "", "# A\n\nnew\n", "# A\n\nnew\n"},
		{"the only one", "# A\n\nold\n\n## B\n\nold\n", "# A\n\nnew\n", "# A\n\nnew\n"},
		{"another one before", "# A\n\nold\n", "# B\n\nnew\n", "# A\n\nold\n\n# B\n\nnew\n"},
		{"one of two", "# A\n\nold\n\n## C\n\n# B\n\nold\n", "# A\n\nnew\n", "# A\n\nnew\n\n# B\n\nold\n"},
		{"the last of two", "# A\n\nold\n\n# B\n\nold\n", "# B\n\nnew\n", "# A\n\nold\n\n# B\n\nnew\n"},
		{"twice there", "# A\n\n1\n\n# B\n\n2\n\n# A\n\n3\n", "# A\n\nnew\n", "# A\n\nnew\n\n# B\n\n2\n"},
		{"a heading that begins alike", "# A and more\n\nold\n", "# A\n\nnew\n", "# A and more\n\nold\n\n# A\n\nnew\n"},
		{"text before all headings", "by hand\n\n# A\n\nold\n", "# A\n\nnew\n", "by hand\n\n# A\n\nnew\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, replacePart(tt.text, tt.part)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWritePart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	for _, part := range []string{"# A\n\n1\n", "# B\n\n2\n", "# A\n\n3\n"} {
		if err := writePart(file, part); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("# A\n\n3\n\n# B\n\n2\n", string(got)); diff != "" {
		t.Error(diff)
	}
}
