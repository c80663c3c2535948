package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/cmd/causeway/client"
	"github.com/causeway-mcp/causeway/cmd/causeway/elicit"
)

// defaultURL is where `causeway demo` and `causeway serve` listen.
const defaultURL = "http://127.0.0.1:8080/mcp"

// defaultWait is how long the client commands wait for the next sign of life.
const defaultWait = time.Minute

// clientFlags are the flags of the commands that talk to a server.
type clientFlags struct {
	url     string
	header  headerFlag
	timeout time.Duration
	json    bool
}

func (f *clientFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.url, "url", defaultURL, "`URL` of the MCP endpoint")
	fs.Var(&f.header, "header", "a request header, as `'Name: value'`; may be repeated")
	fs.DurationVar(&f.timeout, "timeout", defaultWait, "longest wait for an answer, or for the next progress; 0 waits forever")
	fs.BoolVar(&f.json, "json", false, "print JSON, byte for byte as the server sent it")
}

// client makes the client that the flags describe.
func (f *clientFlags) client() (*client.Client, error) {
	if f.timeout < 0 {
		return nil, errors.New("--timeout must not be negative")
	}
	header, err := f.header.parse()
	if err != nil {
		return nil, fmt.Errorf("--header: %w", err)
	}
	info, _ := debug.ReadBuildInfo()
	c, err := client.New(client.Options{URL: f.url, Header: header, Wait: f.timeout, Version: version(info)})
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	return c, nil
}

// headerFlag collects request headers. They are read after the flags, since the
// flag package would repeat a faulty value, which may be a secret, in its error.
type headerFlag []string

// String is for the flag package.
func (*headerFlag) String() string { return "" }

// Set takes one header.
func (h *headerFlag) Set(s string) error {
	*h = append(*h, s)
	return nil
}

// parse reads the headers. The error names the header, and not its value.
func (h headerFlag) parse() (http.Header, error) {
	header := http.Header{}
	for _, s := range h {
		name, value, ok := strings.Cut(s, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !isToken(name) {
			return nil, errors.New("a header must look like 'Name: value'")
		}
		switch canonical := http.CanonicalHeaderKey(name); {
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F }):
			return nil, fmt.Errorf("the value of %s has a control character", canonical)
		case strings.HasPrefix(canonical, "Mcp-"), canonical == "Accept", canonical == "Host",
			canonical == "Content-Type", canonical == "Content-Length", canonical == "Transfer-Encoding", canonical == "Connection":
			return nil, fmt.Errorf("the protocol sets %s itself", canonical)
		default:
			header.Add(canonical, value)
		}
	}
	return header, nil
}

// isToken tells whether a header may have that name (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7F || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// answerFlag collects prepared answers.
type answerFlag []elicit.Given

// String is for the flag package.
func (*answerFlag) String() string { return "" }

// Set takes one answer.
func (a *answerFlag) Set(s string) error {
	g, err := elicit.ParseGiven(s)
	if err != nil {
		return err
	}
	*a = append(*a, g)
	return nil
}

// flagsFirst moves flags before the operands, so that a flag is one wherever it
// stands; what follows "--" stays an operand.
func flagsFirst(fs *flag.FlagSet, args []string) []string {
	var flags, operands []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			operands = append(operands, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			operands = append(operands, arg)
			continue
		}
		flags = append(flags, arg)
		name := strings.TrimLeft(arg, "-")
		if f := fs.Lookup(name); f != nil && !isBool(f) && i+1 < len(args) {
			i++
			flags = append(flags, args[i])
		}
	}
	return append(append(flags, "--"), operands...)
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// checkArguments holds that a tool's arguments are a JSON object. The error
// shows the place where they are not.
func checkArguments(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("the arguments are not valid UTF-8")
	}
	// What is allowed in a message passes here: duplicate names, and surrogate
	// escapes without a partner.
	dec := jsontext.NewDecoder(strings.NewReader(s), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := dec.ReadValue()
	kind, end := v.Kind(), dec.InputOffset()
	rest := strings.TrimLeft(s[end:], " \t\r\n")
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the arguments are empty; a tool without arguments gets {}")
	case err != nil:
		return showPlace(s, err, end)
	case rest != "":
		return showPlace(s, errors.New("there is more after the end of the value"), int64(len(s)-len(rest)))
	case kind != '{':
		return fmt.Errorf("the arguments must be a JSON object, such as {\"city\":\"Paris\"}, and not %s", kindName(kind))
	}
	return nil
}

// showPlace adds the line in which JSON is wrong, with a mark below the place.
func showPlace(s string, err error, offset int64) error {
	reason := err.Error()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = syntax.ByteOffset
		reason = syntax.Err.Error()
	}
	at := min(int(offset), len(s))
	start := strings.LastIndexByte(s[:at], '\n') + 1
	end := len(s)
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
		end = at + i
	}
	const around = 30 // characters to show on each side
	before, after := []rune(s[start:at]), []rune(s[at:end])
	before = before[max(0, len(before)-around):]
	after = after[:min(len(after), around)]
	line := bytes.Count([]byte(s[:at]), []byte("\n")) + 1
	column := utf8.RuneCountInString(s[start:at]) + 1
	return fmt.Errorf("the arguments are not JSON: line %d, column %d: %s\n  %s%s\n  %s^",
		line, column, reason, string(before), string(after), strings.Repeat(" ", len(before)))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "a boolean"
}
