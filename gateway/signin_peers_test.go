package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// TestUserSignIn has users with accounts of their own sign in at upstreams of both eras,
// as clients of both eras have them do it, through two real authorization servers.
func TestUserSignIn(t *testing.T) {
	s := &signIns{realms: newRealms(t), t: t}
	s.banks = map[string]*bank{"new": newBank(t, s.bank, "/opaque/new/mcp", true), "old": newBank(t, s.bank, "/opaque/old/mcp", false)}
	s.url = gatewaytest.Start(t, s.securedConfig("", upstreamOf("new", s.banks["new"].url(), s.userAuth()), upstreamOf("old", s.banks["old"].url(), s.userAuth()))).URL
	ann, bob, eve := s.user("ann", nil), s.user("bob", nil), s.user("eve", nil)

	for _, alias := range []string{"new", "old"} {
		t.Run("modern, "+alias, func(t *testing.T) { s.modern(t, alias, ann, eve) })
		t.Run("handshake, "+alias, func(t *testing.T) { s.handshake(t, alias, bob) })
		t.Run("without pages, "+alias, func(t *testing.T) { s.cannotOpen(t, alias, eve) })
	}
	t.Run("TypeScript", func(t *testing.T) { s.typeScript(t) })
	t.Run("withdrawn", func(t *testing.T) { s.withdrawn(t, ann, bob) })

	if got, want := eve.tools(), []string{"new_connect", "old_connect"}; !slices.Equal(got, want) {
		t.Errorf("who never signed in sees %v, want %v", got, want)
	}
	for _, b := range s.banks {
		b.never(ann.token, bob.token, eve.token)
		names := b.names()
		slices.Sort(names)
		if diff := cmp.Diff([]string{"ann-at-bank", "bob-at-bank", "tim-at-bank", "tom-at-bank"}, names); diff != "" {
			t.Errorf("accounts that were used (-want +got):\n%s", diff)
		}
	}
}

