package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/config"
)

// TestReadme holds that what README.md shows can be copied: each of its configurations
// is valid, and nothing in it is most likely not meant.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatchIndex(string(text), -1)
	if len(shown) == 0 {
		t.Fatal("there is none")
	}
	for _, at := range shown {
		line := 1 + strings.Count(string(text[:at[2]]), "\n")
		c, err := config.Parse(text[at[2]:at[3]])
		if err != nil {
			t.Errorf("README.md, from line %d: %v", line, err)
			continue
		}
		for _, w := range c.Warnings() {
			t.Errorf("README.md, from line %d: %s", line, w)
		}
	}
}
