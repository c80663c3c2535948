package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/bolt"
)

const exported = `{"version": 1, "revision": 5,
	"tenants": [
		{"name": "zoo", "upstreams": [{"alias": "weather", "url": "http://127.0.0.1:7001/mcp"}]},
		{"name": "acme"}
	],
	"keys": [{"id": "k1", "tenant": "acme", "subject": "s", "hash": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`

// exchange imports, exports and imports again, whatever the store.
func exchange(t *testing.T, conf string) {
	revision := regexp.MustCompile(`revision [0-9]+`)
	run := func(args ...string) outcome {
		t.Helper()
		got := invoke(t, append([]string{"registry", args[0], "--config", conf}, args[1:]...)...)
		got.Stdout = revision.ReplaceAllString(got.Stdout, "revision N")
		got.Stderr = revision.ReplaceAllString(got.Stderr, "revision N")
		return got
	}
	want := outcome{0, "added key acme/k1\nadded tenant acme\nadded tenant zoo\nrevision N: 2 tenants and 1 key\n", ""}
	if diff := cmp.Diff(want, run("import", "--file", writeFile(t, "in.json", exported))); diff != "" {
		t.Fatalf("import (-want +got):\n%s", diff)
	}

	out := filepath.Join(t.TempDir(), "out.json")
	want = outcome{0, "", "exported 2 tenants and 1 key at revision N\n"}
	if diff := cmp.Diff(want, run("export", "--file", out)); diff != "" {
		t.Fatalf("export (-want +got):\n%s", diff)
	}
	info, err := os.Stat(out)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the export: %v, %v, want mode 0600", info.Mode(), err)
	}
	first, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want = outcome{0, "revision N: 2 tenants and 1 key\n", ""}
	if diff := cmp.Diff(want, run("import", "--file", out)); diff != "" {
		t.Errorf("import of an export (-want +got):\n%s", diff)
	}
	second := invoke(t, "registry", "export", "--config", conf)
	head := func(s string) string { return strings.SplitAfterN(s, "\n", 4)[3] } // after the registry's revision
	if diff := cmp.Diff(head(string(first)), head(second.Stdout)); diff != "" {
		t.Errorf("exported again (-want +got):\n%s", diff)
	}

	less := strings.NewReplacer(`{"name": "acme"}`, `{"name": "new"}`, "7001", "7002", `"tenant": "acme"`, `"tenant": "zoo"`).Replace(exported)
	want = outcome{0, "removed key acme/k1\nadded key zoo/k1\nremoved tenant acme\nadded tenant new\nchanged tenant zoo\nrevision N: 2 tenants and 1 key\n", ""}
	if diff := cmp.Diff(want, run("import", "--file", writeFile(t, "less.json", less))); diff != "" {
		t.Errorf("import of something else (-want +got):\n%s", diff)
	}
	want = outcome{1, "", "causeway registry import: the registry has revision N, not 1: nothing was imported\n"}
	if diff := cmp.Diff(want, run("import", "--revision", "1", "--file", out)); diff != "" {
		t.Errorf("import over another revision (-want +got):\n%s", diff)
	}
	if got := run("export", "--revision", "1"); got.Code != 1 || got.Stdout != "" {
		t.Errorf("export of another revision: %+v", got)
	}
}

// fileStore gives a configuration whose registry is a file.
func fileStore(t *testing.T) (conf, dir string) {
	dir = t.TempDir()
	return writeFile(t, "causeway.yaml", "store: {type: file, dataDir: "+dir+"}\n"), dir
}

func TestRegistryInFile(t *testing.T) {
	conf, _ := fileStore(t)
	exchange(t, conf)
}

func TestRegistryInRedis(t *testing.T) {
	s := redistest.Start(t)
	t.Setenv("REGISTRY_TEST_KEY", strings.Repeat("k", 64))
	exchange(t, writeFile(t, "causeway.yaml", "store: {type: redis, url: "+s.URL()+"}\nkeys: [{id: k, secret: {env: REGISTRY_TEST_KEY}}]\n"))
}

func TestRegistryImportFromStandardInput(t *testing.T) {
	conf, _ := fileStore(t)
	var stdout, stderr bytes.Buffer
	code := dispatch(t.Context(), commands(), []string{"registry", "import", "--config", conf}, strings.NewReader(exported), &stdout, &stderr)
	if code != 0 || !strings.HasSuffix(stdout.String(), ": 2 tenants and 1 key\n") {
		t.Errorf("code %d, %q, %q", code, &stdout, &stderr)
	}
}