// modern has a modern client send its user to the page, and eve open the link first.
func (s *signIns) modern(t *testing.T, alias string, ann, eve *signer) {
	sees := func(u *signer, want ...string) {
		t.Helper()
		got := slices.DeleteFunc(u.tools(), func(name string) bool { return !strings.HasPrefix(name, alias+"_") })
		if !slices.Equal(got, want) {
			t.Errorf("%s sees %v, want %v", u.name, got, want)
		}
	}
	sees(ann, alias+"_connect")
	sees(eve, alias+"_connect")
	listen := ann.message("{}", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	stream := ann.at(s.url).open(listen, ann.bearer())
	stream.next()
	strange := eve.at(s.url).open(strings.Replace(listen, "u-1", "u-2", 1), eve.bearer())
	strange.next()

	link, again := ann.asked(ann.whoami(alias, ""))
	before := s.bank.grants()
	if got := eve.open(link); got.status != http.StatusForbidden || !strings.Contains(got.body, "This link is for another user") || pageForm.MatchString(got.body) {
		t.Errorf("who stole the link sees %d %s\n%s", got.status, got.url, got.body)
	}
	ann.asked(ann.whoami(alias, again)) // she has not done it
	eve.asked(eve.whoami(alias, ""))
	if diff := cmp.Diff(before, s.bank.grants()); diff != "" {
		t.Errorf("the stolen link led to (-before +after):\n%s", diff)
	}

	ann.connect(link)
	if got := stream.next(); !strings.Contains(got, `"method":"notifications/tools/list_changed"`) {
		t.Errorf("after the sign-in the stream heard %s", got)
	}
	ann.told(alias, ann.whoami(alias, again))
	ann.told(alias, ann.whoami(alias, ""))
	sees(ann, alias+"_of_ann-at-bank", alias+"_whoami")
	sees(eve, alias+"_connect")
	eve.asked(eve.whoami(alias, ""))
	if f := readFailure(t, eve.whoami(alias, again).last()); f.Error.Code != -32602 {
		t.Errorf("eve takes the answer of ann: %+v", f)
	}
	strange.close()
	stream.close()
}

// handshake has a client of revision 2025-11-25 send its user to the page.
func (s *signIns) handshake(t *testing.T, alias string, bob *signer) {
	c := newOldUser(t, s.url+acmePath, "2025-11-25", opensURLs, bob.token)
	if got := toolsOf(t, c.ask("tools/list", "")); !slices.Contains(got, alias+"_connect") || slices.Contains(got, alias+"_whoami") {
		t.Errorf("before the sign-in bob sees %v", got)
	}
	changes := c.listen()
	call := c.call(7, alias+"_whoami", `,"arguments":{}`)
	question := call.next()
	params := memberOf(t, question, "params")
	var asks struct{ Mode, Message, URL, ElicitationID string }
	if err := json.Unmarshal(params, &asks); err != nil || asks.Mode != "url" || asks.ElicitationID == "" || !strings.Contains(asks.Message, alias) {
		t.Fatalf("asked %s: %v", question, err)
	}
	bob.connect(bob.linkIn(asks.URL))
	c.accepted(answers(string(memberOf(t, question, "id")), `{"action":"accept"}`))
	if got := call.next(); !strings.Contains(got, `"text":"whoami of bob-at-bank"`) || string(memberOf(t, got, "id")) != "7" {
		t.Errorf("the call got %s", got)
	}
	for got := ""; !strings.Contains(got, "notifications/tools/list_changed"); {
		got = changes.next()
	}
	if got := toolsOf(t, c.ask("tools/list", "")); slices.Contains(got, alias+"_connect") || !slices.Contains(got, alias+"_of_bob-at-bank") {
		t.Errorf("after the sign-in bob sees %v", got)
	}
}

// cannotOpen holds what clients are told that cannot send their user to a page.
func (s *signIns) cannotOpen(t *testing.T, alias string, eve *signer) {
	for _, tool := range []string{alias + "_whoami", alias + "_connect"} {
		for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`} {
			got := eve.send(capabilities, "tools/call", `"name":"`+tool+`","arguments":{}`)
			f := readFailure(t, got.last())
			if got.status != http.StatusBadRequest || f.Error.Code != -32021 || string(f.Error.Data) != `{"requiredCapabilities":{"elicitation":{"url":{}}}}` {
				t.Errorf("modern with %s: %d %q", capabilities, got.status, got.messages)
			}
			eve.linkIn(f.Error.Message)
		}
		for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
			c := newOldUser(t, s.url+acmePath, version, `{}`, eve.token)
			f := readFailure(t, c.ask("tools/call", `"name":"`+tool+`","arguments":{}`))
			if f.Error.Code != -32603 {
				t.Errorf("%s: %+v", version, f)
			}
			if got := eve.open(eve.linkIn(f.Error.Message)); got.status != http.StatusOK || !pageForm.MatchString(got.body) {
				t.Errorf("the link leads to %d %s\n%s", got.status, got.url, got.body)
			}
		}
	}
}

// typeScript has the TypeScript client do the same in both eras.
func (s *signIns) typeScript(t *testing.T) {
	node := gatewaytest.NewNode(t)
	dir := nodeDir(t, node, "consent.mjs")
	for version, name := range map[string]string{"2026-07-28": "tom", "2025-11-25": "tim"} {
		for _, alias := range []string{"new", "old"} {
			t.Run(version+", "+alias, func(t *testing.T) {
				user := s.user(name, nil)
				var seen struct {
					Errors  []string
					Asked   int
					Version string
					Before  []string
					Content []struct{ Text string }
				}
				ctx, cancel := context.WithTimeout(t.Context(), journeyTimeout)
				defer cancel()
				cmd := exec.CommandContext(ctx, node.Path, "consent.mjs", s.url+acmePath, version, alias+"_whoami")
				cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "TOKEN="+user.token), t.Output()
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(out)
				if lines.Scan() {
					if asks := lines.Text(); strings.Contains(asks, `"elicitationId":"`) != (version == "2025-11-25") {
						t.Errorf("asked %s", asks)
					}
					user.connect(user.linkIn(lines.Text()))
				}
				if _, err := fmt.Fprintln(in, "done"); err != nil {
					t.Error(err)
				}
				if lines.Scan() {
					err = json.Unmarshal(lines.Bytes(), &seen)
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("the TypeScript client: %v", err)
				}
				if !slices.Contains(seen.Before, alias+"_connect") || slices.Contains(seen.Before, alias+"_whoami") {
					t.Errorf("before the sign-in the list was %v", seen.Before)
				}
				if err != nil || len(seen.Errors) > 0 || seen.Asked != 1 || seen.Version != version || len(seen.Content) != 1 || seen.Content[0].Text != "whoami of "+name+"-at-bank" {
					t.Errorf("the client saw %+v, %v", seen, err)
				}
			})
		}
	}
}

// withdrawn takes back at the authorization server what ann has let the gateway have: it
// tries to refresh once for each upstream, and asks her again. bob's stays.
func (s *signIns) withdrawn(t *testing.T, ann, bob *signer) {
	before := s.bank.grants().Refused["refresh_token"]
	s.bank.withdraw("ann-at-bank")
	for _, alias := range []string{"new", "old"} {
		for range 3 {
			ann.asked(ann.whoami(alias, ""))
		}
		bob.told(alias, bob.whoami(alias, ""))
	}
	if n := s.bank.grants().Refused["refresh_token"] - before; n != len(s.banks) {
		t.Errorf("the gateway tried %d times to refresh, want once for each upstream", n)
	}
	for _, alias := range []string{"new", "old"} {
		eventually(t, "the list has "+alias+"_connect", func() bool { return slices.Contains(ann.tools(), alias+"_connect") })
		link, again := ann.asked(ann.whoami(alias, ""))
		ann.connect(link)
		ann.told(alias, ann.whoami(alias, again))
	}
}
