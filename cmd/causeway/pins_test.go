package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func digests() *regexp.Regexp { return regexp.MustCompile(`sha256:[0-9a-f]{64}`) }

func TestPins(t *testing.T) {
	const def = `"inputSchema":{"type":"object"}`
	odd := scripted(t, map[string]string{"tools/list": `"result":{"tools":[{"name":"t","_meta":{"a":1},` + def + `},{"name":"\u001b[2J: \"é","big":12345678901234567890,` + def + `},` +
		`{"name":"t","description":"another",` + def + `}],"_meta":{"io.github.causeway-mcp/partial":[{"alias":"t","reason":"timeout"}]}}`})
	const two = `pins:
  "\x1b[2J: \"\u00e9": sha256:
  "t": sha256:
`
	tests := []struct {
		name   string
		args   []string
		want   string
		stderr []string
	}{
		{"YAML", []string{"--url", odd}, two, []string{`"t" is there more than once`, "missing or stale: t (timeout)"}},
		{"JSON", []string{"--url", odd, "--json"}, `{"pins":{"\u001b[2J: \"é":"sha256:","t":"sha256:"}}` + "\n", []string{"more than once"}},
		{"none", []string{"--url", scripted(t, map[string]string{"tools/list": `"result":{"tools":[]}`})}, "pins: {}\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, append([]string{"tools", "--pins"}, tt.args...)...)
			got.want(t, 0, nil, tt.stderr)
			if diff := cmp.Diff(tt.want, digests().ReplaceAllString(got.Stdout, "sha256:")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPinsThroughAGateway holds that a gateway's endpoint of one upstream has the pins
// of the upstream, that a configuration takes what is printed, and hides what is not in
// it, and that the merged endpoint is warned about.
func TestPinsThroughAGateway(t *testing.T) {
	weather := samples(t)["weather"]
	direct := invoke(t, "tools", "--pins", "--url", weather)
	direct.want(t, 0, []string{`"checkWeather": sha256:`, `"weatherCurrent": sha256:`}, nil)
	if direct.Stderr != "" {
		t.Errorf("standard error: %s", direct.Stderr)
	}
	text := "tenants:\n  - name: default\n    auth: {mode: none}\n    upstreams:\n      - alias: weather\n        url: " + weather + "\n        pinning: all\n"
	indented := strings.ReplaceAll("\n"+strings.TrimSpace(direct.Stdout), "\n", "\n        ")
	s := startServe(t, written(t, text+indented))
	if diff := cmp.Diff(direct, invoke(t, "tools", "--pins", "--url", s.url+"/t/default/u/weather/mcp")); diff != "" {
		t.Errorf("through the gateway (-direct +got):\n%s", diff)
	}
	invoke(t, "tools", "--pins", "--url", s.url+"/mcp").want(t, 0, []string{`"weather_checkWeather"`}, []string{"/mcp shows tools under names of the gateway's own"})

	digest := digests().FindString(direct.Stdout)
	s = startServe(t, written(t, text+strings.Replace(indented, digest, "sha256:"+strings.Repeat("0", 64), 1)))
	if got := invoke(t, "tools", "--url", s.url+"/mcp"); strings.Contains(got.Stdout, "checkWeather") || !strings.Contains(got.Stdout, "weatherCurrent") {
		t.Errorf("with another pin:\n%s%s", got.Stdout, got.Stderr)
	}
	if line := s.await("left out of a list"); line["name"] != "checkWeather" || !strings.Contains(fmt.Sprint(line["reason"]), digest) {
		t.Errorf("the log says %v", line)
	}
}

// written gives the path of a file with that text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "causeway.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
