package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/causeway-mcp/causeway/cmd/causeway/client"
	"github.com/causeway-mcp/causeway/cmd/causeway/elicit"
	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// runCall is `causeway call`.
func runCall(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return call(ctx, args, stdin, terminal.IsTerminal(stdin), stdout, stderr)
}

// call calls one tool. canAsk tells whether somebody at stdin can be asked.
func call(ctx context.Context, args []string, stdin io.Reader, canAsk bool, stdout, stderr io.Writer) int {
	var flags clientFlags
	var answers answerFlag
	fs := newFlags("call", "NAME ['{arguments}']",
		"Calls a tool of an MCP server and prints its result. Progress goes to standard error.\n"+
			"What the server asks is answered at the terminal, or in advance with --answer.\n"+
			"The exit code is 1 when the call failed or the tool reports an error.")
	flags.register(fs)
	fs.Var(&answers, "answer", `answer what the server asks with this JSON, such as
{"action":"accept","content":{"confirm":true}}; the actions are accept,
decline and cancel; repeat it for several questions, the last answers the rest`)
	if code, ok := parseFlags(fs, flagsFirst(fs, args), 1, 2, stdout, stderr); !ok {
		return code
	}
	name, arguments := fs.Arg(0), "{}"
	if fs.NArg() == 2 {
		arguments = fs.Arg(1)
	}
	if err := checkArguments(arguments); err != nil {
		fmt.Fprintf(stderr, "causeway call: %v\n", err)
		return exitUsage
	}
	c, err := flags.client()
	if err != nil {
		fmt.Fprintf(stderr, "causeway call: %v\n", err)
		return exitUsage
	}
	defer c.Close()

	who := name + " at " + c.Name()
	var asker client.Answerer = &elicit.Prepared{Answers: answers, Out: stderr, Who: who}
	if canAsk && len(answers) == 0 {
		asker = &elicit.Terminal{In: terminal.NewLines(stdin), Out: stderr, Who: who}
	}
	m, err := callTool(ctx, c, &client.Call{
		Tool: name, Arguments: []byte(arguments), Answerer: asker,
		Notify: func(m *mcp.Message) { showNotification(stderr, m) },
	}, stderr)
	if err != nil {
		return fail("call", err, stderr)
	}
	if flags.json {
		fmt.Fprintf(stdout, "%s\n", m.Result.In(m.Raw))
	} else {
		showResult(stdout, m)
	}
	if string(m.IsError.In(m.Raw)) == "true" {
		fmt.Fprintf(stderr, "causeway call: the tool %s reports an error\n", terminal.Line(name))
		return exitFailure
	}
	return exitOK
}

// callTool looks the tool up, since its definition says what goes into headers,
// and calls it.
func callTool(ctx context.Context, c *client.Client, call *client.Call, stderr io.Writer) (*mcp.Message, error) {
	if err := define(ctx, c, call, stderr); err != nil {
		return nil, err
	}
	m, err := c.Call(ctx, call)
	// The definition may have changed between the list and the call
	// (basic/transports/streamable-http, Client Behavior).
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == mcp.CodeHeaderMismatch {
		if err := define(ctx, c, call, stderr); err != nil {
			return nil, err
		}
		return c.Call(ctx, call)
	}
	return m, err
}

// define finds the definition of the tool that is called. A tool that is not in
// a complete list does not exist; with a part missing, the server decides.
func define(ctx context.Context, c *client.Client, call *client.Call, stderr io.Writer) error {
	tools, err := c.Tools(ctx)
	if err != nil {
		return fmt.Errorf("list the tools: %w", err)
	}
	if call.Definition = tools.Find(call.Tool); call.Definition != nil {
		return nil
	}
	for _, refused := range tools.Refused {
		if refused.Alias == call.Tool {
			return fmt.Errorf("the tool %s must not be called, since its definition is not valid: %s", call.Tool, refused.Reason)
		}
	}
	if len(tools.Missing) > 0 {
		showMissing(stderr, "call", tools)
		return nil
	}
	message := fmt.Sprintf("%s has no tool %q", c.Name(), call.Tool)
	if similar := tools.Similar(call.Tool); len(similar) > 0 {
		message += "; did you mean " + strings.Join(similar, " or ") + "?"
	} else {
		message += fmt.Sprintf(`; "causeway tools" lists the %d there are`, len(tools.List))
	}
	return errors.New(message)
}

// fail reports an error that ended a client command.
func fail(command string, err error, stderr io.Writer) int {
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(stderr, "causeway %s: cancelled\n", command)
		return exitFailure
	}
	fmt.Fprintf(stderr, "causeway %s: %s\n", command, terminal.Plain(err.Error()))
	if e, ok := errors.AsType[*client.Error](err); ok && e.Data != nil {
		fmt.Fprintf(stderr, "  data: %s\n", terminal.Plain(string(e.Data)))
	}
	return exitFailure
}
