package gateway_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// securedConfig is a configuration of two tenants that trust one issuer, and let users
// sign in at the gateway's pages. upstreams are lines of acme.
func (r *realms) securedConfig(process string, upstreams ...string) string {
	auth := fmt.Sprintf("    auth: {mode: oauth, scopes: [mcp], issuers: [{issuer: %q, private: true, login: {clientID: %s}}]}\n", r.idp.URL, r.login)
	return "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\npublicURL: " + publicURL + "\n" + process +
		"tenants:\n  - name: acme\n" + auth + "    upstreams:\n" + strings.Join(upstreams, "") + "  - name: other\n" + auth
}

// secretFile gives a reference to a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{file: %q}", file)
}

// acmePath is the endpoint of these tests.
const acmePath = "/t/acme/mcp"

// eitherEra is a client of one of the eras with a token.
type eitherEra struct {
	name string
	send func(method, params string) string // gives the final message
}

// bothEras gives clients of both.
func bothEras(t *testing.T, url, token string) []eitherEra {
	t.Helper()
	modern := newRawClient(t, url)
	old := newOldUser(t, url, "2025-11-25", "{}", token)
	return []eitherEra{
		{"modern", func(method, params string) string {
			return modern.send(ask(method, params), "Authorization: Bearer "+token).last()
		}},
		{"handshake", old.ask},
	}
}

