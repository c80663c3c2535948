package auth_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// bad is a request that must be refused.
type bad struct {
	name string
	// token is what is shown as a bearer token; request is for what else is sent.
	token   func(r *rig) string
	request func(r *rig) *auth.Request
	edit    func(one *tenant.Tenant)
	want    string // the reason
	status  int    // 401 where it is not set
	code    string // invalid_token where status is not set
	bare    bool   // the challenge points to no metadata
}

// TestRefused holds that each is refused with the right challenge, and that nothing of
// what was shown is in a log, an error, a challenge or a metric.
func TestRefused(t *testing.T) {
	all := append(append(append(badRequests(), badForms()...), badClaims()...), badKeys()...)
	if len(all) < 60 {
		t.Errorf("only %d rows", len(all))
	}
	names := map[string]bool{}
	for _, tt := range all {
		if names[tt.name] {
			t.Errorf("two rows are named %q", tt.name)
		}
		names[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			if tt.status == 0 {
				tt.status, tt.code = http.StatusUnauthorized, "invalid_token"
			}
			r := newRig(t, func(one *tenant.Tenant) {
				if tt.edit != nil {
					tt.edit(one)
				}
			})
			// The issuer's keys are known, as they are most of the time, and a good
			// caller is.
			if r.tenant.Auth.Mode == tenant.AuthOAuth {
				r.mustAccept(t, r.idp.token(map[string]any{"org": map[string]any{"id": "acme"}}))
			}
			for range 2 { // what is remembered makes no difference
				mustRefuseBad(t, r, tt)
			}
			// Nor does a bad caller make one to a good one.
			if r.tenant.Auth.Mode == tenant.AuthOAuth {
				r.mustAccept(t, r.idp.token(map[string]any{"org": map[string]any{"id": "acme"}}))
			}
		})
	}
}

func mustRefuseBad(t *testing.T, r *rig, tt bad) {
	t.Helper()
	before := r.failures(t, tt.want)
	var req *auth.Request
	var secrets []string
	if tt.token != nil {
		token := tt.token(r)
		req = r.request("Bearer " + token)
	} else {
		req = tt.request(r)
	}
	for _, line := range req.HTTP.Header["Authorization"] {
		secrets = append(secrets, strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '.' })...)
	}
	req.Scopes = []string{"mcp", "read", "offline_access"}
	if tt.want != "scope" {
		req.Scopes = nil
	}
	c, err := r.Authenticate(t.Context(), req)
	if err == nil {
		t.Fatalf("accepted as %+v", c.Principal)
	}
	_, refusal := r.send(t.Context(), req)
	if refusal.Reason != tt.want || refusal.Status != tt.status {
		t.Fatalf("refused with %d for %s, want %d for %s; log:\n%s", refusal.Status, refusal.Reason, tt.status, tt.want, r.log)
	}
	if got := r.failures(t, tt.want); got != before+2 {
		t.Errorf("%v failures were counted for %s, want 2", got-before, tt.want)
	}
	mustChallenge(t, r, tt, refusal)
	mustNotTell(t, r, secrets, err.Error()+"\n"+refusal.Challenge)
}

// mustChallenge holds the parts of a challenge.
func mustChallenge(t *testing.T, r *rig, tt bad, refusal *auth.Refusal) {
	t.Helper()
	scheme, rest, _ := strings.Cut(refusal.Challenge, " ")
	params := map[string]string{}
	for part := range strings.SplitSeq(rest, ", ") {
		if name, value, ok := strings.Cut(part, "="); ok {
			params[name] = value
		}
	}
	scope := `"mcp"`
	if tt.want == "scope" {
		scope = `"mcp read"`
	}
	want := map[string]string{"scope": scope}
	if r.tenant.Auth.Mode == tenant.AuthOAuth && !tt.bare {
		want["resource_metadata"] = `"` + metadata + `"`
	}
	if tt.code != "" {
		want["error"] = `"` + tt.code + `"`
		if d := params["error_description"]; len(d) < 10 {
			t.Errorf("error_description is %s", d)
		}
	}
	delete(params, "error_description")
	if fmt.Sprint(params) != fmt.Sprint(want) || scheme != "Bearer" {
		t.Errorf("challenge is %s, want Bearer with %v", refusal.Challenge, want)
	}
}

