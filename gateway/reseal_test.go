package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// sealed gives a secret of a registration.
func sealed(ring *seal.Ring, text string) tenant.Secret {
	return tenant.Secret{Sealed: ring.Seal(secretPurpose, []byte(text), nil)}
}

// withSecrets gives a registration that has a secret wherever one can be.
func withSecrets(ring *seal.Ring, name string) *tenant.Tenant {
	return &tenant.Tenant{
		Name: name,
		Auth: tenant.Auth{Mode: tenant.AuthOAuth, Issuers: []tenant.Issuer{{
			Issuer: "https://idp.example.com", Audiences: []string{name},
			Introspection: &tenant.Introspection{ClientID: "c", ClientSecret: sealed(ring, "introspection")},
			Login:         &tenant.Login{ClientID: "c", ClientSecret: sealed(ring, "login")},
		}}},
		Upstreams: []tenant.Upstream{
			{Alias: "one", URL: "https://one.example.com/mcp", Auth: tenant.Credential{Mode: tenant.CredentialBearer, Token: sealed(ring, "token")}},
			{Alias: "two", URL: "https://two.example.com/mcp", Auth: tenant.Credential{Mode: tenant.CredentialHeaders, Headers: []tenant.SecretHeader{
				{Name: "X-A", Value: sealed(ring, "a")}, {Name: "X-B", Value: sealed(ring, "b")},
			}}},
			{Alias: "three", URL: "https://three.example.com/mcp", Auth: tenant.Credential{
				Mode: tenant.CredentialClient, TokenURL: "https://idp.example.com/token", ClientID: "c", ClientSecret: sealed(ring, "client"),
			}},
		},
	}
}

// secretsOf is the number of secrets that withSecrets gives.
const secretsOf = 6

// putValue keeps something for a user.
func putValue(t *testing.T, v tenant.Vault, ring *seal.Ring, key tenant.VaultKey, text string) uint64 {
	t.Helper()
	revision, err := v.PutSecret(t.Context(), key, []byte(ring.Seal(broker.VaultPurpose, []byte(text), broker.VaultBinding(key))), tenant.Any)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func userKey(of, name string) tenant.VaultKey {
	return tenant.VaultKey{Tenant: of, Alias: "one", Kind: "user_token", Name: name}
}

// TestEverySecretIsSealedAnew looks for secrets in a registration by their type, so that
// none that is added is forgotten.
func TestEverySecretIsSealedAnew(t *testing.T) {
	ring := ringOf(t, "k")
	whole := &tenant.Tenant{}
	want := fillSecrets(reflect.ValueOf(whole).Elem(), ring)
	if want < 5 {
		t.Fatalf("%d secrets were found in a registration", want)
	}
	got := 0
	for at, secret := range sealedSecrets(whole) {
		if _, err := ring.Open(secretPurpose, secret.Sealed, nil); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		got++
	}
	if got != want {
		t.Errorf("%d of %d secrets are looked at", got, want)
	}
	for range sealedSecrets(whole) {
		break // whoever has enough may stop
	}
}

// fillSecrets sets all secrets below v and gives their number; lists get one member.
func fillSecrets(v reflect.Value, ring *seal.Ring) int {
	if v.Type() == reflect.TypeFor[tenant.Secret]() {
		v.Set(reflect.ValueOf(sealed(ring, "s")))
		return 1
	}
	n := 0
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		n += fillSecrets(v.Elem(), ring)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		n += fillSecrets(v.Index(0), ring)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			break
		}
		for i := range v.NumField() {
			n += fillSecrets(v.Field(i), ring)
		}
	case reflect.Map:
		if n := fillSecrets(reflect.New(v.Type().Elem()).Elem(), ring); n > 0 {
			panic("a map of secrets: fillSecrets has to learn of it")
		}
	default:
	}
	return n
}

