package auth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// The limiter forgets nobody's debt early, and a debt has an end.
func TestLimiterDebt(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := newLimiter(60, func() time.Time { return now })
	a := v4(1)
	for range 1000 {
		l.failed(a)
	}
	if got := l.wait(a); got != 61*time.Second {
		t.Errorf("after a storm one waits %v, want 61s", got)
	}
	now = now.Add(61 * time.Second)
	if got := l.wait(a); got != 0 {
		t.Errorf("after that time one waits %v", got)
	}
	for n := range maxSources + 10 {
		l.failed(v4(n))
	}
	if got := l.buckets.Len(); got != maxSources {
		t.Errorf("%d sources are remembered, want %d", got, maxSources)
	}
}

func TestClosure(t *testing.T) {
	r := &realm{implied: closure(map[string][]string{"a": {"b"}, "b": {"c", "a"}, "c": nil})}
	if diff := cmp.Diff([]string{"a", "b", "c", "x"}, r.expand([]string{"x", "b", "x"})); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
}

func TestReasonsAreClosed(t *testing.T) {
	for _, r := range reasons() {
		status, code, description := r.answer()
		if status < 400 || (code == "") != (description == "") || len(reasons()) != len(slices.Compact(slices.Sorted(slices.Values(reasons())))) {
			t.Errorf("%s: %d %q %q", r, status, code, description)
		}
		if strings.ContainsAny(description, `"\`) {
			t.Errorf("%s: the description %q needs escapes, which RFC 6750 does not allow", r, description)
		}
	}
}

// FuzzCredential holds that what is taken for a token is in the one header, whole, and
// nowhere in the query.
func FuzzCredential(f *testing.F) {
	for _, s := range []string{"Bearer abc", "bearer  a.b-c_~+/==", "Bearer", "Basic x", "Bearer a b", "", "Bearer,Bearer x", " \t"} {
		f.Add(s, "", "a=b")
		f.Add(s, s, "access_token=x")
	}
	f.Add("Bearer x", "", "a;acce%73s_token")
	f.Fuzz(func(t *testing.T, line, second, query string) {
		r := &http.Request{Header: http.Header{"Authorization": {line}}, URL: &url.URL{RawQuery: query}}
		if second != "" {
			r.Header.Add("Authorization", second)
		}
		token, why := credential(r)
		if (token == "") == (why == "") {
			t.Fatalf("token %q, reason %q", token, why)
		}
		if why != "" {
			return
		}
		values, err := url.ParseQuery(query)
		switch {
		case second != "", len(token) > maxToken, err == nil && values.Has("access_token"),
			!strings.HasSuffix(strings.Trim(line, " \t"), " "+token), strings.ContainsAny(token, " \t\r\n\",;\x00"):
			t.Errorf("%q, %q, %q gives %q", line, second, query, token)
		}
	})
}

// FuzzToken holds that no token is accepted that was not signed, whatever it is.
func FuzzToken(f *testing.F) {
	for _, s := range []string{
		"eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2kifQ.", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2kiLCJleHAiOjk5OTk5OTk5OTl9.AAAA",
		"a.b.c", "..", "cwk_", "cwk_000000000000_0000000000000000000000000000000000000000000", "eyJhbGciOjF9.e30.",
	} {
		f.Add(s)
	}
	a, t0 := fuzzed(f)
	f.Fuzz(func(t *testing.T, token string) {
		req := &Request{Tenant: t0, Resource: "https://h/mcp", HTTP: &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}}
		c, err := a.Authenticate(t.Context(), req)
		if err == nil {
			t.Errorf("%q is accepted as %+v", token, c)
		}
	})
}

// FuzzClaims holds that claims are read the same way again, and within their bounds.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{`{"aud":["a"],"scope":"a b","exp":1.5e3,"g":{"x.y":"z"}}`, `{"exp":-0}`, `{"scp":["a",1]}`, `null`, `{"g":{"g":{}}}`} {
		f.Add([]byte(s), "g.x.y")
	}
	f.Fuzz(func(t *testing.T, raw []byte, path string) {
		c, ok := parseClaims(raw)
		if !ok {
			return
		}
		expires, why := c.times(time.Unix(1000, 0))
		if (why == "") != (expires.Unix() >= 1000 && !expires.IsZero()) {
			t.Errorf("expires %v, reason %q", expires, why)
		}
		scopes, ok := c.scopes("")
		if ok && slices.ContainsFunc(scopes, func(s string) bool { return !isScope(s) }) || len(scopes) > maxValues {
			t.Errorf("scopes %q", scopes)
		}
		if _, ok := textsOf(c.at(path)); ok && path != "" && c.at(path) != nil && !c.has(path) && !strings.Contains(path, ".") {
			t.Errorf("something is at %q", path)
		}
	})
}

// down is a client whose server cannot be reached.
type down struct{}

func (down) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }

func fuzzed(f *testing.F) (*Authenticator, *tenant.Tenant) {
	f.Helper()
	a, err := New(Options{
		Client: func(bool) *http.Client { return &http.Client{Transport: down{}} }, FailuresPerMinute: 1e9,
		Registerer: newRegistry(), Logger: discard(), Keys: tenant.NewMemoryRegistry(),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(a.Close)
	return a, &tenant.Tenant{Name: "acme", Auth: tenant.Auth{Mode: tenant.AuthOAuth, Issuers: []tenant.Issuer{{Issuer: "https://i"}}}}
}
