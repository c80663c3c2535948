package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestWhatUpstreamsAreSentOfUsers is TestWhatUpstreamsAreSent where users let the gateway
// have tokens: the users of each tenant have other accounts at the upstream.
func TestWhatUpstreamsAreSentOfUsers(t *testing.T) {
	realms := newRealms(t)
	row := credentialRow{
		name: "user_oauth",
		wantUser: func(name, user string) map[string]string {
			return map[string]string{"Authorization": "of " + user + "-of-" + name}
		},
		// Tokens are those of the upstream's server, each for its own URL there.
		read: func(t *testing.T, two *twoTenants, s *sent) {
			token, _ := strings.CutPrefix(s.header.Get("Authorization"), "Bearer ")
			c := claimsIn(t, token)
			if c.Issuer != realms.bank.URL || len(c.Audience) != 1 || c.Audience[0] != two.up.URL+s.path {
				t.Errorf("%s got a token of %s for %v", s.path, c.Issuer, c.Audience)
			}
			s.header.Set("Authorization", "of "+c.Subject)
		},
	}
	for era, server := range map[string]func(testing.TB) http.Handler{"modern": newModernServer, "handshake": newHandshakeServer} {
		t.Run(era, func(t *testing.T) {
			two := newTwoTenants(t, server(t), func(string, string) tenant.Credential {
				return tenant.Credential{Mode: tenant.CredentialUser, Issuer: realms.bank.URL, Registration: tenant.RegistrationDynamic}
			})
			two.trust(realms)
			r := two.start()
			shown := []string{}
			for _, name := range []string{"default", "other"} {
				for _, user := range []string{"ann", "bob"} {
					shown = append(shown, two.connect(t, r, realms, name, user)...)
					shown = append(shown, two.use(r, name, user)...)
				}
			}
			r.stop(t)
			two.check(t, row, shown)
			if log := two.logs(r); containsAny(log, shown) || strings.Contains(log, "ticket=") || strings.Contains(log, "dirty-") {
				t.Errorf("what was shown is in the log:\n%s", log)
			}
		})
	}
}

// claimsIn reads those of a JWT, and verifies nothing.
func claimsIn(t *testing.T, token string) (c claims) {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err == nil {
		err = parsed.UnsafeClaimsWithoutVerification(&c)
	}
	if err != nil {
		t.Fatalf("a token that cannot be read: %v", err)
	}
	return c
}

// trust has both tenants trust a real issuer, where users can sign in.
func (two *twoTenants) trust(realms *realms) {
	two.tb.Helper()
	two.issuer.real = realms.idp
	var all []*tenant.Tenant
	for _, name := range []string{"default", "other"} {
		now, err := two.store.Tenant(two.tb.Context(), name)
		if err != nil {
			two.tb.Fatal(err)
		}
		next := *now
		next.Auth.Issuers = []tenant.Issuer{{Issuer: realms.idp.URL, Private: true, Login: &tenant.Login{ClientID: realms.login}}}
		all = append(all, &next)
	}
	two.store.Replace(all)
}

// connect has a user of a tenant sign in at its upstream. It gives what must not be seen
// elsewhere.
func (two *twoTenants) connect(t *testing.T, r *replica, realms *realms, name, user string) []string {
	t.Helper()
	path := "/t/" + name + "/mcp"
	token := two.issuer.token(user, path, nil)
	p := newPerson(t, map[string]string{realms.idp.URL: user, realms.bank.URL: user + "-of-" + name}, func(string) string { return r.url })
	got := newRawClient(t, r.url+path).send(strings.Replace(callOf("a_x"), `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":`+opensURLs, 1), "Authorization: Bearer "+token)
	link := linkTo.FindString(got.last())
	if link == "" {
		t.Fatalf("%s of %s is not asked to sign in: %d %q", user, name, got.status, got.messages)
	}
	p.connect(link)
	_, ticket, _ := strings.Cut(link, "=")
	return append(strings.Split(token, ".")[1:], ticket)
}
