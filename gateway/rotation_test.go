package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// TestKeyRotation takes what clients hold, a cursor, a requestState and a session,
// through the steps of a rotation: each process has the keys of one step.
func TestKeyRotation(t *testing.T) {
	dir := t.TempDir()
	key := func(id string) string {
		path := filepath.Join(dir, id)
		if err := os.WriteFile(path, []byte(strings.Repeat(id, 20)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("{id: %s, secret: {file: %q}}", id, path)
	}
	up := newScripted(t)
	up.tools("one", "two")
	up.handle("tools/call", func(w http.ResponseWriter, r *http.Request, a *asked) {
		if strings.Contains(a.body, `"requestState":"mine"`) {
			answerResult(`{"resultType":"complete","content":[]}`)(w, r, a)
			return
		}
		answerResult(`{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}},"requestState":"mine"}`)(w, r, a)
	})
	process := func(t *testing.T, keys ...string) string {
		return front(t, "limits: {pageSize: 1}\nkeys: ["+strings.Join(keys, ", ")+"]\n", "", upstreamOf("a", up.URL)).URL + "/mcp"
	}
	old, fresh := key("old"), key("new")

	url := process(t, old)
	client := newRawClient(t, url)
	_, cursor, _ := strings.Cut(client.send(ask("tools/list", "")).last(), `"nextCursor":"`)
	cursor, _, _ = strings.Cut(cursor, `"`)
	state := sealedState(t, client.send(callOf("a_one")).last())
	held := newOldClient(t, url, "2025-11-25", "{}")

	tests := []struct {
		name string
		keys []string
		good bool
	}{
		{"the new key is known", []string{old, fresh}, true},
		{"the new key seals", []string{fresh, old}, true},
		{"the old key is gone", []string{fresh}, false},
		{"the old key is back", []string{fresh, old}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := process(t, tt.keys...)
			client := newRawClient(t, url)
			for what, body := range map[string]string{
				"cursor":       ask("tools/list", `"cursor":"`+cursor+`"`),
				"requestState": ask("tools/call", `"name":"a_one","arguments":{},"inputResponses":{"r":{"roots":[]}},"requestState":"`+state+`"`),
			} {
				got := client.send(body)
				if refused := strings.Contains(got.last(), `"code":-32602`); got.status != http.StatusOK || refused == tt.good {
					t.Errorf("the %s: %d %s", what, got.status, got.last())
				}
			}
			again := *held
			again.tb, again.url = t, url
			res := again.post(oldRequest(1, "tools/list", ""))
			defer res.Body.Close()
			if want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[tt.good]; res.StatusCode != want {
				t.Errorf("the session: %d, want %d", res.StatusCode, want)
			}
			// Whoever begins anew notices nothing.
			if got := newRawClient(t, url).send(ask("tools/list", "")); !strings.Contains(got.last(), `"a_one"`) {
				t.Errorf("a new list: %s", got.last())
			}
			newOldClient(t, url, "2025-11-25", "{}")
		})
	}
}

// TestKeyOfDataDirectory holds that the key that is made where none is configured can be
// configured later, so that it can be replaced.
func TestKeyOfDataDirectory(t *testing.T) {
	t.Setenv("ROTATION_KEY", strings.Repeat("n", 40))
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	made, err := gateway.NewRing(cfg, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	token := made.Seal("secret", []byte("hush"), nil)
	cfg.Keys = []config.Key{
		{ID: "k1", Secret: config.Secret{Env: "ROTATION_KEY"}},
		{ID: "file", Secret: config.Secret{File: filepath.Join(cfg.DataDir, "key")}},
	}
	both, err := gateway.NewRing(cfg, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	resealed, changed, err := both.Reseal("secret", token, nil)
	if err != nil || !changed {
		t.Fatalf("the made key opens nothing when it is configured: %t, %v", changed, err)
	}
	cfg.Keys = cfg.Keys[:1]
	next, err := gateway.NewRing(cfg, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := next.Open("secret", resealed, nil); err != nil || string(plain) != "hush" {
		t.Errorf("without the made key: %q, %v", plain, err)
	}
}
