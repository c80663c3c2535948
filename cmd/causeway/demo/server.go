package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Hints for caches (server/utilities/caching): how long a list and what a read
// gave may be used.
const (
	listTTL = time.Minute
	readTTL = 30 * time.Second
)

// version is that of all sample servers.
const version = "1.0.0"

// newServer makes a server without features. readScope and readTTL are the cache
// hints of resources/read; lists are public and good for listTTL.
func newServer(name, title, instructions string, opts Options, more mcp.ServerOptions, readScope string, readTTL time.Duration) *mcp.Server {
	more.Instructions = instructions
	more.Logger = opts.Logger
	// The SDK would advertise logging by default, which these servers do not do.
	more.Capabilities = &mcp.ServerCapabilities{}
	more.SetCacheable = func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
		if _, ok := req.(*mcp.ReadResourceRequest); ok {
			c.TTLMs, c.CacheScope = int(readTTL.Milliseconds()), readScope
			return
		}
		c.TTLMs, c.CacheScope = int(listTTL.Milliseconds()), "public"
	}
	return mcp.NewServer(&mcp.Implementation{Name: name, Title: title, Version: version}, &more)
}

// readOnly marks a tool that changes nothing and reaches nothing outside.
func readOnly() *mcp.ToolAnnotations {
	closed := false
	return &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
}

// additive marks a tool that adds something and destroys nothing. openWorld
// tells that it would reach others, such as a hotel or the reader of a mail.
func additive(openWorld bool) *mcp.ToolAnnotations {
	destructive := false
	return &mcp.ToolAnnotations{DestructiveHint: &destructive, OpenWorldHint: &openWorld}
}

// text makes the content of a result from one text block.
func text(format string, args ...any) []mcp.Content {
	return []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}
}

// jsonResource makes the answer to resources/read from a value.
func jsonResource(uri string, v any) (*mcp.ReadResourceResult, error) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", uri, err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
		{URI: uri, MIMEType: "application/json", Text: string(body)},
	}}, nil
}

// notFound is the error for a URI that names nothing (server/resources, Error
// Handling). why helps the caller to find what does exist.
func notFound(uri, why string) error {
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return fmt.Errorf("encode the URI: %w", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found: " + why, Data: data}
}

// invalidParams is the error for arguments that a request must not have.
func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// parseDate reads a calendar date. what names it in the error.
func parseDate(what, value string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, value)
	if err != nil {
		return t, fmt.Errorf("%s %q is not a date; write it as YYYY-MM-DD, such as 2026-06-15", what, value)
	}
	return t, nil
}

// maxCompletions is the most values that one answer to completion/complete may
// hold (server/utilities/completion).
const maxCompletions = 100

// complete gives the candidates that begin with the value typed so far, without
// regard to letter case.
func complete(candidates []string, typed string) *mcp.CompleteResult {
	values := []string{} // never null on the wire
	for _, c := range candidates {
		if len(c) >= len(typed) && strings.EqualFold(c[:len(typed)], typed) {
			values = append(values, c)
		}
	}
	total := len(values)
	if total > maxCompletions {
		values = values[:maxCompletions]
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
		Values: values, Total: total, HasMore: total > len(values),
	}}
}
