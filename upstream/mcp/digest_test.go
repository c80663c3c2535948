package mcp

import (
	"crypto/sha256"
	"testing"
)

func TestCanonicalDigest(t *testing.T) {
	digest := func(t *testing.T, s string) [sha256.Size]byte {
		t.Helper()
		d, err := CanonicalDigest([]byte(s))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return d
	}
	same := [][]string{
		{`{"a":1,"b":[true,null,"x"]}`, ` { "b" : [ true , null,"\u0078" ] , "\u0061":1 } `, "{\n\"b\":[true,null,\"x\"],\"a\":1}"},
		{`"😀/"`, `"\ud83d\ude00\/"`, `"\uD83D\uDE00/"`},
		{`"\ud800"`, `"\uD800"`},
		{`{"o":{"b":1,"a":2}}`, `{"o":{"a":2,"b":1}}`},
		{`{}`, `{ }`},
		{`{"a":1,"b":0,"a":2}`, `{"b":0,"a":1,"a":2}`},
	}
	for _, group := range same {
		for _, s := range group[1:] {
			if digest(t, s) != digest(t, group[0]) {
				t.Errorf("%s and %s differ", group[0], s)
			}
		}
	}
	different := []string{
		``, `null`, `true`, `false`, `0`, `-0`, `0.0`, `1`, `1.0`, `1e0`, `10`, `9007199254740992`, `9007199254740993`, `1e400`, `1e401`,
		`""`, `"null"`, `"1"`, `"\ud800"`, `"\ud801"`, `"\udc00"`, `"\ufffd"`, `"a"`, `"A"`,
		`[]`, `[[]]`, `[1]`, `[1,2]`, `[2,1]`, `[12]`, `[[1],2]`, `[[1,2]]`, `["1,2"]`, `["a","b"]`, `["ab"]`, `["a\"","b"]`,
		`{}`, `{"a":1}`, `{"a":"1"}`, `{"A":1}`, `{"a":2}`, `{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":{"b":1}}`, `{"a":[{"b":1}]}`, `[{"a":1}]`, `{"a":1,"b":2}`, `{"a":2,"b":1}`,
		`{"":""}`, `{"a":{}}`, `{"a":null}`,
	}
	seen := map[[sha256.Size]byte]string{}
	for _, s := range different {
		d := digest(t, s)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have the same digest", s, other)
		}
		seen[d] = s
	}
	if digest(t, "") != sha256.Sum256(nil) {
		t.Error("the digest of no value is not that of the empty input")
	}
	for _, bad := range []string{` `, `{`, `1 2`, `{"a"}`, "\"\xff\""} {
		if _, err := CanonicalDigest([]byte(bad)); err == nil {
			t.Errorf("%q has a digest", bad)
		}
	}
}
