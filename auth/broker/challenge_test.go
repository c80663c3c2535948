package broker

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChallenges(t *testing.T) {
	const place = "https://mcp.example.com/.well-known/oauth-protected-resource"
	meta := bearer{ResourceMetadata: place}
	tests := []struct {
		name   string
		values []string
		want   bearer
	}{
		{"nothing", nil, bearer{}},
		{"alone", []string{"Bearer"}, bearer{}},
		{"quoted", []string{`Bearer resource_metadata="` + place + `"`}, meta},
		{"all", []string{`Bearer error="insufficient_scope", scope="a b", resource_metadata="` + place + `", error_description="x, y=z"`}, bearer{"insufficient_scope", []string{"a", "b"}, place}},
		{"a token", []string{`Bearer error=invalid_token`}, bearer{Error: "invalid_token"}},
		{"small letters", []string{`bearer RESOURCE_METADATA="` + place + `"`}, meta},
		{"spaces", []string{"Bearer\t scope = \"a\"  ,\terror=\"x\""}, bearer{Error: "x", Scopes: []string{"a"}}},
		{"commas", []string{`, , Bearer , scope="a",, error=x ,`}, bearer{Error: "x", Scopes: []string{"a"}}},
		{"escaped", []string{`Bearer error="a\"b\\c"`}, bearer{Error: `a"b\c`}},
		{"after another scheme", []string{`Basic realm="a, Bearer scope=\"no\"", Bearer scope="yes"`}, bearer{Scopes: []string{"yes"}}},
		{"after a token68", []string{`Negotiate abc/def==, Bearer scope=yes`}, bearer{Scopes: []string{"yes"}}},
		{"after a padded token68", []string{`Negotiate abcdef==, Bearer scope=yes`}, bearer{Scopes: []string{"yes"}}},
		{"after a scheme alone", []string{`Negotiate, Bearer scope=yes`}, bearer{Scopes: []string{"yes"}}},
		{"in another line", []string{`Basic realm="x"`, `Bearer scope=yes`}, bearer{Scopes: []string{"yes"}}},
		{"the first of two", []string{`Bearer scope=yes, Bearer scope=no`}, bearer{Scopes: []string{"yes"}}},
		{"a parameter twice", []string{`Bearer scope=yes, scope=no`}, bearer{Scopes: []string{"yes"}}},
		{"no end of a text", []string{`Bearer error=x, scope="a`}, bearer{Error: "x"}},
		{"an empty value", []string{`Bearer error=, scope=a`}, bearer{Scopes: []string{"a"}}},
		{"not a scheme", []string{`"Bearer" scope=a`}, bearer{}},
		{"another scheme's metadata", []string{`DPoP resource_metadata="` + place + `"`}, bearer{}},
		{"too long", []string{strings.Repeat("x,", maxChallenge), `Bearer scope=no`}, bearer{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, bearerOf(tt.values)); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzChallenges holds that reading a header ends, and gives scopes and names only.
func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer realm="x", resource_metadata="https://a/b", scope="a b", Basic abc==`)
	f.Add(`Negotiate a/b=, DPoP algs="ES256 \"", Bearer`)
	f.Fuzz(func(t *testing.T, value string) {
		size := 0
		for _, c := range parseChallenges([]string{value, value}) {
			size += len(c.scheme)
			if c.scheme == "" || strings.Trim(c.scheme, "!#$%&'*+-.^_`|~") != "" && strings.ContainsAny(c.scheme, " ,=\"") {
				t.Errorf("scheme %q", c.scheme)
			}
			for name, v := range c.params {
				size += len(name) + len(v)
				if name != strings.ToLower(name) {
					t.Errorf("name %q", name)
				}
			}
		}
		if size > 2*len(value) {
			t.Errorf("%d bytes of %d", size, len(value))
		}
		for _, s := range bearerOf([]string{value}).Scopes {
			if !isScope(s) {
				t.Errorf("scope %q", s)
			}
		}
	})
}

// FuzzTokens holds that what is taken for a token can be in a header line and has an
// end, and that a refusal tells a code at most.
func FuzzTokens(f *testing.F) {
	f.Add([]byte(`{"access_token":"x","token_type":"Bearer","expires_in":3600,"scope":"a b","refresh_token":"y"}`))
	f.Add([]byte(`{"access_token":"x","token_type":"bearer","expires_in":"1e9"}`))
	f.Add([]byte(`{"error":"invalid_grant","error_description":"x"}`))
	now := time.Unix(1.8e9, 0)
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parseToken(raw, now)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Errorf("the error is %v", err)
			}
			return
		}
		if !got.usable(now) || got.due(now) || got.Expires.After(now.Add(maxLife)) {
			t.Errorf("ends %v", got.Expires)
		}
		line := []byte(bearerHeader(got.Access).Get("Authorization"))
		if !isLine(line) || shownBy(http.Header{"Authorization": {string(line)}}) != got.Access {
			t.Errorf("%q cannot be shown", line)
		}
	})
}
