package broker

import (
	"fmt"
	"strings"
	"testing"
)

// TestUsersAreWeighed counts users with what servers and clients have made large.
func TestUsersAreWeighed(t *testing.T) {
	var scopes []string
	for i := range maxScopes {
		scopes = append(scopes, fmt.Sprint(strings.Repeat("s", maxScope-3), i))
	}
	var agreed consents
	for i := range maxConsents {
		agreed.Clients = append(agreed.Clients, consent{Client: fmt.Sprint(strings.Repeat("c", 1000), i)})
	}
	for _, tt := range []struct {
		name string
		of   userRecord
		each int // bytes, at least
	}{
		{"tokens", userRecord{token: &userToken{Access: strings.Repeat("a", maxToken), Refresh: strings.Repeat("r", maxToken)}}, 2 * maxToken},
		{"scopes", userRecord{token: &userToken{Scopes: scopes, Asked: scopes}}, 2 * maxScopes * (maxScope - 3)},
		{"clients", userRecord{consents: agreed}, maxConsents * 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := newSignIns(&Broker{})
			defer in.close()
			for i := range 2 * maxGrants / tt.each {
				in.weigh(in.grant(userKey{subject: fmt.Sprint(i)}), &tt.of)
			}
			if n := in.grants.Len(); n == 0 || n*tt.each > maxGrants {
				t.Errorf("%d users with %d bytes each are kept in %d", n, tt.each, maxGrants)
			}
		})
	}
}
