package gateway

import (
	"net/http"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// peerRoutes serves other replicas: what clients sent to them and this one holds.
// Whoever is there has the key ring, and could make whatever a client carries.
func (e *edge) peerRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathRequest, e.servePassed)
	mux.HandleFunc("POST "+pathAnswer, e.serveAnswer)
	return mux
}

// readHead reads the head of a replica's message, and tells how much of the body is
// left. It has answered when ok is false.
func (e *edge) readHead(w http.ResponseWriter, r *http.Request, head any) (left int64, ok bool) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(e.limits.BodyTimeout)) // where it cannot be set, the connection is watched by pings
	n, err := readHead(r.Body, head, e.budget)
	if err != nil || r.ContentLength < n {
		e.log.Warn("a replica sends what cannot be read", "replica", r.RemoteAddr, "error", err)
		writePlain(w, http.StatusBadRequest)
		return 0, false
	}
	_ = rc.SetReadDeadline(time.Time{}) // what comes now has a bound of its own
	return r.ContentLength - n, true
}

// servePassed answers a client's request that another replica has passed on.
func (e *edge) servePassed(w http.ResponseWriter, r *http.Request) {
	head := &passedHead{}
	left, ok := e.readHead(w, r, head)
	if !ok {
		return
	}
	if head.Principal.Tenant != head.Endpoint.Tenant || !isRequestID(head.RequestID) {
		writePlain(w, http.StatusBadRequest)
		return
	}
	w.Header().Set(headerPassed, "1")
	client := r.WithContext(r.Context())
	client.Header, client.ContentLength = head.header(), left
	x := &exchange{
		edge: e, r: client, place: place{at: head.Endpoint}, start: time.Now(), client: head.Client,
		caller: head.Principal, passed: head,
		method: methodOther, id: head.RequestID,
		w: w, rc: http.NewResponseController(w),
	}
	x.serve()
}

// runPassed takes the steps of run that are left to the replica that answers. Only
// the retry of a call is passed on.
func (x *exchange) runPassed() error {
	// Who the client is was found out where it sent the request.
	t, err := x.edge.router.Tenant(x.r.Context(), x.at)
	if err != nil {
		return err
	}
	x.asked = auth.Request{
		Tenant: t, Resource: x.passed.Resource, Metadata: x.passed.Metadata, Wanted: scopesOf(t, x.at), HTTP: x.r,
	}
	x.tenant = x.at.Tenant
	if err := x.negotiate(); err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	req, bad := mcp.ParseRequest(x.body.B, x.edge.limits.MaxDepth)
	if x.req = req; bad != nil {
		return bad
	}
	if req.IsNotification() || !req.RequestState.Ok() || req.Method == mcp.MethodListen {
		return noCallWaits()
	}
	return x.serveModern()
}

// serveAnswer takes a client's answer that another replica has passed on. One that
// nobody waits for any more is dropped, as it is where it arrives at this replica.
func (e *edge) serveAnswer(w http.ResponseWriter, r *http.Request) {
	var head answerHead
	left, ok := e.readHead(w, r, &head)
	if !ok {
		return
	}
	raw, err := mcp.ReadAll(r.Body, e.limits.MaxBody, left, e.budget)
	if err != nil {
		writePlain(w, http.StatusBadRequest)
		return
	}
	defer raw.Release()
	err = e.handshakes.states.signal(r.Context(), head.Session, signal{kind: signalAnswer, key: head.Key, body: slices.Clone(raw.B)})
	if err != nil {
		writePlain(w, http.StatusInternalServerError)
		return
	}
	w.Header().Set(headerPassed, "1")
	w.WriteHeader(http.StatusAccepted)
}
