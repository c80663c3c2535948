package gateway_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// signIns are a gateway in front of upstreams of both eras, where users have to sign in,
// with what it needs.
type signIns struct {
	*realms
	t     *testing.T
	url   string // of the gateway's root
	banks map[string]*bank
}

// userAuth are the lines of an upstream where users sign in at the bank's server.
func (r *realms) userAuth() string {
	return fmt.Sprintf(", cache: {listTTL: 1s}, auth: {mode: user_oauth, issuer: %q, registration: dynamic, scopes: [trips]}", r.bank.URL)
}

// signer is a user with accounts at both servers, and a token for the gateway.
type signer struct {
	*person
	name, token string
	s           *signIns
}

// user gives one. gateway is that of newPerson; nil for the only gateway there is.
func (s *signIns) user(name string, gateway func(path string) string) *signer {
	s.t.Helper()
	if gateway == nil {
		gateway = func(string) string { return s.url }
	}
	accounts := map[string]string{s.idp.URL: name, s.realms.bank.URL: name + "-at-bank"}
	return &signer{newPerson(s.t, accounts, gateway), name, s.idp.token(name, publicURL+acmePath), s}
}

// send sends a request as a modern client with capabilities does.
func (u *signer) send(capabilities, method, params string) reply {
	u.t.Helper()
	return u.at(u.s.url).send(u.message(capabilities, method, params), u.bearer())
}

func (u *signer) at(root string) *rawClient { return newRawClient(u.t, root+acmePath) }

func (u *signer) bearer() string { return "Authorization: Bearer " + u.token }

func (u *signer) message(capabilities, method, params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":"u-1","method":"` + method + `","params":{` + params + meta + `}}`
}

// opensURLs are the capabilities of a client that can send its user to a page.
const opensURLs = `{"elicitation":{"url":{}}}`

// whoami calls the tool; more are further members of params.
func (u *signer) whoami(alias, more string) reply {
	u.t.Helper()
	return u.send(opensURLs, "tools/call", `"name":"`+alias+`_whoami","arguments":{}`+more)
}

// tools gives what the user sees.
func (u *signer) tools() []string {
	u.t.Helper()
	got := u.send(opensURLs, "tools/list", "")
	if got.status != http.StatusOK {
		u.t.Fatalf("tools/list of %s: %d %q", u.name, got.status, got.messages)
	}
	return toolsOf(u.t, got.last())
}

// told holds that an answer tells the user's account.
func (u *signer) told(alias string, got reply) {
	u.t.Helper()
	if got.status != http.StatusOK || !strings.Contains(got.last(), `"text":"whoami of `+u.name+`-at-bank"`) {
		u.t.Errorf("%s is told by %s: %d %q", u.name, alias, got.status, got.messages)
	}
}

// linkTo finds the link in a message.
var linkTo = regexp.MustCompile(regexp.QuoteMeta(publicURL) + `/oauth/connect\?[^"\\ ]+`)

// linkIn gives the link to which a message sends its user.
func (u *signer) linkIn(message string) string {
	u.t.Helper()
	link := linkTo.FindString(message)
	if link == "" {
		u.t.Fatalf("%s is sent nowhere: %s", u.name, message)
	}
	return link
}

// asked gives the link of an answer that asks a modern client to send its user there, and
// the members of params that say that it was done.
func (u *signer) asked(got reply) (link, again string) {
	u.t.Helper()
	if got.status != http.StatusOK || string(memberOf(u.t, got.last(), "result", "resultType")) != `"input_required"` {
		u.t.Fatalf("%s is not asked: %d %q", u.name, got.status, got.messages)
	}
	return u.linkIn(got.last()), "," + strings.TrimSuffix(retryOf(u.t, got.last(), `{"action":"accept"}`), ",")
}
