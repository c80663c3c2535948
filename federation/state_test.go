package federation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func testBinding() *stateBinding {
	return &stateBinding{
		tenant: "acme", issuer: "https://idp.example.com", subject: "alice",
		alias: "travel", method: mcp.MethodToolsCall, name: "bookHotel", args: [32]byte{1},
	}
}

func TestStateRoundTrip(t *testing.T) {
	ring, now := seal.NewRandom(), time.Unix(1_800_000_000, 0)
	for _, state := range []string{
		`""`, `"opaque"`, `"\u0061\/\n\""`, `"\ud83d"`, `"é搜🙂\u00e9"`, `"` + strings.Repeat("x", 1<<20) + `"`,
	} {
		token := sealState(ring, testBinding(), []byte(state), now.Add(time.Minute))
		if quoted := string(mcp.AppendQuote(nil, token)); quoted != `"`+token+`"` {
			t.Errorf("the token %q needs escapes in JSON", token)
		}
		got, err := openState(ring, testBinding(), token, now)
		if err != nil || string(got) != state {
			t.Errorf("%.40s came back as %.40s, %v", state, got, err)
		}
	}
}

func TestOpenStateRefuses(t *testing.T) {
	ring, now := seal.NewRandom(), time.Unix(1_800_000_000, 0)
	token := sealState(ring, testBinding(), []byte(`"s"`), now.Add(time.Minute))
	second := sealState(ring, testBinding(), []byte(`"s"`), now.Add(time.Minute))
	held := withHolder(ring, second, Elsewhere{Holder: "10.0.0.7:7000", Alias: "travel"})
	other := func(change func(*stateBinding)) *stateBinding {
		b := testBinding()
		change(b)
		return b
	}
	tests := []struct {
		name    string
		ring    *seal.Ring
		binding *stateBinding
		token   string
		now     time.Time
	}{
		{name: "another tenant", binding: other(func(b *stateBinding) { b.tenant = "b" })},
		{name: "another issuer", binding: other(func(b *stateBinding) { b.issuer = "b" })},
		{name: "another user", binding: other(func(b *stateBinding) { b.subject = "b" })},
		{name: "another upstream", binding: other(func(b *stateBinding) { b.alias = "b" })},
		{name: "another method", binding: other(func(b *stateBinding) { b.method = "b" })},
		{name: "another tool", binding: other(func(b *stateBinding) { b.name = "b" })},
		{name: "other arguments", binding: other(func(b *stateBinding) { b.args[31] = 1 })},
		{name: "fields that run into each other", binding: other(func(b *stateBinding) { b.alias, b.method = "traveltools", "/call" })},
		{name: "another ring", ring: seal.NewRandom()},
		{name: "expired", now: now.Add(time.Minute)},
		{name: "changed", token: token[:20] + flip(token[20]) + token[21:]},
		{name: "cut", token: token[:len(token)-4]},
		{name: "garbage", token: "garbage"},
		{name: "empty", token: "-"},
		{name: "with a holder made up", token: token + ".garbage"},
		{name: "with an empty holder", token: token + "."},
		{name: "with the holder of another call", token: token + strings.TrimPrefix(held, second)},
		{name: "with two holders", token: withHolder(ring, withHolder(ring, token, Elsewhere{Holder: "a"}), Elsewhere{Holder: "b"})},
		{name: "a cursor", token: sealCursor(ring, Endpoint{}, kindTools, cursor{last: "12345678"})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.ring == nil {
				tt.ring = ring
			}
			if tt.binding == nil {
				tt.binding = testBinding()
			}
			if tt.token == "" {
				tt.token = token
			}
			if tt.now.IsZero() {
				tt.now = now
			}
			state, err := openState(tt.ring, tt.binding, tt.token, tt.now)
			wantRefused(t, err, "requestState is invalid or has expired")
			if state != nil {
				t.Errorf("state %s", state)
			}
		})
	}
}

// flip gives another character of base64url.
func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// wantRefused holds that an error is the -32602 with that text and no more.
func wantRefused(t *testing.T, err error, text string) {
	t.Helper()
	var got *mcp.Error
	if !errors.As(err, &got) {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(&mcp.Error{Code: mcp.CodeInvalidParams, Message: text}, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// A token that tells its holder opens like others, and tells it to those alone who
// have the ring.
func TestElsewhere(t *testing.T) {
	ring, now := seal.NewRandom(), time.Unix(1_800_000_000, 0)
	plain := sealState(ring, testBinding(), []byte(`"s"`), now.Add(time.Minute))
	there := Elsewhere{Holder: "10.0.0.7:7000", Alias: "travel"}
	held := withHolder(ring, plain, there)
	if quoted := string(mcp.AppendQuote(nil, held)); quoted != `"`+held+`"` {
		t.Errorf("the token %q needs escapes in JSON", held)
	}
	if got, err := openState(ring, testBinding(), held, now); err != nil || string(got) != `"s"` {
		t.Errorf("it came back as %s, %v", got, err)
	}
	tests := []struct {
		name, state, holder string
		single              bool
		want                *Elsewhere
	}{
		{name: "another's", state: held, holder: "10.0.0.8:7000", want: &there},
		{name: "ours", state: held, holder: "10.0.0.7:7000"},
		{name: "nobody's", state: plain, holder: "10.0.0.8:7000"},
		{name: "of no upstream", state: withHolder(ring, plain, Elsewhere{Holder: "x"}), want: &Elsewhere{Holder: "x"}},
		{name: "without a cluster", state: held, holder: "10.0.0.8:7000", single: true},
		{name: "with other keys", state: withHolder(seal.NewRandom(), plain, there)},
		{name: "moved to another token", state: plain[1:] + strings.TrimPrefix(held, plain)},
		{name: "made up", state: "park:10.0.0.7:7000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &Federation{opts: Options{Ring: ring, Holder: tt.holder, Cluster: &Cluster{}}}
			if tt.single {
				f.opts.Cluster = nil
			}
			var got *Elsewhere
			err := f.elsewhere(&Call{Request: &mcp.Request{RequestState: mcp.Text{Value: tt.state, IsString: true}}})
			if err != nil && !errors.As(err, &got) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
