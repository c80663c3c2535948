package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// The files testdata/fidelity/*.txtar hold messages that have to pass through the
// gateway byte for byte. A file in one of them is named case/part:
//
//   - case/request is what the client sends; without one it calls the tool echo
//   - case/send is what the upstream sends for the request before it: first
//     notifications, if any, and last the answer; without one it is an empty result
//   - case/state is the raw requestState that $STATE stands for
//   - case/alone says that the case is for the endpoint of one upstream only
//   - case/json says that the messages cannot be events, which know no carriage
//     return
//   - case/tool, prompt, resource and template are an item of the upstream's lists
//
// A message is one text for all who see it. In it
//
//   - $ID and $TOKEN are the id and the progress token: the client's own on its
//     side, the gateway's on the other
//   - $STATE is the requestState: sealed on the client's side
//   - $META is the `_meta` that a request must have
//   - $CR is a carriage return
//   - $TEXT is a text of 10 MB and $BLOB is 3 MB in Base64
//   - ‹exposed|original› is what the merged endpoint changes; the upstream and the
//     clients of its own endpoint see the original, which may be left out
type fidelityCase struct {
	name  string
	state string
	alone bool
	json  bool
	steps []fidelityStep
}

// fidelityStep is one request and what is sent for it.
type fidelityStep struct {
	request string
	sends   []string
}

const (
	echoRequest = `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"‹x_›echo","arguments":{},"_meta":$META}}`
	emptyResult = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}`
)

// fidelityItems are the items of the upstream's lists, by the part's name.
type fidelityItems map[string][]string

// readFidelity reads all cases.
func readFidelity(t *testing.T) ([]*fidelityCase, fidelityItems) {
	t.Helper()
	paths, err := filepath.Glob("testdata/fidelity/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	var cases []*fidelityCase
	items := fidelityItems{"tool": {`{"name":"‹x_›echo"‹,"title":"echo"›,"inputSchema":{"type":"object"}}`}}
	for _, path := range paths {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		topic := strings.TrimSuffix(filepath.Base(path), ".txtar")
		for _, f := range ar.Files {
			name, part, _ := strings.Cut(f.Name, "/")
			text := strings.TrimSuffix(string(f.Data), "\n")
			switch part {
			case "tool", "prompt", "resource", "template":
				items[part] = append(items[part], text)
				continue
			}
			if n := len(cases); n == 0 || cases[n-1].name != topic+": "+name {
				cases = append(cases, &fidelityCase{name: topic + ": " + name})
			}
			if !cases[len(cases)-1].add(part, text) {
				t.Fatalf("%s: nobody knows the part %s", path, f.Name)
			}
		}
	}
	for _, c := range cases {
		c.complete()
	}
	return cases, items
}

// add takes one part.
func (c *fidelityCase) add(part, text string) bool {
	switch part {
	case "request":
		c.steps = append(c.steps, fidelityStep{request: text})
	case "send":
		if len(c.steps) == 0 {
			c.steps = append(c.steps, fidelityStep{request: echoRequest})
		}
		last := &c.steps[len(c.steps)-1]
		last.sends = append(last.sends, text)
	case "state":
		c.state = text
	case "alone":
		c.alone = true
	case "json":
		c.json = true
	default:
		return false
	}
	return true
}

// complete fills in what was left out.
func (c *fidelityCase) complete() {
	for i := range c.steps {
		if len(c.steps[i].sends) == 0 {
			c.steps[i].sends = []string{emptyResult}
		}
	}
}

// plain tells whether the case has no names that are cleaned, which happens without
// a prefix too, and no tasks, whose ids always have their alias.
func (c *fidelityCase) plain() bool {
	return !c.alone && !slices.ContainsFunc(c.steps, func(s fidelityStep) bool {
		text := s.request + strings.Join(s.sends, "")
		return strings.Contains(text, "taskId\":\"‹") || slices.ContainsFunc(marks.FindAllString(text, -1), func(m string) bool { return m != "‹x_›" && m != "‹x+›" })
	})
}

// large tells whether the case takes long.
func (c *fidelityCase) large() bool {
	return slices.ContainsFunc(c.steps, func(s fidelityStep) bool {
		text := s.request + strings.Join(s.sends, "")
		return strings.Contains(text, "$TEXT") || strings.Contains(text, "$BLOB")
	})
}

// fits tells whether the case is to be run in that way: notifications need
// events, and large messages once for each endpoint and kind of answer.
func (c *fidelityCase) fits(v variation) bool {
	if c.large() && (v.bare || v.accept != acceptBoth) || v.bare && !c.plain() {
		return false
	}
	streams := slices.ContainsFunc(c.steps, func(s fidelityStep) bool { return len(s.sends) > 1 })
	return (v.sse || !streams) && !(c.alone && v.merged) && !(c.json && (v.sse || v.accept == "text/event-stream"))
}

// side is one side of the gateway, with what the variables stand for there.
type side struct {
	merged           bool // the clients of the merged endpoint
	id, token, state string
}

var (
	marks    = regexp.MustCompile(`‹([^|›]*)\|?([^›]*)›`)
	longText = strings.Repeat(`0123456789 äöü 日本語 🎒 \"quoted\" \u00e9\ud83d\ude00\n`, 10<<20/76)
	longBlob = strings.Repeat("VGhlIExhbnRlcm4gaW4gQmFyY2Vsb25h", 3<<20/32)
)

