package mcp

import "strconv"

// Param is one member of params: a key and raw JSON.
type Param struct {
	Key   string
	Value []byte
}

// AppendRequest appends a request of revision 2026-07-28 that the gateway makes
// itself, with the `_meta` that the revision requires (basic/index, General
// fields) and the given params after it. clientInfo is raw JSON, left out when
// nil; capabilities too, an empty object when nil.
func AppendRequest(dst []byte, id int64, method string, clientInfo, capabilities []byte, params []Param) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	dst = append(dst, `,"method":`...)
	dst = AppendQuote(dst, method)
	dst = append(dst, `,"params":{"_meta":{"`+MetaProtocolVersion+`":"`+VersionModern+`"`...)
	if len(clientInfo) > 0 {
		dst = append(dst, `,"`+MetaClientInfo+`":`...)
		dst = append(dst, clientInfo...)
	}
	dst = append(dst, `,"`+MetaClientCapabilities+`":`...)
	if len(capabilities) > 0 {
		dst = append(dst, capabilities...)
	} else {
		dst = append(dst, "{}"...)
	}
	dst = append(dst, '}')
	for _, p := range params {
		dst = append(dst, ',')
		dst = append(AppendQuote(dst, p.Key), ':')
		dst = append(dst, p.Value...)
	}
	return append(dst, "}}"...)
}
