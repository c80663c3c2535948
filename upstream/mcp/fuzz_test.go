package mcp

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"
)

// seed adds the messages of the golden files.
func seed(f *testing.F, add func(raw []byte)) {
	for _, path := range []string{"testdata/requests.txtar", "testdata/messages.txtar"} {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range ar.Files {
			if bytes.HasPrefix(file.Data, []byte("{")) {
				add(bytes.TrimSpace(file.Data))
			}
		}
	}
}

// FuzzParseRequest holds that encoding/json finds the same in every message that
// is accepted, and that it takes nothing for JSON that was refused as such.
func FuzzParseRequest(f *testing.F) {
	seed(f, func(raw []byte) { f.Add(raw) })
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		r, err := ParseRequest(raw, 100)
		if !bytes.Equal(raw, before) {
			t.Fatal("the message was changed")
		}
		valid := json.Valid(raw) && utf8.Valid(raw)
		if err != nil {
			if valid && err.Code != CodeInvalidRequest {
				t.Errorf("valid JSON was refused with %v", err)
			}
			if id := r.ID.In(raw); id != nil && (!json.Valid(id) || !validID(id)) {
				t.Errorf("id is %s", id)
			}
			return
		}
		if !valid {
			t.Fatal("what is not JSON was accepted")
		}
		whole := membersOf(t, raw)
		params := membersOf(t, whole["params"])
		meta, ref := membersOf(t, params["_meta"]), membersOf(t, params["ref"])
		checkSpan(t, "id", r.ID.In(raw), whole["id"])
		checkSpan(t, "params", r.Params.In(raw), whole["params"])
		checkSpan(t, "arguments", r.Arguments.In(raw), params["arguments"])
		checkSpan(t, "_meta", r.Meta.In(raw), params["_meta"])
		checkSpan(t, "progressToken", r.Meta.ProgressToken.In(raw), meta[MetaProgressToken])
		checkText(t, "method", Text{Value: r.Method, IsString: true}, whole["method"])
		checkText(t, "name", r.Name, params["name"])
		checkText(t, "uri", r.URI, params["uri"])
		checkText(t, "taskId", r.TaskID, params["taskId"])
		checkText(t, "ref.name", r.Ref.Name, ref["name"])
		checkText(t, "protocolVersion", r.Meta.ProtocolVersion, meta[MetaProtocolVersion])
	})
}

// membersOf decodes an object as Go programs usually do; nil for anything else.
func membersOf(t *testing.T, raw []byte) map[string]json.RawMessage {
	t.Helper()
	if raw == nil || bytes.TrimLeft(raw, " \t\r\n")[0] != '{' {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return m
}

func checkSpan(t *testing.T, name string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s = %s, encoding/json finds %s", name, got, want)
	}
}

func checkText(t *testing.T, name string, got Text, want json.RawMessage) {
	t.Helper()
	var s string
	isString := len(want) > 0 && want[0] == '"'
	if isString {
		if err := json.Unmarshal(want, &s); err != nil {
			t.Fatal(err)
		}
	}
	if got.IsString != isString || got.Value != s {
		t.Errorf("%s = %q (%v), encoding/json finds %s", name, got.Value, got.IsString, want)
	}
}

func FuzzParseMessage(f *testing.F) {
	seed(f, func(raw []byte) { f.Add(raw) })
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ParseMessage(raw, 100)
		if err != nil {
			return
		}
		if !json.Valid(raw) || !utf8.Valid(raw) {
			t.Fatal("what is not JSON was accepted")
		}
		whole := membersOf(t, raw)
		for name, span := range map[string]Span{
			"id": m.ID, "params": m.Params, "result": m.Result, "error": m.Error, "_meta": m.Meta, "items": m.Items, "data": m.ErrorData,
			"inputRequests": m.InputRequests, "subscription": m.SubscriptionID, "progress": m.ProgressToken, "cursor": m.NextCursor.Span,
		} {
			if span.Ok() && !json.Valid(span.In(raw)) {
				t.Errorf("%s is %s", name, span.In(raw))
			}
		}
		switch m.Kind {
		case KindResult:
			checkSpan(t, "result", m.Result.In(raw), whole["result"])
			result := membersOf(t, whole["result"])
			if m.ItemsKey == "" {
				checkSpan(t, "items", m.Items.In(raw), nil)
			} else {
				checkSpan(t, "items", m.Items.In(raw), result[m.ItemsKey])
			}
			checkText(t, "resultType", m.ResultType, result["resultType"])
		case KindError:
			checkSpan(t, "error", m.Error.In(raw), whole["error"])
		case KindNotification, KindRequest:
			checkText(t, "method", Text{Value: m.Method, IsString: true}, whole["method"])
			checkText(t, "uri", m.URI, membersOf(t, whole["params"])["uri"])
		default:
			t.Errorf("kind = %d", m.Kind)
		}
	})
}