// opens fails unless all of a registry can be opened with ring.
func opens(t *testing.T, r *Registry, ring *seal.Ring, tenants, values int) {
	t.Helper()
	s, err := r.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"introspection", "login", "token", "a", "b", "client"}
	for _, one := range s.Tenants {
		tenants--
		var got []string
		for at, secret := range sealedSecrets(one) {
			plain, err := ring.Open(secretPurpose, secret.Sealed, nil)
			if err != nil {
				t.Errorf("%s: %v", at, err)
			}
			got = append(got, string(plain))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("secrets of %s (-want +got):\n%s", one.Name, diff)
		}
	}
	for after := (tenant.VaultKey{}); ; {
		page, err := r.Vault.Secrets(t.Context(), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, v := range page {
			values--
			plain, err := ring.Open(broker.VaultPurpose, string(v.Sealed), broker.VaultBinding(v.Key))
			if err != nil || string(plain) != "token of "+v.Key.Name {
				t.Errorf("value of %s: %q, %v", v.Key.Name, plain, err)
			}
			after = v.Key
		}
	}
	if tenants != 0 || values != 0 {
		t.Errorf("%d tenants and %d values are missing", tenants, values)
	}
}

// TestReseal rotates a key in each kind of registry.
func TestReseal(t *testing.T) {
	server := redistest.Start(t)
	for kind, url := range map[string]string{config.StoreMemory: "", config.StoreFile: "", config.StoreRedis: server.URL()} {
		t.Run(kind, func(t *testing.T) {
			r, err := OpenRegistry(t.Context(), registered(t, kind, url), nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			before, both, after := ringOf(t, "old"), ringOf(t, "new", "old"), ringOf(t, "new")
			for _, name := range []string{"acme", "zoo"} {
				if _, err := r.Put(t.Context(), withSecrets(before, name), 0); err != nil {
					t.Fatal(err)
				}
			}
			const users = 2*resealPage + 5
			for i := range users {
				name := fmt.Sprintf("user %d", i)
				putValue(t, r.Vault, []*seal.Ring{before, both}[i%2], userKey("filed", name), "token of "+name)
			}
			opens(t, r, both, 2, users)

			want := &Resealed{Current: users / 2, Secrets: 2 * secretsOf, Values: (users + 1) / 2, Unopened: map[SealedAt]int{}, Refused: map[string]error{}}
			got, err := Reseal(t.Context(), r, both)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("Reseal: %v (-want +got):\n%s", err, diff)
			}
			opens(t, r, after, 2, users)
			s, err := r.Export(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want = &Resealed{Current: users + 2*secretsOf, Unopened: map[SealedAt]int{}, Refused: map[string]error{}}
			got, err = Reseal(t.Context(), r, both)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("Reseal again: %v (-want +got):\n%s", err, diff)
			}
			again, err := r.Export(t.Context())
			if diff := cmp.Diff(s, again); err != nil || diff != "" {
				t.Errorf("a second walk has changed something: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestResealTogether has several processes walk at the same time, while values and a
// registration are written: all is sealed by the new key then, and no write is lost.
func TestResealTogether(t *testing.T) {
	server := redistest.Start(t)
	cfg := registered(t, config.StoreRedis, server.URL())
	var replicas []*Registry
	for range 3 {
		r, err := OpenRegistry(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		replicas = append(replicas, r)
	}
	before, both, after := ringOf(t, "old"), ringOf(t, "new", "old"), ringOf(t, "new")
	if _, err := replicas[0].Put(t.Context(), withSecrets(before, "acme"), 0); err != nil {
		t.Fatal(err)
	}
	const users = 30
	for i := range users {
		name := fmt.Sprintf("user %02d", i)
		putValue(t, replicas[0].Vault, before, userKey("acme", name), "token of "+name)
	}
	var work sync.WaitGroup
	for _, r := range replicas {
		work.Go(func() {
			if _, err := Reseal(context.Background(), r, both); err != nil {
				t.Errorf("Reseal: %v", err)
			}
		})
	}
	const writes = 20
	work.Go(func() { writeMeanwhile(t, replicas[0], both, writes) })
	work.Wait()
	opens(t, replicas[1], after, 1, users)
	one, err := replicas[0].Tenant(t.Context(), "acme")
	if err != nil || one.PageSize != writes {
		t.Errorf("%d of %d writes are there, %v", one.PageSize, writes, err)
	}
}

// writeMeanwhile counts in a registration, and refreshes a user's token.
func writeMeanwhile(t *testing.T, r *Registry, ring *seal.Ring, writes int) {
	for n := 0; n < writes; {
		old, err := r.Tenant(context.Background(), "acme")
		if err != nil {
			t.Errorf("Tenant: %v", err)
			return
		}
		next := *old
		next.PageSize++
		if _, err = r.Put(context.Background(), &next, old.Revision); err == nil {
			n++
		} else if !errors.Is(err, tenant.ErrConflict) {
			t.Errorf("Put: %v", err)
			return
		}
		putValue(t, r.Vault, ring, userKey("acme", "user 20"), "token of user 20")
	}
}

// memoryRegistry gives one that is there without a configuration.
func memoryRegistry() *Registry {
	r := tenant.NewMemoryRegistry()
	return &Registry{Registry: r, Vault: r}
}

// TestUnopened holds that what no key opens is counted and stays, and hides nothing.
func TestUnopened(t *testing.T) {
	r, gone, both := memoryRegistry(), ringOf(t, "gone"), ringOf(t, "new", "old")
	one := withSecrets(ringOf(t, "old"), "acme")
	one.Auth.Issuers[0].Login.ClientSecret = sealed(gone, "login")
	one.Upstreams[1].Auth.Headers[1].Value = sealed(gone, "b")
	if _, err := r.Put(t.Context(), one, 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob"} {
		putValue(t, r.Vault, gone, userKey("acme", name), "x")
	}
	putValue(t, r.Vault, ringOf(t, "old"), userKey("acme", "carol"), "x")
	revision, err := r.Vault.PutSecret(t.Context(), userKey("zoo", "dan"), []byte("nothing that was sealed"), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Reseal(t.Context(), r, both)
	want := &Resealed{Secrets: secretsOf - 2, Values: 1, Refused: map[string]error{}, Unopened: map[SealedAt]int{
		{"acme", "", "auth.issuers[0].login.clientSecret"}: 1,
		{"acme", "two", "auth.headers[1].value"}:           1,
		{"acme", "one", "user_token"}:                      2,
		{"zoo", "one", "user_token"}:                       1,
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Reseal: %v (-want +got):\n%s", err, diff)
	}
	if v, err := r.Vault.Secret(t.Context(), userKey("zoo", "dan")); err != nil || v.Revision != revision {
		t.Errorf("what cannot be opened was touched: %v", err)
	}
	kept, err := r.Tenant(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := gone.Open(secretPurpose, kept.Auth.Issuers[0].Login.ClientSecret.Sealed, nil); err != nil || string(plain) != "login" {
		t.Errorf("the key that is put back opens: %q, %v", plain, err)
	}
}

// told keeps what is logged, and tells when a line comes that has some text in it.
type told struct {
	await string
	came  chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

func newTold(await string) *told { return &told{await: await, came: make(chan struct{}, 1)} }

func (w *told) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(string(line), w.await) {
		select {
		case w.came <- struct{}{}:
		default:
		}
	}
	return w.text.Write(line)
}

func (w *told) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *told) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// failing is a vault that cannot be used for a while.
type failing struct {
	tenant.Vault
	left int // calls that fail
}

func (f *failing) Secrets(ctx context.Context, after tenant.VaultKey, limit int) ([]tenant.VaultValue, error) {
	if f.left--; f.left >= 0 {
		return nil, errors.New("no connection")
	}
	return f.Vault.Secrets(ctx, after, limit)
}

// TestResealer follows what a process does in the background.
func TestResealer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, old := memoryRegistry(), ringOf(t, "old")
		r.Vault = &failing{Vault: r.Vault, left: 2}
		putValue(t, r.Vault, old, userKey("acme", "alice"), "token of alice")
		putValue(t, r.Vault, ringOf(t, "gone"), userKey("zoo", "bob"), "token of bob")
		log := newTold("")
		s := &resealer{registry: r, ring: ringOf(t, "new", "old"), log: log.logger()}
		o := &opened{}
		o.reseal(t.Context(), s)
		counts := func(when string, anew, unopened, failed int) {
			t.Helper()
			synctest.Wait()
			text := log.String()
			if a, u, f := strings.Count(text, "sealed anew what older"), strings.Count(text, "cannot be opened"), strings.Count(text, "tried again"); a != anew || u != unopened || f != failed {
				t.Errorf("%s there are %d, %d and %d lines, want %d, %d and %d:\n%s", when, a, u, f, anew, unopened, failed, text)
			}
		}
		counts("while the store fails", 0, 0, 1)
		time.Sleep(3 * time.Minute)
		counts("when it can be used", 1, 1, 1)
		// A replica that has not heard of the new order yet writes a little later.
		putValue(t, r.Vault, old, userKey("acme", "carol"), "token of carol")
		time.Sleep(resealAgain + time.Minute)
		counts("after another walk", 2, 1, 1)
		time.Sleep(2 * resealAgain)
		putValue(t, r.Vault, old, userKey("acme", "dan"), "token of dan")
		time.Sleep(24 * time.Hour)
		counts("when it was done", 2, 1, 1)
		if err := o.cleanups.run(t.Context()); err != nil {
			t.Error(err)
		}
		for _, word := range []string{"alice", "bob", "carol", "token of"} {
			if strings.Contains(log.String(), word) {
				t.Errorf("%q is in the log:\n%s", word, log.String())
			}
		}
		if !strings.Contains(log.String(), "tenant=zoo upstream=one kind=user_token count=1") {
			t.Errorf("the place is not in the log:\n%s", log.String())
		}
	})
}

// TestResealerStops holds that a gateway that stops does not wait for a walk.
func TestResealerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, old := memoryRegistry(), ringOf(t, "old")
		for i := range 1000 {
			putValue(t, r.Vault, old, userKey("acme", fmt.Sprint(i)), "x")
		}
		log := newTold("")
		o := &opened{}
		o.reseal(t.Context(), &resealer{registry: r, ring: ringOf(t, "new", "old"), log: log.logger()})
		time.Sleep(100 * resealPause)
		start := time.Now()
		if err := o.cleanups.run(t.Context()); err != nil || time.Since(start) > resealPause {
			t.Errorf("it took %s to stop, %v", time.Since(start), err)
		}
		if log.String() != "" {
			t.Errorf("a walk that was ended is told of:\n%s", log)
		}
		got, err := Reseal(t.Context(), r, ringOf(t, "new", "old"))
		if err != nil || got.Current < 50 || got.Values < 500 || got.Current+got.Values != 1000 {
			t.Errorf("it goes on where it has ended: %+v, %v", got, err)
		}
	})
}

// TestGatewaySealsAnew holds that a gateway does it by itself.
func TestGatewaySealsAnew(t *testing.T) {
	cfg := registered(t, config.StoreFile, "")
	open := func() *Registry {
		r, err := OpenRegistry(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	if _, err := r.Put(t.Context(), withSecrets(ringOf(t, "old"), "acme"), 0); err != nil {
		t.Fatal(err)
	}
	putValue(t, r.Vault, ringOf(t, "old"), userKey("acme", "alice"), "token of alice")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Keys = []config.Key{{ID: "new", Secret: config.Secret{Env: "new"}}, {ID: "old", Secret: config.Secret{Env: "old"}}}
	log := newTold("sealed anew what older keys had sealed")
	g, err := FromConfig(t.Context(), cfg, Deps{
		Logger:    log.logger(),
		LookupEnv: func(name string) (string, bool) { return strings.Repeat(name, seal.MinSecret), true },
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-log.came:
	case <-time.After(30 * time.Second):
		t.Error("nothing was sealed anew within 30 s")
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	r = open()
	defer r.Close()
	opens(t, r, ringOf(t, "new"), 1, 1)
}