// render gives a text as the side sees it.
func (s side) render(text string) string {
	use := "$2"
	if s.merged {
		use = "$1"
	}
	return strings.NewReplacer(
		"$ID", s.id, "$TOKEN", s.token, "$STATE", s.state, "$META", bareMeta, "$CR", "\r", "$TEXT", longText, "$BLOB", longBlob,
	).Replace(marks.ReplaceAllString(text, use))
}

// variation is one way in which a case is run.
type variation struct {
	merged   bool // on the merged endpoint, not on that of the upstream
	bare     bool // on the merged endpoint of a gateway that gives the upstream no prefix
	sse      bool // the upstream answers with events
	accept   string
	id       string // the client's, raw
	token    string
	expected func(sends []string) []string // what of it the client gets; nil for all
}

// acceptBoth is what most clients accept.
const acceptBoth = "application/json, text/event-stream"

// variations gives the ways in which every case is run.
func variations() (list []variation) {
	ids := []string{`7`, `"a\u0062 \ud83d\ude00"`, `123456789012345678901234567890`, `-1`, `""`, `"\ud800"`, `"日本"`}
	tokens := []string{`"tok\u0065n"`, `0`, `9007199254740993`, `"日本 🎒"`, `1.50`}
	add := func(v variation) {
		v.id, v.token = ids[len(list)%len(ids)], tokens[len(list)%len(tokens)]
		list = append(list, v)
	}
	for _, merged := range []bool{false, true} {
		for _, sse := range []bool{false, true} {
			add(variation{merged: merged, sse: sse, accept: acceptBoth})
			add(variation{merged: merged, sse: sse, accept: "text/event-stream"})
		}
		if !merged {
			add(variation{bare: true, accept: acceptBoth})
			add(variation{bare: true, sse: true, accept: acceptBoth})
		}
		// Who takes JSON only cannot get notifications.
		add(variation{merged: merged, sse: true, accept: "application/json", expected: func(sends []string) []string { return sends[len(sends)-1:] }})
	}
	return list
}

func (v variation) String() string {
	return fmt.Sprintf("merged=%v bare=%v sse=%v accept=%s", v.merged, v.bare, v.sse, v.accept)
}

// fidelityRun is one case in one variation.
type fidelityRun struct {
	t        *testing.T
	v        variation
	client   *rawClient
	upstream *scripted
	near     side // the client's
	original string
}