func TestRegistryRefuses(t *testing.T) {
	conf, dir := fileStore(t)
	memory := writeFile(t, "memory.yaml", "store: {type: memory}\n")
	faulty := writeFile(t, "faulty.json", `{"version": 1, "tenants": [{"name": "A", "speed": 1}, {"name": "b", "upstreams": [{"alias": "x", "process": {"command": ["rm"]}}]}]}`)
	policy := writeFile(t, "policy.json", `{"version": 1, "tenants": [{"name": "a", "policy": {"default": "deny", "rules": [{"name": "r", "when": "!tool.speed", "effect": "deny"}]}}]}`)
	tests := []struct {
		name string
		args []string
		want outcome
	}{
		{"nothing", nil, outcome{2, "", "Exports and imports the registry: the tenants, upstreams and API keys that are kept\nin the store, besides the tenants of the configuration file. Seals secrets for it, and\nseals anew what is sealed in it, before an older key is taken away.\n\n" +
			"Usage:\n\n  causeway registry <command> [flags]\n\nCommands:\n\n  export       write all that is registered as JSON\n  import       replace all that is registered by an export\n  seal         seal a secret for a registration\n  reseal       seal with the first key what older ones have sealed\n\n" +
			"Run \"causeway registry <command> -h\" for a command's flags.\n"}},
		{"unknown", []string{"list"}, outcome{2, "", "causeway registry: unknown command \"list\": it has export, import, seal and reseal\n"}},
		{"operand", []string{"export", "x"}, outcome{2, "", "causeway registry export: unexpected argument \"x\"\nRun \"causeway help registry export\" for its usage.\n"}},
		{"memory", []string{"export", "--config", memory}, outcome{
			1, "", "causeway registry export: the configuration keeps the registry in memory (store.type: memory), where no other process reaches it\n",
		}},
		{"no file", []string{"import", "--config", conf, "--file", dir + "/none.json"}, outcome{
			1, "", "causeway registry import: read the export: open " + dir + "/none.json: no such file or directory\n",
		}},
		{"faults", []string{"import", "--config", conf, "--file", faulty}, outcome{
			1, "", faulty + ": 3 faults\n  tenants[0].speed: unknown field\n  tenants[0].name: \"A\" must match ^[a-z0-9][a-z0-9-]{0,62}$\n" +
				"  tenants[1].upstreams[0].process: programs come from the configuration file only\n",
		}},
		{"faulty policy", []string{"import", "--config", conf, "--file", policy}, outcome{
			1, "", policy + ": 1 fault\n  tenants[0].policy.rules[0].when: rule \"r\": 1:6: undefined field 'speed'\n",
		}},
		{"faulty configuration", []string{"export", "--config", writeFile(t, "x.yaml", "speed: 1\n")}, outcome{1, "", "FILE: 1 fault\n  speed: unknown key (line 1)\n"}},
		{"no directory for the export", []string{"export", "--config", conf, "--file", dir + "/none/x.json"}, outcome{
			1, "", "causeway registry export: write the export: open " + dir + "/none/.x.json-N: no such file or directory\n",
		}},
	}
	temporary := regexp.MustCompile(`json-[0-9]+`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, append([]string{"registry"}, tt.args...)...)
			got.Stderr = temporary.ReplaceAllString(got.Stderr, "json-N")
			if i := strings.Index(got.Stderr, "x.yaml: "); i > 0 {
				got.Stderr = "FILE" + got.Stderr[i+len("x.yaml"):]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRegistryLocked(t *testing.T) {
	conf, dir := fileStore(t)
	if got := invoke(t, "registry", "export", "--config", conf); got.Code != 0 {
		t.Fatalf("export: %+v", got)
	}
	r, err := bolt.Open(filepath.Join(dir, "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := invoke(t, "registry", "export", "--config", conf)
	if got.Code != 1 || !strings.Contains(got.Stderr, "another process has it open") || !strings.HasSuffix(got.Stderr, "(stop the gateway first)\n") {
		t.Errorf("while it is open elsewhere: %+v", got)
	}
	if _, err := r.Put(t.Context(), &tenant.Tenant{Name: "a"}, 0); err != nil {
		t.Error(err)
	}
}
