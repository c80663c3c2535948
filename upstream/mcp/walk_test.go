package mcp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func all(s string) Span { return Span{0, len(s)} }

func TestMembers(t *testing.T) {
	type member struct{ Key, At, Value string }
	tests := []struct {
		name, in string
		want     []member
	}{
		{name: "empty", in: `{}`},
		{name: "blank", in: " { \n} "},
		{name: "not an object", in: `[{"a":1}]`},
		{name: "nothing"},
		{name: "all kinds", in: `{"a":1,"b":"x","c":[1,{"d":2}],"e":{"f":"}"},"g":null,"h":true,"i":-1.5e+3}`, want: []member{
			{"a", `"a":1`, `1`}, {"b", `"b":"x"`, `"x"`}, {"c", `"c":[1,{"d":2}]`, `[1,{"d":2}]`}, {"e", `"e":{"f":"}"}`, `{"f":"}"}`},
			{"g", `"g":null`, `null`}, {"h", `"h":true`, `true`}, {"i", `"i":-1.5e+3`, `-1.5e+3`}}},
		{name: "white space", in: "\t{ \"a\" :\r\n 1 , \"b\":2 }", want: []member{{"a", "\"a\" :\r\n 1", "1"}, {"b", `"b":2`, "2"}}},
		{name: "escapes", in: `{"\u0061\"\\":"\\\"","\ud83d\ude00":1,"\ud800x":2}`, want: []member{
			{`a"\`, `"\u0061\"\\":"\\\""`, `"\\\""`}, {"😀", `"\ud83d\ude00":1`, "1"}, {"\uFFFDx", `"\ud800x":2`, "2"}}},
		{name: "duplicates", in: `{"a":1,"a":2}`, want: []member{{"a", `"a":1`, "1"}, {"a", `"a":2`, "2"}}},
		{name: "cut", in: `{"a":1,"b":{"c":`, want: []member{{"a", `"a":1`, "1"}}},
		{name: "no comma", in: `{"a":1 "b":2}`, want: []member{{"a", `"a":1`, "1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := []byte(tt.in)
			var got []member
			for m := range Members(raw, all(tt.in)) {
				got = append(got, member{m.Key, string(m.At.In(raw)), string(m.Value.In(raw))})
				if first := Find(raw, all(tt.in), m.Key); m.Key != "a" && first != m.Value {
					t.Errorf("Find(%q) = %v, want %v", m.Key, first, m.Value)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("members differ (-want +got):\n%s", diff)
			}
			if at := Find(raw, all(tt.in), "none"); at.Ok() {
				t.Errorf("Find(none) = %v", at)
			}
		})
	}
}

func TestMembersStop(t *testing.T) {
	raw := []byte(`{"a":1,"b":2,"c":3}`)
	n := 0
	for m := range Members(raw, all(string(raw))) {
		if n++; m.Key == "b" {
			break
		}
	}
	for range Elements([]byte(`[1,2,3]`), Span{0, 7}) {
		n++
		break
	}
	if n != 3 {
		t.Errorf("read %d items, want 3", n)
	}
}

func TestElements(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{name: "empty", in: `[]`},
		{name: "not an array", in: `{"a":[1]}`},
		{name: "all kinds", in: ` [ 1, "]" ,[2,[3]],{"a":[4]}, null,false ]`, want: []string{`1`, `"]"`, `[2,[3]]`, `{"a":[4]}`, `null`, `false`}},
		{name: "cut", in: `[1,[2`, want: []string{`1`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for e := range Elements([]byte(tt.in), all(tt.in)) {
				got = append(got, tt.in[e.Start:e.End])
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("elements differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestString(t *testing.T) {
	tests := []struct {
		in, want string
		ok       bool
	}{
		{in: `"plain"`, want: "plain", ok: true},
		{in: `""`, ok: true},
		{in: `"\"\\\/\b\f\n\r\t"`, want: "\"\\/\b\f\n\r\t", ok: true},
		{in: `"caf\u00E9 \uD83D\uDE00 世"`, want: "café 😀 世", ok: true},
		{in: `"\ud83d\ud83d\ude00\ude00"`, want: "\uFFFD😀\uFFFD", ok: true},
		{in: `"\ud83d\n"`, want: "\uFFFD\n", ok: true},
		{in: `null`},
		{in: `1`},
		{in: `"`},
		{in: `"\u12"`},
		{in: `"\x"`},
		{in: `"\"`},
	}
	for _, tt := range tests {
		if got, ok := String([]byte(tt.in), all(tt.in)); got != tt.want || ok != tt.ok {
			t.Errorf("String(%s) = %q, %v, want %q, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
	if s, ok := String([]byte(`"a"`), Span{}); s != "" || ok {
		t.Errorf("String of an absent member = %q, %v", s, ok)
	}
}

// TestWalkAllocs holds that looking something up in a message makes no garbage.
func TestWalkAllocs(t *testing.T) {
	raw := []byte(`{"name":"x","title":"y","inputSchema":{"type":"object","properties":{}},"other":[1,2,3]}`)
	whole := Span{0, len(raw)}
	n := 0
	got := testing.AllocsPerRun(100, func() {
		for e := range Elements(raw, Find(raw, whole, "other")) {
			n += e.Start
		}
		for m := range Members(raw, Find(raw, whole, "inputSchema")) {
			n += m.At.Start
		}
	})
	if got != 0 || n == 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
