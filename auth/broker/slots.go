package broker

import (
	"net/http"
	"net/url"
	"sync"
)

// Bounds of the requests at the same time for which other servers may be asked.
const (
	maxAsking       = 64 // of all tenants
	maxAskingTenant = 16 // of one, whose servers may be slow on purpose
)

// slots are taken by what may ask other servers for a browser.
type slots struct {
	mu   sync.Mutex
	all  int
	each map[string]int // by tenant, none is 0
}

// take takes one for a tenant, which is empty where nobody knows it, unless all are
// taken. release has to be called then.
func (s *slots) take(tenant string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxAsking || s.each[tenant] >= maxAskingTenant {
		return nil, false
	}
	if s.each == nil {
		s.each = map[string]int{}
	}
	s.all++
	s.each[tenant]++
	return func() { s.release(tenant) }, true
}

func (s *slots) release(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.each[tenant]--; s.each[tenant] == 0 {
		delete(s.each, tenant)
	}
}

// tenantOf gives the tenant whose servers a request may have asked, by what the browser
// shows; empty where it shows nothing that is good.
func (in *signIns) tenantOf(r *http.Request, path string, form url.Values) string {
	switch path {
	case connectPath, signInPath, consentPath:
		tk := &ticket{}
		if in.open(sealTicket, form.Get("ticket"), "", tk) {
			return tk.Tenant
		}
	case signedInPath:
		if st := in.signInState(r); st != nil {
			return st.Tenant
		}
	case callbackPath:
		if s := in.session(r); s != nil {
			return s.Tenant
		}
	default:
		return form.Get("tenant")
	}
	return ""
}
