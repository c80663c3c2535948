package gateway_test

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// credentialRow is one way in which an upstream is shown who calls.
type credentialRow struct {
	name string
	of   func(name, tokenURL string) tenant.Credential
	// want is what comes with each request, or wantUser what comes with those of a user;
	// both by names of headers.
	want, wantUser func(name, user string) map[string]string
	// alone tells that the gateway asks the upstream for itself too, and shows nothing.
	alone bool
	// read puts in place of a line what it stands for; nil for nothing.
	read func(t *testing.T, two *twoTenants, s *sent)
}

// credentialRows are those that need no page for the user.
func credentialRows() []credentialRow {
	secret := func(name string) tenant.Secret { return tenant.Secret{Env: name} }
	client := func(mode tenant.CredentialMode) func(name, tokenURL string) tenant.Credential {
		return func(name, tokenURL string) tenant.Credential {
			return tenant.Credential{Mode: mode, TokenURL: tokenURL, ClientID: name, ClientSecret: secret(name + "-client")}
		}
	}
	line := func(header string, value func(name, user string) string) func(name, user string) map[string]string {
		return func(name, user string) map[string]string { return map[string]string{header: value(name, user)} }
	}
	return []credentialRow{
		{name: "none", of: func(string, string) tenant.Credential { return tenant.Credential{Mode: tenant.CredentialNone} }},
		{name: "bearer", of: func(name, _ string) tenant.Credential {
			return tenant.Credential{Mode: tenant.CredentialBearer, Token: secret(name + "-bearer")}
		}, want: line("Authorization", func(name, _ string) string { return "Bearer secret-" + name + "-bearer" })},
		{name: "headers", of: func(name, _ string) tenant.Credential {
			return tenant.Credential{Mode: tenant.CredentialHeaders, Headers: []tenant.SecretHeader{{Name: "X-Upstream-Key", Value: secret(name + "-key")}}}
		}, want: line("X-Upstream-Key", func(name, _ string) string { return "secret-" + name + "-key" })},
		{
			name: "client_credentials", of: client(tenant.CredentialClient),
			want: line("Authorization", func(name, _ string) string { return "Bearer cc-" + name }),
		},
		{
			name: "token_exchange", of: client(tenant.CredentialExchange),
			wantUser: line("Authorization", func(_, user string) string { return "Bearer tx-" + user }),
		},
		{name: "forward", of: func(string, string) tenant.Credential {
			return tenant.Credential{Mode: tenant.CredentialForward, Forward: []string{"X-Account"}}
		}, wantUser: line("X-Account", func(_, user string) string { return "account-" + user }), alone: true},
	}
}

// TestWhatUpstreamsAreSent holds that an upstream is sent the credential that is
// configured for it and its user, and nothing of what the client shows the gateway or of
// what is another tenant's: in each mode, for clients and servers of both eras.
func TestWhatUpstreamsAreSent(t *testing.T) {
	servers := map[string]func(testing.TB) http.Handler{"modern": newModernServer, "handshake": newHandshakeServer}
	for _, row := range credentialRows() {
		for era, server := range servers {
			t.Run(row.name+" "+era, func(t *testing.T) {
				two := newTwoTenants(t, server(t), row.of)
				r := two.start()
				shown := []string{}
				for _, name := range []string{"default", "other"} {
					for _, user := range []string{"ann", "bob"} {
						shown = append(shown, two.use(r, name, user)...)
					}
				}
				r.stop(t) // ends the sessions with handshake servers, too
				two.check(t, row, shown)
				if log := two.logs(r); containsAny(log, shown) || strings.Contains(log, "secret-") || strings.Contains(log, "dirty-") {
					t.Errorf("what was shown is in the log:\n%s", log)
				}
			})
		}
	}
}

