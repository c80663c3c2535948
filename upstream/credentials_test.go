package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// wantLines checks that each request was shown this token, once, and no other header
// of the caller's own.
func wantLines(t *testing.T, seen *recorder, token string) {
	t.Helper()
	for _, r := range seen.requests() {
		if got := r.header["Authorization"]; !slices.Equal(got, []string{token}) {
			t.Errorf("%s came with %q, want %q", r.kind, got, token)
		}
		if got := r.header["X-Team"]; !slices.Equal(got, []string{"ann"}) {
			t.Errorf("%s came with the team %q, want that of the source", r.kind, got)
		}
		if got := r.header["Cookie"]; got != nil {
			t.Errorf("%s came with the cookie %q", r.kind, got)
		}
	}
}

// The lines of the source are on every HTTP request, also on those that find out how
// to speak with the server, and win over what the caller sends.
func TestCredentialsAreShown(t *testing.T) {
	want := map[string][]string{
		"modern":    {"POST server/discover", "POST tools/call", "POST subscriptions/listen"},
		"handshake": {"POST server/discover", "POST initialize", "POST notifications/initialized", "POST tools/call", "GET", "DELETE"},
		"HTTP+SSE":  {"POST server/discover", "POST initialize", "GET", "POST notifications/initialized", "POST tools/call"},
	}
	for _, era := range eraServers() {
		for _, whose := range []string{"the upstream's", "the request's"} {
			t.Run(era.name+", "+whose, func(t *testing.T) {
				ann := &wallet{name: "ann"}
				var own CredentialSource // of the request
				shared := &wallet{name: "upstream"}
				if whose == "the upstream's" {
					shared = ann
				} else {
					own = ann
				}
				d, seen := employ(t, era.make(), era.path, func(c *Config, _ *Deps) { c.Credentials = shared })
				req := as(own)
				req.Header = http.Header{
					"Authorization": {"Bearer of-the-client"}, "authorization": {"Bearer of-the-client"},
					"X-Team": {"blue"}, "x-team": {"blue"}, "Cookie": {"c=1"}, "cookie": {"c=1"},
				}
				if _, _, err := ask(t.Context(), d, req); err != nil {
					t.Fatal(err)
				}
				req = listening().request()
				req.Credentials = own
				listen, err := d.Do(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				next(t, listen)
				listen.Close()
				d.(closer).Close()
				wantLines(t, seen, ann.token())
				kinds := seen.kinds()
				for _, kind := range want[era.name] {
					if !slices.Contains(kinds, kind) {
						t.Errorf("%q lacks %s", kinds, kind)
					}
				}
				if shared != ann && shared.asked > 0 {
					t.Error("the upstream's source was asked, too")
				}
			})
		}
	}
}

// Without a source nothing that authorizes the caller towards the gateway passes,
// however it is spelled.
func TestNoCredentialsOfTheCaller(t *testing.T) {
	for _, era := range eraServers() {
		t.Run(era.name, func(t *testing.T) {
			d, seen := employ(t, era.make(), era.path)
			req := as(nil)
			req.Header = http.Header{
				"Authorization": {"Bearer of-the-client"}, "authorization": {"Bearer of-the-client"}, "AUTHORIZATION": {"x"},
				"Cookie": {"c=1"}, "cookie": {"c=1"}, "proxy-authorization": {"x"}, "X-Trace": {"1"},
			}
			if _, _, err := ask(t.Context(), d, req); err != nil {
				t.Fatal(err)
			}
			passed := false
			for _, r := range seen.requests() {
				for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
					if got := r.header[name]; got != nil {
						t.Errorf("%s came with %s: %q", r.kind, name, got)
					}
				}
				passed = passed || r.header.Get("X-Trace") == "1"
			}
			if !passed {
				t.Error("the header that may pass did not")
			}
		})
	}
}