// mustNotTell holds that nothing of a secret is in a text, the log or the metrics.
func mustNotTell(t *testing.T, r *rig, secrets []string, text string) {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var metrics strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&metrics, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range append(secrets, "alice-4f2b9c", "editor-77ac") {
		for where, told := range map[string]string{"answer": text, "log": r.log.String(), "metrics": metrics.String()} {
			if leaked(s, told) {
				t.Errorf("a part of %q is in the %s:\n%s", s, where, told)
			}
		}
	}
}

func badRequests() []bad {
	lines := func(lines ...string) func(r *rig) *auth.Request {
		return func(r *rig) *auth.Request {
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "GOOD", r.idp.token(nil))
			}
			return r.request(lines...)
		}
	}
	query := func(query string, lines ...string) func(r *rig) *auth.Request {
		return func(r *rig) *auth.Request {
			req := r.request(lines...)
			req.HTTP.URL = must(req.HTTP.URL.Parse(resource + "?" + strings.ReplaceAll(query, "GOOD", r.idp.token(nil))))
			return req
		}
	}
	header := func(name string) func(r *rig) *auth.Request {
		return func(r *rig) *auth.Request {
			req := r.request()
			req.HTTP.Header.Set(name, r.idp.token(nil))
			return req
		}
	}
	const none, request = http.StatusUnauthorized, http.StatusBadRequest
	rows := []bad{
		{name: "no header", request: lines(), want: "missing", status: none},
		{name: "empty header", request: lines(""), want: "missing", status: none},
		{name: "blank header", request: lines(" \t "), want: "missing", status: none},
		{name: "a cookie", request: header("Cookie"), want: "missing", status: none},
		{name: "X-API-Key", request: header("X-API-Key"), want: "missing", status: none},
		{name: "Proxy-Authorization", request: header("Proxy-Authorization"), want: "missing", status: none},
		{name: "Basic", request: lines("Basic YWxpY2U6c2VjcmV0MTIz"), want: "scheme", status: none},
		{name: "DPoP with a good token", request: lines("DPoP GOOD"), want: "scheme", status: none},
		{name: "a good token without a scheme", request: lines("GOOD"), want: "scheme", status: none},
		{name: "Negotiate", request: lines("Negotiate"), want: "scheme", status: none},
		{name: "Digest", request: lines(`Digest username="alice-4f2b9c"`), want: "scheme", status: none},
	}
	for name, req := range map[string]func(r *rig) *auth.Request{
		"two headers":                     lines("Bearer GOOD", "Bearer GOOD"),
		"two headers, the second empty":   lines("Bearer GOOD", ""),
		"two headers of other schemes":    lines("Bearer GOOD", "Basic eDp5"),
		"no token":                        lines("Bearer"),
		"no token but a space":            lines("Bearer "),
		"two tokens":                      lines("Bearer GOOD GOOD"),
		"two tokens with a comma":         lines("Bearer GOOD, Bearer GOOD"),
		"a list of schemes":               lines("Bearer,Bearer GOOD"),
		"a tab":                           lines("Bearer\tGOOD"),
		"a colon":                         lines("Bearer: GOOD"),
		"quotes":                          lines(`Bearer "GOOD"`),
		"a line feed":                     lines("Bearer GOOD\n"),
		"a NUL":                           lines("Bearer GOOD\x00"),
		"not ASCII":                       lines("Bearer GOODé"),
		"not UTF-8":                       lines("Bearer GOOD\xff"),
		"equals signs only":               lines("Bearer ===="),
		"a huge token":                    lines("Bearer " + strings.Repeat("qZ7x", 4096) + "a"),
		"a huge scheme":                   lines("Bearer" + strings.Repeat(" ", 70000) + "!"),
		"in the query":                    query("access_token=GOOD"),
		"in the query and the header":     query("access_token=GOOD", "Bearer x"),
		"in the query, escaped":           query("a=b&acce%73s_token=GOOD"),
		"in the query, after a semicolon": query("a=b;access_token=GOOD"),
		"in the query, in other letters":  query("Access_Token=GOOD"),
		"in the query, with a bad escape": query("%zz=1&&access_token=GOOD"),
		"in the query, empty":             query("access_token"),
	} {
		rows = append(rows, bad{name: name, request: req, want: "request", status: request, code: "invalid_request"})
	}
	return rows
}

