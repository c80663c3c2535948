package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/causeway-mcp/causeway/gateway/config"
)

// defaultConfig is read when neither --config nor CAUSEWAY_CONFIG names a file.
const defaultConfig = "causeway.yaml"

// configFlags are the flags of subcommands that read a configuration: --config,
// and one for each key that the environment can set too.
type configFlags struct {
	path      *string
	overrides map[string]*string // by key
}

func addConfigFlags(fs *flag.FlagSet) *configFlags {
	file := cmp.Or(os.Getenv("CAUSEWAY_CONFIG"), defaultConfig)
	f := &configFlags{
		path:      fs.String("config", file, "the configuration `file`; its default can be set with CAUSEWAY_CONFIG"),
		overrides: make(map[string]*string),
	}
	for _, o := range config.Overrides() {
		f.overrides[o.Key] = fs.String(flagName(o.Env), "", overrideUsage(o))
	}
	return f
}

// overrideUsage is the usage text of the flag that stands for a key of the file.
func overrideUsage(o config.Override) string {
	return fmt.Sprintf("`value` in place of the file's %s, as %s sets it", o.Key, o.Env)
}

// splitFlags parts the flags that stand for keys of the file from all others, for usage
// texts.
func splitFlags(fs *flag.FlagSet) (own *flag.FlagSet, overrides []string) {
	keys := make(map[string]config.Override)
	for _, o := range config.Overrides() {
		keys[overrideUsage(o)] = o
	}
	own = flag.NewFlagSet(fs.Name(), flag.ContinueOnError)
	own.SetOutput(fs.Output())
	fs.VisitAll(func(f *flag.Flag) {
		if o, ok := keys[f.Usage]; ok {
			overrides = append(overrides, fmt.Sprintf("  -%-22s %-22s %s", f.Name, o.Key, o.Env))
			return
		}
		own.Var(f.Value, f.Name, f.Usage)
		own.Lookup(f.Name).DefValue = f.DefValue
	})
	return own, overrides
}

// flagName turns CAUSEWAY_DATA_DIR into data-dir.
func flagName(env string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(env, "CAUSEWAY_"), "_", "-"))
}

// loader reads with the process's environment and these flags.
func (f *configFlags) loader() config.Loader {
	flags := make(map[string]string, len(f.overrides))
	for key, v := range f.overrides {
		flags[key] = *v
	}
	return config.Loader{LookupEnv: os.LookupEnv, Flags: flags}
}

// writeFaults tells what is wrong with the file at path.
func writeFaults(w io.Writer, path string, err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		fmt.Fprintf(w, "causeway: %v\n", err)
		return
	}
	fmt.Fprintf(w, "%s: %s\n", path, plural(len(faults), "fault"))
	for _, f := range faults {
		fmt.Fprintf(w, "  %s\n", f)
	}
}

// plural counts things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// countUpstreams gives the upstreams of all tenants.
func countUpstreams(c *config.Config) int {
	n := 0
	for _, t := range c.Tenants {
		n += len(t.Upstreams)
	}
	return n
}