// A refused request is sent once more with what the source gives then, and is carried
// out once.
func TestRefusedOnce(t *testing.T) {
	for _, era := range eraServers() {
		t.Run(era.name, func(t *testing.T) {
			gate := &bouncer{want: "Bearer ann-secret-1", next: era.make()}
			ann := &wallet{name: "ann", fresh: 1}
			d, seen := employ(t, gate, era.path)
			if _, err := callAs(t.Context(), d, ann); err != nil {
				t.Fatal(err)
			}
			want := []refusal{{"Bearer ann-secret-0", 401, []string{`Bearer error="invalid_token"`, "Basic"}}}
			if diff := cmp.Diff(want, ann.told(), cmp.AllowUnexported(refusal{})); diff != "" {
				t.Errorf("the source was told (-want +got):\n%s", diff)
			}
			kinds := seen.kinds()
			if n := len(slices.DeleteFunc(kinds, func(k string) bool { return k != "POST tools/call" })); n != 1 {
				t.Errorf("the call was sent %d times, want once", n)
			}

			// The token ends while the era and the session are known.
			gate.want, ann.fresh = "Bearer ann-secret-2", 1
			before := len(seen.requests())
			if _, err := callAs(t.Context(), d, ann); err != nil {
				t.Fatal(err)
			}
			if got, want := seen.kinds()[before:], []string{"POST tools/call", "POST tools/call"}; !slices.Equal(got, want) {
				t.Errorf("the second call took %q, want %q", got, want)
			}

			// A stream is opened with what the source gives then.
			gate.want, ann.fresh = "Bearer ann-secret-3", 1
			req := listening().request()
			req.Credentials = ann
			listen, err := d.Do(t.Context(), req)
			if era.name == "HTTP+SSE" {
				gate.want = "Bearer ann-secret-2" // its stream is there already
			}
			if err != nil {
				t.Fatal(err)
			}
			next(t, listen)
			listen.Close()
		})
	}
}

// What is refused twice has failed, whatever the refusal says; the source is told of
// both.
func TestRefusedTwice(t *testing.T) {
	refusals := map[string]func(http.ResponseWriter){
		"401":               func(w http.ResponseWriter) { w.WriteHeader(401) },
		"403":               func(w http.ResponseWriter) { http.Error(w, "no", http.StatusForbidden) },
		"401 with an error": func(w http.ResponseWriter) { fails(401, -32001, "")(w, "null") },
		"401 with our id":   func(w http.ResponseWriter) { fails(401, -32001, "")(w, "7") },
	}
	for _, era := range eraServers() {
		for name, refuse := range refusals {
			t.Run(era.name+", "+name, func(t *testing.T) {
				gate := &bouncer{want: "Bearer ann-secret-0", refuse: refuse, next: era.make()}
				ann := &wallet{name: "ann"}
				d, seen := employ(t, gate, era.path, func(c *Config, _ *Deps) { c.BreakerFailures = 1 })
				if _, err := callAs(t.Context(), d, ann); err != nil {
					t.Fatal(err)
				}
				known := len(seen.requests())
				gate.want, ann.fresh = "none", 5
				_, err := callAs(t.Context(), d, ann)
				wantClass(t, err, ClassUnauthorized, false)
				if got, want := seen.kinds()[known:], []string{"POST tools/call", "POST tools/call"}; !slices.Equal(got, want) {
					t.Errorf("it took %q, want %q", got, want)
				}
				if n := len(ann.told()); n != 2 {
					t.Errorf("the source was told of %d refusals, want 2", n)
				}
				// Neither the breaker, nor the era, nor the session has suffered.
				gate.want = ann.token()
				if _, err := callAs(t.Context(), d, ann); err != nil {
					t.Error(err)
				}
				if got, want := seen.kinds()[known+2:], []string{"POST tools/call"}; !slices.Equal(got, want) {
					t.Errorf("the next call took %q, want %q", got, want)
				}
			})
		}
	}
}

// What the user has to do is found through the error, whenever the source says it, and
// nothing of it is said of the server.
func TestConsentIsFound(t *testing.T) {
	for _, era := range eraServers() {
		t.Run(era.name, func(t *testing.T) {
			gate := &bouncer{want: "Bearer bob-secret-0", next: era.make()}
			d, seen := employ(t, gate, era.path, func(c *Config, _ *Deps) { c.BreakerFailures = 1 })
			const untouched = "of the source"
			tests := []struct {
				name   string
				source *wallet
				sent   int
			}{
				{"before", &wallet{name: "ann", err: fmt.Errorf("%s: %w", untouched, consent{})}, 0},
				{"when refused", &wallet{name: "ann", lost: consent{}}, 1},
				{"when refused again", &wallet{name: "ann", fresh: 1, lost: consent{}}, 2},
			}
			for _, known := range []bool{false, true} {
				for _, tt := range tests {
					n := len(seen.requests())
					source := &wallet{name: tt.source.name, fresh: tt.source.fresh, err: tt.source.err, lost: tt.source.lost}
					_, err := callAs(t.Context(), d, source)
					wantConsent(t, err)
					if got := len(seen.requests()) - n; got != tt.sent {
						t.Errorf("%s, era known %v: %d requests were sent, want %d: %q", tt.name, known, got, tt.sent, seen.kinds()[n:])
					}
					req := listening().request()
					req.Credentials = &wallet{name: "ann", err: consent{}}
					_, err = d.Do(t.Context(), req)
					wantConsent(t, err)
				}
				if _, err := callAs(t.Context(), d, &wallet{name: "bob"}); err != nil {
					t.Errorf("era known %v: %v", known, err)
				}
			}
		})
	}
}