// FuzzMembers holds that walking over any bytes ends without a panic, and that
// it finds in JSON what encoding/json finds.
func FuzzMembers(f *testing.F) {
	seed(f, func(raw []byte) { f.Add(raw, 0, len(raw)) })
	f.Add([]byte(`{"a":[1,{"b":"\"}]"}],"\u0063":"\ud800\\"}`), 0, 42)
	f.Add([]byte(`{"a":`), 0, 5)
	f.Fuzz(func(t *testing.T, raw []byte, start, end int) {
		at := Span{start, end}
		for m := range Members(raw, at) {
			if !m.At.Ok() || m.Value.Start < m.At.Start || m.Value.End != m.At.End || m.Value.End > end {
				t.Fatalf("member at %v with value at %v", m.At, m.Value)
			}
			Find(raw, at, m.Key)
			String(raw, m.Value)
			for e := range Elements(raw, m.Value) {
				String(raw, e)
			}
		}
		for e := range Elements(raw, at) {
			if e.Start < start || e.End > end {
				t.Fatalf("element at %v", e)
			}
		}
		if !json.Valid(raw) {
			return
		}
		want := membersOf(t, raw)
		got := map[string]json.RawMessage{}
		for m := range Members(raw, Span{0, len(raw)}) {
			got[m.Key] = m.Value.In(raw)
		}
		if utf8.Valid(raw) && len(got) != len(want) {
			t.Errorf("%d members, encoding/json finds %d", len(got), len(want))
		}
		for k, v := range want {
			if utf8.Valid(raw) && !bytes.Equal(got[k], v) {
				t.Errorf("%q = %s, encoding/json finds %s", k, got[k], v)
			}
		}
	})
}

// FuzzEdits holds that a message stays JSON whatever members are set and
// removed, and then says what was asked for.
func FuzzEdits(f *testing.F) {
	seed(f, func(raw []byte) { f.Add(raw, "params", "method", "x", uint8(3)) })
	f.Add([]byte(`{"a":1,"b":2,"a":3}`), "a", "b", "c", uint8(7))
	f.Fuzz(func(t *testing.T, raw []byte, k1, k2, k3 string, what uint8) {
		if !json.Valid(raw) || !utf8.Valid(raw) || !utf8.ValidString(k1+k2+k3) || membersOf(t, raw) == nil {
			return
		}
		if k1 == k2 || k2 == k3 || k1 == k3 {
			return
		}
		whole := Span{0, len(raw)}
		var e Edits
		want := membersOf(t, raw)
		for i, k := range []string{k1, k2, k3} {
			switch what >> (2 * i) & 3 {
			case 1:
				e.RemoveMember(raw, whole, k)
				delete(want, k)
			case 2, 3:
				e.SetMember(raw, whole, k, []byte(`[7]`))
				want[k] = json.RawMessage(`[7]`)
			}
		}
		out := e.AppendTo(nil, raw)
		if !json.Valid(out) {
			t.Fatalf("%s is no JSON", out)
		}
		got := membersOf(t, out)
		if len(got) != len(want) {
			t.Errorf("%s has %d members, want %d", out, len(got), len(want))
		}
		for k, v := range want {
			if !bytes.Equal(got[k], v) {
				t.Errorf("%q = %s, want %s", k, got[k], v)
			}
		}
	})
}

// FuzzHeader holds that every string arrives as it was sent, in characters that
// a header may have, and that no value makes decoding fail badly.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{"", "a", " a", "世", "=?base64?eA==?=", "a\r\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := DecodeHeader(s); err == nil && !utf8.ValidString(v) {
			t.Errorf("DecodeHeader(%q) = %q", s, v)
		}
		v := EncodeHeader(s)
		for i := range len(v) {
			if v[i] < ' ' || v[i] > '~' {
				t.Fatalf("EncodeHeader(%q) = %q", s, v)
			}
		}
		if v == "" || v[0] == ' ' || v[len(v)-1] == ' ' {
			t.Errorf("EncodeHeader(%q) = %q, which is trimmed on the way", s, v)
		}
		got, err := DecodeHeader(v)
		if utf8.ValidString(s) && (err != nil || got != s) {
			t.Errorf("DecodeHeader(%q) = %q, %v, want %q", v, got, err, s)
		}
	})
}

// FuzzParamHeaders holds that reading annotations of any schema, and values by
// them, ends without a panic and only gives what the rules allow.
func FuzzParamHeaders(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"o":{"properties":{"n":{"x-mcp-header":"N","type":["integer","null"]}}}}}`), []byte(`{"a":"x","o":{"n":42.0}}`))
	f.Add([]byte(`{"items":{"x-mcp-header":"A"},"x":"\u0078"}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		params, err := ParamHeaders(schema)
		if err != nil && params != nil {
			t.Errorf("annotations %v with error %v", params, err)
		}
		for _, p := range params {
			if p.Name == "" || len(p.Path) == 0 || p.Type != "string" && p.Type != "integer" && p.Type != "boolean" {
				t.Errorf("annotation %+v", p)
			}
			v, ok, err := p.Value(args)
			if (ok || v != "") && err != nil || ok && v == "" {
				t.Errorf("Value() = %q, %v, %v", v, ok, err)
			}
		}
	})
}

// FuzzCanonicalDigest holds that white space and the order of distinct members
// make no difference.
func FuzzCanonicalDigest(f *testing.F) {
	seed(f, func(raw []byte) { f.Add(raw) })
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, err := CanonicalDigest(raw)
		if len(raw) == 0 {
			return
		}
		if (err == nil) != (json.Valid(raw) && utf8.Valid(raw)) {
			t.Fatalf("CanonicalDigest: %v", err)
		}
		if err != nil {
			return
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, raw, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		if got, err := CanonicalDigest(indented.Bytes()); err != nil || got != want {
			t.Errorf("indented: %x, %v, want %x", got, err, want)
		}
	})
}
