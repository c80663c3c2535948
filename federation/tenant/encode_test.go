package tenant_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// validKey gives a key with something in every field.
func validKey() tenant.APIKey {
	return tenant.APIKey{
		ID: "k1", Tenant: "acme-2", Name: "Schlüssel", Hash: bytes.Repeat([]byte{7}, 32), Subject: "s",
		Scopes: []string{"mcp"}, Groups: []string{"g"},
		Created: time.Date(2026, 7, 28, 1, 2, 3, 456, time.UTC), Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		LastUsed: time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC),
	}
}

// mustBeFull fails where a field of v is not set, so that a new one is not
// forgotten by a test.
func mustBeFull(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.IsZero() {
		t.Errorf("%s is not set: the test does not see whether it is kept", path)
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.Slice && v.Len() > 0 && v.Type() != reflect.TypeFor[[]byte]():
		mustBeFull(t, path+"[0]", v.Index(0))
	case v.Kind() == reflect.Struct:
		for f, field := range v.Fields() {
			mustBeFull(t, path+"."+f.Name, field)
		}
	}
}

func full() *tenant.Tenant {
	one := valid()
	one.Revision, one.ManagedBy = 1753664523000000, "store"
	is := &one.Auth.Issuers[0]
	is.Private, is.Introspection.ClientSecret = true, tenant.Secret{Env: "E", File: "f", Sealed: "k1.AA"}
	u := &one.Upstreams[0]
	u.Version, u.ManagedBy = "v", "store"
	u.Auth.Token, u.Auth.ClientSecret = tenant.Secret{Env: "E", File: "f", Sealed: "k1.AA"}, tenant.Secret{Env: "E", File: "f", Sealed: "k1.AA"}
	u.Auth.Audience = "ledger"
	u.Auth.Headers, u.Auth.Forward = []tenant.SecretHeader{{Name: "X-Key", Value: u.Auth.Token}}, []string{"X-Region"}
	is.Login.ClientSecret = u.Auth.Token
	u.Process = &tenant.Process{Command: []string{"c"}, Dir: "d", Env: []tenant.Variable{{Name: "N", Value: "v", FromEnv: "E", FromFile: "f"}}}
	return one
}