// TestFidelity holds that what the gateway does not own passes byte for byte, in
// both directions.
func TestFidelity(t *testing.T) {
	cases, items := readFidelity(t)
	up := newScripted(t)
	items.serve(up)
	gw := front(t, "", "", upstreamOf("x", up.URL))
	bare := front(t, "", "", upstreamOf("x", up.URL, ", prefix: none"))
	client := newRawClient(t, "")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range variations() {
				if !c.fits(v) {
					continue
				}
				r := fidelityRun{t: t, v: v, client: client.at(gw.URL + "/t/default/u/x/mcp"), upstream: up, original: c.state}
				switch {
				case v.merged:
					r.client = client.at(gw.URL + "/mcp")
				case v.bare:
					r.client = client.at(bare.URL + "/mcp")
				}
				r.near = side{merged: v.merged, id: v.id, token: v.token}
				for i := range c.steps {
					r.step(&c.steps[i])
				}
			}
		})
	}
}

// step sends one request and compares what arrives on either side.
func (r *fidelityRun) step(s *fidelityStep) {
	r.t.Helper()
	received := make(chan *asked, 4)
	far := func(a *asked) side {
		return side{id: string(a.ID), token: string(a.Params.Meta.ProgressToken), state: r.original}
	}
	request := r.near.render(s.request)
	r.upstream.handle(methodOf(r.t, request), func(w http.ResponseWriter, _ *http.Request, a *asked) {
		received <- a
		sends := make([]string, len(s.sends))
		for i, text := range s.sends {
			sends[i] = far(a).render(text)
		}
		if r.v.sse {
			answerEvents(w, sends...)
		} else {
			answerJSON(w, http.StatusOK, sends[0])
		}
	})
	got := r.client.send(request, "Accept: "+r.v.accept)
	if len(received) != 1 {
		r.t.Fatalf("%v: %d requests reached the upstream; the client got %.500s", r.v, len(received), got.messages)
	}
	a := <-received
	equalBytes(r.t, r.v.String()+": the upstream received", a.body, far(a).render(s.request))
	want := s.sends
	if r.v.expected != nil {
		want = r.v.expected(want)
	}
	if len(got.messages) != len(want) {
		r.t.Fatalf("%v: %d messages for the client, want %d: %.500q", r.v, len(got.messages), len(want), got.messages)
	}
	for i, text := range want {
		r.learnState(text, got.messages[i])
		equalBytes(r.t, r.v.String()+": the client received", got.messages[i], r.near.render(text))
	}
}

// methodOf reads the method of a message.
func methodOf(t *testing.T, message string) string {
	t.Helper()
	var a asked
	if err := json.Unmarshal([]byte(message), &a); err != nil {
		t.Fatalf("%.500s: %v", message, err)
	}
	return a.Method
}

// learnState finds the sealed requestState in what the client got.
func (r *fidelityRun) learnState(text, got string) {
	r.t.Helper()
	before, after, ok := strings.Cut(text, "$STATE")
	if !ok {
		return
	}
	before, after = r.near.render(before), r.near.render(after)
	token, ok := strings.CutPrefix(got, before)
	if ok {
		token, ok = strings.CutSuffix(token, after)
	}
	var plain string
	if !ok || json.Unmarshal([]byte(token), &plain) != nil {
		r.t.Fatalf("%v: no requestState in %.500s", r.v, got)
	}
	if plain := strings.Trim(r.original, `"`); plain != "" && strings.Contains(token, plain) {
		r.t.Errorf("%v: the upstream's requestState is not sealed: %s", r.v, token)
	}
	r.near.state = token
}

// equalBytes compares two texts that may be long.
func equalBytes(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	from := max(at-60, 0)
	t.Errorf("%s something else from byte %d on:\n got %q\nwant %q", what, at,
		got[from:min(at+120, len(got))], want[from:min(at+120, len(want))])
}
