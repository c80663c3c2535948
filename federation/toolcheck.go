package federation

import "github.com/causeway-mcp/causeway/upstream/mcp"

// checkTool says whether a tool may be listed. A reason means that it must be
// left out: an `x-mcp-header` annotation breaks the rules, its input schema is
// not a schema of an object, its output schema is not a schema, or they are
// larger than their bounds. A note is worth a log line, and the tool stays: its
// schema has a dialect that is not known here and was not checked.
//
// Schemas are checked against their meta-schema only; no reference in them is
// followed, so none outside the document is ever loaded.
func checkTool(raw []byte) (params []mcp.ParamHeader, reason, note string) { panic("stub") }