// TestEncode holds that every field is kept.
func TestEncode(t *testing.T) {
	mustBeFull(t, "Tenant", reflect.ValueOf(full()))
	raw, err := tenant.EncodeTenant(full())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(raw, "\n") || !bytes.HasPrefix(raw, []byte(`{"v":1,`)) {
		t.Errorf("not one line with a version: %s", raw)
	}
	got, err := tenant.DecodeTenant(raw)
	if diff := cmp.Diff(full(), got); err != nil || diff != "" {
		t.Errorf("DecodeTenant: %v (-want +got):\n%s", err, diff)
	}

	mustBeFull(t, "APIKey", reflect.ValueOf(validKey()))
	raw, err = tenant.EncodeKey(validKey())
	if err != nil {
		t.Fatal(err)
	}
	key, err := tenant.DecodeKey(raw)
	if diff := cmp.Diff(validKey(), key); err != nil || diff != "" {
		t.Errorf("DecodeKey: %v (-want +got):\n%s", err, diff)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestSnapshotFile holds the form of an export, which people keep and older and
// newer programs read.
func TestSnapshotFile(t *testing.T) {
	s := &tenant.Snapshot{Tenants: []*tenant.Tenant{valid(), {Name: "empty"}}, Keys: []tenant.APIKey{validKey()}}
	stored, err := s.Stored()
	if err != nil {
		t.Fatal(err)
	}
	stored.Revision, stored.Tenants[0].Revision, stored.Tenants[1].Revision = 1753664523000002, 1753664523000001, 1753664523000000
	got, err := tenant.EncodeSnapshot(stored)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "snapshot.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("EncodeSnapshot (-want +got):\n%s", diff)
	}
	read, err := tenant.DecodeSnapshot(want)
	if diff := cmp.Diff(stored, read); err != nil || diff != "" {
		t.Errorf("DecodeSnapshot: %v (-want +got):\n%s", err, diff)
	}
}

func TestDecodeSnapshot(t *testing.T) {
	hash := strings.Repeat("A", 43) + "="
	tests := []struct {
		name, text string
		want       string // faults; empty when it is fine
	}{
		{"empty", `{"version":1}`, ""},
		{"least", `{"version":1,"revision":1,"tenants":[{"name":"a"}],"keys":[{"id":"k","tenant":"a","subject":"s","hash":"` + hash + `"}]}`, ""},
		{"null is absent", `{"version":1,"tenants":null,"keys":null,"revision":null}`, ""},
		{"nothing", ``, "not JSON: EOF"},
		{"no version", `{}`, "does not say the version of its format"},
		{"other version", `{"version":2,"shape":{}}`, "version 2 of the format is not known: this program reads version 1"},
		{"not an object", `[]`, "must be an object"},
		{"cut", `{"version":1,"tenants":[{"name":`, `not JSON: unexpected EOF within "/tenants/0/name" after offset 32`},
		{"more", `{"version":1}{}`, "not JSON: more than one value"},
		{"comma", `{"version":1,}`, "not JSON: invalid character ',' at start of value after offset 12"},
		{"unknown, double, and by letter case", `{"version":1,"Tenants":[],"tenants":[{"name":"a","speed":{"x":1},"name":"b"}],"a b":1}`,
			"Tenants: unknown field\ntenants[0].speed: unknown field\ntenants[0].name: is there twice\n[\"a b\"]: unknown field"},
		{"types", `{"version":1,"tenants":[{"name":1,"pageSize":1.5,"limits":[],"upstreams":{},"policy":"x"},7,null]}`,
			"tenants[0].name: must be a string\ntenants[0].pageSize: must be an integer\ntenants[0].limits: must be an object\n" +
				"tenants[0].upstreams: must be a list\ntenants[0].policy: must be an object\ntenants[1]: must be an object\ntenants[2].name: is required"},
		{"more types", `{"version":1,"revision":-1,"tenants":[{"name":"a","upstreams":[{"alias":"x","url":"http://h/","sessions":{"shared":1,"idle":5},"cache":{"listTTL":"soon"}}]}],` +
			`"keys":[{"id":"k","tenant":"a","subject":"s","hash":"AA","expires":"tomorrow"}]}`,
			"revision: must be an integer that is not negative\ntenants[0].upstreams[0].sessions.shared: must be true or false\n" +
				"tenants[0].upstreams[0].sessions.idle: must be a duration such as 2s or 1m30s\ntenants[0].upstreams[0].cache.listTTL: must be a duration such as 2s or 1m30s\n" +
				"keys[0].hash: must be a string in base64\nkeys[0].expires: must be a time such as 2026-07-28T12:00:00Z"},
		{"free names", `{"version":1,"tenants":[{"name":"a","auth":{"mode":"keys","implies":{"x":["y"],"x":["z"],"w q":7}}},{"name":"b","auth":{"implies":[]}}]}`,
			"tenants[0].auth.implies.x: is there twice\ntenants[0].auth.implies[\"w q\"]: must be a list\ntenants[1].auth.implies: must be an object"},
		{"meaning", `{"version":1,"tenants":[{"name":"a","upstreams":[{"alias":"call","url":"x"},{"alias":"p","process":{"command":["rm"]}}]},{"name":"a"}],"keys":[{"id":"k","tenant":"b","subject":"s","hash":"` + hash + `"}]}`,
			"tenants[0].upstreams[0].alias: \"call\" is reserved\n" +
				"tenants[0].upstreams[0].url: must be an http or https URL such as http://127.0.0.1:7001/mcp\n" +
				"tenants[0].upstreams[1].process: programs come from the configuration file only\n" +
				"tenants[1].name: \"a\" is the name of tenants[0] too\nkeys[0].tenant: \"b\" is not a tenant of this snapshot"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tenant.DecodeSnapshot([]byte(tt.text))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			var faults tenant.Faults
			if err != nil && !errors.As(err, &faults) {
				t.Errorf("the error is a %T, want Faults", err)
			}
		})
	}
}

// FuzzDecodeSnapshot holds that what is read can be written, and is then read as
// the same; and that a registry takes it.
func FuzzDecodeSnapshot(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "snapshot.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add([]byte(`{"version":1,"tenants":[{"name":"a","upstreams":[{"alias":"x","url":"http://h/","timeouts":{"call":"1h"}}]},null],"keys":[{}]}`))
	f.Add([]byte(`{"version":1,"tenants":[{"name":"a","limits":{"principal":{"inFlight":1e3}}}],"x":[[{}]]}`))
	f.Add([]byte(`{"version":1,"tenants":[{"name":"a","hosts":[{"name":"h","url":"https://h"}],"policy":{"default":"deny"},"toolsets":[{"name":"t"}],` +
		`"upstreams":[{"alias":"x","url":"http://h/","auth":{"mode":"headers","headers":[{"name":"X-B","value":{"sealed":"k.A"}}]},"pins":{}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := tenant.DecodeSnapshot(data)
		if err != nil {
			var faults tenant.Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("the error is not Faults: %v", err)
			}
			return
		}
		raw, err := tenant.EncodeSnapshot(s)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := tenant.DecodeSnapshot(raw)
		if diff := cmp.Diff(s, again); err != nil || diff != "" {
			t.Fatalf("read again: %v (-want +got):\n%s", err, diff)
		}
		r := tenant.NewMemoryRegistry()
		if _, err := r.Import(t.Context(), s, tenant.Any); err != nil {
			t.Fatalf("Import: %v", err)
		}
	})
}