// use has a user of a tenant use all that there is, as clients of both eras do, and gives
// what it has shown the gateway.
func (two *twoTenants) use(r *replica, name, user string) (shown []string) {
	two.tb.Helper()
	path := "/t/" + name + "/mcp"
	token, next := two.issuer.token(user, path, nil), two.issuer.token(user, path, map[string]any{"jti": "next"})
	extra := dirty()
	extra.Set("X-Account", "account-"+user)
	modern := newRawClient(two.tb, r.url+path)
	for i, body := range []string{
		ask("server/discover", ""), ask("tools/list", ""), ask("resources/list", ""), ask("prompts/list", ""),
		ask("tools/call", `"name":"a_x","arguments":{"user":"`+user+`"}`), ask("prompts/get", `"name":"a_p"`),
	} {
		req := modern.request(body, "Authorization: Bearer "+[]string{token, next}[i%2])
		maps.Copy(req.Header, extra)
		if got, err := modern.do(req); err != nil || got.status != 200 || strings.Contains(got.last(), `"error"`) {
			two.tb.Errorf("%s of %s: %d %q, %v", user, name, got.status, got.messages, err)
		}
	}
	uri := string(memberOf(two.tb, modern.send(ask("resources/list", ""), "Authorization: Bearer "+token, "X-Account: account-"+user).last(), "result", "resources"))
	uri, _, _ = strings.Cut(uri[strings.Index(uri, `"uri":`):], ",")
	req := modern.request(ask("resources/read", strings.TrimRight(uri, "}]")), "Authorization: Bearer "+next)
	maps.Copy(req.Header, extra)
	if got, err := modern.do(req); err != nil || got.status != 200 || !strings.Contains(got.last(), `"text":"t"`) {
		two.tb.Errorf("resources/read of %s: %d %q, %v", name, got.status, got.messages, err)
	}
	req = modern.request(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`), "Authorization: Bearer "+token)
	maps.Copy(req.Header, extra)
	res, err := modern.transport.RoundTrip(req)
	if err != nil || res.StatusCode != 200 {
		two.tb.Fatalf("listen: %v, %v", res, err)
	}
	two.tb.Cleanup(func() { _ = res.Body.Close() }) // it ended with the gateway

	old := newOldUser(two.tb, r.url+path, "2025-11-25", "{}", token)
	for _, body := range []string{
		oldRequest(1, "tools/list", ""), oldRequest(2, "tools/call", `"name":"a_x","arguments":{"user":"`+user+`"}`),
		oldRequest(3, "prompts/list", ""), oldRequest(4, "prompts/get", `"name":"a_p"`),
	} {
		req := old.request(http.MethodPost, body)
		maps.Copy(req.Header, extra)
		res := old.do(req)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || strings.Contains(string(text), `"error"`) {
			two.tb.Errorf("%s of %s: %d %s, %v", user, name, res.StatusCode, text, err)
		}
	}
	for _, token := range []string{token, next} {
		shown = append(shown, strings.Split(token, ".")[1:]...)
	}
	return append(shown, old.session)
}

// check holds what came to the upstream and to the token endpoint.
func (two *twoTenants) check(t *testing.T, row credentialRow, shown []string) {
	t.Helper()
	calls, sessions := 0, map[string]string{}
	for _, s := range two.up.requests() {
		name := strings.Split(s.path, "/")[1]
		other := map[string]string{"default": "other", "other": "default"}[name]
		all := s.all()
		if containsAny(all, shown) || strings.Contains(all, "dirty-") || strings.Contains(all, "secret-"+other) || strings.Contains(all, "-client") || s.query != "" {
			t.Errorf("an upstream of %s got %s", name, all)
		}
		for header := range dirty() {
			if header != "User-Agent" && header != "X-Upstream-Key" && s.header[header] != nil {
				t.Errorf("an upstream of %s got the header %s: %s", name, header, all)
			}
		}
		user := ""
		for _, one := range []string{"ann", "bob"} {
			if strings.Contains(s.body, `"user":"`+one+`"`) {
				user = one
			}
		}
		if row.read != nil {
			row.read(t, two, s)
		}
		two.checkLines(t, row, s, name, user)
		if user == "" {
			continue
		}
		calls++
		if id := s.header.Get("Mcp-Session-Id"); id != "" && cmp.Or(sessions[id], user) != user {
			t.Errorf("%s and %s share a session with an upstream of %s", sessions[id], user, name)
		} else {
			sessions[id] = user
		}
	}
	if want := 2 * 2 * 2; calls != want { // tenants, users, eras of clients
		t.Errorf("%d calls arrived, want %d", calls, want)
	}
	two.checkTokens(t, row, shown)
}

// checkLines holds the lines by which an upstream is shown who calls. user is empty for
// what is not known to be a user's.
func (two *twoTenants) checkLines(t *testing.T, row credentialRow, s *sent, name, user string) {
	t.Helper()
	want := map[string]string{}
	if row.want != nil {
		want = row.want(name, user)
	}
	allowed := []map[string]string{want}
	switch {
	case row.wantUser != nil && user != "":
		allowed = []map[string]string{row.wantUser(name, user)}
	case row.wantUser != nil: // a list of one of them
		allowed = []map[string]string{row.wantUser(name, "ann"), row.wantUser(name, "bob")}
		if row.alone {
			allowed = append(allowed, nil)
		}
	}
	for _, lines := range allowed {
		right := true
		for _, header := range []string{"Authorization", "X-Upstream-Key", "X-Account"} {
			right = right && strings.Join(s.header[header], ", ") == lines[header]
		}
		if right {
			return
		}
	}
	t.Errorf("an upstream of %s got, for %s, %s; want one of %v", name, cmp.Or(user, "somebody"), s.all(), allowed)
}

// checkTokens holds what came to the token endpoint: a user's token is shown there where
// it is exchanged, and nowhere else.
func (two *twoTenants) checkTokens(t *testing.T, row credentialRow, shown []string) {
	t.Helper()
	asked := two.idp.requests()
	if wants := row.name == "client_credentials" || row.name == "token_exchange"; (len(asked) > 0) != wants {
		t.Errorf("%d requests for tokens", len(asked))
	}
	for _, s := range asked {
		form := formOf(t, s.body)
		subject := form.Get("subject_token")
		form.Del("subject_token")
		s.body = form.Encode()
		if all := s.all(); containsAny(all, shown) || strings.Contains(all, "dirty-") {
			t.Errorf("the token endpoint got %s", all)
		}
		if user := userOf(subject); (row.name == "token_exchange") != (user == "ann" || user == "bob") {
			t.Errorf("the token endpoint got the token of %q", user)
		}
	}
}

// containsAny tells whether one of the parts is in a text.
func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if part != "" && strings.Contains(text, part) {
			return true
		}
	}
	return false
}
