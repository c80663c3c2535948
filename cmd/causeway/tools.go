package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/causeway-mcp/causeway/cmd/causeway/client"
	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// runTools is `causeway tools`.
func runTools(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	var flags clientFlags
	var asPins bool
	fs := newFlags("tools", "",
		"Lists the tools of an MCP server: name, title and the first line of the description.\n"+
			"When a part of the list is missing, standard error says which.\n"+
			"With --pins it prints the digests of their definitions as a configuration has them,\n"+
			"to approve what one upstream has now: ask that server, or a gateway at /t/TENANT/u/ALIAS/mcp,\n"+
			"which does not show what its pins hide already: its log has those digests.")
	flags.register(fs)
	fs.BoolVar(&asPins, "pins", false, "print the digests of the definitions, for the pins of an upstream")
	if code, ok := parseFlags(fs, args, 0, 0, stdout, stderr); !ok {
		return code
	}
	c, err := flags.client()
	if err != nil {
		fmt.Fprintf(stderr, "causeway tools: %v\n", err)
		return exitUsage
	}
	defer c.Close()
	tools, err := c.Tools(ctx)
	if err != nil {
		return fail("tools", err, stderr)
	}
	switch {
	case asPins && flags.json:
		warnMerged(stderr, flags.url, tools)
		err = writePinsJSON(stdout, pinsOf(tools, stderr))
	case asPins:
		warnMerged(stderr, flags.url, tools)
		err = writePins(stdout, pinsOf(tools, stderr))
	case flags.json:
		_, err = stdout.Write(toolsJSON(tools))
	default:
		err = writeTools(stdout, tools, terminal.Width(stdout))
	}
	if err != nil {
		return fail("tools", fmt.Errorf("write the list: %w", err), stderr)
	}
	for _, r := range tools.Refused {
		fmt.Fprintf(stderr, "causeway tools: left out the tool %q, whose definition is not valid: %s\n", r.Alias, terminal.Line(r.Reason))
	}
	showMissing(stderr, "tools", tools)
	return exitOK
}

// showMissing says which parts of the list could not be had.
func showMissing(stderr io.Writer, command string, tools *client.Tools) {
	if len(tools.Missing) == 0 {
		return
	}
	var parts []string
	for _, m := range tools.Missing {
		part := terminal.Line(m.Alias)
		if m.Reason != "" {
			part += " (" + terminal.Line(m.Reason) + ")"
		}
		parts = append(parts, part)
	}
	fmt.Fprintf(stderr, "causeway %s: the list of tools is partial; missing or stale: %s\n", command, strings.Join(parts, ", "))
}

// writeTools writes one line for each tool, in columns. Lines are cut at width
// characters; 0 leaves them whole.
func writeTools(w io.Writer, tools *client.Tools, width int) error {
	if len(tools.List) == 0 {
		_, err := fmt.Fprintln(w, "There are no tools.")
		return err
	}
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "NAME\tTITLE\tDESCRIPTION")
	for _, t := range tools.List {
		first, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		fmt.Fprintf(columns, "%s\t%s\t%s\n", terminal.Line(t.Name), terminal.Line(t.Title), terminal.Line(first))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for row := range strings.Lines(table.String()) {
		if _, err := fmt.Fprintln(w, terminal.Cut(strings.TrimRight(row, " \n"), width)); err != nil {
			return err
		}
	}
	return nil
}

// toolsJSON makes one result of all pages, with the definitions as they came.
func toolsJSON(tools *client.Tools) []byte {
	b := []byte(`{"tools":[`)
	for i, t := range tools.List {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, t.Raw...)
	}
	b = append(b, ']')
	if tools.Partial != nil {
		b = append(b, `,"_meta":{"`+mcp.MetaPartial+`":`...)
		b = append(b, tools.Partial...)
		b = append(b, '}')
	}
	return append(b, "}\n"...)
}
