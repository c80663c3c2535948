// Command causeway is a multi-tenant gateway for the Model Context Protocol:
// many upstream servers behind one URL. Each subcommand has a file of its own;
// this one holds their table, the usage texts and the process's signals.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes of every subcommand.
const (
	exitOK      = 0
	exitFailure = 1 // the work could not be done; the reason is on standard error
	exitUsage   = 2 // the command line is wrong
)

// runFunc carries out one subcommand. args are those after its name. ctx ends
// with the first SIGINT or SIGTERM; a second one ends the process. The result
// is the exit code.
type runFunc func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// command is one subcommand.
type command struct {
	name    string
	summary string // one line for the usage text: what it does, without a full stop
	run     runFunc
}

// commands gives all subcommands in the order of the usage text.
func commands() []command {
	return []command{
		{"serve", "serve the tenants of a configuration file", withHangups(runServe)},
		{"demo", "run a gateway in front of three sample servers", runDemo},
		{"tools", "list the tools of an MCP server", runTools},
		{"call", "call a tool of an MCP server", runCall},
		{"check", "read a configuration file and tell all that is wrong with it", runCheck},
		{"key", "make, list or delete API keys", runKey},
		{"registry", "export or import what is registered in the store", runRegistry},
		{"healthcheck", "ask a gateway on this machine whether it is ready", runHealthcheck},
		{"version", "print the version and what it was built from", runVersion},
	}
}

func main() { os.Exit(run()) }

// run owns the process's signals and its standard streams.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The default action comes back after the first signal, so that a second one
	// ends a process whose orderly end takes too long.
	defer context.AfterFunc(ctx, stop)()
	tuneMemory()
	return dispatch(ctx, commands(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// withHangups gives a subcommand the process's SIGHUPs, which end the others.
func withHangups(run func(ctx context.Context, hangups <-chan os.Signal, args []string, stdout, stderr io.Writer) int) runFunc {
	return func(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		return run(ctx, hangups, args, stdout, stderr)
	}
}

// dispatch runs the subcommand that args name.
func dispatch(ctx context.Context, cmds []command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		writeUsage(stderr, cmds)
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		if len(rest) == 0 {
			writeUsage(stdout, cmds)
			return exitOK
		}
		name, rest = rest[0], append(rest[1:len(rest):len(rest)], "-h")
	case "-version", "--version":
		name = "version"
	}
	for _, c := range cmds {
		if c.name == name {
			return c.run(ctx, rest, stdin, stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "causeway: unknown command %q", name)
	if s := suggest(name, cmds); s != "" {
		fmt.Fprintf(stderr, "; did you mean %q?", s)
	}
	fmt.Fprint(stderr, "\nRun \"causeway help\" for the list of commands.\n")
	return exitUsage
}

func writeUsage(w io.Writer, cmds []command) {
	fmt.Fprint(w, "Causeway puts many MCP servers behind one URL.\n\nUsage:\n\n  causeway <command> [flags]\n\nCommands:\n\n")
	for _, c := range cmds {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nRun \"causeway help <command>\" for a command's flags.\n")
}

// runOneOf is a subcommand that has subcommands of its own; about is a sentence or
// more.
func runOneOf(ctx context.Context, name, about string, cmds []command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	usage := func(w io.Writer) {
		fmt.Fprintf(w, "%s\n\nUsage:\n\n  causeway %s <command> [flags]\n\nCommands:\n\n", about, name)
		for _, c := range cmds {
			fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
		}
		fmt.Fprintf(w, "\nRun \"causeway %s <command> -h\" for a command's flags.\n", name)
	}
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(stdout)
		return exitOK
	}
	var names []string
	for _, c := range cmds {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdin, stdout, stderr)
		}
		names = append(names, c.name)
	}
	last := len(names) - 1
	fmt.Fprintf(stderr, "causeway %s: unknown command %q: it has %s and %s\n", name, args[0], strings.Join(names[:last], ", "), names[last])
	return exitUsage
}

// newFlags makes the flag set of one subcommand. operands is what follows the
// flags in the usage line, or empty; about is a sentence or more.
func newFlags(name, operands, about string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.Usage = func() {
		hasFlags := false
		fs.VisitAll(func(*flag.Flag) { hasFlags = true })
		line := "causeway " + name
		if hasFlags {
			line += " [flags]"
		}
		fmt.Fprintf(fs.Output(), "%s\n\nUsage:\n\n  %s\n", about, strings.TrimSpace(line+" "+operands))
		if hasFlags {
			own, overrides := splitFlags(fs)
			fmt.Fprint(fs.Output(), "\nFlags:\n\n")
			own.PrintDefaults()
			if len(overrides) > 0 {
				fmt.Fprintf(fs.Output(), "\nFlags in place of keys of the file, which the environment sets too:\n\n%s\n", strings.Join(overrides, "\n"))
			}
		}
	}
	return fs
}

// parseFlags parses args. When ok is false the subcommand ends with code: help
// was asked for, or the command line is wrong and stderr says how. At least min
// and at most max operands are accepted.
func parseFlags(fs *flag.FlagSet, args []string, minOperands, maxOperands int, stdout, stderr io.Writer) (code int, ok bool) {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stdout)
		fs.Usage()
		return exitOK, false
	case err == nil && fs.NArg() < minOperands:
		err = fmt.Errorf("too few arguments: %d of at least %d", fs.NArg(), minOperands)
	case err == nil && fs.NArg() > maxOperands:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(maxOperands))
	}
	fs.SetOutput(stderr)
	if err != nil {
		fmt.Fprintf(stderr, "causeway %s: %v\nRun \"causeway help %s\" for its usage.\n", fs.Name(), err, fs.Name())
		return exitUsage, false
	}
	return exitOK, true
}

// suggest gives the command that name was most likely meant to be, or "".
func suggest(name string, cmds []command) string {
	best, least := "", 3
	for _, c := range cmds {
		d := distance(strings.ToLower(name), c.name)
		if len(name) >= 2 && strings.HasPrefix(c.name, strings.ToLower(name)) {
			d = 1
		}
		if d < least && d < len(c.name) {
			best, least = c.name, d
		}
	}
	return best
}

// distance is the number of inserted, deleted and replaced bytes between a and
// b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