// A redirect is not followed, and the place for messages must be on the server itself.
func TestCredentialsStayWithTheServer(t *testing.T) {
	elsewhere := &recorder{next: http.HandlerFunc(modernServer)}
	other := serve(t, elsewhere)
	for _, era := range []Era{EraModern, EraHandshake} {
		for _, code := range []int{301, 302, 307, 308} {
			d, seen := employ(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL, code)
			}), "/", func(c *Config, _ *Deps) { c.Era = era })
			if _, err := callAs(t.Context(), d, &wallet{name: "ann"}); err == nil {
				t.Errorf("%s: the redirect %d was followed", era, code)
			}
			if len(seen.requests()) == 0 {
				t.Errorf("%s: nothing was sent", era)
			}
		}
	}
	d, _ := employ(t, sseScript(other.URL+"/messages", accept, nil), "/sse", func(c *Config, _ *Deps) { c.Era = EraHandshake })
	if _, err := callAs(t.Context(), d, &wallet{name: "ann"}); err == nil {
		t.Error("messages went to another server")
	}
	if got := elsewhere.kinds(); got != nil {
		t.Errorf("the other server was sent %q", got)
	}
}

// hanging is a source that gives nothing until its request is over.
type hanging struct {
	wallet
	wait    sync.Once
	waiting chan struct{}
}

func (h *hanging) Credential(ctx context.Context) (http.Header, error) {
	h.wait.Do(func() { close(h.waiting) })
	<-ctx.Done()
	return nil, ctx.Err()
}

// Whoever has no credentials, and whoever waits for them, keeps nobody from the server:
// neither by the breaker, nor by the places, nor by the probe.
func TestFailingSourceIsAlone(t *testing.T) {
	for _, era := range eraServers() {
		t.Run(era.name, func(t *testing.T) {
			d, seen := employ(t, era.make(), era.path, func(c *Config, _ *Deps) { c.BreakerFailures, c.MaxInFlight = 1, 1 })
			down := &wallet{name: "ann", err: errors.New("the token endpoint is down")}
			for range 3 {
				_, err := callAs(t.Context(), d, down)
				wantClass(t, err, ClassUnauthorized, false)
			}
			if got := seen.kinds(); got != nil {
				t.Errorf("the server was sent %q", got)
			}
			for _, known := range []bool{false, true} {
				slow := &hanging{waiting: make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				result := make(chan error, 1)
				go func() {
					_, err := callAs(ctx, d, slow)
					result <- err
				}()
				<-slow.waiting
				if _, err := callAs(t.Context(), d, &wallet{name: "bob"}); err != nil {
					t.Errorf("era known %v: %v", known, err)
				}
				cancel()
				if known {
					wantClass(t, <-result, ClassCanceled, false)
				} else {
					<-result
				}
				req := as(&hanging{waiting: make(chan struct{})})
				req.Timeout = 20 * time.Millisecond
				_, err := d.Do(t.Context(), req)
				wantClass(t, err, ClassUnauthorized, false)
			}
			if _, err := callAs(t.Context(), d, &wallet{name: "bob"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Nobody is told what the probe for another led to.
func TestProbesAreOfOneSource(t *testing.T) {
	for _, era := range eraServers() {
		t.Run(era.name, func(t *testing.T) {
			d, _ := employ(t, era.make(), era.path)
			var calls sync.WaitGroup
			for i := range 24 {
				calls.Go(func() {
					source := &wallet{name: fmt.Sprint("user-", i)}
					if i%3 > 0 {
						source.err = fmt.Errorf("of %s: %w", source.name, consent{})
					}
					req := modern{method: mcp.MethodToolsCall, name: "transfer", id: 100 + i, principal: source.name}.request()
					req.Credentials = source
					_, _, err := ask(t.Context(), d, req)
					switch {
					case source.err == nil && err != nil:
						t.Errorf("%s: %v", source.name, err)
					case source.err != nil && (!errors.Is(err, consent{}) || !strings.Contains(err.Error(), "of "+source.name+":")):
						t.Errorf("%s was told %v", source.name, err)
					}
				})
			}
			calls.Wait()
		})
	}
}

// Nobody is asked for the credentials of a request that will not be sent.
func TestOpenBreakerAsksNobody(t *testing.T) {
	c, _ := connect(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, func(c *Config) { c.BreakerFailures = 1 })
	ann := &wallet{name: "ann"}
	_, err := callAs(t.Context(), c, ann)
	wantClass(t, err, ClassStatus, false)
	_, err = callAs(t.Context(), c, ann)
	wantClass(t, err, ClassBreakerOpen, true)
	if ann.asked != 1 {
		t.Errorf("the source was asked %d times, want once", ann.asked)
	}
}
