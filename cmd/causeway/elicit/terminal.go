package elicit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
)

// Terminal asks somebody at a terminal. It is not for concurrent use.
type Terminal struct {
	In  *terminal.Lines
	Out io.Writer
	Who string // who asks: a tool and its server
}

// stopped ends the questions early with an action.
type stopped struct{ action string }

func (s stopped) Error() string { return "the user chose to " + s.action }

// Answer shows one input request and gives the raw result. The end of the input
// counts as cancelling; the error is that of ctx or of a request that cannot be
// shown.
func (t *Terminal) Answer(ctx context.Context, method string, params []byte) ([]byte, error) {
	r, err := ParseRequest(method, params)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(t.Out, "\n%s asks:\n\n%s\n\n", terminal.Line(t.Who), terminal.Indent(terminal.Plain(r.Message), "  "))
	var raw []byte
	if r.URL != nil {
		raw, err = t.page(ctx, r)
	} else {
		raw, err = t.form(ctx, r.Fields)
	}
	if s, ok := errors.AsType[stopped](err); ok {
		return answer(s.action, nil), nil
	}
	return raw, err
}

// form asks for each field, shows the whole answer, and asks whether to send it
// (client/elicitation, User Interaction Model).
func (t *Terminal) form(ctx context.Context, fields []Field) ([]byte, error) {
	if len(fields) > 0 {
		fmt.Fprint(t.Out, "An empty line takes the value in brackets. :none leaves an optional field out,\n"+
			":decline says no, :cancel stops without an answer.\n")
	}
	values := map[string][]byte{}
	for _, f := range fields {
		if f.Default != nil {
			values[f.Key] = f.Default
		}
	}
	for {
		for i := range fields {
			if err := t.ask(ctx, &fields[i], values); err != nil {
				return nil, err
			}
		}
		fmt.Fprint(t.Out, "\nYour answer:\n")
		for _, f := range fields {
			if value, ok := values[f.Key]; ok {
				fmt.Fprintf(t.Out, "  %s: %s\n", terminal.Line(f.Key), terminal.Line(f.show(value)))
			} else {
				fmt.Fprintf(t.Out, "  %s: left out\n", terminal.Line(f.Key))
			}
		}
		if len(fields) == 0 {
			fmt.Fprint(t.Out, "  yes, without further values\n")
		}
		choice, err := t.decide(ctx, "Send it? [a]ccept, [e]dit, [d]ecline or [c]ancel", "aedc")
		if err != nil {
			return nil, err
		}
		if choice == 'a' {
			return answer(Accept, contentOf(fields, values)), nil
		}
	}
}

// ask asks for one field until what is typed fits.
func (t *Terminal) ask(ctx context.Context, f *Field, values map[string][]byte) error {
	fmt.Fprintf(t.Out, "\n%s (%s)\n", terminal.Line(f.Title), terminal.Line(f.hint()))
	if f.Description != "" {
		fmt.Fprintln(t.Out, terminal.Indent(terminal.Plain(f.Description), "  "))
	}
	for i, c := range f.choices {
		label := terminal.Line(c.title)
		if label == "" {
			label = terminal.Line(c.value)
		}
		fmt.Fprintf(t.Out, "  %d) %s\n", i+1, label)
	}
	for {
		current, has := values[f.Key]
		prompt := "  " + terminal.Line(f.Key)
		if has {
			prompt += " [" + terminal.Line(f.show(current)) + "]"
		}
		typed, err := t.read(ctx, prompt)
		if err != nil {
			return err
		}
		switch {
		case typed == "" && has, typed == "" && !f.Required:
			return nil
		case typed == ":none" && !f.Required:
			delete(values, f.Key)
			return nil
		case typed == "", typed == ":none":
			fmt.Fprint(t.Out, "  a value is needed\n")
			continue
		}
		value, err := f.Parse(typed)
		if err == nil {
			values[f.Key] = value
			return nil
		}
		fmt.Fprintf(t.Out, "  %s\n", terminal.Line(err.Error()))
	}
}

// page shows the URL of a page and asks for consent. Nothing is opened or
// fetched (client/elicitation, Safe URL Handling).
func (t *Terminal) page(ctx context.Context, r *Request) ([]byte, error) {
	fmt.Fprintf(t.Out, "It wants you to open this page; nothing has been opened yet:\n\n  URL:  %s\n  Host: %s\n",
		terminal.Plain(r.RawURL), terminal.Plain(r.URL.Host))
	for _, warning := range warnings(r) {
		fmt.Fprintf(t.Out, "  Careful: %s\n", warning)
	}
	choice, err := t.decide(ctx, "\nOpen it only if you trust that host. [a]ccept, [d]ecline or [c]ancel", "adc")
	if err != nil {
		return nil, err
	}
	if choice == 'a' {
		if _, err := t.read(ctx, "Open the page in your browser, and press Enter when you are done there"); err != nil {
			return nil, err
		}
	}
	return answer(Accept, nil), nil
}

// warnings says what makes an address suspicious.
func warnings(r *Request) []string {
	var list []string
	host := r.URL.Hostname()
	if r.URL.Scheme != "https" && !isLoopback(host) {
		list = append(list, "the page is not protected by TLS (https)")
	}
	if r.URL.User != nil {
		list = append(list, "what stands before the @ is not the host")
	}
	for label := range strings.SplitSeq(host, ".") {
		if strings.HasPrefix(strings.ToLower(label), "xn--") || strings.ContainsFunc(label, func(c rune) bool { return c > 0x7F }) {
			list = append(list, "the host has letters that may look like others (Punycode)")
			break
		}
	}
	return list
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// decide asks until one of the letters is typed, or the word that begins with
// it. Declining and cancelling end the questions.
func (t *Terminal) decide(ctx context.Context, question, letters string) (byte, error) {
	for {
		typed, err := t.read(ctx, question)
		if err != nil {
			return 0, err
		}
		word := strings.ToLower(strings.TrimSpace(typed))
		for _, full := range []string{Accept, "edit", Decline, Cancel} {
			if word == "" || word != full && word != full[:1] || !strings.Contains(letters, full[:1]) {
				continue
			}
			if full == Decline || full == Cancel {
				return 0, stopped{full}
			}
			return full[0], nil
		}
		fmt.Fprintf(t.Out, "  please type one of the letters %s\n", strings.Join(strings.Split(letters, ""), ", "))
	}
}

// read shows a prompt and reads a line.
func (t *Terminal) read(ctx context.Context, prompt string) (string, error) {
	fmt.Fprintf(t.Out, "%s: ", prompt)
	typed, err := t.In.Next(ctx)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
		fmt.Fprint(t.Out, "\nThe input has ended: cancelled.\n")
		return "", stopped{Cancel}
	case err != nil:
		fmt.Fprintln(t.Out) // what is said next begins on a line of its own
		return "", err
	}
	switch strings.TrimSpace(typed) {
	case ":decline":
		return "", stopped{Decline}
	case ":cancel":
		return "", stopped{Cancel}
	}
	return typed, nil
}
