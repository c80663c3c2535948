package upstream

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// isBatch tells whether a message is a JSON array: a batch, which revision
// 2025-03-26 has (2025-03-26, basic, Batching).
func isBatch(raw []byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '['
}

// eachOf calls f with each message of a batch, until one fails.
func eachOf(raw []byte, f func(raw []byte) error) error {
	if !utf8.Valid(raw) || !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return linkFailure(ClassProtocol, false, errors.New("a batch is not valid JSON"))
	}
	for at := range mcp.Elements(raw, mcp.Span{Start: 0, End: len(raw)}) {
		if err := f(at.In(raw)); err != nil {
			return err
		}
	}
	return nil
}