// toolsOf gives the names in an answer to tools/list, sorted.
func toolsOf(t *testing.T, message string) (names []string) {
	t.Helper()
	var tools []struct{ Name string }
	if err := json.Unmarshal(memberOf(t, message, "result", "tools"), &tools); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// TestTokenExchange has two users use upstreams of both eras that each show them their
// own account, with tokens that a real authorization server gives in exchange for theirs
// (RFC 8693), and holds that theirs go nowhere else.
func TestTokenExchange(t *testing.T) {
	r := newRealms(t)
	id, secret := r.idp.service("urn:ietf:params:oauth:grant-type:token-exchange")
	banks := map[string]*bank{"new": newBank(t, r.idp, "/new/mcp", true), "old": newBank(t, r.idp, "/old/mcp", false)}
	auth := fmt.Sprintf(", auth: {mode: token_exchange, issuer: %q, clientID: %s, clientSecret: %s, scopes: [trips]}", r.idp.URL, id, secretFile(t, secret))
	g := gatewaytest.Start(t, r.securedConfig("", upstreamOf("new", banks["new"].url(), auth), upstreamOf("old", banks["old"].url(), auth)))

	var shown []string
	for _, user := range []string{"ann", "bob"} {
		token := r.idp.token(user, publicURL+acmePath)
		shown = append(shown, token)
		if _, err := banks["new"].verify(t.Context(), token); err == nil {
			t.Fatal("the upstream takes tokens for the gateway")
		}
		for _, client := range bothEras(t, g.URL+acmePath, token) {
			want := []string{"new_of_" + user, "new_whoami", "old_of_" + user, "old_whoami"}
			if got := toolsOf(t, client.send("tools/list", "")); !slices.Equal(got, want) {
				t.Errorf("%s, %s: sees %v, want %v", user, client.name, got, want)
			}
			for alias := range banks {
				if got := client.send("tools/call", `"name":"`+alias+`_whoami","arguments":{}`); !strings.Contains(got, `"text":"whoami of `+user+`"`) {
					t.Errorf("%s, %s: %s is told %s", user, client.name, alias, got)
				}
				unknown := client.send("tools/call", `"name":"`+alias+`_nothing","arguments":{}`)
				other := map[string]string{"ann": "bob", "bob": "ann"}[user]
				got := client.send("tools/call", `"name":"`+alias+`_of_`+other+`","arguments":{}`)
				if want := strings.ReplaceAll(unknown, alias+"_nothing", alias+"_of_"+other); got != want || !strings.Contains(got, `-32602`) {
					t.Errorf("%s, %s: the tool of somebody else says %s, want %s", user, client.name, got, want)
				}
			}
		}
	}
	shown = append(shown, otherTenant(t, r, g.URL))

	for alias, b := range banks {
		want := map[string]claims{}
		for _, user := range []string{"ann", "bob"} {
			want[user] = claims{Issuer: r.idp.URL, Subject: user, Audience: []string{b.url()}, Client: id, Scope: "trips", Active: true}
		}
		got := map[string]claims{}
		for _, name := range b.names() {
			c := b.claimsOf(name)
			if c.Expires < time.Now().Unix() {
				t.Errorf("%s was shown a token until %d", alias, c.Expires)
			}
			c.Expires = 0
			got[name] = c
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s was shown (-want +got):\n%s", alias, diff)
		}
		b.never(shown...)
	}
	if n := r.idp.grants().Given["urn:ietf:params:oauth:grant-type:token-exchange"]; n != 4 {
		t.Errorf("%d tokens were exchanged, want one for each user and upstream", n)
	}
}

// otherTenant holds that a user of another tenant, who is of the same issuer, gets
// nothing of the upstreams. It gives the token.
func otherTenant(t *testing.T, r *realms, url string) string {
	t.Helper()
	token := r.idp.token("ann", publicURL+"/t/other/mcp")
	bearer := "Authorization: Bearer " + token
	for _, path := range []string{acmePath, "/t/acme/u/new/mcp", "/mcp"} {
		if got := newRawClient(t, url+path).send(ask("tools/list", ""), bearer); got.status != 401 && got.status != 404 {
			t.Errorf("%s with a token for another tenant: %d %q", path, got.status, got.messages)
		}
	}
	other := newRawClient(t, url+"/t/other/mcp")
	if got := other.send(ask("tools/list", ""), bearer); got.status != 200 || !strings.Contains(got.last(), `"tools":[]`) {
		t.Errorf("the other tenant: %d %q", got.status, got.messages)
	}
	if got := other.send(callOf("new_whoami"), bearer); !strings.Contains(got.last(), `-32602`) {
		t.Errorf("a call at the other tenant: %d %q", got.status, got.messages)
	}
	return token
}

// TestClientCredentials has the gateway use upstreams of both eras with tokens of its own
// that live for three seconds, and go on with others, in the same sessions.
func TestClientCredentials(t *testing.T) {
	r := newRealms(t)
	id, secret := r.bank.service("client_credentials")
	banks := map[string]*bank{"new": newBank(t, r.bank, "/short/new/mcp", true), "old": newBank(t, r.bank, "/short/old/mcp", false)}
	auth := fmt.Sprintf(", auth: {mode: client_credentials, issuer: %q, clientID: %s, clientSecret: %s, scopes: [trips]}", r.bank.URL, id, secretFile(t, secret))
	g := gatewaytest.Start(t, r.securedConfig("", upstreamOf("new", banks["new"].url(), auth), upstreamOf("old", banks["old"].url(), auth)))
	token := r.idp.token("ann", publicURL+acmePath)
	clients := bothEras(t, g.URL+acmePath, token)
	use := func() {
		t.Helper()
		for _, client := range clients {
			for alias := range banks {
				if got := client.send("tools/call", `"name":"`+alias+`_whoami","arguments":{}`); !strings.Contains(got, `"text":"whoami of `+id+`"`) {
					t.Errorf("%s: %s is told %s", client.name, alias, got)
				}
			}
		}
	}
	use()
	for alias, b := range banks {
		first := b.claimsOf(id)
		if diff := cmp.Diff(claims{r.bank.URL, id, []string{b.url()}, id, "trips", first.Expires, true}, first); diff != "" {
			t.Errorf("%s was shown (-want +got):\n%s", alias, diff)
		}
	}
	sessions := banks["old"].held()
	eventually(t, "the tokens have expired", func() bool {
		return time.Now().Unix() > max(banks["new"].claimsOf(id).Expires, banks["old"].claimsOf(id).Expires)
	})
	use()
	tokens := 0
	for alias, b := range banks {
		b.never(token)
		tokens += len(b.tokens())
		if n := len(b.tokens()); n < 2 {
			t.Errorf("%s was shown %d tokens, want another one after the first had expired", alias, n)
		}
	}
	if got := r.bank.grants(); got.Given["client_credentials"] != tokens || len(got.Refused) > 0 {
		t.Errorf("the authorization server gave %+v, and %d tokens were shown", got, tokens)
	}
	if n := banks["old"].held(); n != sessions {
		t.Errorf("there were %d sessions with the server of the handshake era, and %d after its token had expired", sessions, n)
	}
}
