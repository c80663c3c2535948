package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// showNotification prints a notification of a running call: its progress, or a
// log message. Others are passed over.
func showNotification(w io.Writer, m *mcp.Message) {
	text := func(key string) string {
		s, _ := mcp.String(m.Raw, mcp.Find(m.Raw, m.Params, key))
		return terminal.Line(s)
	}
	raw := func(key string) string { return string(mcp.Find(m.Raw, m.Params, key).In(m.Raw)) }
	switch m.Method {
	case mcp.NotificationProgress:
		at := raw("progress")
		if total := raw("total"); total != "" {
			at += "/" + total
		}
		fmt.Fprintf(w, "[%s] %s\n", terminal.Line(at), text("message"))
	case mcp.NotificationMessage:
		fmt.Fprintf(w, "%s: %s\n", terminal.Line(m.Level.Value), terminal.Plain(raw("data")))
	}
}

// showResult prints the result of a call: its contents in order, then the
// structured content. Text that only repeats the structured content, as servers
// send it for older clients, is printed once.
func showResult(w io.Writer, m *mcp.Message) {
	structured := mcp.Find(m.Raw, m.Result, "structuredContent").In(m.Raw)
	for at := range mcp.Elements(m.Raw, mcp.Find(m.Raw, m.Result, "content")) {
		if text, ok := textOf(m.Raw, at); ok && structured != nil && sameJSON([]byte(text), structured) {
			continue
		}
		showBlock(w, m.Raw, at)
	}
	if structured != nil {
		fmt.Fprintln(w, terminal.Plain(indentJSON(structured)))
	}
}

// textOf gives the text of a content block of the type text.
func textOf(raw []byte, block mcp.Span) (string, bool) {
	if kind, _ := mcp.String(raw, mcp.Find(raw, block, "type")); kind != "text" {
		return "", false
	}
	return mcp.String(raw, mcp.Find(raw, block, "text"))
}

// showBlock prints one content block (server/tools, Tool Result).
func showBlock(w io.Writer, raw []byte, block mcp.Span) {
	text := func(obj mcp.Span, key string) string {
		s, _ := mcp.String(raw, mcp.Find(raw, obj, key))
		return s
	}
	switch kind := text(block, "type"); kind {
	case "text":
		fmt.Fprintln(w, terminal.Plain(text(block, "text")))
	case "image", "audio":
		fmt.Fprintf(w, "[%s, %s, %d bytes]\n", kind, terminal.Line(text(block, "mimeType")), base64Len(text(block, "data")))
	case "resource_link":
		label := text(block, "title")
		if label == "" {
			label = text(block, "name")
		}
		fmt.Fprintf(w, "→ %s <%s>\n", terminal.Line(label), terminal.Line(text(block, "uri")))
	case "resource":
		resource := mcp.Find(raw, block, "resource")
		fmt.Fprintf(w, "→ <%s>\n", terminal.Line(text(resource, "uri")))
		if body := text(resource, "text"); body != "" {
			fmt.Fprintln(w, terminal.Indent(terminal.Plain(body), "  "))
		} else {
			fmt.Fprintf(w, "  [%s, %d bytes]\n", terminal.Line(text(resource, "mimeType")), base64Len(text(resource, "blob")))
		}
	default:
		fmt.Fprintln(w, terminal.Plain(string(block.In(raw))))
	}
}

// base64Len gives the number of bytes behind Base64 text.
func base64Len(s string) int { return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(s, "="))) }

// sameJSON tells whether two JSON texts are equal but for white space.
func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// indentJSON lays JSON out for reading; numbers stay as they are written.
func indentJSON(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}
