package gateway

import (
	"net/http"
	"strings"
)

// preflightAge is how long browsers may remember a preflight, in seconds.
const preflightAge = "600"

// allowPage lets the pages of an origin that the guard has allowed read the
// response (Fetch standard, 3.3 CORS protocol). Credentials of browsers are never
// asked for: clients authenticate with tokens.
func allowPage(h http.Header, r *http.Request) {
	if origin := r.Header["Origin"]; len(origin) == 1 {
		h["Access-Control-Allow-Origin"] = origin
		h["Access-Control-Expose-Headers"] = []string{"Mcp-Session-Id, Retry-After, WWW-Authenticate, X-Request-Id"}
		h["Vary"] = []string{"Origin"}
	}
}

// isPreflight tells whether a browser asks if a page may send what it wants to.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers it: what the endpoint takes, with the headers that are asked
// for, since Mcp-Param-* may have any name.
func (x *exchange) preflight() {
	h := x.w.Header()
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	if asked := x.r.Header["Access-Control-Request-Headers"]; len(asked) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(asked, ", "))
	}
	h.Set("Access-Control-Max-Age", preflightAge)
	h["Vary"] = []string{"Origin, Access-Control-Request-Headers"}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.phase, x.status = phaseDone, http.StatusNoContent
	x.expect(0)
	x.w.WriteHeader(http.StatusNoContent)
}
