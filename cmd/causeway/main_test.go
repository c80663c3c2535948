package main

import (
	"bytes"
	"context"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outcome is what a user sees of a run.
type outcome struct {
	Code           int
	Stdout, Stderr string
}

// invoke runs the command line as main does.
func invoke(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := dispatch(t.Context(), commands(), args, strings.NewReader(""), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestDispatch(t *testing.T) {
	const hint = "\nRun \"causeway help\" for the list of commands.\n"
	tests := []struct {
		name string
		args []string
		want outcome
	}{
		{"unknown", []string{"frobnicate"}, outcome{2, "", `causeway: unknown command "frobnicate"` + hint}},
		{"letters swapped", []string{"chekc"}, outcome{2, "", `causeway: unknown command "chekc"; did you mean "check"?` + hint}},
		{"beginning", []string{"health"}, outcome{2, "", `causeway: unknown command "health"; did you mean "healthcheck"?` + hint}},
		{"capitals", []string{"Version"}, outcome{2, "", `causeway: unknown command "Version"; did you mean "version"?` + hint}},
		{"unknown flag", []string{"version", "--loud"}, outcome{
			2, "", "causeway version: flag provided but not defined: -loud\nRun \"causeway help version\" for its usage.\n",
		}},
		{"argument that is not taken", []string{"version", "now"}, outcome{
			2, "", "causeway version: unexpected argument \"now\"\nRun \"causeway help version\" for its usage.\n",
		}},
		{"help of a command", []string{"help", "version"}, outcome{
			0, "Prints the version and what it was built from.\n\nUsage:\n\n  causeway version\n", "",
		}},
		{"help of an unknown command", []string{"help", "nothing"}, outcome{2, "", `causeway: unknown command "nothing"` + hint}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, invoke(t, tt.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUsage holds that every command is listed, and that help goes where it was
// asked to: to standard output when it is the answer, else to standard error.
func TestUsage(t *testing.T) {
	bare, help := invoke(t), invoke(t, "--help")
	if bare.Code != 2 || bare.Stdout != "" || help.Code != 0 || help.Stderr != "" || bare.Stderr != help.Stdout {
		t.Errorf("without arguments %+v, with --help %+v", bare, help)
	}
	for _, c := range commands() {
		if !strings.Contains(help.Stdout, "  "+c.name+" ") || !strings.Contains(help.Stdout, c.summary) {
			t.Errorf("the usage text lacks %s", c.name)
		}
		t.Run(c.name, func(t *testing.T) {
			got := invoke(t, c.name, "-h")
			if got.Code != 0 || got.Stderr != "" || !strings.Contains(got.Stdout, "\n  causeway "+c.name) {
				t.Errorf("-h: %+v", got)
			}
		})
	}
}

// TestUsageOfSubcommands holds that what a subcommand's errors tell to run prints its
// usage, in which what it does comes before what all of them take.
func TestUsageOfSubcommands(t *testing.T) {
	got := invoke(t, "help", "key", "list")
	if diff := cmp.Diff(invoke(t, "key", "list", "-h"), got); diff != "" || got.Code != 0 {
		t.Errorf("code %d (-key list -h +help key list):\n%s", got.Code, diff)
	}
	own, all := strings.Index(got.Stdout, "\n  -tenant name\n"), strings.Index(got.Stdout, "\n  -admin-listen ")
	if own < 0 || all < own {
		t.Errorf("usage:\n%s", got.Stdout)
	}
}

func TestParseFlagsWantsOperands(t *testing.T) {
	var stderr bytes.Buffer
	code, ok := parseFlags(newFlags("call", "NAME", ""), nil, 1, 2, io.Discard, &stderr)
	want := "causeway call: too few arguments: 0 of at least 1\nRun \"causeway help call\" for its usage.\n"
	if code != 2 || ok || stderr.String() != want {
		t.Errorf("parseFlags = %d, %t, %q", code, ok, stderr.String())
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"serve", "serve", 0},
		{"serv", "serve", 1}, {"sevre", "serve", 2}, {"demo", "tools", 5},
	}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDescribeBuild(t *testing.T) {
	tests := []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"nothing known", nil, "causeway devel"},
		{"work tree", &debug.BuildInfo{
			GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"},
			Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-30T17:00:00Z"},
				{Key: "vcs.modified", Value: "true"}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"},
			},
		}, "causeway devel commit 0123456789ab (modified) of 2026-11-30T17:00:00Z go1.26.0 linux/arm64"},
		{"release", &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}}, "causeway v1.2.3 go1.26.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := describeBuild(tt.info); got != tt.want {
				t.Errorf("describeBuild = %q, want %q", got, tt.want)
			}
		})
	}
	if got := invoke(t, "--version"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "causeway ") {
		t.Errorf("--version: %+v", got)
	}
}

// TestContextReachesCommands holds that a signal's end of the context is what
// commands see.
func TestContextReachesCommands(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmds := []command{{"wait", "", func(ctx context.Context, _ []string, _ io.Reader, _, _ io.Writer) int {
		<-ctx.Done()
		return 7
	}}}
	if code := dispatch(ctx, cmds, []string{"wait"}, nil, io.Discard, io.Discard); code != 7 {
		t.Errorf("code %d, want 7", code)
	}
}