func badKeys() []bad {
	plain, _ := auth.NewKey(tenant.APIKey{})
	keysOnly := func(one *tenant.Tenant) { one.Auth.Mode = tenant.AuthKeys }
	key := func(edit func(r *rig, plain string) string) func(r *rig) string {
		return func(r *rig) string {
			plain, k := auth.NewKey(tenant.APIKey{Tenant: "acme", Subject: "robot", Scopes: []string{"mcp"}})
			if err := r.keys.PutKey(r.tenantContext(), k); err != nil {
				panic(err)
			}
			return edit(r, plain)
		}
	}
	wrong := func(r *rig, plain string) string {
		last := "a"
		if strings.HasSuffix(plain, last) {
			last = "b"
		}
		return plain[:len(plain)-1] + last
	}
	return []bad{
		{name: "unknown key", token: func(*rig) string { return plain }, want: "key"},
		{name: "wrong secret", token: key(wrong), want: "key"},
		{name: "wrong secret, keys only", token: key(wrong), edit: keysOnly, want: "key"},
		{name: "cut key", token: key(func(_ *rig, plain string) string { return plain[:len(plain)-1] }), want: "key"},
		{name: "longer key", token: key(func(_ *rig, plain string) string { return plain + "a" }), want: "key"},
		{name: "key without a secret", token: key(func(_ *rig, plain string) string { return plain[:17] }), want: "key"},
		{name: "key with other characters", token: key(func(_ *rig, plain string) string { return plain[:20] + "-" + plain[21:] }), want: "key"},
		{name: "prefix only", token: func(*rig) string { return "cwk_" }, want: "key"},
		{name: "prefix in other letters", token: key(func(_ *rig, plain string) string { return "CWK_" + plain[4:] }), want: "malformed"},
		{name: "key of another tenant", token: func(r *rig) string {
			plain, k := auth.NewKey(tenant.APIKey{Tenant: "other", Subject: "robot", Scopes: []string{"mcp"}})
			if err := r.keys.PutKey(r.tenantContext(), k); err != nil {
				panic(err)
			}
			return plain
		}, want: "key"},
		{name: "expired key", token: func(r *rig) string {
			plain, k := auth.NewKey(tenant.APIKey{Tenant: "acme", Subject: "robot", Scopes: []string{"mcp"}, Expires: past()})
			if err := r.keys.PutKey(r.tenantContext(), k); err != nil {
				panic(err)
			}
			return plain
		}, want: "key"},
		{name: "deleted key", token: key(func(r *rig, plain string) string {
			if err := r.keys.DeleteKey(r.tenantContext(), "acme", plain[4:16]); err != nil {
				panic(err)
			}
			return plain
		}), want: "key"},
		{name: "key without a scope", token: key(func(_ *rig, plain string) string { return plain }),
			want: "scope", status: http.StatusForbidden, code: "insufficient_scope", bare: true},
		{name: "access token, keys only", token: func(r *rig) string { return r.idp.token(nil) }, edit: keysOnly, want: "malformed"},
		{name: "nothing, keys only", request: func(r *rig) *auth.Request { return r.request() }, edit: keysOnly,
			want: "missing", status: http.StatusUnauthorized},
		{name: "unknown mode", token: func(r *rig) string { return r.idp.token(nil) },
			edit: func(one *tenant.Tenant) { one.Auth.Mode = "oauth2" }, want: "malformed"},
	}
}
