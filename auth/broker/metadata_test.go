package broker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestMetadataIsSmall holds that what is kept of a server is small, however long what it
// publishes is.
func TestMetadataIsSmall(t *testing.T) {
	long := strings.Repeat("x", 400<<10)
	for _, tt := range []struct {
		name         string
		list, wanted []string
	}{
		{"nothing", nil, nil},
		{"known and unknown", []string{long, methodPost, "private_key_jwt", methodBasic, methodBasic}, []string{methodBasic, methodPost}},
		{"unknown only", []string{long, "private_key_jwt"}, []string{"unknown"}},
	} {
		raw, err := json.Marshal(object{"issuer": issuerURL, "token_endpoint_auth_methods_supported": tt.list})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := parseServer(raw, issuerURL, trust{}); err != nil || !slices.Equal(s.AuthMethods, tt.wanted) {
			t.Errorf("%s: %.200v, %v", tt.name, s, err)
		}
	}
	raw, err := json.Marshal(object{"resource": mcpURL, "authorization_servers": []string{"https://as.example.com/" + long}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseResource(raw, mcpURL, ""); err == nil {
		t.Error("a server with a long name is kept")
	}
}
