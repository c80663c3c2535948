package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
)

// pathMetadata is where clients find what an endpoint asks for (RFC 9728, section 3),
// with the endpoint's path behind it; alone it is about /mcp, of a tenant's host too.
const pathMetadata = "/.well-known/oauth-protected-resource"

// metadataAge is how long a client may remember it: a change of the registration is
// known everywhere after it.
const metadataAge = "max-age=60"

// serveMetadata answers a request for the metadata of an endpoint. Anybody may read
// it, also the pages of other origins: it says the same to all, and nothing of what is
// behind the endpoint. of is the tenant's host that was asked, or nil.
func (e *edge) serveMetadata(w http.ResponseWriter, r *http.Request, of *host) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "*") // such as Mcp-Protocol-Version
		h.Set("Access-Control-Max-Age", preflightAge)
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		writePlain(w, http.StatusMethodNotAllowed)
		return
	}
	body, err := e.metadata(r, of)
	switch {
	case errors.Is(err, federation.ErrNoEndpoint):
		writePlain(w, http.StatusNotFound)
		return
	case err != nil:
		e.log.Error("serve the metadata of an endpoint", "error", err)
		writePlain(w, http.StatusInternalServerError)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(writeDeadline(plainTimeout, len(body))) // as writePlain does
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", metadataAge)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // a client that left is no error
	}
}

// metadata gives the document that a request asks for. The error is ErrNoEndpoint
// where there is none.
func (e *edge) metadata(r *http.Request, of *host) ([]byte, error) {
	public := e.publicOf(of)
	path := strings.TrimPrefix(r.URL.Path, pathMetadata)
	if path == "" {
		path = "/mcp"
	}
	path = public.below(path)
	var at federation.Endpoint
	var ok bool
	if of == nil {
		at, ok = endpointAt(path)
	} else {
		at, ok = endpointOf(of.tenant, path)
	}
	if !ok || public.origin == "" {
		return nil, federation.ErrNoEndpoint
	}
	t, err := e.router.Tenant(r.Context(), at)
	if err != nil {
		return nil, err
	}
	body := auth.Metadata(t, public.resource(path), scopesOf(t, at)...)
	if body == nil {
		return nil, federation.ErrNoEndpoint
	}
	return body, nil
}
